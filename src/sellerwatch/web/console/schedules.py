"""Schedules: when sellers are crawled next, the coming day hour by hour, and whether the budget has room for it."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from sellerwatch.kernel.ids import SellerId
from sellerwatch.reports.schedule_outlook import PlannedSellerView, schedule_outlook
from sellerwatch.schedules.schedule import ScheduleStatus
from sellerwatch.sellers import commands
from sellerwatch.web.console import tables
from sellerwatch.web.console.page_request import Admin, Viewer, number_of
from sellerwatch.web.console.rendering import PageRoute, go, show
from sellerwatch.web.console.tables import Columns, Filter, Table, seller_page

router = APIRouter(route_class=PageRoute, include_in_schema=False)

SCHEDULES: Columns[PlannedSellerView] = {
    "seller": lambda seller: tables.text(seller.name, seller_page(seller.seller_id)),
    "status": lambda seller: tables.pill(seller.schedule_status) if seller.schedule_status else tables.text(None),
    "interval": lambda seller: tables.said(f"every.{seller.interval.unit}", n=seller.interval.amount),
    "next": lambda seller: tables.when(seller.next_run_at),
    "requests": lambda seller: tables.number(seller.requests),
    "read": lambda seller: tables.when(seller.fresh_as_of),
}


@router.get("/schedules")
async def schedules(visit: Viewer) -> Response:
    status, page, session = visit.asked("status"), number_of(visit.asked("page")), visit.operations
    outlook = await session.ask(schedule_outlook, session.pool, session.rules.page_size)
    chosen = [seller for seller in outlook.sellers if not status or seller.schedule_status == status]
    begin, end = page * visit.rows, (page + 1) * visit.rows
    table = Table.of(
        "schedules",
        chosen[begin:end],
        SCHEDULES,
        "schedules.none_found" if status else "schedules.empty",
        next_=visit.link(page=str(page + 1)) if end < len(chosen) else None,
        caption="nav.schedules",
    )
    return show(
        visit,
        "schedules.html",
        outlook=outlook,
        failed=[seller for seller in outlook.sellers if seller.schedule_status is ScheduleStatus.FAILED],
        table=table,
        fields=[Filter("status", "col.status", status, [(s, f"status.{s}") for s in ScheduleStatus])],
    )


@router.post("/schedules/{seller_id:path}/retry")
async def retry(seller_id: str, visit: Admin) -> Response:
    wanted = SellerId.parse(seller_id)
    retried = await visit.operations.run(commands.retry_schedule, wanted)
    return go(visit, seller_page(wanted), "schedules.retried", n=retried.messages)


@router.post("/schedules/{seller_id:path}/run-now")
async def run_now(seller_id: str, visit: Admin) -> Response:
    wanted = SellerId.parse(seller_id)
    await visit.operations.run(commands.run_now, wanted)
    return go(visit, seller_page(wanted), "schedules.due")
