"""Whom to send: the pool lends identities for requests, inside the limits of each.

`lend` is a pure function over what the database says of the agents, called inside the transaction that writes the
permits: the transaction is the arbiter between processes, so two workers can never be lent the same slot.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

from sellerwatch.agents.limits import Limits
from sellerwatch.agents.token import Token
from sellerwatch.kernel.errors import Unavailable
from sellerwatch.kernel.ids import UserAgentId

#: A departure this near is lent now and slept until; a later one is left for a later claim, which holds no slot.
LOOKAHEAD = timedelta(milliseconds=20)


@dataclass(eq=False)
class NoBudget(Unavailable):
    """No identity may make a request now; says when one may."""

    seconds: float

    @property
    def retry_after(self) -> float:  # type: ignore[override]
        return self.seconds


@dataclass(frozen=True, slots=True)
class Candidate:
    """An AVAILABLE agent as the pool sees it. `row` is the agent's row, which permits refer to."""

    row: int
    user_agent_id: UserAgentId
    user_agent: str
    health_score: int
    last_used_at: datetime | None
    slots_left: int
    last_departure: datetime
    token_row: int | None
    token: Token | None


@dataclass(frozen=True, slots=True)
class Grant:
    """Leave to make one request as this agent, not before `depart_at`."""

    candidate: Candidate
    depart_at: datetime


@dataclass(frozen=True, slots=True)
class Lending:
    """What could be lent. `not_before`: with nothing lent, when it is worth asking again, as far as rates tell;
    None when every window is full (or nobody is there), which only an answered permit's age can end."""

    grants: tuple[Grant, ...]
    not_before: datetime | None


def lend(candidates: Iterable[Candidate], wanted: int, now: datetime, limits: Limits) -> Lending:
    """Up to `wanted` grants: healthiest first; among equals the one used least recently, turn by turn.

    Only agents with a valid token are lent; who has none gets one issued first (`tend.py`).
    """
    able = sorted(
        (c for c in candidates if c.token is not None and c.token.is_valid(now) and c.slots_left > 0),
        key=lambda c: (-c.health_score, c.last_used_at.timestamp() if c.last_used_at else 0.0, c.row),
    )
    grants: list[Grant] = []
    for _, equals in groupby(able, key=lambda c: c.health_score):
        if len(grants) == wanted:
            break
        grants += _in_turns(tuple(equals), wanted - len(grants), now, limits)
    nearest = min((_departure(c, now, limits) for c in able), default=None)
    return Lending(tuple(grants), nearest)


def _in_turns(equals: Sequence[Candidate], wanted: int, now: datetime, limits: Limits) -> list[Grant]:
    """One each, then a second each, while slots and the rate allow: load spreads over agents of equal health."""
    grants: list[Grant] = []
    turn = [(candidate, candidate.slots_left, _departure(candidate, now, limits)) for candidate in equals]
    while turn and len(grants) < wanted:
        next_turn = []
        for candidate, left, departure in turn:
            if len(grants) == wanted:
                break
            if left > 0 and departure <= now + LOOKAHEAD:
                grants.append(Grant(candidate, departure))
                next_turn.append((candidate, left - 1, departure + limits.spacing))
        turn = next_turn
    return grants


def _departure(candidate: Candidate, now: datetime, limits: Limits) -> datetime:
    """A departure stamped in the future (the clock was set back) counts as now: it may delay, never hurry.

    One that is only as far ahead as we lend is no such stamp: it is a request that is about to leave.
    """
    last = candidate.last_departure if candidate.last_departure <= now + LOOKAHEAD else now
    return max(now, last + limits.spacing)
