"""What the product server has to be told of a product, once everything the run asks about it is in.

"Before" is what it was last told: the productData of the last event. So a difference is always one between two events,
whatever happened in between. The history keeps every state that was found, told or not: its "before" is the state
found last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import orjson

from sellerwatch.catalog.absorb import ProductBatch, read_part
from sellerwatch.catalog.differences import Change, differences
from sellerwatch.catalog.facts import NormalizedPart, product_json
from sellerwatch.catalog.history import State, states
from sellerwatch.catalog.policies import NO_POLICIES, Policies
from sellerwatch.catalog.ports import History, HistoryEntry, ProductBodies, Reader
from sellerwatch.catalog.product import PartType, Product, ProductEvent
from sellerwatch.kernel.errors import Failed
from sellerwatch.kernel.ids import ExecutionId, OutboxId
from sellerwatch.outbox.event import data_json, event_body, read_event
from sellerwatch.outbox.message import Message, MessageStatus
from sellerwatch.outbox.ports import Outbox

#: Events looked back at to find what the receiver was last told.
LOOK_BACK = 10


@dataclass(eq=False)
class LastEventMissing(Failed):
    """What the receiver was last told is gone from the outbox: a change of it cannot be worded. Retention keeps it."""

    item_no: int
    version: int


@dataclass(frozen=True)
class Announcer:
    """Writes events into one outbox, as part of one transaction."""

    product_batch: ProductBatch
    bodies: ProductBodies
    outbox: Outbox
    history: History
    reader: Reader
    now: datetime
    policies: Policies = NO_POLICIES

    def announce(self, product: Product, outbox_id: OutboxId, execution_id: ExecutionId | None) -> Message | None:
        """Write the event that is due, merge it into one that still waits unseen, or find that there is nothing to
        tell."""
        event = product.due_event()
        if event is None:
            return None
        name, known = current(self.product_batch, product, self.bodies, self.reader)
        product = product.be_called(name)
        if event is ProductEvent.CREATED:
            return self._write(product, event, (), (), known, outbox_id, execution_id)
        data = orjson.loads(known)
        newest = self._newest(product)
        since_newest = differences(read_event(newest[0].payload).product_data, data)
        untold = self._untold(product, newest[0])
        found = since_newest if untold is None else differences(untold, data)
        told = [message for message in newest if message.status is not MessageStatus.DISCARDED]
        waiting, base = _mergeable(told)
        if waiting is not None:
            self._merge(product, waiting, base, found, known, execution_id)
            return None
        # None was seen when all were discarded: then everything about the product is a change.
        before = read_event(told[0].payload).product_data if told else {}
        changes = since_newest if told and told[0] is newest[0] else differences(before, data)
        if self.policies.matter(changes):
            return self._write(product, event, changes, found, known, outbox_id, execution_id)
        if not changes:
            self._remember(product, event, found, None, execution_id)
        self.product_batch.put(product.be_unchanged(self.now))
        return None

    def announce_removal(self, product: Product, outbox_id: OutboxId, execution_id: ExecutionId | None) -> Message:
        """Tell that a product is gone, with what was last known of it. Never merged: both events are told."""
        known = data_json(read_event(self._newest(product)[0].payload).product_data)
        self.product_batch.deleted.append(product.item_no)
        return self._write(product, ProductEvent.DELETED, (), (), known, outbox_id, execution_id)

    def _newest(self, product: Product) -> Sequence[Message]:
        if any(message.subject_id == product.product_id for message in self.product_batch.messages):
            self.outbox.add_all(self.product_batch.take_messages())
        newest = self.outbox.latest_of(product.product_id, LOOK_BACK)
        if not newest:
            raise LastEventMissing(item_no=product.item_no, version=product.version)
        return newest

    def _untold(self, product: Product, newest: Message) -> State | None:
        """The state found last, where it was not worth an event and so is not the newest one's: that happens behind a
        discarded event, and where a merge withdrew one and left something inside a tolerance."""
        if newest.status is not MessageStatus.DISCARDED and not self.policies.by_field:
            return None
        last = self.history.of_product(product.product_id, 1)
        if not last or last[0].outbox_id is not None:
            return None
        *_, (_, state) = states(self.history.of_product(product.product_id))
        return state

    def _merge(
        self,
        product: Product,
        waiting: Message,
        base: Message | None,
        found: Sequence[Change],
        known: bytes,
        execution_id: ExecutionId | None,
    ) -> None:
        """One event instead of two. A creation stays one; changes that cancel each other out withdraw the event."""
        kind = ProductEvent(waiting.event_type)
        changes: Sequence[Change] = ()
        if kind is ProductEvent.UPDATED and base is not None:
            changes = differences(read_event(base.payload).product_data, orjson.loads(known))
            if not self.policies.matter(changes):
                self.outbox.remove(waiting.outbox_id)
                withdrawn = product.take_back(self.now)
                self._remember(withdrawn, ProductEvent.UPDATED, found, None, execution_id)
                self.product_batch.put(withdrawn)
                return
        body = event_body(
            waiting.outbox_id,
            kind,
            product.item_no,
            product.seller_id,
            product.version,
            waiting.created_at,
            changes,
            known,
        )
        self.outbox.replace_payload(replace(waiting, payload=body), self.now)
        self._remember(product, ProductEvent.UPDATED, found, waiting.outbox_id, execution_id)
        self.product_batch.put(product.be_unchanged(self.now))

    def _write(
        self,
        product: Product,
        event: ProductEvent,
        changes: Sequence[Change],
        found: Sequence[Change],
        known: bytes,
        outbox_id: OutboxId,
        execution_id: ExecutionId | None,
    ) -> Message:
        announced = product.announce(event, self.now)
        self.product_batch.put(announced)
        body = event_body(
            outbox_id, event, product.item_no, product.seller_id, announced.version, self.now, changes, known
        )
        message = Message(
            outbox_id=outbox_id,
            subject_id=product.product_id,
            seller_id=product.seller_id,
            event_type=event,
            payload=body,
            created_at=self.now,
            next_attempt_at=self.now,
            item_no=product.item_no,
            version=announced.version,
            execution_id=execution_id,
        )
        self.product_batch.messages.append(message)
        whole = known if event is ProductEvent.CREATED else b""
        self._remember(announced, event, found, outbox_id, execution_id, whole)
        return message

    def _remember(
        self,
        product: Product,
        event: ProductEvent,
        found: Sequence[Change],
        outbox_id: OutboxId | None,
        execution_id: ExecutionId | None,
        whole: bytes = b"",
    ) -> None:
        """A state that differs from the one found before goes into the history; a removal always."""
        if found or event is not ProductEvent.UPDATED:
            self.product_batch.history.append(
                HistoryEntry(
                    product.product_id,
                    product.item_no,
                    product.seller_id,
                    execution_id,
                    outbox_id,
                    event,
                    product.version,
                    tuple(found),
                    self.now,
                    whole,
                )
            )


def current(product_batch: ProductBatch, product: Product, bodies: ProductBodies, reader: Reader) -> tuple[str, bytes]:
    """What the product is called, and its productData as it is now: from the parts this group brings or remembers, and
    the stored bodies of the others."""
    stored = product_batch.stored.get(product.product_id)

    def part(type_: PartType) -> NormalizedPart:
        nonlocal stored
        said = product_batch.said.get((product.item_no, type_))
        if said is None:
            if stored is None or type_ not in stored:
                stored = bodies.latest_raws([product.product_id])[product.product_id]
            said = NormalizedPart.of(read_part(reader, type_, product.item_no, stored[type_]))
            product_batch.said[product.item_no, type_] = said
        return said

    listed, detail, options = part(PartType.MINISHOP), part(PartType.DETAIL), part(PartType.OPTION)
    return detail.name, product_json(listed, detail, options)


def _mergeable(told: Sequence[Message]) -> tuple[Message | None, Message | None]:
    """The newest event if nobody has seen it yet, and the one before it, which a change is a change of."""
    if not told:
        return None, None
    newest, base = told[0], told[1] if len(told) > 1 else None
    unseen = newest.status is MessageStatus.WAITING and not newest.attempted
    if unseen and (base is not None or newest.event_type == ProductEvent.CREATED):
        return newest, base
    return None, None
