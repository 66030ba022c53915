"""/api/v1/agents and /api/v1/user-agents/status: the identities we ask as, how they are, and what can be done about it.

Of a token only its dates are ever told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field, StrictInt, StrictStr

from sellerwatch.agents import commands
from sellerwatch.agents.agent import LONGEST_REASON, AgentStatus
from sellerwatch.agents.agent_status import AgentDetails, CircuitEvent, tokens_by_age
from sellerwatch.agents.breaker import BreakerRules
from sellerwatch.agents.commands import AgentName, Moved, find_agent
from sellerwatch.agents.limits import Limits
from sellerwatch.agents.overview import Pool
from sellerwatch.agents.record_outcomes import standing_notice
from sellerwatch.compose.database import lost_permits
from sellerwatch.compose.rules import tuning_in_force
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.clock import moment
from sellerwatch.operations.ports import ServiceTx
from sellerwatch.oversight.audit import AuditEntry
from sellerwatch.oversight.queries import AuditEntryView
from sellerwatch.web.api.authorization import Admin, Viewer
from sellerwatch.web.api.context import Desk, Parts, parts_of
from sellerwatch.web.api.cursors import MOST_NAMED, HandledAnswer
from sellerwatch.web.api.errors import refusals
from sellerwatch.web.api.models import RequestModel, ResponseModel, Stamp

router = APIRouter(prefix="/agents", tags=["agents"])
status_router = APIRouter(prefix="/user-agents", tags=["agents"])

LAST_EVENTS = 10
LONGEST_REST = 365 * 86400

AgentPath = Annotated[
    str, Path(alias="agent", min_length=1, max_length=100, description="Its number, or its UUID.", examples=["17"])
]


class Budget(ResponseModel):
    used: int
    left: int
    limit: int
    free_at: Stamp | None
    full_until: Stamp | None


class AgentCircuit(ResponseModel):
    state: CircuitState
    failure_count: int
    probe_at: Stamp | None


class TokenDates(ResponseModel):
    issued_at: Stamp
    expires_at: Stamp | None
    age_seconds: int


class AgentShown(ResponseModel):
    """`why` is what keeps it from making a request, null when nothing does; `backAt` when it may again."""

    agent_id: str
    number: int = Field(examples=[17])
    user_agent: str = Field(examples=["Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"])
    status: AgentStatus
    health_score: int
    reason: str | None
    why: str | None
    back_at: Stamp | None
    budget: Budget
    circuit: AgentCircuit
    token: TokenDates | None
    requests_per_day: int
    usage_count: int
    success_count: int
    failure_count: int
    issue_failures: int
    too_many_last_hour: int
    last_used_at: Stamp | None
    suspended_at: Stamp | None
    suspended_until: Stamp | None
    created_at: Stamp
    updated_at: Stamp


class AgentsShown(ResponseModel):
    content: list[AgentShown]


class LastHourShown(ResponseModel):
    requests: int
    succeeded: int
    too_many: int
    average_ms: int | None


class CircuitEventShown(ResponseModel):
    at: Stamp
    event_type: str
    from_state: str | None
    to_state: str | None


class AgentDetail(AgentShown):
    last_hour: LastHourShown
    circuit_events: list[CircuitEventShown]
    audit: list[AuditEntryView]


class HealthScoreStats(ResponseModel):
    average: float | None = Field(examples=[93.5])
    min: int | None
    max: int | None


class PoolBudget(ResponseModel):
    used: int
    left: int
    limit: int
    window_seconds: float


class Circuits(ResponseModel):
    open: int
    half_open: int


class BreakerShown(ResponseModel):
    state: CircuitState
    min_available_percent: int
    opened_at: Stamp | None
    message: str | None


class TooMany(ResponseModel):
    agent_id: str
    number: int
    count: int


class WindowsFull(ResponseModel):
    why: str
    until: Stamp | None


class PoolStatus(ResponseModel):
    """The pool at one moment; `availableRate` in percent."""

    total_agents: int = Field(examples=[100])
    available_agents: int = Field(examples=[97])
    suspended_agents: int = Field(examples=[2])
    blocked_agents: int = Field(examples=[1])
    available_rate: float = Field(examples=[97.0])
    health_score_stats: HealthScoreStats
    budget: PoolBudget
    tokens_by_age: dict[str, int]
    circuits: Circuits
    breaker: BreakerShown
    next_free_at: Stamp | None
    too_many_last_hour: list[TooMany]
    windows_full: WindowsFull | None


class AddBody(RequestModel):
    user_agent: StrictStr = Field(examples=["Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"])


class AgentsBody(RequestModel):
    """Agents by their numbers or UUIDs."""

    agents: list[StrictStr] = Field(min_length=1, max_length=MOST_NAMED, examples=[["17", "18"]])


class SuspendBody(AgentsBody):
    seconds: StrictInt | None = Field(None, ge=1, le=LONGEST_REST, description="Left out: AGENT_SUSPENSION_SECONDS.")
    reason: StrictStr | None = Field(None, min_length=1, max_length=LONGEST_REASON, examples=["checking a complaint"])


class BlockBody(AgentsBody):
    reason: StrictStr = Field(min_length=1, max_length=LONGEST_REASON, examples=["the marketplace complained"])


@status_router.get("/status")
async def pool_status(request: Request, _: Viewer) -> PoolStatus:
    """How the pool is: who is available, health, what budget is left, circuits, the breaker, and who met a 429."""
    parts = parts_of(request)
    when, settings = moment(parts.clock), parts.settings
    rules = BreakerRules(settings.breaker_min_available_percent, timedelta(seconds=settings.breaker_open_seconds))

    def work(tx: ServiceTx) -> PoolStatus:
        limits = _limits(tx, parts)
        breaker = tx.circuits.breaker().look(*tx.agents.tally(), rules, when.now)
        restored = lost_permits(settings, tx.windows.highest())
        return _pool(Pool(tx.pool_report.standings(when, limits), limits, breaker, rules, restored, when.now))

    return await parts.read(work)


@router.get("")
async def list_agents(
    request: Request, _: Viewer, status: Annotated[AgentStatus | None, Query()] = None
) -> AgentsShown:
    """Every agent by its number: health, budget used in the window, circuit, token's age, and why one rests."""
    parts, when = parts_of(request), moment(parts_of(request).clock)

    def work(tx: ServiceTx) -> AgentsShown:
        standings = tx.pool_report.standings(when, _limits(tx, parts))
        wanted = [standing for standing in standings if status in (None, standing.agent.status)]
        return AgentsShown(content=[AgentShown(**_standing(standing, when.now)) for standing in wanted])

    return await parts.read(work)


@router.post("", status_code=201, responses=refusals(409))
async def add_agent(body: AddBody, request: Request, caller: Admin) -> AgentShown:
    """Add an agent to the pool. It gets its token when work waits for it."""
    parts, when = parts_of(request), moment(parts_of(request).clock)

    def work(tx: ServiceTx, desk: Desk) -> AgentShown:
        limits = _limits(tx, parts)
        made = commands.add_agent(tx, body.user_agent, limits, actor=desk.actor, ids=desk.ids, at=when)
        standing = next(one for one in tx.pool_report.standings(when, limits) if one.row == made.row)
        return AgentShown(**_standing(standing, when.now))

    return await parts.change(caller.actor, work)


@router.post("/remove")
async def remove_agents(body: AgentsBody, request: Request, caller: Admin) -> HandledAnswer:
    """Take agents out of the pool for good. What they asked stays in the log."""
    parts, names, when = parts_of(request), _names(body.agents), moment(parts_of(request).clock)

    def work(tx: ServiceTx, desk: Desk) -> Moved:
        return commands.remove_agents(tx, names, _limits(tx, parts), actor=desk.actor, at=when)

    return await _moved(request, caller.actor, work)


@router.post("/suspend")
async def suspend_agents(body: SuspendBody, request: Request, caller: Admin) -> HandledAnswer:
    """Let agents rest. They come back by themselves; a rest that lasts longer already stays."""
    names, seconds = _names(body.agents), body.seconds or parts_of(request).settings.agent_suspension_seconds
    reason = _reason(body.reason or f"by {caller.actor}")

    def work(tx: ServiceTx, desk: Desk) -> Moved:
        rest = timedelta(seconds=seconds)
        return commands.suspend_agents(tx, names, rest, reason, actor=desk.actor, now=desk.now)

    return await _moved(request, caller.actor, work, alert=True)


@router.post("/recover")
async def recover_agents(body: AgentsBody, request: Request, caller: Admin) -> HandledAnswer:
    """Bring suspended agents back before their rest is over. Each gets a new token."""
    names = _names(body.agents)
    return await _moved(
        request, caller.actor, lambda tx, at: commands.recover_agents(tx, names, actor=at.actor, now=at.now)
    )


@router.post("/block")
async def block_agents(body: BlockBody, request: Request, caller: Admin) -> HandledAnswer:
    """Keep agents out until somebody unblocks them."""
    names, reason = _names(body.agents), _reason(body.reason)

    def work(tx: ServiceTx, desk: Desk) -> Moved:
        return commands.block_agents(tx, names, reason, actor=desk.actor, now=desk.now)

    return await _moved(request, caller.actor, work, alert=True)


@router.post("/unblock")
async def unblock_agents(body: AgentsBody, request: Request, caller: Admin) -> HandledAnswer:
    """Bring blocked agents back and close their circuits."""
    names = _names(body.agents)
    return await _moved(
        request, caller.actor, lambda tx, at: commands.unblock_agents(tx, names, actor=at.actor, now=at.now)
    )


@router.post("/rotate")
async def rotate_tokens(body: AgentsBody, request: Request, caller: Admin) -> HandledAnswer:
    """Throw the tokens of agents away. New ones are issued when work waits for these agents."""
    names = _names(body.agents)
    return await _moved(
        request, caller.actor, lambda tx, at: commands.rotate_tokens(tx, names, actor=at.actor, now=at.now)
    )


@router.get("/{agent}", responses=refusals(404))
async def get_agent(agent: AgentPath, request: Request, _: Viewer) -> AgentDetail:
    """One agent: what it did in the last hour, why it is where it is, and when it is back."""
    parts, name, when = parts_of(request), AgentName.parse(agent), moment(parts_of(request).clock)

    def work(tx: ServiceTx) -> AgentDetail:
        stored = find_agent(tx, name)
        standing = next(s for s in tx.pool_report.standings(when, _limits(tx, parts)) if s.row == stored.row)
        entries = tx.audit.newest(limit=LAST_EVENTS, subject_type="agent", subject_id=stored.agent.user_agent_id)
        hour = tx.usage_log.last_hour(stored.row, when.now)
        return AgentDetail(
            **_standing(standing, when.now),
            last_hour=LastHourShown(
                requests=hour.requests, succeeded=hour.succeeded, too_many=hour.too_many, average_ms=hour.average_ms
            ),
            circuit_events=[_event(event) for event in tx.pool_report.circuit_events(stored.row, LAST_EVENTS)],
            audit=_entries(entries),
        )

    return await parts.read(work)


async def _moved(
    request: Request, actor: str, work: Callable[[ServiceTx, Desk], Moved], *, alert: bool = False
) -> HandledAnswer:
    """Do something to agents, one by one, and say what became of each."""
    parts = parts_of(request)
    moved = await parts.change(actor, work)
    if alert:
        parts.service.crawl.tell([standing_notice(agent) for agent in moved.agents])
    return HandledAnswer.of(moved.handled, request)


def _limits(tx: ServiceTx, parts: Parts) -> Limits:
    return tuning_in_force(parts.settings, tx.overrides.all()).limits


def _names(given: Sequence[str]) -> list[AgentName]:
    return [AgentName.parse(name) for name in given]


def _reason(given: str) -> str:
    return " ".join(given.split())[:LONGEST_REASON] or "no reason was given"


def _entries(entries: Sequence[AuditEntry]) -> list[AuditEntryView]:
    return [AuditEntryView.of(entry) for entry in entries]


def _event(event: CircuitEvent) -> CircuitEventShown:
    return CircuitEventShown(
        at=event.at, event_type=event.event_type, from_state=event.from_state, to_state=event.to_state
    )


def _standing(standing: AgentDetails, now: datetime) -> dict[str, Any]:
    agent, circuit, window = standing.agent, standing.circuit, standing.window
    token = None
    if standing.token_issued_at is not None:
        age = int((now - standing.token_issued_at).total_seconds())
        token = TokenDates(issued_at=standing.token_issued_at, expires_at=standing.token_expires_at, age_seconds=age)
    return {
        "agent_id": agent.user_agent_id,
        "number": standing.row,
        "user_agent": agent.user_agent,
        "status": agent.status,
        "health_score": agent.health_score,
        "reason": agent.reason,
        "why": standing.why(now),
        "back_at": standing.back_at(now),
        "budget": Budget(
            used=window.used,
            left=window.left,
            limit=window.limit,
            free_at=window.free_at,
            full_until=window.full_until,
        ),
        "circuit": AgentCircuit(state=circuit.state, failure_count=circuit.failure_count, probe_at=circuit.probe_at()),
        "token": token,
        "requests_per_day": agent.requests_per_day,
        "usage_count": agent.usage_count,
        "success_count": agent.success_count,
        "failure_count": agent.failure_count,
        "issue_failures": agent.issue_failures,
        "too_many_last_hour": standing.too_many,
        "last_used_at": agent.last_used_at,
        "suspended_at": agent.suspended_at,
        "suspended_until": agent.suspended_until,
        "created_at": agent.created_at,
        "updated_at": agent.updated_at,
    }


def _pool(pool: Pool) -> PoolStatus:
    full, budget = pool.windows_full, pool.budget
    return PoolStatus(
        total_agents=len(pool.standings),
        available_agents=pool.count(AgentStatus.AVAILABLE),
        suspended_agents=pool.count(AgentStatus.SUSPENDED),
        blocked_agents=pool.count(AgentStatus.BLOCKED),
        available_rate=pool.available_rate,
        health_score_stats=HealthScoreStats.model_validate(pool.health),
        budget=PoolBudget.model_validate(budget),
        tokens_by_age=tokens_by_age(pool.standings, pool.now),
        circuits=Circuits(open=pool.circuits(CircuitState.OPEN), half_open=pool.circuits(CircuitState.HALF_OPEN)),
        breaker=BreakerShown(
            state=pool.breaker.state,
            min_available_percent=pool.rules.min_percent,
            opened_at=pool.breaker.opened_at,
            message=pool.refusal,
        ),
        next_free_at=pool.next_free_at,
        too_many_last_hour=[
            TooMany(agent_id=s.agent.user_agent_id, number=s.row, count=s.too_many) for s in pool.too_many
        ],
        windows_full=None if full is None else WindowsFull(why=full[0], until=full[1]),
    )
