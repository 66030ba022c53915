"""Products: the list, and one product with its three parts, its facts, and every version with its differences."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from sellerwatch.catalog import queries
from sellerwatch.catalog.changes import FoundFilter, FoundKind
from sellerwatch.catalog.product import NAMES, PARTS, PartName, ProductNotFound, ProductState
from sellerwatch.catalog.product_views import ProductEventView, ProductView
from sellerwatch.catalog.queries import ProductFilter
from sellerwatch.kernel.ids import ExecutionId, ItemNo
from sellerwatch.operations.refresh import RefreshView, refresh_products
from sellerwatch.web.api.cursors import seller_of
from sellerwatch.web.console import tables
from sellerwatch.web.console.page_request import Admin, Viewer, Visit, one_of
from sellerwatch.web.console.rendering import PageRoute, ask_first, go, show, show_list
from sellerwatch.web.console.tables import Columns, Filter, Sentence, Table, seller_page

router = APIRouter(route_class=PageRoute, include_in_schema=False)

#: Versions shown with their differences, newest first; older ones behind a link.
MOST_VERSIONS = 30
#: A field longer than this is cut where facts are shown; the body has it all.
LONGEST_VALUE = 300
#: Facts that have a place of their own on the page.
SHOWN_APART = ("images", "options", "descriptionHtml", "name", "itemNo", "sellerId")


PRODUCTS: Columns[ProductView] = {
    "item": lambda product: tables.text(product.item_no, f"/products/{product.item_no}"),
    "name": lambda product: tables.text(product.name),
    "status": lambda product: tables.pill(product.state),
    "price": lambda product: tables.number(product.selling_price),
    "stock": lambda product: tables.number(product.stock),
    "seller": lambda product: tables.text(product.seller_id, seller_page(product.seller_id)),
    "version": lambda product: tables.number(product.version),
    "updated": lambda product: tables.when(product.updated_at),
}
OPTIONS: Columns[Mapping[str, Any]] = {
    "option": lambda option: tables.text(option.get("optionNo")),
    "colour": lambda option: tables.text(option.get("color")),
    "size": lambda option: tables.text(option.get("size")),
    "stock": lambda option: tables.number(option.get("stock")),
}
EVENTS: Columns[ProductEventView] = {
    "event": lambda event: tables.code(event.outbox_id, f"/outbox/{event.outbox_id}"),
    "type": lambda event: tables.pill(event.event_type, "event"),
    "version": lambda event: tables.number(event.version),
    "status": lambda event: tables.pill(event.status),
    "tries": lambda event: tables.number(event.retry_count),
    "cause": lambda event: tables.raw(event.error_message),
    "made": lambda event: tables.when(event.created_at),
    "arrived": lambda event: tables.when(event.sent_at),
}


@router.get("/products")
async def products(visit: Viewer) -> Response:
    """Show the list. A search for an item number leads to that product's page; anything else is a part of the name."""
    search, seller, state = visit.asked("search"), visit.asked("seller"), visit.asked("state")
    if search.isascii() and search.isdecimal() and len(search) < 19:
        with suppress(ProductNotFound):
            found = await visit.operations.ask(queries.product_history, ItemNo(int(search)), 1)
            return go(visit, f"/products/{found.item_no}")
    run, kind = visit.asked("execution"), visit.asked("found")
    found_by = FoundFilter.of(ExecutionId.parse(run), one_of(FoundKind, kind)) if run else None
    chosen = ProductFilter(seller_of(seller or None), one_of(ProductState, state), search[:100] or None, found_by)
    page = await visit.operations.ask(queries.list_products, chosen, visit.cursor, visit.rows)
    return show_list(
        visit,
        "products",
        page.content,
        PRODUCTS,
        fields=[
            Filter("search", "filter.product", search),
            Filter("seller", "col.seller_id", seller),
            Filter("state", "col.status", state, [(s, f"status.{s}") for s in ProductState]),
            *_found_filters(run, kind),
        ],
        next_=visit.page_after(page),
        live="execution",
        buttons=[("/products/resync", "resync.button")],
    )


def _found_filters(run: str, found: str) -> list[Filter]:
    """Shown where a link from a run has set them."""
    if not run:
        return []
    kinds = [(kind, f"found.{kind}") for kind in FoundKind]
    return [Filter("execution", "col.run", run), Filter("found", "filter.found", found or FoundKind.CHANGED, kinds)]


@router.get("/products/{item_no}")
async def product_page(item_no: int, visit: Viewer) -> Response:
    wanted = ItemNo.parse(item_no)
    product = await visit.operations.ask(queries.show_product, wanted, visit.operations.rules.marketplace)
    history = await visit.operations.ask(queries.product_history, wanted, MOST_VERSIONS)
    data = product.product_data or {}
    return show(
        visit,
        "product.html",
        product=product,
        data=data,
        facts=[(name, _short(value)) for name, value in _flat("", data) if name.partition(".")[0] not in SHOWN_APART],
        names=NAMES,
        options=Table.of(
            "options", data.get("options") or (), OPTIONS, "product.no_options", caption="product.options"
        ),
        events=Table.of("events", product.events, EVENTS, "product.no_events", caption="product.events"),
        versions=list(reversed(history.content)),
    )


def _flat(prefix: str, data: Mapping[str, Any]) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, value in data.items():
        found += _flat(f"{prefix}{name}.", value) if isinstance(value, Mapping) else [(f"{prefix}{name}", value)]
    return found


def _short(value: Any) -> Any:
    """Return a value as people read it: lists by the names of their members."""
    if isinstance(value, list):
        return " › ".join(str(each.get("name", each)) if isinstance(each, Mapping) else str(each) for each in value)
    return f"{value[:LONGEST_VALUE]}…" if isinstance(value, str) and len(value) > LONGEST_VALUE else value


@router.get("/products/{item_no}/refresh")
async def confirm_refresh(item_no: int, visit: Admin) -> Response:
    found = await _refresh(visit, item_no, dry_run=True)
    sentences: list[Sentence] = [("refresh.what", {"n": found.tasks}), ("refresh.beside", {})]
    back = f"/products/{item_no}"
    return ask_first(visit, "refresh.title", "refresh.button", sentences, back, danger=False)


@router.post("/products/{item_no}/refresh")
async def refresh(item_no: int, visit: Admin) -> Response:
    found = await _refresh(visit, item_no, dry_run=False)
    return go(visit, f"/executions/{found.runs[0].execution_id}", "refresh.done")


async def _refresh(visit: Visit, item_no: int, *, dry_run: bool) -> RefreshView:
    wanted, operations = ItemNo.parse(item_no), visit.operations
    return await operations.run(refresh_products, [wanted], operations.rules, operations.deadline, dry_run=dry_run)


@router.get("/products/{item_no}/body/{part}")
async def body(item_no: int, part: str, visit: Viewer) -> Response:
    """Send the newest body of a part as a file, never as a page: it may hold anything."""
    wanted = ItemNo.parse(item_no)
    name = PartName(part) if part in list(PartName) else PartName.DETAIL
    found = await visit.operations.ask(queries.raw_bodies, wanted, [name])
    headers = {"content-disposition": f'attachment; filename="{wanted}-{PARTS[name].lower()}.json"'}
    return Response(found[0].body, media_type="application/json", headers=headers)
