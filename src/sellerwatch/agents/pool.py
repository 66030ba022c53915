"""Whom to send: the pool lends identities for requests, inside the limits of each.

`lend` is a pure function over what the database says of the agents, called inside the transaction that writes the
permits: the transaction is the arbiter between processes, so two workers can never be lent the same slot. Departures
are reckoned by the boot's clock, so that nobody who sets the wall clock can bring two of them closer together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby

from sellerwatch.agents.circuit import Circuit
from sellerwatch.agents.limits import Limits
from sellerwatch.agents.token import Token
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.clock import Moment
from sellerwatch.kernel.fast_values import fast_frozen
from sellerwatch.kernel.ids import UserAgentId

#: A departure this near is lent now and slept until; a later one is left for a later claim, which holds no slot.
LOOKAHEAD_US = 20_000


@fast_frozen
@dataclass(frozen=True, slots=True)
class Candidate:
    """An AVAILABLE agent as the pool sees it. `row` is the agent's row, which permits refer to."""

    row: int
    user_agent_id: UserAgentId
    user_agent: str
    health_score: int
    last_used_at: datetime | None
    slots_left: int
    last_departure_us: int
    token_row: int | None
    token: Token | None
    circuit: Circuit

    def may_work(self, now: datetime) -> bool:
        """Its circuit lets it: closed, or open for so long that one request may find out."""
        return self.circuit.state is CircuitState.CLOSED or self.circuit.may_probe(now)

    def has_token(self, now: datetime) -> bool:
        return self.token is not None and self.token.is_valid(now)


#: Stands for "no agent" where a permit is written for a visit to the token page: it has no window and no row.
VISITOR = Candidate(
    row=0,
    user_agent_id=UserAgentId("00000000-0000-7000-8000-000000000000"),
    user_agent="",
    health_score=100,
    last_used_at=None,
    slots_left=1,
    last_departure_us=0,
    token_row=None,
    token=None,
    circuit=Circuit(),
)


@dataclass(frozen=True, slots=True)
class Grant:
    """Leave to make one request as this agent, not before `depart_us` by the boot's clock."""

    candidate: Candidate
    depart_us: int

    @property
    def is_probe(self) -> bool:
        return self.candidate.circuit.state is not CircuitState.CLOSED


@dataclass(frozen=True, slots=True)
class Lending:
    """What could be lent. `wait_us`: with nothing lent, how long until the rate or a circuit allows something; None
    when every window is full (or nobody is there), which only an answered permit's age can end."""

    grants: tuple[Grant, ...]
    wait_us: int | None


def lend(candidates: Iterable[Candidate], wanted: int, at: Moment, limits: Limits) -> Lending:
    """Up to `wanted` grants: healthiest first; among equals the one used least recently, turn by turn.

    Only agents with a valid token are lent; who has none gets one issued first (`agents/sessions.py`). An agent whose
    circuit is open is lent once, to find out.
    """
    holders = [c for c in candidates if c.has_token(at.now) and c.slots_left > 0]
    able = in_order(holders, at.now)
    grants: list[Grant] = []
    for _, equals in groupby(able, key=lambda c: c.health_score):
        if len(grants) == wanted:
            break
        grants += _in_turns(tuple(equals), wanted - len(grants), at, limits)
    if grants:
        return Lending(tuple(grants), None)
    waits = [_departure(c, at, limits) - at.boot_us for c in able]
    waits += [_until(c.circuit, at.now) for c in holders if not c.may_work(at.now)]
    return Lending((), min(waits, default=None))


def in_order(candidates: Iterable[Candidate], now: datetime) -> list[Candidate]:
    """Those who may work now, in the order in which they are asked."""
    return sorted(
        (c for c in candidates if c.has_token(now) and c.may_work(now)),
        key=lambda c: (-c.health_score, c.last_used_at.timestamp() if c.last_used_at else 0.0, c.row),
    )


def soonest_probe_us(candidates: Iterable[Candidate], now: datetime) -> int | None:
    """Until the first of their open circuits lets one request through."""
    shut = (c for c in candidates if c.has_token(now) and c.slots_left > 0 and not c.may_work(now))
    return min((_until(c.circuit, now) for c in shut), default=None)


def pace(grants: Sequence[Grant], last_us: int, per_second: float, at: Moment) -> list[Grant]:
    """The marketplace as a whole is asked at most so often: grants in their order, each one host's spacing after the
    one before, as far as they depart soon."""
    spacing = int(1_000_000 / per_second)
    paced: list[Grant] = []
    for grant in grants:
        last_us = max(grant.depart_us, last_us + spacing)
        if last_us > at.boot_us + LOOKAHEAD_US:
            break
        paced.append(replace(grant, depart_us=last_us))
    return paced


def _in_turns(equals: Sequence[Candidate], wanted: int, at: Moment, limits: Limits) -> list[Grant]:
    """One each, then a second each, while slots and the rate allow: load spreads over agents of equal health."""
    grants: list[Grant] = []
    turn = [(candidate, _most(candidate), _departure(candidate, at, limits)) for candidate in equals]
    while turn and len(grants) < wanted:
        next_turn = []
        for candidate, left, departure in turn:
            if len(grants) == wanted:
                break
            if left > 0 and departure <= at.boot_us + LOOKAHEAD_US:
                grants.append(Grant(candidate, departure))
                next_turn.append((candidate, left - 1, departure + limits.spacing_us))
        turn = next_turn
    return grants


def _most(candidate: Candidate) -> int:
    return candidate.slots_left if candidate.circuit.state is CircuitState.CLOSED else 1


def _departure(candidate: Candidate, at: Moment, limits: Limits) -> int:
    return max(at.boot_us, candidate.last_departure_us + limits.spacing_us)


def _until(circuit: Circuit, now: datetime) -> int:
    """Microseconds until an open circuit lets one request through."""
    probe_at = circuit.probe_at()
    return 0 if probe_at is None else max(0, int((probe_at - now).total_seconds() * 1_000_000))
