"""Choose agents for requests, inside the limits of each: the pool lends them.

`lend` is a pure function over what the database says of the agents, called inside the transaction that writes the
permits: the transaction is the arbiter between processes, so two workers can never be lent the same slot. Departures
are computed by the boot's clock, so that setting the wall clock cannot bring two of them closer together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from msgspec import Struct, structs

from sellerwatch.agents.circuit import Circuit
from sellerwatch.agents.limits import Limits
from sellerwatch.agents.token import Token
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.clock import Moment
from sellerwatch.kernel.ids import UserAgentId

#: A departure this near is lent now and slept until; a later one is left for a later claim, which holds no slot.
LOOKAHEAD_US = 20_000


class Candidate(Struct, frozen=True):
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
        """Whether its circuit is closed, or has been open long enough for a probe."""
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


class Grant(Struct, frozen=True):
    """Permission to make one request as this agent, not before `depart_us` by the boot's clock."""

    candidate: Candidate
    depart_us: int

    @property
    def is_probe(self) -> bool:
        return self.candidate.circuit.state is not CircuitState.CLOSED


@dataclass(frozen=True, slots=True)
class Lending:
    """What could be lent. `wait_us`: without grants, how long until the rate or a circuit allows one; None while every
    window is full or there is no agent."""

    grants: tuple[Grant, ...]
    wait_us: int | None


def lend(candidates: Iterable[Candidate], wanted: int, at: Moment, limits: Limits) -> Lending:
    """Return up to `wanted` grants: healthiest agents first, among equals the one used least recently, one each
    per round.

    Only agents with a valid token are lent; `agents/sessions.py` issues tokens. An agent whose circuit is open is lent
    once, as a probe.
    """
    holders = [c for c in candidates if c.has_token(at.now) and c.slots_left > 0]
    able = in_order(holders, at.now)
    grants: list[Grant] = []
    for _, equals in groupby(able, key=lambda c: c.health_score):
        if len(grants) == wanted:
            break
        grants += _round_robin(tuple(equals), wanted - len(grants), at, limits)
    if grants:
        return Lending(tuple(grants), None)
    waits = [_departure(c, at, limits) - at.boot_us for c in able]
    waits += [_until(c.circuit, at.now) for c in holders if not c.may_work(at.now)]
    return Lending((), min(waits, default=None))


def in_order(candidates: Iterable[Candidate], now: datetime) -> list[Candidate]:
    """Return the agents that may work now, in the order in which they are lent."""
    return sorted(
        (c for c in candidates if c.has_token(now) and c.may_work(now)),
        key=lambda c: (-c.health_score, c.last_used_at.timestamp() if c.last_used_at else 0.0, c.row),
    )


def soonest_probe_us(candidates: Iterable[Candidate], now: datetime) -> int | None:
    """Return the microseconds until the first of their open circuits allows a probe."""
    shut = (c for c in candidates if c.has_token(now) and c.slots_left > 0 and not c.may_work(now))
    return min((_until(c.circuit, now) for c in shut), default=None)


def pace(grants: Sequence[Grant], last_us: int, per_second: float, at: Moment) -> list[Grant]:
    """Space grants by the rate of the marketplace as a whole, in their order, and return those that depart soon."""
    spacing = int(1_000_000 / per_second)
    paced: list[Grant] = []
    for grant in grants:
        last_us = max(grant.depart_us, last_us + spacing)
        if last_us > at.boot_us + LOOKAHEAD_US:
            break
        paced.append(structs.replace(grant, depart_us=last_us))
    return paced


def _round_robin(equals: Sequence[Candidate], wanted: int, at: Moment, limits: Limits) -> list[Grant]:
    """Grant one request to each agent, then a second one, and so on, while slots and the rate allow."""
    grants: list[Grant] = []
    this_round = [(candidate, _most(candidate), _departure(candidate, at, limits)) for candidate in equals]
    while this_round and len(grants) < wanted:
        next_round = []
        for candidate, left, departure in this_round:
            if len(grants) == wanted:
                break
            if left > 0 and departure <= at.boot_us + LOOKAHEAD_US:
                grants.append(Grant(candidate, departure))
                next_round.append((candidate, left - 1, departure + limits.spacing_us))
        this_round = next_round
    return grants


def _most(candidate: Candidate) -> int:
    return candidate.slots_left if candidate.circuit.state is CircuitState.CLOSED else 1


def _departure(candidate: Candidate, at: Moment, limits: Limits) -> int:
    return max(at.boot_us, candidate.last_departure_us + limits.spacing_us)


def _until(circuit: Circuit, now: datetime) -> int:
    """Return the microseconds until an open circuit allows a probe."""
    probe_at = circuit.probe_at()
    return 0 if probe_at is None else max(0, int((probe_at - now).total_seconds() * 1_000_000))
