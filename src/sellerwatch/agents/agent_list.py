"""Agents in a list: chosen by status and circuit, sorted, with what they did in a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from sellerwatch.agents.agent import AgentStatus
from sellerwatch.agents.agent_status import AgentDetails
from sellerwatch.agents.limits import PoolRules
from sellerwatch.agents.ports import AgentUsage, PoolTx
from sellerwatch.agents.queries import AgentView, limits_in_force
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.views import About, View


class AgentSort(StrEnum):
    """The order of a list. Counts: the highest first; health and budget: the lowest first."""

    NUMBER = "number"
    HEALTH = "health"
    BUDGET = "budget"
    USES = "uses"
    FAILURES = "failures"
    TOO_MANY = "429"
    TOKEN_AGE = "token-age"  # noqa: S105 - an order
    RENEWAL = "renewal"
    RENEWAL_FAILURES = "renewal-failures"


@dataclass(frozen=True)
class AgentChoice:
    """Which agents, in which order. Their requests are counted from `since` to `until`; without both, all they ever
    made. `limited`: only agents that were answered 429 in this time."""

    status: AgentStatus | None = None
    circuit: CircuitState | None = None
    sort: AgentSort = AgentSort.NUMBER
    since: datetime | None = None
    until: datetime | None = None
    limited: bool = False
    limit: int | None = None

    @property
    def is_all(self) -> bool:
        return self.status is None and self.circuit is None and not self.limited

    @property
    def asks_usage(self) -> bool:
        """Whether it is about requests that were made, rather than about how agents are."""
        is_timed = self.since is not None or self.until is not None
        return is_timed or self.limited or self.sort in (AgentSort.USES, AgentSort.FAILURES, AgentSort.TOO_MANY)


@dataclass(frozen=True)
class ListedAgentView(AgentView):
    """An agent with its requests in the time that was asked for."""

    requests: Annotated[int, About("Requests in the time.", 640)]
    succeeded: int
    failed: Annotated[int, About("Requests that did not bring what was asked for; without a time: the agent's own.")]
    success_rate: Annotated[float | None, About("In percent; null without a request.", 99.06)]
    too_many: Annotated[int, About("Requests that were answered 429.", 2)]
    last_too_many_at: Annotated[datetime | None, About("When it was last answered 429.")]


@dataclass(frozen=True)
class AgentListView(View):
    """Agents in the order that was asked for. `since` and `until`: the time in which requests are counted."""

    content: Sequence[ListedAgentView]
    since: datetime | None
    until: datetime | None


_SORTS: dict[AgentSort, Callable[[ListedAgentView], float]] = {
    AgentSort.NUMBER: lambda agent: agent.number,
    AgentSort.HEALTH: lambda agent: agent.health_score,
    AgentSort.BUDGET: lambda agent: agent.budget.left,
    AgentSort.USES: lambda agent: -agent.requests,
    AgentSort.FAILURES: lambda agent: -agent.failed,
    AgentSort.TOO_MANY: lambda agent: -agent.too_many,
    AgentSort.TOKEN_AGE: lambda agent: -agent.token.age_seconds if agent.token else 1,
    AgentSort.RENEWAL: lambda agent: _stamp(agent.token.next_refresh_at if agent.token else None),
    AgentSort.RENEWAL_FAILURES: lambda agent: -agent.token.failures_in_a_row if agent.token else 1,
}


def list_agents(tx: PoolTx, context: OperationContext, rules: PoolRules, choice: AgentChoice) -> AgentListView:
    """List agents: health, budget, circuit, token, what keeps each from working, and what it did in a time."""
    agents = tx.pool_report.standings(context.moment, limits_in_force(tx, rules))
    wanted = [each for each in agents if _is_wanted(each, choice)]
    usage = tx.pool_report.usage(choice.since, choice.until)
    listed = [_listed(each, usage.get(each.row), choice, context) for each in wanted]
    if choice.limited:
        listed = [each for each in listed if each.too_many]
    listed.sort(key=lambda agent: (_SORTS[choice.sort](agent), agent.number))
    return AgentListView(listed[: choice.limit], choice.since, choice.until)


def _is_wanted(agent: AgentDetails, choice: AgentChoice) -> bool:
    return choice.status in (None, agent.agent.status) and choice.circuit in (None, agent.circuit.state)


def _listed(
    details: AgentDetails, usage: AgentUsage | None, choice: AgentChoice, context: OperationContext
) -> ListedAgentView:
    agent, found = details.agent, usage or AgentUsage()
    requests, failed = found.requests, found.failed
    succeeded = requests - failed
    if choice.since is None and choice.until is None:
        # Its own counts are older than the log.
        requests, succeeded, failed = agent.usage_count, agent.success_count, agent.failure_count
    return ListedAgentView(
        **vars(AgentView.of(details, context.now, context.language)),
        requests=requests,
        succeeded=succeeded,
        failed=failed,
        success_rate=round(100 * succeeded / requests, 2) if requests else None,
        too_many=found.too_many,
        last_too_many_at=found.last_too_many_at,
    )


def _stamp(time: datetime | None) -> float:
    """Return a number in the order of time; no time comes last."""
    return float("inf") if time is None else time.timestamp()
