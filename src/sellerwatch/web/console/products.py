"""Products: the list, and one product: its three parts, its facts, and every version with what differed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from sellerwatch.catalog.ports import HistoryEntry, StoredBody
from sellerwatch.catalog.product import NAMES, PartType, Product, ProductState
from sellerwatch.catalog.queries import LookedAt, look_at, told_data
from sellerwatch.kernel.ids import ItemNo, SellerId
from sellerwatch.kernel.paging import decode_cursor, encode_cursor
from sellerwatch.operations.ports import ServiceTx
from sellerwatch.outbox.message import Message
from sellerwatch.web.api.cursors import seller_of
from sellerwatch.web.api.products import LIST
from sellerwatch.web.console import tables
from sellerwatch.web.console.page_request import Viewer
from sellerwatch.web.console.rendering import PageRoute, go, show
from sellerwatch.web.console.tables import Filter, Table, seller_page

router = APIRouter(route_class=PageRoute, include_in_schema=False)

#: Versions shown with their differences, newest first; older ones behind a link.
MOST_VERSIONS = 30
MOST_EVENTS = 20
#: A field longer than this is cut where facts are shown; the body has it all.
LONGEST_VALUE = 300


@router.get("/products")
async def products(visit: Viewer) -> Response:
    """The list. An item number leads to the product's own page; anything else is a piece of the name."""
    search, seller, state = visit.asked("search"), visit.asked("seller"), visit.asked("state")
    if search.isascii() and search.isdecimal() and len(search) < 19:
        item = ItemNo(int(search))
        if await visit.read(lambda tx: item in tx.products.of_items([item])):
            return go(visit, f"/products/{item}")
    wanted = ProductState(state) if state in list(ProductState) else None
    position, seller_id = decode_cursor(LIST, visit.place("cursor")), seller_of(seller or None)

    def work(tx: ServiceTx) -> tuple[list[tuple[Product, Mapping[str, Any]]], str | None]:
        piece = tx.product_queries.page(
            seller_id=seller_id, state=wanted, cursor=position, limit=visit.rows, search=search[:100] or None
        )
        return [(one, told_data(tx, one)) for one in piece.content], encode_cursor(LIST, piece.next)

    found, cursor = await visit.read(work)
    table = Table(
        "products",
        ("col.item", "col.name", "col.status", "col.price", "col.stock", "col.seller", "col.version", "col.updated"),
        [_row(product, data) for product, data in found],
        "products.none_found" if search or seller or state else "products.empty",
        next=visit.link(cursor=cursor) if cursor else None,
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


def _row(product: Product, data: Mapping[str, Any]) -> tuple[tables.Cell, ...]:
    prices = data.get("prices") or {}
    return (
        tables.text(product.item_no, f"/products/{product.item_no}"),
        tables.text(data.get("name")),
        tables.pill(product.state),
        tables.number(prices.get("selling")),
        tables.number(data.get("stock")),
        tables.text(product.seller_id, seller_page(product.seller_id)),
        tables.number(product.version),
        tables.when(product.updated_at),
    )


@dataclass(frozen=True)
class Seen:
    looked: LookedAt
    entries: Sequence[HistoryEntry]
    messages: Sequence[Message]
    bodies: Sequence[StoredBody]
    seller_name: str | None

    @property
    def product(self) -> Product:
        return self.looked.known.product

    @property
    def data(self) -> Mapping[str, Any]:
        return self.looked.known.data

    @property
    def facts(self) -> list[tuple[str, Any]]:
        """Everything but what has a position of its own on the page."""
        apart = ("images", "options", "descriptionHtml", "name", "itemNo", "sellerId")
        return [(name, _short(value)) for name, value in _flat("", self.data) if name.partition(".")[0] not in apart]


def _flat(prefix: str, data: Mapping[str, Any]) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, value in data.items():
        found += _flat(f"{prefix}{name}.", value) if isinstance(value, Mapping) else [(f"{prefix}{name}", value)]
    return found


def _short(value: Any) -> Any:
    """As a person reads it: lists by the names of their members."""
    if isinstance(value, list):
        return " › ".join(str(each.get("name", each)) if isinstance(each, Mapping) else str(each) for each in value)
    return f"{value[:LONGEST_VALUE]}…" if isinstance(value, str) and len(value) > LONGEST_VALUE else value


def _seller_name(tx: ServiceTx, seller_id: SellerId) -> str | None:
    seller = tx.sellers.get(seller_id)
    return None if seller is None else seller.name


@router.get("/products/{item_no}")
async def product_page(item_no: int, visit: Viewer) -> Response:
    wanted, reader = ItemNo.parse(item_no), visit.parts.service.crawl.marketplace

    def work(tx: ServiceTx) -> Seen:
        looked = look_at(tx, wanted, reader)
        product_id = looked.known.product.product_id
        bodies = [body for part in PartType for body in tx.bodies.bodies_of(product_id, part, 1)]
        return Seen(
            looked,
            tx.history.of_product(product_id, MOST_VERSIONS),
            tx.product_outbox.latest_of(product_id, MOST_EVENTS),
            bodies,
            _seller_name(tx, looked.known.product.seller_id),
        )

    seen = await visit.read(work)
    return show(
        visit,
        "product.html",
        seen=seen,
        names={part.value: name.value for part, name in NAMES.items()},
        options=_options(seen),
        events=_events(seen),
        versions=list(reversed(seen.entries)),
    )


def _options(seen: Seen) -> Table:
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
            for option in seen.data.get("options") or ()
        ],
        "product.no_options",
        caption="product.options",
    )


def _events(seen: Seen) -> Table:
    return Table(
        "events",
        ("col.event", "col.type", "col.version", "col.status", "col.tries", "col.cause", "col.made", "col.arrived"),
        [
            (
                tables.code(message.outbox_id, f"/outbox/{message.outbox_id}"),
                tables.pill(message.event_type, "event"),
                tables.number(message.version),
                tables.pill(message.status),
                tables.number(message.retry_count),
                tables.raw(message.error_message),
                tables.when(message.created_at),
                tables.when(message.sent_at),
            )
            for message in seen.messages
        ],
        "product.no_events",
        caption="product.events",
    )


@router.get("/products/{item_no}/body/{part}")
async def body(item_no: int, part: str, visit: Viewer) -> Response:
    """A part as it came, as a file: never as a page, whatever is in it."""
    wanted = ItemNo.parse(item_no)
    kind = next((each for each, name in NAMES.items() if name == part), PartType.DETAIL)

    def work(tx: ServiceTx) -> bytes:
        product = look_at(tx, wanted, visit.parts.service.crawl.marketplace).known.product
        found = tx.bodies.bodies_of(product.product_id, kind, 1)
        return found[0].body if found else b"null"

    headers = {"content-disposition": f'attachment; filename="{wanted}-{kind.lower()}.json"'}
    return Response(await visit.read(work), media_type="application/json", headers=headers)
