"""Schedules: when sellers are crawled next, the coming day hour by hour, and whether the budget has room for it."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter
from starlette.responses import Response

from sellerwatch.compose.rules import tuning_in_force
from sellerwatch.kernel.clock import moment
from sellerwatch.kernel.ids import SellerId
from sellerwatch.operations.ports import ServiceTx
from sellerwatch.reports.dashboard import Freshness
from sellerwatch.schedules.forecast import Budget
from sellerwatch.schedules.missed import starts_at
from sellerwatch.schedules.outlook import HOUR, HOURS, coming_day, requests_of
from sellerwatch.schedules.schedule import Schedule, ScheduleStatus
from sellerwatch.sellers.commands import retry_schedule, run_now
from sellerwatch.web.api.context import Desk
from sellerwatch.web.console import tables
from sellerwatch.web.console.page_request import Admin, Viewer
from sellerwatch.web.console.rendering import PageRoute, go, show
from sellerwatch.web.console.sellers import number_of
from sellerwatch.web.console.tables import Filter, Table, seller_page

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/schedules")
async def schedules(visit: Viewer) -> Response:
    at, status, page = moment(visit.parts.clock), visit.asked("status"), number_of(visit.asked("page"))

    def work(tx: ServiceTx) -> tuple[Sequence[Freshness], Budget]:
        tuning = tuning_in_force(visit.parts.settings, tx.overrides.all())
        standings = tx.pool_report.standings(at, tuning.limits)
        return tx.dashboard.freshness(), Budget.of(standings, tuning.limits, tuning.host)

    sellers, budget = await visit.read(work)
    room, end = budget.within(HOUR), at.now + (HOURS + 1) * HOUR
    rhythms = [one.rhythm(visit.parts.settings.page_size) for one in sellers]
    hours = coming_day([run for rhythm in rhythms for run in rhythm.starts(at.now, end)], room, at.now)
    shown = [one for one in sellers if not status or one.schedule == status]
    table = Table(
        "schedules",
        ("col.seller", "col.status", "col.interval", "col.next", "col.requests", "col.read"),
        [
            (
                tables.text(one.name, seller_page(one.seller_id)),
                tables.text(None) if one.schedule is None else tables.pill(one.schedule),
                tables.said(f"every.{one.interval.unit}", n=one.interval.amount),
                tables.when(starts_at(one)),
                tables.number(requests_of(one.products, visit.parts.settings.page_size)),
                tables.when(one.fresh_as_of),
            )
            for one in sorted(shown, key=lambda one: (starts_at(one) is None, starts_at(one) or at.now))[
                page * visit.rows : (page + 1) * visit.rows
            ]
        ],
        "schedules.none_found" if status else "schedules.empty",
        next=visit.link(page=str(page + 1)) if (page + 1) * visit.rows < len(shown) else None,
        caption="nav.schedules",
    )
    return show(
        visit,
        "schedules.html",
        hours=hours,
        room=room,
        asked=sum(hour.asked for hour in hours),
        left=hours[-1].over,
        failed=[one for one in sellers if one.schedule is ScheduleStatus.FAILED],
        table=table,
        fields=[Filter("status", "col.status", status, [(s, f"status.{s}") for s in ScheduleStatus])],
        now=at.now,
    )


@router.post("/schedules/{seller_id}/retry")
async def retry(seller_id: str, visit: Admin) -> Response:
    wanted = SellerId.parse(seller_id)

    def work(tx: ServiceTx, desk: Desk) -> int:
        return retry_schedule(tx, wanted, actor=desk.actor, ids=desk.ids, now=desk.now)[1]

    return go(visit, seller_page(wanted), "schedules.retried", n=await visit.change(work))


@router.post("/schedules/{seller_id}/run-now")
async def run_schedule_now(seller_id: str, visit: Admin) -> Response:
    wanted = SellerId.parse(seller_id)

    def work(tx: ServiceTx, desk: Desk) -> Schedule:
        return run_now(tx, wanted, actor=desk.actor, now=desk.now)

    await visit.change(work)
    return go(visit, seller_page(wanted), "schedules.due")
