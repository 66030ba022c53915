"""Products: the list, and one product with its three parts, its facts, and every version with its differences."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from sellerwatch.catalog import queries
from sellerwatch.catalog.product import NAMES, PARTS, PartName, ProductNotFound, ProductState
from sellerwatch.catalog.product_views import ProductDetailView, ProductView
from sellerwatch.catalog.queries import ProductFilter
from sellerwatch.kernel.ids import ItemNo
from sellerwatch.web.api.cursors import seller_of
from sellerwatch.web.console import tables
from sellerwatch.web.console.page_request import Viewer
from sellerwatch.web.console.rendering import PageRoute, go, show
from sellerwatch.web.console.tables import Filter, Table, seller_page

router = APIRouter(route_class=PageRoute, include_in_schema=False)

#: Versions shown with their differences, newest first; older ones behind a link.
MOST_VERSIONS = 30
#: A field longer than this is cut where facts are shown; the body has it all.
LONGEST_VALUE = 300
#: Facts that have a place of their own on the page.
SHOWN_APART = ("images", "options", "descriptionHtml", "name", "itemNo", "sellerId")


@router.get("/products")
async def products(visit: Viewer) -> Response:
    """Show the list. A search for an item number leads to that product's page; anything else is a part of the name."""
    search, seller, state = visit.asked("search"), visit.asked("seller"), visit.asked("state")
    if search.isascii() and search.isdecimal() and len(search) < 19:
        with suppress(ProductNotFound):
            found = await visit.operations.ask(queries.product_history, ItemNo(int(search)), 1)
            return go(visit, f"/products/{found.item_no}")
    wanted = ProductState(state) if state in list(ProductState) else None
    chosen = ProductFilter(seller_of(seller or None), wanted, search[:100] or None)
    page = await visit.operations.ask(queries.list_products, chosen, visit.cursor, visit.rows)
    table = Table(
        "products",
        ("col.item", "col.name", "col.status", "col.price", "col.stock", "col.seller", "col.version", "col.updated"),
        [_row(product) for product in page.content],
        "products.none_found" if search or seller or state else "products.empty",
        next=visit.link(cursor=page.next) if page.next else None,
        caption="nav.products",
    )
    fields = [
        Filter("search", "filter.product", search),
        Filter("seller", "col.seller_id", seller),
        Filter("state", "col.status", state, [(s, f"status.{s}") for s in ProductState]),
    ]
    return show(
        visit,
        "list.html",
        title="nav.products",
        lead="products.lead",
        table=table,
        fields=fields,
        live="execution",
    )


def _row(product: ProductView) -> tuple[tables.Cell, ...]:
    return (
        tables.text(product.item_no, f"/products/{product.item_no}"),
        tables.text(product.name),
        tables.pill(product.state),
        tables.number(product.selling_price),
        tables.number(product.stock),
        tables.text(product.seller_id, seller_page(product.seller_id)),
        tables.number(product.version),
        tables.when(product.updated_at),
    )


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
        options=_options(data),
        events=_events(product),
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


def _options(data: Mapping[str, Any]) -> Table:
    return Table(
        "options",
        ("col.option", "col.colour", "col.size", "col.stock"),
        [
            (
                tables.text(option.get("optionNo")),
                tables.text(option.get("color")),
                tables.text(option.get("size")),
                tables.number(option.get("stock")),
            )
            for option in data.get("options") or ()
        ],
        "product.no_options",
        caption="product.options",
    )


def _events(product: ProductDetailView) -> Table:
    return Table(
        "events",
        ("col.event", "col.type", "col.version", "col.status", "col.tries", "col.cause", "col.made", "col.arrived"),
        [
            (
                tables.code(event.outbox_id, f"/outbox/{event.outbox_id}"),
                tables.pill(event.event_type, "event"),
                tables.number(event.version),
                tables.pill(event.status),
                tables.number(event.retry_count),
                tables.raw(event.error_message),
                tables.when(event.created_at),
                tables.when(event.sent_at),
            )
            for event in product.events
        ],
        "product.no_events",
        caption="product.events",
    )


@router.get("/products/{item_no}/body/{part}")
async def body(item_no: int, part: str, visit: Viewer) -> Response:
    """Send the newest body of a part as a file, never as a page: it may hold anything."""
    wanted = ItemNo.parse(item_no)
    name = PartName(part) if part in list(PartName) else PartName.DETAIL
    found = await visit.operations.ask(queries.raw_bodies, wanted, [name])
    headers = {"content-disposition": f'attachment; filename="{wanted}-{PARTS[name].lower()}.json"'}
    return Response(found[0].body, media_type="application/json", headers=headers)
