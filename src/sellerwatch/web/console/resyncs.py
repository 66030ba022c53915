"""Resyncs: ask for one after a preview in numbers, see how far each is, cancel one."""

from __future__ import annotations

from datetime import datetime

from fastapi import APIRouter
from starlette.responses import Response

from sellerwatch.catalog import resync_queries
from sellerwatch.catalog.resync import ResyncChoice, ResyncStatus
from sellerwatch.catalog.resync_queries import ResyncView
from sellerwatch.kernel.errors import SellerwatchError
from sellerwatch.kernel.ids import ResyncId
from sellerwatch.kernel.store import StoreFailed
from sellerwatch.operations.resyncs import cancel_resync, start_resync
from sellerwatch.web.api.cursors import seller_of, utc
from sellerwatch.web.api.errors import status_of
from sellerwatch.web.console import tables
from sellerwatch.web.console.page_request import Admin, Viewer, Visit, one_of
from sellerwatch.web.console.rendering import PageRoute, ask_first, go, show, show_list
from sellerwatch.web.console.tables import Columns, Filter, seller_page

router = APIRouter(route_class=PageRoute, include_in_schema=False)

RESYNCS: Columns[ResyncView] = {
    "resync": lambda resync: tables.code(resync.resync_id, f"/resyncs/{resync.resync_id}"),
    "seller": lambda resync: _seller(resync.seller_id),
    "status": lambda resync: tables.pill(resync.status),
    "snapshots": lambda resync: tables.bar(resync.written, resync.total),
    "requested_by": lambda resync: tables.code(resync.requested_by),
    "made": lambda resync: tables.when(resync.created_at),
    "ended": lambda resync: tables.when(resync.ended_at),
}


def _seller(seller_id: str | None) -> tables.Cell:
    return tables.said("resync.all") if seller_id is None else tables.text(seller_id, seller_page(seller_id))


@router.get("/resyncs")
async def resyncs(visit: Viewer) -> Response:
    seller, status = visit.asked("seller"), visit.asked("status")
    seller_id, wanted = seller_of(seller or None), one_of(ResyncStatus, status)
    page = await visit.operations.ask(resync_queries.list_resyncs, seller_id, wanted, visit.cursor, visit.rows)
    return show_list(
        visit,
        "resyncs",
        page.content,
        RESYNCS,
        fields=[
            Filter("seller", "col.seller_id", seller),
            Filter("status", "col.status", status, [(s, f"status.{s}") for s in ResyncStatus]),
        ],
        next_=visit.page_after(page),
        live="resync",
        buttons=[("/products/resync", "resync.button")],
    )


@router.get("/products/resync")
async def ask_resync(visit: Admin) -> Response:
    """Show in numbers what a resync of this choice would send."""
    return await _ask(visit, visit.asked("seller"), visit.asked("since"))


@router.post("/products/resync")
async def resync(visit: Admin) -> Response:
    seller, since = visit.form.get("seller", "").strip(), visit.form.get("since", "").strip()
    try:
        started = await visit.operations.run(start_resync, _choice(visit, seller, since))
    except StoreFailed:
        raise
    except SellerwatchError:
        return await _ask(visit, seller, since)
    return go(visit, f"/resyncs/{started.resync_id}", "resync.started", n=started.products)


async def _ask(visit: Visit, seller: str, since: str) -> Response:
    found, problem, status = None, None, 200
    try:
        found = await visit.operations.run(start_resync, _choice(visit, seller, since), dry_run=True)
    except StoreFailed:
        raise
    except SellerwatchError as error:
        problem, status = visit.refusal(error), status_of(type(error))
    fields = [
        Filter("seller", "col.seller_id", seller),
        Filter("since", "resync.since", since, kind="datetime-local"),
    ]
    return show(
        visit, "resync_ask.html", status=status, found=found, problem=problem, fields=fields, seller=seller, since=since
    )


def _choice(visit: Visit, seller: str, since: str) -> ResyncChoice:
    """Return the choice that was typed. A time without a zone is one of the zone in which the console shows times;
    what is no time is left out."""
    try:
        typed = datetime.fromisoformat(since) if since else None
    except ValueError:
        typed = None
    if typed is not None and typed.tzinfo is None:
        typed = typed.replace(tzinfo=visit.zone)
    return ResyncChoice(seller_of(seller or None), utc(typed))


@router.get("/resyncs/{resync_id}")
async def resync_page(resync_id: str, visit: Viewer) -> Response:
    found = await visit.operations.ask(resync_queries.show_resync, ResyncId.parse(resync_id))
    return show(visit, "resync.html", resync=found)


@router.get("/resyncs/{resync_id}/cancel")
async def confirm_cancel(resync_id: str, visit: Admin) -> Response:
    wanted = ResyncId.parse(resync_id)
    found = await visit.operations.run(cancel_resync, wanted, dry_run=True)
    sentences = [("resync.left", {"n": found.total - found.written}), ("resync.sent", {"n": found.written})]
    return ask_first(visit, "resync.cancel_title", "resync.cancel", sentences, f"/resyncs/{wanted}")


@router.post("/resyncs/{resync_id}/cancel")
async def cancel(resync_id: str, visit: Admin) -> Response:
    found = await visit.operations.run(cancel_resync, ResyncId.parse(resync_id))
    return go(visit, f"/resyncs/{found.resync_id}", "resync.cancelled", n=found.written)
