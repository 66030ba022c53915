"""What people can see of the pool: each agent, and the pool as a whole. Of a token only its dates are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from sellerwatch.agents.agent import Agent, AgentName, AgentNotFound, AgentStatus
from sellerwatch.agents.agent_status import AgentDetails, CircuitEventView, UnavailableCause
from sellerwatch.agents.limits import Limits, LimitSettings, PoolRules
from sellerwatch.agents.ports import LastHourView, PoolTx, StoredAgent
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.ids import UserAgentId
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.views import About, View, shared_fields
from sellerwatch.oversight.queries import AuditEntryView
from sellerwatch.texts import say

#: Entries of the circuit's history and of the audit trail that are shown with one agent.
LAST_EVENTS = 10


@dataclass(frozen=True)
class AgentBudgetView(View):
    """The requests of an agent in its window. Until `fullUntil` the window counts as full."""

    used: int
    left: int
    limit: int
    free_at: Annotated[datetime | None, About("When the oldest answered request leaves the window.")]
    full_until: datetime | None


@dataclass(frozen=True)
class AgentCircuitView(View):
    state: CircuitState
    failure_count: int
    probe_at: datetime | None


@dataclass(frozen=True)
class TokenDatesView(View):
    issued_at: datetime
    expires_at: datetime | None
    age_seconds: int
    next_refresh_at: Annotated[datetime | None, About("When it is renewed next.")]
    failures_in_a_row: Annotated[int, About("Renewals that failed one after the other.", 0)]


@dataclass(frozen=True)
class LimitView(View):
    """A limit. `configured` is what holds without the change; null: not limited."""

    name: Annotated[str, About(example="WINDOW_LIMIT")]
    value: Annotated[float | None, About(example=60)]
    is_overridden: bool
    origin: Annotated[str, About("Where `value` is from: override, environment, file or default.", "override")]
    configured: float | None
    meaning: str


@dataclass(frozen=True)
class LimitFaultView(View):
    name: str
    problem: str


@dataclass(frozen=True)
class LimitsView(View):
    """`faults`: changes that have become wrong; while there are any, no change is in force."""

    content: Sequence[LimitView]
    faults: Sequence[LimitFaultView]


@dataclass(frozen=True)
class AgentView(View):
    """`why` is what keeps it from making a request, null when nothing does; `backAt` is when it can again."""

    agent_id: str
    number: Annotated[int, About(example=17)]
    user_agent: Annotated[str, About(example="Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")]
    status: AgentStatus
    health_score: int
    reason: str | None
    why: str | None
    why_code: Annotated[UnavailableCause | None, About("The same as `why`, for programs.")]
    back_at: datetime | None
    budget: AgentBudgetView
    circuit: AgentCircuitView
    token: TokenDatesView | None
    token_age: Annotated[str, About("As in `tokensByAge` of the pool's status.", "under10Minutes")]
    requests_per_day: int
    usage_count: int
    success_count: int
    failure_count: int
    other_count: Annotated[int, About("Requests that were neither: not the agent's fault, or given back.")]
    issue_failures: int
    too_many_last_hour: int
    last_used_at: datetime | None
    suspended_at: datetime | None
    suspended_until: datetime | None
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, details: AgentDetails, now: datetime, language: str) -> AgentView:
        agent, circuit, window, issued_at = details.agent, details.circuit, details.window, details.token_issued_at
        token = None
        if issued_at is not None:
            age = int((now - issued_at).total_seconds())
            dates = details.token_expires_at, age, details.next_refresh_at, details.refresh_failures
            token = TokenDatesView(issued_at, *dates)
        return cls(
            **shared_fields(cls, agent),
            agent_id=agent.user_agent_id,
            number=details.row,
            why=_why(details, now, language),
            why_code=details.unavailable_cause(now),
            back_at=details.back_at(now),
            budget=AgentBudgetView(window.used, window.left, window.limit, window.free_at, window.full_until),
            circuit=AgentCircuitView(circuit.state, circuit.failure_count, circuit.probe_at()),
            token=token,
            token_age=details.token_age(now),
            other_count=max(0, agent.usage_count - agent.success_count - agent.failure_count),
            too_many_last_hour=details.too_many,
        )


@dataclass(frozen=True)
class AgentDetailView(AgentView):
    """An agent with what it did in the last hour, the history of its circuit, and what people did to it."""

    last_hour: LastHourView
    circuit_events: Sequence[CircuitEventView]
    audit: Sequence[AuditEntryView]


def show_agent(tx: PoolTx, context: OperationContext, rules: PoolRules, name: AgentName) -> AgentDetailView:
    """Show an agent: what it did in the last hour, what keeps it from working, and when it is back."""
    stored = find_agent(tx, name)
    entries = tx.audit.newest(limit=LAST_EVENTS, subject_type="agent", subject_id=stored.agent.user_agent_id)
    return AgentDetailView(
        **vars(agent_view(tx, context, limits_in_force(tx, rules), stored.row)),
        last_hour=tx.usage_log.last_hour(stored.row, context.now),
        circuit_events=tx.pool_report.circuit_events(stored.row, LAST_EVENTS),
        audit=[AuditEntryView.of(entry) for entry in entries],
    )


def agent_view(tx: PoolTx, context: OperationContext, limits: Limits, row: int) -> AgentView:
    """Return one agent as it is now."""
    details = next(each for each in tx.pool_report.standings(context.moment, limits) if each.row == row)
    return AgentView.of(details, context.now, context.language)


def find_agent(tx: PoolTx, name: AgentName) -> StoredAgent:
    """Return the agent with this number or id."""
    user_agent_id = UserAgentId(name)
    if name.isdecimal():
        numbered: Mapping[int, Agent] = tx.agents.get_rows([int(name)])
        user_agent_id = numbered[int(name)].user_agent_id if numbered else user_agent_id
    found = tx.agents.find(user_agent_id)
    if found is None:
        raise AgentNotFound(agent=name)
    return found


def list_limits(tx: PoolTx, context: OperationContext, limits: LimitSettings) -> LimitsView:
    """List each limit: its value in force, whether it was changed at run time, and what it means."""
    overrides, language = tx.overrides.all(), context.language
    faults = limits.faults(overrides, language)
    changed = {} if faults else overrides
    values = limits.in_force(changed)
    return LimitsView(
        [
            LimitView(
                name.upper(),
                values[name],
                name in changed,
                "override" if name in changed else limits.origin(name),
                configured,
                limits.meaning(name, language),
            )
            for name, configured in limits.configured.items()
        ],
        [LimitFaultView(name, problem) for name, problem in faults.items()],
    )


def limits_in_force(tx: PoolTx, rules: PoolRules) -> Limits:
    """Return the limits as they were changed at run time."""
    return rules.limits(tx.overrides.all())


def _why(details: AgentDetails, now: datetime, language: str) -> str | None:
    cause = details.unavailable_cause(now)
    if cause is None:
        return None
    is_out = details.agent.status is not AgentStatus.AVAILABLE
    if is_out:
        return details.agent.shown_reason.text(language)
    return say("agents", f"why.{cause}", language, n=details.circuit.failure_count)
