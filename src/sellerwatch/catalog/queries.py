"""Queries over products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import orjson

from sellerwatch.catalog.absorb import ProductBatch, read_part
from sellerwatch.catalog.announce import current
from sellerwatch.catalog.changes import FoundFilter
from sellerwatch.catalog.differences import differences
from sellerwatch.catalog.facts import NormalizedPart
from sellerwatch.catalog.history import last_change, state_at
from sellerwatch.catalog.ports import CatalogTx, Reader, StoredBody, Unparsable
from sellerwatch.catalog.product import (
    NAMES,
    PARTS,
    BodyNotFound,
    PartName,
    PartType,
    Product,
    ProductNotFound,
    ProductState,
)
from sellerwatch.catalog.product_views import (
    ChangeView,
    HeldPartView,
    HistoryEntryView,
    ProductDetailView,
    ProductDiffView,
    ProductEventView,
    ProductHistoryView,
    ProductView,
    StoredBodiesView,
    StoredBodyView,
    StoredPartView,
    product_fields,
)
from sellerwatch.kernel.ids import ItemNo, SellerId
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.paging import decode_cursor, page_view
from sellerwatch.kernel.views import CursorPageView
from sellerwatch.kernel.wording import error_text
from sellerwatch.outbox.event import read_event
from sellerwatch.outbox.message import OutboxKind
from sellerwatch.sellers.queries import require_seller

PRODUCTS, UPDATED_PRODUCTS = "products", "updates"
#: The time of a change is taken before its transaction begins. Younger changes are not listed by time yet: an older one
#: may still be written.
SETTLED_AFTER = timedelta(seconds=30)
#: Events of a product that are shown with it.
MOST_EVENTS = 20
#: Stored bodies of a part that are read at most.
MOST_BODIES = 1000


@dataclass(frozen=True)
class ProductFilter:
    """Which products: every field that is given narrows it. `search` is a part of the name."""

    seller_id: SellerId | None = None
    state: ProductState | None = None
    search: str | None = None
    found: FoundFilter | None = None
    updated_since: datetime | None = None


@dataclass(frozen=True)
class CurrentProduct:
    """A product with its productData: of the parts seen so far while it is incomplete; that of its last event once it
    is deleted, or where the parser cannot read a stored body (`problem`)."""

    product: Product
    data: Mapping[str, Any]
    problem: Unparsable | None = None


def list_products(
    tx: CatalogTx, context: OperationContext, chosen: ProductFilter, cursor: str | None, size: int
) -> CursorPageView[ProductView]:
    """List products in the order they were first seen. A page may be short and not the last: only `next: null` is.

    With `updated_since`: those that changed since then, in the order of their changes, deleted ones included, each with
    the productData of its last event. Changes of the last 30 s come later (`SETTLED_AFTER`).
    """
    require_seller(tx, chosen.seller_id)
    since = chosen.updated_since
    name = PRODUCTS if since is None else UPDATED_PRODUCTS
    page = tx.product_queries.page(
        seller_id=chosen.seller_id,
        state=chosen.state,
        cursor=decode_cursor(name, cursor),
        limit=size,
        search=chosen.search,
        updated=None if since is None else (since, context.now - SETTLED_AFTER),
        found=chosen.found,
    )

    def view(product: Product) -> ProductView:
        data = last_event_data(tx, product)
        return ProductView(**product_fields(product, data, None if since is None else data or None))

    return page_view(name, page, view)


def show_product(tx: CatalogTx, context: OperationContext, item_no: ItemNo, reader: Reader) -> ProductDetailView:
    """Show a product with its productData, its last events, and the parts that are held."""
    product = find_product(tx, item_no)
    now = current_products(tx, [product], reader)[0]
    messages = tx.product_outbox.latest_of(product.product_id, MOST_EVENTS)
    ids = [message.outbox_id for message in messages]
    holders = tx.outbox_queries(OutboxKind.PRODUCT).holders(ids) if ids else {}
    events = [ProductEventView.of(message, holders.get(message.outbox_id)) for message in messages]
    held = tx.held_parts.held([item_no])
    newest = [body for part in PartType for body in tx.bodies.bodies_of(product.product_id, part, 1)]
    seller = tx.sellers.get(product.seller_id)
    return ProductDetailView(
        **product_fields(product, now.data, now.data or None),
        problem=None if now.problem is None else error_text(now.problem.code, now.problem.facts, context.language),
        last_event=events[0] if events else None,
        held=[HeldPartView.of(held[item_no, part]) for part in PartType if (item_no, part) in held],
        seller_name=None if seller is None else seller.name,
        events=events,
        stored_parts=[StoredPartView(NAMES[body.part], body.digest, body.created_at) for body in newest],
    )


def product_history(
    tx: CatalogTx, _: OperationContext, item_no: ItemNo, limit: int | None = None
) -> ProductHistoryView:
    """Show every state a product was found in, or the last `limit`: when, in which run, and what differed."""
    product = find_product(tx, item_no)
    entries = tx.history.of_product(product.product_id, limit)
    return ProductHistoryView(item_no, product.state, [HistoryEntryView.of(entry) for entry in entries])


def product_diff(
    tx: CatalogTx,
    _: OperationContext,
    item_no: ItemNo,
    from_version: int | None = None,
    to_version: int | None = None,
) -> ProductDiffView:
    """Show the differences between two versions, by default those of the last change.

    With `to_version` alone from the version before it, with `from_version` alone to the current state.
    """
    product = find_product(tx, item_no)
    entries = tx.history.of_product(product.product_id)
    if from_version is None and to_version is None:
        first, last, changes = last_change(entries)
    else:
        start = from_version if from_version is not None or to_version is None else to_version - 1
        last, after = state_at(entries, item_no, to_version)
        first, before = state_at(entries, item_no, start)
        changes = differences(before, after)
    return ProductDiffView(item_no, product.state, first, last, [ChangeView.of(change) for change in changes])


def product_bodies(
    tx: CatalogTx, context: OperationContext, item_no: ItemNo, parts: Sequence[PartName], number: int | None = 1
) -> StoredBodiesView:
    """Show stored bodies of a product as JSON (see `raw_bodies`)."""
    return StoredBodiesView(item_no, [StoredBodyView.of(b) for b in raw_bodies(tx, context, item_no, parts, number)])


def raw_bodies(
    tx: CatalogTx, _: OperationContext, item_no: ItemNo, parts: Sequence[PartName], number: int | None = 1
) -> Sequence[StoredBody]:
    """Return the stored body of each part byte for byte: `number` 1 is the newest, 2 the one before, None means all."""
    product_id = find_product(tx, item_no).product_id
    kept = {part: tx.bodies.bodies_of(product_id, PARTS[part], number or MOST_BODIES) for part in parts}
    chosen = [body for part in parts for body in kept[part][(number or 1) - 1 :]]
    if not chosen:
        asked = parts[0] if len(parts) == 1 else "any part"
        raise BodyNotFound(item_no=item_no, part=asked, kept=sum(len(bodies) for bodies in kept.values()))
    return chosen


def count_complete(tx: CatalogTx, _: OperationContext, seller_id: SellerId | None) -> int:
    """Count the complete products, of one seller or of all."""
    require_seller(tx, seller_id)
    return tx.product_queries.count(seller_id, ProductState.COMPLETE)


def export_page(
    tx: CatalogTx, _: OperationContext, seller_id: SellerId | None, after: int, size: int, reader: Reader
) -> tuple[Sequence[CurrentProduct], int | None]:
    """Return the next complete products behind a row, and the row of the last one; None at the end."""
    rows = tx.product_queries.complete_after(after, seller_id, size)
    return current_products(tx, [product for _, product in rows], reader), rows[-1][0] if rows else None


def find_product(tx: CatalogTx, item_no: ItemNo) -> Product:
    """Return a product by its item number; refuse a number that no product has."""
    product = tx.products.of_items([item_no]).get(item_no)
    if product is None:
        raise ProductNotFound(product=str(item_no))
    return product


def current_products(tx: CatalogTx, products: Sequence[Product], reader: Reader) -> list[CurrentProduct]:
    """Return each product with its productData; their stored bodies are read together."""
    bodies = tx.bodies.latest_raws([product.product_id for product in products if not product.is_deleted])
    return [_current(tx, product, bodies.get(product.product_id, {}), reader) for product in products]


def last_event_data(tx: CatalogTx, product: Product) -> Mapping[str, Any]:
    """Return the productData of the last event; empty for a product without events."""
    newest = tx.product_outbox.latest_of(product.product_id, 1)
    return read_event(newest[0].payload).product_data if newest else {}


def _current(tx: CatalogTx, product: Product, bodies: Mapping[PartType, bytes], reader: Reader) -> CurrentProduct:
    if product.is_deleted:
        return CurrentProduct(product, last_event_data(tx, product))
    try:
        if product.is_complete:
            product_batch = ProductBatch({}, stored={product.product_id: bodies})
            return CurrentProduct(product, orjson.loads(current(product_batch, product, tx.bodies, reader)[1]))
        return CurrentProduct(product, _seen_so_far(product, bodies, reader))
    except Unparsable as unparsable:
        return CurrentProduct(product, last_event_data(tx, product), unparsable)


def _seen_so_far(product: Product, bodies: Mapping[PartType, bytes], reader: Reader) -> Mapping[str, Any]:
    """Return the fields of the parts that have a hash. A removal clears the hashes but keeps the bodies."""
    found: dict[str, Any] = {}
    for type_ in PartType:
        if product.hash_of(type_) is not None and type_ in bodies:
            found |= NormalizedPart.of(read_part(reader, type_, product.item_no, bodies[type_])).read()
    return found
