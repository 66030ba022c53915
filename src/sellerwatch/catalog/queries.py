"""Products as they are known now, for those who look: nothing here changes anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from sellerwatch.catalog.absorb import ProductBatch, read_part
from sellerwatch.catalog.announce import current
from sellerwatch.catalog.facts import NormalizedPart
from sellerwatch.catalog.ports import CatalogTx, Reader, Unparsable
from sellerwatch.catalog.product import PartType, Product, ProductNotFound
from sellerwatch.catalog.quarantine import HeldPart
from sellerwatch.catalog.removal import Removal, RemovalNotFound
from sellerwatch.kernel.ids import ItemNo, OutboxId, RemovalId
from sellerwatch.outbox.event import read_event
from sellerwatch.outbox.message import Message, OutboxKind


@dataclass(frozen=True)
class Known:
    """A product with its productData: of the parts there are, as long as it is incomplete; as it was last told, once it
    is deleted, or where today's parser cannot read a stored body (`problem`)."""

    product: Product
    data: Mapping[str, Any]
    problem: str | None = None


@dataclass(frozen=True)
class LookedAt:
    """One product with what stands around it: its last event (and which failed one holds that), parts not taken in."""

    known: Known
    last: Message | None
    held_by: OutboxId | None
    held: Sequence[HeldPart]


def found_product(tx: CatalogTx, item_no: ItemNo) -> Product:
    product = tx.products.of_items([item_no]).get(item_no)
    if product is None:
        raise ProductNotFound(product=str(item_no))
    return product


def known(tx: CatalogTx, products: Sequence[Product], reader: Reader) -> list[Known]:
    """Each of these as it is now; their bodies are read together."""
    bodies = tx.bodies.latest_raws([product.product_id for product in products if not product.is_deleted])
    return [_known(tx, product, bodies.get(product.product_id, {}), reader) for product in products]


def look_at(tx: CatalogTx, item_no: ItemNo, reader: Reader) -> LookedAt:
    product = found_product(tx, item_no)
    last = next(iter(tx.product_outbox.latest_of(product.product_id, 1)), None)
    holders = {} if last is None else tx.outbox_queries(OutboxKind.PRODUCT).holders([last.outbox_id])
    held = tx.held_parts.held([item_no])
    return LookedAt(
        known(tx, [product], reader)[0],
        last,
        None if last is None else holders.get(last.outbox_id),
        [held[item_no, part] for part in PartType if (item_no, part) in held],
    )


def look_at_removal(
    tx: CatalogTx, removal_id: RemovalId, limit: int
) -> tuple[Removal, int, Sequence[tuple[Product, str | None]]]:
    """A removal, how many of its products are missing now, and the first of them with their names."""
    removal = tx.removals.get(removal_id)
    if removal is None:
        raise RemovalNotFound(removal_id=removal_id)
    first = tx.products.unseen_since(removal.seller_id, removal.unseen_since, limit)
    still = tx.products.count_unseen_since(removal.seller_id, removal.unseen_since)
    return removal, still, [(product, told_data(tx, product).get("name")) for product in first]


def told_data(tx: CatalogTx, product: Product) -> Mapping[str, Any]:
    """productData of the last event; nothing of a product that was never told."""
    newest = tx.product_outbox.latest_of(product.product_id, 1)
    return read_event(newest[0].payload).product_data if newest else {}


def _known(tx: CatalogTx, product: Product, bodies: Mapping[PartType, bytes], reader: Reader) -> Known:
    if product.is_deleted:
        return Known(product, told_data(tx, product))
    try:
        if product.is_complete:
            product_batch = ProductBatch({}, stored={product.product_id: bodies})
            return Known(product, orjson.loads(current(product_batch, product, tx.bodies, reader)[1]))
        return Known(product, _so_far(product, bodies, reader))
    except Unparsable as unparsable:
        return Known(product, told_data(tx, product), str(unparsable))


def _so_far(product: Product, bodies: Mapping[PartType, bytes], reader: Reader) -> Mapping[str, Any]:
    """What the parts say that were seen; a removal forgets them, though their bodies are kept."""
    found: dict[str, Any] = {}
    for type_ in PartType:
        if product.hash_of(type_) is not None and type_ in bodies:
            found |= NormalizedPart.of(read_part(reader, type_, product.item_no, bodies[type_])).read()
    return found
