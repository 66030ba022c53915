"""The status of the pool as a whole: how many agents are available, what budget is left, and whether it is stopped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from sellerwatch.agents.agent import AgentStatus
from sellerwatch.agents.agent_status import AgentDetails, next_free_at, tokens_by_age
from sellerwatch.agents.breaker import Breaker
from sellerwatch.agents.limits import Limits, PoolRules
from sellerwatch.agents.ports import PoolTx
from sellerwatch.agents.queries import limits_in_force
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.views import About, View
from sellerwatch.kernel.wording import error_text
from sellerwatch.texts import say

#: Agents that are listed with their 429s, the most frequent first.
MOST_NAMED = 10


@dataclass(frozen=True)
class HealthScoreStats(View):
    average: Annotated[float | None, About(example=93.5)]
    min: int | None
    max: int | None


@dataclass(frozen=True)
class PoolBudgetView(View):
    """`left` is what AVAILABLE agents may still ask; `limit` is what all agents together may ask in one window."""

    used: int
    left: int
    limit: int
    window_seconds: float


@dataclass(frozen=True)
class CircuitCountsView(View):
    open: int
    half_open: int


@dataclass(frozen=True)
class BreakerView(View):
    """`message` says why crawling is stopped; null while the state is CLOSED."""

    state: CircuitState
    min_available_percent: int
    opened_at: datetime | None
    message: str | None


@dataclass(frozen=True)
class TooManyView(View):
    """An agent that was answered 429 in the last hour: how often, when last, and until when it rests."""

    agent_id: str
    number: int
    user_agent: str
    count: int
    last_at: datetime | None
    suspended_until: datetime | None


@dataclass(frozen=True)
class WindowsFullView(View):
    """Why all windows count as full, and until when."""

    why: str
    until: datetime | None


@dataclass(frozen=True)
class PoolStatusView(View):
    """The pool at one moment; `availableRate` in percent."""

    total_agents: Annotated[int, About(example=100)]
    available_agents: Annotated[int, About(example=97)]
    suspended_agents: Annotated[int, About(example=2)]
    blocked_agents: Annotated[int, About(example=1)]
    available_rate: Annotated[float, About(example=97.0)]
    health_score_stats: HealthScoreStats
    budget: PoolBudgetView
    tokens_by_age: Mapping[str, int]
    circuits: CircuitCountsView
    breaker: BreakerView
    next_free_at: datetime | None
    too_many_last_hour: Sequence[TooManyView]
    windows_full: WindowsFullView | None


def pool_status(tx: PoolTx, context: OperationContext, rules: PoolRules) -> PoolStatusView:
    """Show how the pool is: who is available, health, what budget is left, circuits, the breaker, and the 429s."""
    limits, now = limits_in_force(tx, rules), context.now
    agents = tx.pool_report.standings(context.moment, limits)
    breaker = tx.circuits.breaker().look(*tx.agents.tally(), rules.breaker, now)
    counts = {status: sum(each.agent.status is status for each in agents) for status in AgentStatus}
    available = counts[AgentStatus.AVAILABLE]
    states = [each.circuit.state for each in agents]
    return PoolStatusView(
        total_agents=len(agents),
        available_agents=available,
        suspended_agents=counts[AgentStatus.SUSPENDED],
        blocked_agents=counts[AgentStatus.BLOCKED],
        available_rate=round(100 * available / len(agents), 2) if agents else 0.0,
        health_score_stats=_health(agents),
        budget=budget_of(agents, limits),
        tokens_by_age=tokens_by_age(agents, now),
        circuits=CircuitCountsView(states.count(CircuitState.OPEN), states.count(CircuitState.HALF_OPEN)),
        breaker=_breaker(breaker, available, len(agents), rules, context),
        next_free_at=_next_free_at(agents, breaker, rules, now),
        too_many_last_hour=_too_many(agents),
        windows_full=_windows_full(agents, rules.is_restored(tx.windows.highest()), context.language),
    )


def _health(agents: Sequence[AgentDetails]) -> HealthScoreStats:
    scores = [each.agent.health_score for each in agents]
    if not scores:
        return HealthScoreStats(None, None, None)
    return HealthScoreStats(round(sum(scores) / len(scores), 2), min(scores), max(scores))


def budget_of(agents: Sequence[AgentDetails], limits: Limits) -> PoolBudgetView:
    """Add the windows of all agents."""
    return PoolBudgetView(
        used=sum(each.window.used for each in agents),
        left=sum(each.window.left for each in agents if each.agent.status is AgentStatus.AVAILABLE),
        limit=sum(each.window.limit for each in agents),
        window_seconds=limits.window.total_seconds(),
    )


def _breaker(breaker: Breaker, available: int, total: int, rules: PoolRules, context: OperationContext) -> BreakerView:
    message = None
    if breaker.state is not CircuitState.CLOSED:
        refusal = breaker.refusal(available, total, rules.breaker, context.now)
        message = error_text(refusal.code, refusal.facts, context.language)
    return BreakerView(breaker.state, rules.breaker.min_percent, breaker.opened_at, message)


def _next_free_at(agents: Sequence[AgentDetails], breaker: Breaker, rules: PoolRules, now: datetime) -> datetime | None:
    """Return when the next request can be made; while the breaker is open, not before its next probe."""
    free = next_free_at(agents, now)
    if free is None or breaker.state is CircuitState.CLOSED:
        return free
    return max(free, breaker.next_look(rules.breaker, now))


def _too_many(agents: Sequence[AgentDetails]) -> list[TooManyView]:
    met = sorted((each for each in agents if each.too_many), key=lambda each: (-each.too_many, each.row))
    return [
        TooManyView(
            each.agent.user_agent_id,
            each.row,
            each.agent.user_agent,
            each.too_many,
            each.last_too_many_at,
            each.agent.suspended_until,
        )
        for each in met[:MOST_NAMED]
    ]


def _windows_full(agents: Sequence[AgentDetails], is_restored: bool, language: str) -> WindowsFullView | None:
    full = [(w.full_until, w.full_reason) for w in (each.window for each in agents) if w.full_until is not None]
    if not full:
        return WindowsFullView(say("agents", "full.unstarted", language), None) if is_restored else None
    until, reason = max(full)
    return WindowsFullView(say("agents", f"full.{reason}", language), until)
