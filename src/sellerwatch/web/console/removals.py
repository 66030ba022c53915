"""Removals: more products gone at once than a shop loses by itself. A person says whether they are."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from sellerwatch.catalog.queries import look_at_removal
from sellerwatch.catalog.removal import Removal, RemovalStatus
from sellerwatch.kernel.ids import RemovalId
from sellerwatch.kernel.paging import decode_cursor, encode_cursor
from sellerwatch.operations.catalog import Confirmed, confirm_removal, refuse_removal
from sellerwatch.operations.ports import ServiceTx
from sellerwatch.web.api.context import Desk
from sellerwatch.web.api.cursors import seller_of
from sellerwatch.web.api.removals import LIST, MOST_ITEMS, MOST_STEPS
from sellerwatch.web.console import tables
from sellerwatch.web.console.page_request import Admin, Viewer
from sellerwatch.web.console.rendering import PageRoute, go, show
from sellerwatch.web.console.tables import Confirm, Filter, Table, seller_page

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/removals")
async def removals(visit: Viewer) -> Response:
    seller, status = visit.asked("seller"), visit.asked("status")
    wanted = RemovalStatus(status) if status in list(RemovalStatus) else None
    position, seller_id = decode_cursor(LIST, visit.place("cursor")), seller_of(seller or None)
    piece = await visit.read(
        lambda tx: tx.removals.page(seller_id=seller_id, status=wanted, cursor=position, limit=visit.rows)
    )
    cursor = encode_cursor(LIST, piece.next)
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
        [
            (
                tables.code(one.removal_id, f"/removals/{one.removal_id}"),
                tables.text(one.seller_id, seller_page(one.seller_id)),
                tables.pill(one.status, "removal"),
                tables.said(f"removal.{one.reason}"),
                tables.number(one.missing),
                tables.number(one.told),
                tables.when(one.created_at),
                tables.code(one.decided_by),
            )
            for one in piece.content
        ],
        "removals.none_found" if seller or status else "removals.empty",
        next=visit.link(cursor=cursor) if cursor else None,
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


@router.get("/removals/{removal_id}")
async def removal_page(removal_id: str, visit: Viewer) -> Response:
    wanted = RemovalId.parse(removal_id)
    removal, still, first = await visit.read(lambda tx: look_at_removal(tx, wanted, MOST_ITEMS))
    table = Table(
        "missing",
        ("col.item", "col.name", "col.seen"),
        [
            (
                tables.text(product.item_no, f"/products/{product.item_no}"),
                tables.text(name),
                tables.when(product.last_seen_at),
            )
            for product, name in first
        ],
        "removal.none_missing",
        caption="removal.missing",
    )
    return show(visit, "removal.html", removal=removal, still=still, table=table)


@router.get("/removals/{removal_id}/confirm")
async def ask_confirm(removal_id: str, visit: Admin) -> Response:
    wanted = RemovalId.parse(removal_id)
    removal, still, _ = await visit.read(lambda tx: look_at_removal(tx, wanted, 1))
    share, back = round(100 * still / removal.told) if removal.told else 100, removal.missing - still
    return show(
        visit,
        "confirm.html",
        confirm=Confirm(
            "remove.products",
            f"/removals/{wanted}/confirm",
            "remove.confirm",
            [
                ("remove.told", {"n": still, "total": removal.told, "share": share}),
                ("remove.events", {"n": still}),
                *([("remove.seen", {"n": back})] if back > 0 else []),
            ],
            f"/removals/{wanted}",
            facts={"seller": removal.seller_id},
        ),
    )


@router.post("/removals/{removal_id}/confirm")
async def confirm(removal_id: str, visit: Admin) -> Response:
    wanted, rules = RemovalId.parse(removal_id), visit.parts.service.crawl.rules

    def work(tx: ServiceTx, desk: Desk) -> Confirmed:
        return confirm_removal(tx, wanted, rules, actor=desk.actor, ids=desk.ids, now=desk.now)

    removed = 0
    for _ in range(MOST_STEPS):
        step = await visit.change(work)
        removed += len(step.removed)
        if not step.left:
            break
    return go(visit, f"/removals/{wanted}", "remove.done", n=removed, left=step.left)


@router.post("/removals/{removal_id}/refuse")
async def refuse(removal_id: str, visit: Admin) -> Response:
    wanted = RemovalId.parse(removal_id)

    def work(tx: ServiceTx, desk: Desk) -> Removal:
        return refuse_removal(tx, wanted, actor=desk.actor, now=desk.now)

    await visit.change(work)
    return go(visit, f"/removals/{wanted}", "refuse.done")
