"""Agents: the pool as a heat map, one agent's hour, and what can be done with one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from fastapi import APIRouter
from starlette.responses import Response

from sellerwatch.agents import commands
from sellerwatch.agents.agent import LONGEST_REASON, AgentStatus
from sellerwatch.agents.agent_status import AgentDetails, CircuitEvent, tokens_by_age
from sellerwatch.agents.commands import AgentName, Moved, find_agent
from sellerwatch.agents.overview import Pool
from sellerwatch.agents.ports import LastHour
from sellerwatch.agents.record_outcomes import standing_notice
from sellerwatch.compose.rules import tuning_in_force
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.clock import moment
from sellerwatch.operations.ports import ServiceTx
from sellerwatch.oversight.audit import AuditEntry
from sellerwatch.oversight.queries import AuditEntryView
from sellerwatch.reports.dashboard import Asked
from sellerwatch.web.api.context import Desk
from sellerwatch.web.console import tables
from sellerwatch.web.console.audit import entries_table
from sellerwatch.web.console.overview import counts_of, pool_of
from sellerwatch.web.console.page_request import Admin, Viewer, Visit
from sellerwatch.web.console.rendering import PageRoute, go, show
from sellerwatch.web.console.sellers import number_of
from sellerwatch.web.console.tables import Chart, Confirm, Filter, Table

router = APIRouter(route_class=PageRoute, include_in_schema=False)

HOUR = timedelta(hours=1)
LAST_EVENTS = 10
MOST_ASKED = 5000
LONGEST_REST_HOURS = 24 * 365
SORTS = ("number", "health", "budget")


def why_of(standing: AgentDetails, now: datetime) -> str | None:
    """What keeps an agent from making a request, as a key of the catalogue; the domain says it in English alone."""
    if standing.agent.status is not AgentStatus.AVAILABLE:
        return f"agent.why_{standing.agent.status.lower()}"
    if standing.circuit.state is not CircuitState.CLOSED and not standing.circuit.may_probe(now):
        return "agent.why_circuit" if standing.circuit.state is CircuitState.OPEN else "agent.why_probe"
    if standing.window.full_until is not None:
        return "agent.why_full"
    return None if standing.window.left else "agent.why_spent"


@router.get("/agents")
async def agents(visit: Viewer) -> Response:
    at, status = moment(visit.parts.clock), visit.asked("status")
    sort = visit.asked("sort") if visit.asked("sort") in SORTS else "number"
    pool = await visit.read(lambda tx: pool_of(tx, visit.parts, at))
    shown = [one for one in pool.standings if not status or one.agent.status == status]
    if sort == "health":
        shown.sort(key=lambda one: (one.agent.health_score, one.row))
    elif sort == "budget":
        shown.sort(key=lambda one: (one.window.left, one.row))
    return show(
        visit,
        "agents.html",
        pool=pool,
        counts=counts_of(pool),
        shown=shown,
        why_of=lambda one: why_of(one, at.now),
        table=_table(shown, at.now),
        tokens=tokens_by_age(pool.standings, at.now),
        fields=[
            Filter("status", "col.status", status, [(s, f"status.{s}") for s in AgentStatus]),
            Filter("sort", "agents.sort", visit.asked("sort"), [(s, f"agents.by_{s}") for s in SORTS]),
        ],
        circuits=_circuits(pool),
    )


def _circuits(pool: Pool) -> int:
    return pool.circuits(CircuitState.OPEN) + pool.circuits(CircuitState.HALF_OPEN)


def _table(standings: Sequence[AgentDetails], now: datetime) -> Table:
    return Table(
        "agents",
        (
            "col.agent",
            "col.status",
            "col.health",
            "col.used",
            "col.left",
            "col.circuit",
            "col.token",
            "col.429",
            "col.why",
            "col.back",
        ),
        [
            (
                tables.text(f"#{one.row}", f"/agents/{one.row}"),
                tables.pill(one.agent.status),
                tables.number(one.agent.health_score),
                tables.number(one.window.used),
                tables.number(one.window.left),
                tables.pill(one.circuit.state, "circuit"),
                tables.said(f"token.{one.token_age(now)}"),
                tables.number(one.too_many),
                tables.text(None) if why_of(one, now) is None else tables.said(why_of(one, now) or ""),
                tables.when(one.back_at(now)),
            )
            for one in standings
        ],
        "agents.none_found",
        caption="nav.agents",
    )


@dataclass(frozen=True)
class Seen:
    standing: AgentDetails
    hour: LastHour
    asked: Sequence[Asked]
    circuit_events: Sequence[CircuitEvent]
    entries: Sequence[AuditEntry]


@router.get("/agents/{agent}")
async def agent_page(agent: str, visit: Viewer) -> Response:
    at, name, parts = moment(visit.parts.clock), AgentName.parse(agent), visit.parts

    def work(tx: ServiceTx) -> Seen:
        stored = find_agent(tx, name)
        limits = tuning_in_force(parts.settings, tx.overrides.all()).limits
        standing = next(one for one in tx.pool_report.standings(at, limits) if one.row == stored.row)
        agent_id = stored.agent.user_agent_id
        return Seen(
            standing,
            tx.usage_log.last_hour(stored.row, at.now),
            tx.dashboard.asked(stored.row, at.now - HOUR, at.now + HOUR, MOST_ASKED),
            tx.pool_report.circuit_events(stored.row, LAST_EVENTS),
            tx.audit.newest(limit=LAST_EVENTS, subject_type="agent", subject_id=agent_id),
        )

    seen = await visit.read(work)
    events = Table(
        "circuit",
        ("col.time", "col.before", "col.after"),
        [(tables.when(one.at), _state(one.from_state), _state(one.to_state)) for one in seen.circuit_events],
        "agent.no_circuit",
        caption="agent.circuit_events",
    )
    return show(
        visit,
        "agent.html",
        seen=seen,
        one=seen.standing,
        why=why_of(seen.standing, at.now),
        back_at=seen.standing.back_at(at.now),
        token=seen.standing.token_age(at.now),
        chart=_hour(seen.asked, at.now),
        events=events,
        entries=entries_table([AuditEntryView.of(entry) for entry in seen.entries], None, "agent.no_entries"),
    )


def _state(state: str | None) -> tables.Cell:
    return tables.text(None) if state is None else tables.pill(state, "circuit")


def _hour(asked: Sequence[Asked], now: datetime) -> Chart:
    """The hour, minute by minute: what succeeded, and what did not."""
    first = (now - HOUR).replace(second=0, microsecond=0)
    minutes = 61
    good, bad = [0] * minutes, [0] * minutes
    for one in asked:
        place = int((one.at - first) / timedelta(minutes=1))
        if 0 <= place < minutes:
            (good if one.succeeded else bad)[place] += 1
    x = [(first + timedelta(minutes=n)).timestamp() for n in range(minutes)]
    series: list[tuple[str, str, Sequence[float | None]]] = [
        ("chart.succeeded", "ok", [float(n) for n in good]),
        ("chart.failed", "bad", [float(n) for n in bad]),
    ]
    return Chart("hour", "agent.hour", x if asked else [], series)


@router.get("/agents/{agent}/suspend")
async def confirm_suspend(agent: str, visit: Admin) -> Response:
    hours = max(1, round(visit.parts.settings.agent_suspension_seconds / 3600))
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
    """What is left of the pool without it."""
    name, at = AgentName.parse(agent), moment(visit.parts.clock)

    def work(tx: ServiceTx) -> tuple[int, Pool]:
        return find_agent(tx, name).row, pool_of(tx, visit.parts, at)

    row, pool = await visit.read(work)
    available = pool.count(AgentStatus.AVAILABLE)
    standing = next(one for one in pool.standings if one.row == row)
    left = available - (standing.agent.status is AgentStatus.AVAILABLE)
    return show(
        visit,
        "confirm.html",
        confirm=Confirm(
            f"{verb}.agent",
            f"/agents/{row}/{verb}",
            f"{verb}.button",
            [
                (f"{verb}.what", {}),
                ("agent.left", {"n": left, "total": len(pool.standings), "least": pool.rules.min_percent}),
                ("agent.budget_lost", {"n": standing.window.left}),
            ],
            f"/agents/{row}",
            fields=fields,
            facts={"n": row},
        ),
    )


@router.post("/agents/{agent}/suspend")
async def suspend(agent: str, visit: Admin) -> Response:
    hours = min(max(1, number_of(visit.form.get("hours", ""), 1)), LONGEST_REST_HOURS)
    reason = _reason(visit)

    def work(tx: ServiceTx, desk: Desk, name: AgentName) -> Moved:
        return commands.suspend_agents(tx, [name], hours * HOUR, reason, actor=desk.actor, now=desk.now)

    return await _moved(visit, agent, "suspend", work, alert=True)


@router.post("/agents/{agent}/recover")
async def recover(agent: str, visit: Admin) -> Response:
    return await _moved(
        visit, agent, "recover", lambda tx, at, n: commands.recover_agents(tx, [n], actor=at.actor, now=at.now)
    )


@router.post("/agents/{agent}/block")
async def block(agent: str, visit: Admin) -> Response:
    reason = _reason(visit)

    def work(tx: ServiceTx, desk: Desk, name: AgentName) -> Moved:
        return commands.block_agents(tx, [name], reason, actor=desk.actor, now=desk.now)

    return await _moved(visit, agent, "block", work, alert=True)


@router.post("/agents/{agent}/unblock")
async def unblock(agent: str, visit: Admin) -> Response:
    return await _moved(
        visit, agent, "unblock", lambda tx, at, n: commands.unblock_agents(tx, [n], actor=at.actor, now=at.now)
    )


@router.post("/agents/{agent}/rotate")
async def rotate(agent: str, visit: Admin) -> Response:
    return await _moved(
        visit, agent, "rotate", lambda tx, at, n: commands.rotate_tokens(tx, [n], actor=at.actor, now=at.now)
    )


@router.post("/agents/{agent}/remove")
async def remove(agent: str, visit: Admin) -> Response:
    at, parts = moment(visit.parts.clock), visit.parts

    def work(tx: ServiceTx, desk: Desk, name: AgentName) -> Moved:
        limits = tuning_in_force(parts.settings, tx.overrides.all()).limits
        return commands.remove_agents(tx, [name], limits, actor=desk.actor, at=at)

    return await _moved(visit, agent, "remove", work, to="/agents")


def _reason(visit: Visit) -> str:
    return " ".join(visit.form.get("reason", "").split())[:LONGEST_REASON] or f"by {visit.actor}"


async def _moved(
    visit: Visit,
    agent: str,
    verb: str,
    work: Callable[[ServiceTx, Desk, AgentName], Moved],
    *,
    alert: bool = False,
    to: str | None = None,
) -> Response:
    name = AgentName.parse(agent)
    moved = await visit.change(lambda tx, desk: work(tx, desk, name))
    if moved.handled.refused:
        raise moved.handled.refused[0].error
    if alert:
        visit.parts.service.crawl.tell([standing_notice(one) for one in moved.agents])
    return go(visit, to or f"/agents/{name}", f"{verb}.done_agent", n=name)
