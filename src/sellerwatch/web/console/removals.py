"""Removals: products that disappeared from a seller's list, too many at once, for a person to decide."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from sellerwatch.catalog import removal_queries
from sellerwatch.catalog.removal import RemovalStatus
from sellerwatch.catalog.removal_queries import MissingProductView, RemovalView
from sellerwatch.kernel.ids import RemovalId
from sellerwatch.operations.catalog_changes import MOST_STEPS
from sellerwatch.operations.removals import confirm_removal, refuse_removal
from sellerwatch.web.api.cursors import seller_of
from sellerwatch.web.console import tables
from sellerwatch.web.console.page_request import Admin, Viewer, one_of
from sellerwatch.web.console.rendering import PageRoute, ask_first, go, show, show_list
from sellerwatch.web.console.tables import Columns, Filter, Table, seller_page

router = APIRouter(route_class=PageRoute, include_in_schema=False)


REMOVALS: Columns[RemovalView] = {
    "removal": lambda removal: tables.code(removal.removal_id, f"/removals/{removal.removal_id}"),
    "seller": lambda removal: tables.text(removal.seller_id, seller_page(removal.seller_id)),
    "status": lambda removal: tables.pill(removal.status, "removal"),
    "reason": lambda removal: tables.said(f"removal.{removal.reason}"),
    "missing": lambda removal: tables.number(removal.missing),
    "told": lambda removal: tables.number(removal.told),
    "made": lambda removal: tables.when(removal.created_at),
    "decided_by": lambda removal: tables.code(removal.decided_by),
}
MISSING: Columns[MissingProductView] = {
    "item": lambda product: tables.text(product.item_no, f"/products/{product.item_no}"),
    "name": lambda product: tables.text(product.name),
    "seen": lambda product: tables.when(product.last_seen_at),
}


@router.get("/removals")
async def removals(visit: Viewer) -> Response:
    seller, status = visit.asked("seller"), visit.asked("status")
    seller_id, wanted = seller_of(seller or None), one_of(RemovalStatus, status)
    page = await visit.operations.ask(removal_queries.list_removals, seller_id, wanted, visit.cursor, visit.rows)
    return show_list(
        visit,
        "removals",
        page.content,
        REMOVALS,
        fields=[
            Filter("seller", "col.seller_id", seller),
            Filter("status", "col.status", status, [(s, f"removal.{s}") for s in RemovalStatus]),
        ],
        next_=visit.page_after(page),
        live="removal execution",
    )


@router.get("/removals/{removal_id}")
async def removal_page(removal_id: str, visit: Viewer) -> Response:
    removal = await visit.operations.ask(removal_queries.show_removal, RemovalId.parse(removal_id))
    table = Table.of("missing", removal.items, MISSING, "removal.none_missing", caption="removal.missing")
    return show(visit, "removal.html", removal=removal, table=table)


@router.get("/removals/{removal_id}/confirm")
async def ask_confirm(removal_id: str, visit: Admin) -> Response:
    removal = await visit.operations.ask(removal_queries.show_removal, RemovalId.parse(removal_id))
    still, seen_again = removal.still_missing, removal.missing - removal.still_missing
    share = round(100 * still / removal.told) if removal.told else 100
    sentences = [("remove.told", {"n": still, "total": removal.told, "share": share}), ("remove.events", {"n": still})]
    if seen_again > 0:
        sentences.append(("remove.seen", {"n": seen_again}))
    page = f"/removals/{removal.removal_id}"
    return ask_first(visit, "remove.products", "remove.confirm", sentences, page, seller=removal.seller_id)


@router.post("/removals/{removal_id}/confirm")
async def confirm(removal_id: str, visit: Admin) -> Response:
    """Confirm as much as one request may; the button is still there for what is left."""
    removal = await confirm_removal(visit.operations, RemovalId.parse(removal_id), steps=MOST_STEPS)
    page = f"/removals/{removal.removal_id}"
    return go(visit, page, "remove.done", n=removal.removed, left=removal.still_missing)


@router.post("/removals/{removal_id}/refuse")
async def refuse(removal_id: str, visit: Admin) -> Response:
    removal = await visit.operations.run(refuse_removal, RemovalId.parse(removal_id))
    return go(visit, f"/removals/{removal.removal_id}", "refuse.done")
