"""Where each agent stands, why, and when it is back: what an operator looks at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sellerwatch.agents.agent import Agent, AgentStatus
from sellerwatch.agents.circuit import Circuit
from sellerwatch.kernel.circuit import CircuitState

#: Ages by which tokens are counted; one is renewed after an hour.
AGES = (
    ("under10Minutes", timedelta(minutes=10)),
    ("under30Minutes", timedelta(minutes=30)),
    ("under1Hour", timedelta(hours=1)),
)


@dataclass(frozen=True, slots=True)
class Window:
    """An agent's window as the next claim will find it: what has left it by now is not counted any more.

    `free_at` is when its oldest answered slot comes free; None where nothing is in use or nothing is answered yet.
    Until `full_until` it counts as full, whatever was used.
    """

    used: int
    limit: int
    free_at: datetime | None
    full_until: datetime | None

    @property
    def left(self) -> int:
        return 0 if self.full_until else max(self.limit - self.used, 0)


@dataclass(frozen=True, slots=True)
class AgentDetails:
    """An agent with its circuit, its window and its token's dates. `too_many`: 429s it met in the last hour."""

    row: int
    agent: Agent
    circuit: Circuit
    window: Window
    token_issued_at: datetime | None
    token_expires_at: datetime | None
    too_many: int

    def may_ask(self, now: datetime) -> bool:
        """It could make a request now; a token it would be given for it."""
        willing = self.circuit.state is CircuitState.CLOSED or self.circuit.may_probe(now)
        return self.agent.status is AgentStatus.AVAILABLE and willing and self.window.left > 0

    def why(self, now: datetime) -> str | None:
        """What keeps it from making a request; None when nothing does."""
        if self.agent.status is not AgentStatus.AVAILABLE:
            return self.agent.reason or "no reason was kept"
        if self.circuit.state is CircuitState.OPEN and not self.circuit.may_probe(now):
            return f"circuit open after {self.circuit.failure_count} failure(s) in a row"
        if self.circuit.state is CircuitState.HALF_OPEN and not self.circuit.may_probe(now):
            return "one request is finding out whether it is welcome"
        if self.window.full_until is not None:
            return "its window counts as full"
        return None if self.window.left else "its window is spent"

    def back_at(self, now: datetime) -> datetime | None:
        """When it may make a request again, as far as is known; None: it may now, or nobody can tell."""
        if self.agent.status is AgentStatus.BLOCKED or self.may_ask(now):
            return None
        waits = [] if self.circuit.may_probe(now) else [self.circuit.probe_at()]
        if self.agent.status is AgentStatus.SUSPENDED:
            waits.append(self.agent.suspended_until or now)
        if not self.window.left:
            waits.append(self.window.full_until or self.window.free_at)
        return max((wait for wait in waits if wait is not None), default=None)

    def token_age(self, now: datetime) -> str:
        """`none`, `expired`, or how old it is."""
        if self.token_issued_at is None or self.token_expires_at is None:
            return "none"
        if self.token_expires_at <= now:
            return "expired"
        return next((name for name, age in AGES if now - self.token_issued_at < age), "older")


@dataclass(frozen=True, slots=True)
class CircuitEvent:
    """One line of a circuit's history."""

    at: datetime
    event_type: str
    from_state: str | None
    to_state: str | None


def tokens_by_age(standings: Sequence[AgentDetails], now: datetime) -> dict[str, int]:
    found = Counter(standing.token_age(now) for standing in standings)
    return {name: found[name] for name in (*(name for name, _ in AGES), "older", "expired", "none")}


def next_free_at(standings: Sequence[AgentDetails], now: datetime) -> datetime | None:
    """When the next agent may make a request, `now` included; None when nobody can tell."""
    if any(standing.may_ask(now) for standing in standings):
        return now
    times = [time for time in (standing.back_at(now) for standing in standings) if time is not None]
    return max(min(times), now) if times else None
