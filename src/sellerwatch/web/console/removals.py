"""Removals: products that disappeared from a seller's list, too many at once, for a person to decide."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from sellerwatch.catalog import removal_queries
from sellerwatch.catalog.removal import RemovalStatus
from sellerwatch.catalog.removal_queries import RemovalView
from sellerwatch.kernel.ids import RemovalId
from sellerwatch.operations.catalog_changes import MOST_STEPS
from sellerwatch.operations.removals import confirm_removal, refuse_removal
from sellerwatch.web.api.cursors import seller_of
from sellerwatch.web.console import tables
from sellerwatch.web.console.page_request import Admin, Viewer
from sellerwatch.web.console.rendering import PageRoute, go, show
from sellerwatch.web.console.tables import Confirm, Filter, Table, seller_page

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/removals")
async def removals(visit: Viewer) -> Response:
    seller, status = visit.asked("seller"), visit.asked("status")
    wanted = RemovalStatus(status) if status in list(RemovalStatus) else None
    seller_id = seller_of(seller or None)
    page = await visit.operations.ask(removal_queries.list_removals, seller_id, wanted, visit.cursor, visit.rows)
    table = Table(
        "removals",
        (
            "col.removal",
            "col.seller",
            "col.status",
            "col.reason",
            "col.missing",
            "col.told",
            "col.made",
            "col.decided_by",
        ),
        [_row(removal) for removal in page.content],
        "removals.none_found" if seller or status else "removals.empty",
        next=visit.link(cursor=page.next) if page.next else None,
        caption="nav.removals",
    )
    return show(
        visit,
        "list.html",
        title="nav.removals",
        lead="removals.lead",
        table=table,
        live="removal execution",
        fields=[
            Filter("seller", "col.seller_id", seller),
            Filter("status", "col.status", status, [(s, f"removal.{s}") for s in RemovalStatus]),
        ],
    )


def _row(removal: RemovalView) -> tuple[tables.Cell, ...]:
    return (
        tables.code(removal.removal_id, f"/removals/{removal.removal_id}"),
        tables.text(removal.seller_id, seller_page(removal.seller_id)),
        tables.pill(removal.status, "removal"),
        tables.said(f"removal.{removal.reason}"),
        tables.number(removal.missing),
        tables.number(removal.told),
        tables.when(removal.created_at),
        tables.code(removal.decided_by),
    )


@router.get("/removals/{removal_id}")
async def removal_page(removal_id: str, visit: Viewer) -> Response:
    removal = await visit.operations.ask(removal_queries.show_removal, RemovalId.parse(removal_id))
    table = Table(
        "missing",
        ("col.item", "col.name", "col.seen"),
        [
            (
                tables.text(product.item_no, f"/products/{product.item_no}"),
                tables.text(product.name),
                tables.when(product.last_seen_at),
            )
            for product in removal.items
        ],
        "removal.none_missing",
        caption="removal.missing",
    )
    return show(visit, "removal.html", removal=removal, table=table)


@router.get("/removals/{removal_id}/confirm")
async def ask_confirm(removal_id: str, visit: Admin) -> Response:
    removal = await visit.operations.ask(removal_queries.show_removal, RemovalId.parse(removal_id))
    still, seen_again = removal.still_missing, removal.missing - removal.still_missing
    share = round(100 * still / removal.told) if removal.told else 100
    page = f"/removals/{removal.removal_id}"
    return show(
        visit,
        "confirm.html",
        confirm=Confirm(
            "remove.products",
            f"{page}/confirm",
            "remove.confirm",
            [
                ("remove.told", {"n": still, "total": removal.told, "share": share}),
                ("remove.events", {"n": still}),
                *([("remove.seen", {"n": seen_again})] if seen_again > 0 else []),
            ],
            page,
            facts={"seller": removal.seller_id},
        ),
    )


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
