"""What the product server has to be told of a product, once everything the run asks about it is in.

"Before" is what it was last told: the productData of the last event. So a difference is always one between two events,
whatever happened in between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sellerwatch.catalog.absorb import Shelf
from sellerwatch.catalog.differences import Change, differences
from sellerwatch.catalog.facts import DetailFacts, ListFacts, OptionFacts, product_data
from sellerwatch.catalog.ports import Products, Reader
from sellerwatch.catalog.product import PartType, Product, ProductEvent
from sellerwatch.kernel.errors import Failed
from sellerwatch.kernel.ids import ExecutionId, OutboxId
from sellerwatch.outbox.event import event_body, read_event
from sellerwatch.outbox.message import Message, MessageStatus
from sellerwatch.outbox.ports import Outbox

#: Events looked back at to find what the receiver was last told.
LOOK_BACK = 10


@dataclass(eq=False)
class LastEventMissing(Failed):
    """What the receiver was last told is gone from the outbox: a change of it cannot be worded. Retention keeps it."""

    item_no: int
    version: int


def announce(
    shelf: Shelf,
    product: Product,
    products: Products,
    outbox: Outbox,
    reader: Reader,
    outbox_id: OutboxId,
    execution_id: ExecutionId,
    now: datetime,
) -> Message | None:
    """Write the event that is due, merge it into one that still waits unseen, or find that there is nothing to tell."""
    event = product.due_event()
    if event is None:
        return None
    data = _current(shelf, product, products, reader)
    told = _told(outbox, product) if event is ProductEvent.UPDATED else ()
    if event is ProductEvent.CREATED:
        return _write(shelf, outbox, product, event, (), data, outbox_id, execution_id, now)
    waiting, base = _mergeable(told)
    if waiting is not None:
        return _merge(shelf, outbox, product, waiting, base, data, now)
    changes = differences(read_event(told[0].payload).product_data if told else {}, data)
    if not changes:
        shelf.put(product.be_unchanged(now))
        return None
    return _write(shelf, outbox, product, event, changes, data, outbox_id, execution_id, now)


def _told(outbox: Outbox, product: Product) -> Sequence[Message]:
    """The newest events, without those an operator discarded: the receiver never saw them. None is left when all were:
    then everything about the product is a change."""
    newest = outbox.latest_of(product.product_id, LOOK_BACK)
    if not newest:
        raise LastEventMissing(item_no=product.item_no, version=product.version)
    return [message for message in newest if message.status is not MessageStatus.DISCARDED]


def _mergeable(told: Sequence[Message]) -> tuple[Message | None, Message | None]:
    """The newest event if nobody has seen it yet, and the one before it, which a change is a change of."""
    if not told:
        return None, None
    newest, base = told[0], told[1] if len(told) > 1 else None
    unseen = newest.status is MessageStatus.WAITING and not newest.attempted
    if unseen and (base is not None or newest.event_type == ProductEvent.CREATED):
        return newest, base
    return None, None


def _merge(
    shelf: Shelf,
    outbox: Outbox,
    product: Product,
    waiting: Message,
    base: Message | None,
    data: dict[str, Any],
    now: datetime,
) -> Message | None:
    """One event instead of two. A creation stays one; changes that cancel each other out withdraw the event."""
    kind = ProductEvent(waiting.event_type)
    changes: Sequence[Change] = ()
    if kind is ProductEvent.UPDATED and base is not None:
        changes = differences(read_event(base.payload).product_data, data)
        if not changes:
            outbox.remove(waiting.outbox_id)
            shelf.put(product.take_back(now))
            return None
    body = event_body(
        waiting.outbox_id, kind, product.item_no, product.seller_id, product.version, waiting.created_at, changes, data
    )
    outbox.save([replace(waiting, payload=body)], now)
    shelf.put(product.be_unchanged(now))
    return None


def _write(
    shelf: Shelf,
    outbox: Outbox,
    product: Product,
    event: ProductEvent,
    changes: Sequence[Change],
    data: dict[str, Any],
    outbox_id: OutboxId,
    execution_id: ExecutionId,
    now: datetime,
) -> Message:
    announced = product.announce(event, now)
    shelf.put(announced)
    message = Message(
        outbox_id=outbox_id,
        subject_id=product.product_id,
        seller_id=product.seller_id,
        event_type=event,
        payload=event_body(outbox_id, event, product.item_no, product.seller_id, announced.version, now, changes, data),
        created_at=now,
        next_attempt_at=now,
        item_no=product.item_no,
        version=announced.version,
        execution_id=execution_id,
    )
    outbox.add(message)
    return message


def _current(shelf: Shelf, product: Product, products: Products, reader: Reader) -> dict[str, Any]:
    """The product as it is now: parts of this group from memory, the others from their stored bodies."""
    stored: dict[PartType, bytes] = {}

    def part(type_: PartType, read: Callable[[bytes], Any]) -> Any:
        facts = shelf.facts.get((product.item_no, type_))
        if facts is None:
            if not stored:
                stored.update(products.latest_raw(product.product_id))
            facts = shelf.facts[product.item_no, type_] = read(stored[type_])
        return facts

    listed: ListFacts = part(PartType.MINISHOP, reader.read_entry)
    detail: DetailFacts = part(PartType.DETAIL, lambda body: reader.read_detail(body, product.item_no))
    options: OptionFacts = part(PartType.OPTION, lambda body: reader.read_options(body, product.item_no))
    return product_data(listed, detail, options)
