"""Agents: the pool as a heat map, one agent's hour, and what can be done with one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from fastapi import APIRouter
from starlette.responses import Response

from sellerwatch.agents import commands, pool_status, queries
from sellerwatch.agents.agent import AgentName, AgentStatus
from sellerwatch.agents.agent_list import AgentChoice, AgentSort, ListedAgentView, list_agents
from sellerwatch.agents.agent_status import CircuitEventView
from sellerwatch.agents.budget_history import BudgetHistoryView, budget_history
from sellerwatch.agents.commands import ChangedAgentsView
from sellerwatch.agents.open_circuits import OpenCircuitView, list_open_circuits
from sellerwatch.agents.pool_status import PoolStatusView
from sellerwatch.agents.queries import AgentDetailView, AgentView
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.operations.recount import recount_pool
from sellerwatch.reports.agent_minutes import AgentMinutesView, agent_minutes
from sellerwatch.web.console import tables
from sellerwatch.web.console.audit import ENTRIES
from sellerwatch.web.console.page_request import Admin, Viewer, Visit, number_of, one_of
from sellerwatch.web.console.rendering import PageRoute, ask_first, go, refuse, show
from sellerwatch.web.console.tables import Chart, Columns, Filter, Table

router = APIRouter(route_class=PageRoute, include_in_schema=False)

LONGEST_SUSPENSION_HOURS = 24 * 365
#: Times in which requests can be counted, in hours.
RANGES = (1, 24, 168)


def why_of(agent: AgentView) -> str | None:
    """Return the key of the text for what keeps an agent from making a request."""
    return None if agent.why_code is None else f"agent.why_{agent.why_code.lower()}"


def _why(agent: AgentView) -> tables.Cell:
    key = why_of(agent)
    return tables.text(None) if key is None else tables.said(key)


def _state(state: str | None) -> tables.Cell:
    return tables.text(None) if state is None else tables.pill(state, "circuit")


AGENTS: Columns[ListedAgentView] = {
    "agent": lambda agent: tables.text(f"#{agent.number}", f"/agents/{agent.number}"),
    "user_agent": lambda agent: tables.raw(agent.user_agent),
    "status": lambda agent: tables.pill(agent.status),
    "health": lambda agent: tables.number(agent.health_score),
    "used": lambda agent: tables.number(agent.budget.used),
    "left": lambda agent: tables.number(agent.budget.left),
    "circuit": lambda agent: tables.pill(agent.circuit.state, "circuit"),
    "token": lambda agent: tables.said(f"token.{agent.token_age}"),
    "requests": lambda agent: tables.number(agent.requests),
    "failed": lambda agent: tables.number(agent.failed),
    "success_rate": lambda agent: tables.number(agent.success_rate),
    "429": lambda agent: tables.number(agent.too_many),
    "last_429": lambda agent: tables.when(agent.last_too_many_at),
    "why": _why,
    "back": lambda agent: tables.when(agent.back_at),
}
TOKENS: Columns[ListedAgentView] = {
    "agent": lambda agent: tables.text(f"#{agent.number}", f"/agents/{agent.number}"),
    "user_agent": lambda agent: tables.raw(agent.user_agent),
    "token": lambda agent: tables.said(f"token.{agent.token_age}"),
    "issued": lambda agent: tables.when(agent.token.issued_at if agent.token else None),
    "expires": lambda agent: tables.when(agent.token.expires_at if agent.token else None),
    "renewal": lambda agent: tables.when(agent.token.next_refresh_at if agent.token else None),
    "renewals_failed": lambda agent: tables.number(agent.token.failures_in_a_row if agent.token else None),
}
TOKEN_SORTS = (AgentSort.TOKEN_AGE, AgentSort.RENEWAL, AgentSort.RENEWAL_FAILURES)
OPEN_CIRCUITS: Columns[OpenCircuitView] = {
    "agent": lambda circuit: tables.text(f"#{circuit.number}", f"/agents/{circuit.number}"),
    "user_agent": lambda circuit: tables.raw(circuit.user_agent),
    "circuit": lambda circuit: tables.pill(circuit.state, "circuit"),
    "open_since": lambda circuit: tables.when(circuit.since),
    "probe_at": lambda circuit: tables.when(circuit.until),
    "led_by": lambda circuit: tables.raw(", ".join(str(each.status or each.outcome) for each in circuit.failures)),
}
CIRCUIT_EVENTS: Columns[CircuitEventView] = {
    "time": lambda event: tables.when(event.at),
    "what": lambda event: tables.said(f"event.{event.event_type}"),
    "answer": lambda event: tables.raw(event.status or event.outcome),
    "before": lambda event: _state(event.from_state),
    "after": lambda event: _state(event.to_state),
}


@router.get("/agents")
async def agents(visit: Viewer) -> Response:
    status, sort, circuit = visit.asked("status"), visit.asked("sort"), visit.asked("circuit")
    hours = next((each for each in RANGES if str(each) == visit.asked("hours")), None)
    session = visit.operations
    pool = await session.ask(pool_status.pool_status, session.pool)
    choice = AgentChoice(
        one_of(AgentStatus, status),
        one_of(CircuitState, circuit),
        one_of(AgentSort, sort) or AgentSort.NUMBER,
        None if hours is None else visit.now - timedelta(hours=hours),
    )
    shown = (await session.ask(list_agents, session.pool, choice)).content
    opened = await session.ask(list_open_circuits, session.pool)
    return show(
        visit,
        "agents.html",
        pool=pool,
        shown=shown,
        why_of=why_of,
        table=Table.of("agents", shown, AGENTS, "agents.none_found", caption="nav.agents"),
        circuits=Table.of("circuits", opened.content, OPEN_CIRCUITS, "circuits.none", caption="circuits.title"),
        budget_chart=_budget_chart(await session.ask(budget_history, session.pool)),
        fields=[
            Filter("status", "col.status", status, [(s, f"status.{s}") for s in AgentStatus]),
            Filter("circuit", "col.circuit", circuit, [(s, f"circuit.{s}") for s in CircuitState]),
            Filter("hours", "agents.time", visit.asked("hours"), [(str(n), f"agents.of.{n}") for n in RANGES]),
            Filter("sort", "agents.sort", sort, [(s, f"agents.by_{s}") for s in AgentSort if s not in TOKEN_SORTS]),
        ],
    )


def _budget_chart(history: BudgetHistoryView) -> Chart:
    """The last day: what was used of the budget, and what was left."""
    series: list[tuple[str, str, Sequence[float | None]]] = [
        ("chart.used", "accent", [float(point.used) for point in history.content]),
        ("chart.left", "ok", [float(point.left) for point in history.content]),
    ]
    x = [point.at.timestamp() for point in history.content]
    return Chart("budget", "agents.budget_day", x, series, unit="unit.requests")


@router.get("/agents/tokens")
async def tokens(visit: Viewer) -> Response:
    sort = visit.asked("sort")
    chosen = one_of(AgentSort, sort) or AgentSort.TOKEN_AGE
    found = await visit.operations.ask(list_agents, visit.operations.pool, AgentChoice(sort=chosen))
    return show(
        visit,
        "list.html",
        title="tokens.title",
        lead="tokens.lead",
        table=Table.of("tokens", found.content, TOKENS, "agents.none_found", caption="tokens.title"),
        fields=[Filter("sort", "agents.sort", sort, [(s, f"agents.by_{s}") for s in TOKEN_SORTS])],
        live="agent",
    )


@router.post("/agents/recount")
async def recount(visit: Admin) -> Response:
    done = await recount_pool(visit.operations)
    repaired = len(done.repaired) + done.limiter_repaired
    return go(visit, "/agents", "recount.repaired" if repaired else "recount.right", n=repaired or done.checked)


@router.get("/agents/add")
async def confirm_add(visit: Admin) -> Response:
    fields = [Filter("user_agent", "agent.user_agent", "", kind="text")]
    return ask_first(visit, "add.agent", "add.button", [("add.what", {})], "/agents", fields=fields, danger=False)


@router.post("/agents/add")
async def add(visit: Admin) -> Response:
    session = visit.operations
    added = await session.run(commands.add_agent, session.pool, visit.form.get("user_agent", ""))
    return go(visit, f"/agents/{added.number}", "add.done_agent", n=added.number)


@router.get("/agents/{agent}")
async def agent_page(agent: str, visit: Viewer) -> Response:
    name, session = AgentName.parse(agent), visit.operations
    one = await session.ask(queries.show_agent, session.pool, name)
    minutes = await session.ask(agent_minutes, name)
    events = Table.of("circuit", one.circuit_events, CIRCUIT_EVENTS, "agent.no_circuit", caption="agent.circuit_events")
    return show(
        visit,
        "agent.html",
        one=one,
        why=why_of(one),
        chart=_chart(minutes),
        events=events,
        entries=Table.of("audit", one.audit, ENTRIES, "agent.no_entries", caption="nav.audit"),
    )


def _chart(minutes: AgentMinutesView) -> Chart:
    """The hour, minute by minute: what succeeded, and what did not."""
    series: list[tuple[str, str, Sequence[float | None]]] = [
        ("chart.succeeded", "ok", [float(minute.succeeded) for minute in minutes.content]),
        ("chart.failed", "bad", [float(minute.failed) for minute in minutes.content]),
    ]
    return Chart("hour", "agent.hour", [minute.at.timestamp() for minute in minutes.content], series)


@router.get("/agents/{agent}/suspend")
async def confirm_suspend(agent: str, visit: Admin) -> Response:
    hours = max(1, round(visit.operations.pool.suspension / timedelta(hours=1)))
    fields = [
        Filter("hours", "agent.hours", str(hours), kind="number"),
        Filter("reason", "col.reason", "", kind="text"),
    ]
    return await _confirm(visit, agent, "suspend", fields)


@router.get("/agents/{agent}/block")
async def confirm_block(agent: str, visit: Admin) -> Response:
    return await _confirm(visit, agent, "block", [Filter("reason", "col.reason", "", kind="text")])


@router.get("/agents/{agent}/remove")
async def confirm_remove(agent: str, visit: Admin) -> Response:
    return await _confirm(visit, agent, "remove", [])


async def _confirm(visit: Visit, agent: str, verb: str, fields: Sequence[Filter]) -> Response:
    """Say what is left of the pool without the agent."""
    session = visit.operations
    one: AgentDetailView = await session.ask(queries.show_agent, session.pool, AgentName.parse(agent))
    pool: PoolStatusView = await session.ask(pool_status.pool_status, session.pool)
    left = pool.available_agents - (one.status is AgentStatus.AVAILABLE)
    least = pool.breaker.min_available_percent
    sentences = [
        (f"{verb}.what", {}),
        ("agent.left", {"n": left, "total": pool.total_agents, "least": least}),
        ("agent.budget_lost", {"n": one.budget.left}),
    ]
    page = f"/agents/{one.number}"
    return ask_first(visit, f"{verb}.agent", f"{verb}.button", sentences, page, fields=fields, n=one.number)


@router.post("/agents/{agent}/suspend")
async def suspend(agent: str, visit: Admin) -> Response:
    hours = min(max(1, number_of(visit.form.get("hours", ""), 1)), LONGEST_SUSPENSION_HOURS)
    session, length = visit.operations, timedelta(hours=hours)
    changed = await session.run(commands.suspend_agents, session.pool, [agent], length, _reason(visit))
    return _done(visit, agent, "suspend", changed)


@router.post("/agents/{agent}/recover")
async def recover(agent: str, visit: Admin) -> Response:
    return _done(visit, agent, "recover", await visit.operations.run(commands.recover_agents, [agent]))


@router.post("/agents/{agent}/block")
async def block(agent: str, visit: Admin) -> Response:
    changed = await visit.operations.run(commands.block_agents, [agent], _reason(visit))
    return _done(visit, agent, "block", changed)


@router.post("/agents/{agent}/unblock")
async def unblock(agent: str, visit: Admin) -> Response:
    return _done(visit, agent, "unblock", await visit.operations.run(commands.unblock_agents, [agent]))


@router.post("/agents/{agent}/rotate")
async def rotate(agent: str, visit: Admin) -> Response:
    return _done(visit, agent, "rotate", await visit.operations.run(commands.rotate_tokens, [agent]))


@router.post("/agents/{agent}/remove")
async def remove(agent: str, visit: Admin) -> Response:
    session = visit.operations
    changed = await session.run(commands.remove_agents, session.pool, [agent])
    return _done(visit, agent, "remove", changed, to="/agents")


def _reason(visit: Visit) -> str | None:
    return visit.form.get("reason", "").strip() or None


def _done(visit: Visit, agent: str, verb: str, changed: ChangedAgentsView, to: str | None = None) -> Response:
    """Lead on with a toast that says what was done, or why it was refused."""
    if changed.refused:
        return refuse(visit, changed.refused[0], f"/agents/{agent}")
    name = agent.removeprefix("#")
    return go(visit, to or f"/agents/{name}", f"{verb}.done_agent", n=name)
