"""The pool as a whole, as an operator looks at it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sellerwatch.agents.agent import AgentStatus
from sellerwatch.agents.agent_status import AgentDetails, next_free_at
from sellerwatch.agents.breaker import Breaker, BreakerRules
from sellerwatch.agents.limits import Limits
from sellerwatch.kernel.circuit import CircuitState

#: Agents named with their 429s, the most frequent first.
MOST_NAMED = 10


@dataclass(frozen=True)
class Pool:
    """The pool at one moment. `restored`: the database knows of fewer permits than were given."""

    standings: Sequence[AgentDetails]
    limits: Limits
    breaker: Breaker
    rules: BreakerRules
    restored: bool
    now: datetime

    def count(self, status: AgentStatus) -> int:
        return sum(standing.agent.status is status for standing in self.standings)

    def circuits(self, state: CircuitState) -> int:
        return sum(standing.circuit.state is state for standing in self.standings)

    @property
    def available_rate(self) -> float:
        return round(100 * self.count(AgentStatus.AVAILABLE) / len(self.standings), 2) if self.standings else 0.0

    @property
    def health(self) -> dict[str, float | None]:
        scores = [standing.agent.health_score for standing in self.standings]
        if not scores:
            return {"average": None, "min": None, "max": None}
        return {"average": round(sum(scores) / len(scores), 2), "min": min(scores), "max": max(scores)}

    @property
    def budget(self) -> dict[str, float]:
        """`left` is what AVAILABLE agents may still ask; `limit` what all of them together may in one window."""
        able = [s for s in self.standings if s.agent.status is AgentStatus.AVAILABLE]
        return {
            "used": sum(standing.window.used for standing in self.standings),
            "left": sum(standing.window.left for standing in able),
            "limit": sum(standing.window.limit for standing in self.standings),
            "windowSeconds": self.limits.window.total_seconds(),
        }

    @property
    def too_many(self) -> list[AgentDetails]:
        met = [standing for standing in self.standings if standing.too_many]
        return sorted(met, key=lambda standing: (-standing.too_many, standing.row))[:MOST_NAMED]

    @property
    def next_free_at(self) -> datetime | None:
        """An agent that is free waits for the pool's breaker like any other."""
        free = next_free_at(self.standings, self.now)
        if free is None or self.breaker.state is CircuitState.CLOSED:
            return free
        return max(free, self.breaker.next_look(self.rules, self.now))

    @property
    def refusal(self) -> str | None:
        """The sentence with which crawling is refused; None while it is not."""
        if self.breaker.state is CircuitState.CLOSED:
            return None
        available = self.count(AgentStatus.AVAILABLE)
        return str(self.breaker.refusal(available, len(self.standings), self.rules, self.now))

    @property
    def windows_full(self) -> tuple[str, datetime | None] | None:
        """Why windows count as full whatever was used, and until when."""
        until = max((s.window.full_until for s in self.standings if s.window.full_until), default=None)
        if until is not None and self.restored:
            return "The database was restored from an older copy: what was asked since is not known.", until
        if until is not None:
            return "The window was made longer: what was asked before is not remembered for so long.", until
        if self.restored:
            text = "The database was restored from an older copy: when a service starts, windows count as full for one."
            return text, None
        return None
