"""Whether each agent can make a request, what keeps it from one, and when it can make one again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated

from sellerwatch.agents.agent import Agent, AgentStatus
from sellerwatch.agents.circuit import Circuit
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.views import About, View

#: Ages by which tokens are counted; one is renewed after an hour.
AGES = (
    ("under10Minutes", timedelta(minutes=10)),
    ("under30Minutes", timedelta(minutes=30)),
    ("under1Hour", timedelta(hours=1)),
)
EXPIRED = "expired"


class UnavailableCause(StrEnum):
    """What keeps an agent from making a request."""

    SUSPENDED = "SUSPENDED"
    BLOCKED = "BLOCKED"
    CIRCUIT_OPEN = "CIRCUIT_OPEN"
    #: Its circuit lets one request through and waits for the answer.
    PROBING = "PROBING"
    #: The window counts as full because the earlier requests are not known.
    WINDOW_FULL = "WINDOW_FULL"
    WINDOW_USED_UP = "WINDOW_USED_UP"


class FullReason(StrEnum):
    """Why a window counts as full although fewer requests are known."""

    #: The database was restored from an older copy.
    RESTORED = "RESTORED"
    #: The window was made longer.
    LONGER = "LONGER"
    #: The clock of the database server was set forward.
    CLOCK = "CLOCK"
    #: The schema was taken back to one without permits.
    DOWNGRADED = "DOWNGRADED"


@dataclass(frozen=True, slots=True)
class Window:
    """An agent's window as the next claim will find it: requests that have left it are not counted.

    `free_at` is when the oldest answered request leaves it; None where there is none. Until `full_until` it counts as
    full, for `full_reason`.
    """

    used: int
    limit: int
    free_at: datetime | None
    full_until: datetime | None
    full_reason: FullReason | None = None

    @property
    def left(self) -> int:
        return 0 if self.full_until else max(self.limit - self.used, 0)


@dataclass(frozen=True, slots=True)
class AgentDetails:
    """An agent with its circuit, its window and its token's dates. `too_many` is the number of its 429s in the last
    hour, `last_too_many_at` when the last of them was sent."""

    row: int
    agent: Agent
    circuit: Circuit
    window: Window
    token_issued_at: datetime | None
    token_expires_at: datetime | None
    next_refresh_at: datetime | None
    refresh_failures: int
    too_many: int
    last_too_many_at: datetime | None

    def can_request(self, now: datetime) -> bool:
        """Whether it could make a request now; a token would be issued for it."""
        return self.unavailable_cause(now) is None

    def unavailable_cause(self, now: datetime) -> UnavailableCause | None:
        """Return what keeps it from making a request; None when nothing does."""
        if self.agent.status is not AgentStatus.AVAILABLE:
            return UnavailableCause(self.agent.status)
        if self.circuit.state is not CircuitState.CLOSED and not self.circuit.may_probe(now):
            is_open = self.circuit.state is CircuitState.OPEN
            return UnavailableCause.CIRCUIT_OPEN if is_open else UnavailableCause.PROBING
        if self.window.full_until is not None:
            return UnavailableCause.WINDOW_FULL
        return None if self.window.left else UnavailableCause.WINDOW_USED_UP

    def back_at(self, now: datetime) -> datetime | None:
        """Return when it can make a request again; None when it can now, or when the time is not known."""
        if self.agent.status is AgentStatus.BLOCKED or self.can_request(now):
            return None
        waits = [] if self.circuit.may_probe(now) else [self.circuit.probe_at()]
        if self.agent.status is AgentStatus.SUSPENDED:
            waits.append(self.agent.suspended_until or now)
        if not self.window.left:
            waits.append(self.window.full_until or self.window.free_at)
        return max((wait for wait in waits if wait is not None), default=None)

    def token_age(self, now: datetime) -> str:
        """Return `none`, `expired`, or one of the names of `AGES` and `older`."""
        if self.token_issued_at is None or self.token_expires_at is None:
            return "none"
        if self.token_expires_at <= now:
            return EXPIRED
        return next((name for name, age in AGES if now - self.token_issued_at < age), "older")


@dataclass(frozen=True)
class CircuitEventView(View):
    """One line of a circuit's history. `outcome` and `status` are those of the answer; a change made by a person or by
    the time has none."""

    at: datetime
    event_type: str
    from_state: str | None
    to_state: str | None
    outcome: Annotated[str | None, About(example="TOO_MANY")]
    status: Annotated[int | None, About("The HTTP status.", 429)]


def tokens_by_age(agents: Sequence[AgentDetails], now: datetime) -> dict[str, int]:
    found = Counter(each.token_age(now) for each in agents)
    return {name: found[name] for name in (*(name for name, _ in AGES), "older", EXPIRED, "none")}


def next_free_at(agents: Sequence[AgentDetails], now: datetime) -> datetime | None:
    """Return when the next agent can make a request, `now` included; None when the time is not known."""
    if any(each.can_request(now) for each in agents):
        return now
    times = [time for time in (each.back_at(now) for each in agents) if time is not None]
    return max(min(times), now) if times else None
