"""Agents: the pool as a heat map, one agent's hour, and what can be done with one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

from fastapi import APIRouter
from starlette.responses import Response

from sellerwatch.agents import commands, pool_status, queries
from sellerwatch.agents.agent import AgentName, AgentStatus
from sellerwatch.agents.agent_status import CircuitEventView
from sellerwatch.agents.commands import ChangedAgentsView
from sellerwatch.agents.pool_status import PoolStatusView
from sellerwatch.agents.queries import AgentDetailView, AgentView
from sellerwatch.operations.recount import recount_pool
from sellerwatch.reports.agent_minutes import AgentMinutesView, agent_minutes
from sellerwatch.web.console import tables
from sellerwatch.web.console.audit import ENTRIES
from sellerwatch.web.console.page_request import Admin, Viewer, Visit, number_of
from sellerwatch.web.console.rendering import PageRoute, ask_first, go, refuse, show
from sellerwatch.web.console.tables import Chart, Columns, Filter, Table

router = APIRouter(route_class=PageRoute, include_in_schema=False)

LONGEST_SUSPENSION_HOURS = 24 * 365
SORTS: dict[str, Callable[[AgentView], tuple[int, int]]] = {
    "number": lambda agent: (agent.number, 0),
    "health": lambda agent: (agent.health_score, agent.number),
    "budget": lambda agent: (agent.budget.left, agent.number),
}


def why_of(agent: AgentView) -> str | None:
    """Return the key of the text for what keeps an agent from making a request."""
    return None if agent.why_code is None else f"agent.why_{agent.why_code.lower()}"


def _why(agent: AgentView) -> tables.Cell:
    key = why_of(agent)
    return tables.text(None) if key is None else tables.said(key)


def _state(state: str | None) -> tables.Cell:
    return tables.text(None) if state is None else tables.pill(state, "circuit")


AGENTS: Columns[AgentView] = {
    "agent": lambda agent: tables.text(f"#{agent.number}", f"/agents/{agent.number}"),
    "status": lambda agent: tables.pill(agent.status),
    "health": lambda agent: tables.number(agent.health_score),
    "used": lambda agent: tables.number(agent.budget.used),
    "left": lambda agent: tables.number(agent.budget.left),
    "circuit": lambda agent: tables.pill(agent.circuit.state, "circuit"),
    "token": lambda agent: tables.said(f"token.{agent.token_age}"),
    "429": lambda agent: tables.number(agent.too_many_last_hour),
    "why": _why,
    "back": lambda agent: tables.when(agent.back_at),
}
CIRCUIT_EVENTS: Columns[CircuitEventView] = {
    "time": lambda event: tables.when(event.at),
    "before": lambda event: _state(event.from_state),
    "after": lambda event: _state(event.to_state),
}


@router.get("/agents")
async def agents(visit: Viewer) -> Response:
    status, sort = visit.asked("status"), visit.asked("sort")
    session = visit.operations
    pool = await session.ask(pool_status.pool_status, session.pool)
    known = await session.ask(queries.list_agents, session.pool, None)
    shown = [agent for agent in known.content if not status or agent.status == status]
    shown.sort(key=SORTS.get(sort, SORTS["number"]))
    return show(
        visit,
        "agents.html",
        pool=pool,
        shown=shown,
        why_of=why_of,
        table=Table.of("agents", shown, AGENTS, "agents.none_found", caption="nav.agents"),
        fields=[
            Filter("status", "col.status", status, [(s, f"status.{s}") for s in AgentStatus]),
            Filter("sort", "agents.sort", sort, [(s, f"agents.by_{s}") for s in SORTS]),
        ],
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
