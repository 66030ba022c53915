"""Make the event of a product when all its tasks of a run have ended.

The changes of an event are the differences from the productData of the event before it, whatever happened in between.
The history keeps every state that was found, with or without an event: its changes are the differences from the state
found before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import orjson
from msgspec import structs

from sellerwatch.catalog.absorb import ProductBatch, read_part
from sellerwatch.catalog.differences import Change, differences
from sellerwatch.catalog.facts import NormalizedPart, product_json
from sellerwatch.catalog.history import State, states
from sellerwatch.catalog.policies import NO_POLICIES, Policies
from sellerwatch.catalog.ports import History, HistoryEntry, ProductBodies, Reader
from sellerwatch.catalog.product import PartType, Product, ProductEvent
from sellerwatch.kernel.errors import Failed
from sellerwatch.kernel.ids import ExecutionId, OutboxId
from sellerwatch.outbox.event import data_json, event_body, read_event, snapshot_body
from sellerwatch.outbox.message import Message, MessageStatus
from sellerwatch.outbox.ports import Outbox
from sellerwatch.oversight.backups import Backups

#: How many of the last events are read to find the one that the receiver has.
LOOK_BACK = 10


@dataclass(eq=False)
class LastEventMissing(Failed):
    """The last event of a product is missing in the outbox, so a difference from it cannot be computed.

    Retention always keeps the last event of a product.
    """

    item_no: int
    version: int


@dataclass(frozen=True)
class Announcer:
    """Makes the events of products within one transaction."""

    product_batch: ProductBatch
    bodies: ProductBodies
    outbox: Outbox
    history: History
    backups: Backups
    reader: Reader
    now: datetime
    policies: Policies = NO_POLICIES

    def announce(self, product: Product, outbox_id: OutboxId, execution_id: ExecutionId | None) -> Message | None:
        """Write the event that is due, or merge it into the last one while that is undelivered.

        Return the new message; None where no event is due, nothing differs, or the event was merged.
        """
        event = product.due_event()
        if event is None:
            return None
        name, product_data = current(self.product_batch, product, self.bodies, self.reader)
        product = product.with_name(name)
        if event is ProductEvent.CREATED:
            return self._write(product, event, (), (), product_data, outbox_id, execution_id)
        data = orjson.loads(product_data)
        newest = self._newest(product, LOOK_BACK)
        since_newest = differences(read_event(newest[0].payload).product_data, data)
        last_found = self._state_without_event(product, newest[0])
        found = since_newest if last_found is None else differences(last_found, data)
        kept = [message for message in newest if message.status is not MessageStatus.DISCARDED]
        waiting, base = _mergeable(kept)
        if waiting is not None:
            self._merge(product, waiting, base, found, product_data, execution_id)
            return None
        # If all were discarded, the receiver knows nothing of the product: every field is a change.
        before = read_event(kept[0].payload).product_data if kept else {}
        changes = since_newest if kept and kept[0] is newest[0] else differences(before, data)
        if self.policies.matter(changes):
            return self._write(product, event, changes, found, product_data, outbox_id, execution_id)
        if not changes:
            self._add_history(product, event, found, None, execution_id)
        self.product_batch.put(product.mark_unchanged(self.now))
        return None

    def announce_removal(self, product: Product, outbox_id: OutboxId, execution_id: ExecutionId | None) -> Message:
        """Write the event of a deletion, with the productData of the last event. It is never merged with another."""
        product_data = data_json(read_event(self._newest(product, 1)[0].payload).product_data)
        self.product_batch.deleted.append(product.item_no)
        return self._write(product, ProductEvent.DELETED, (), (), product_data, outbox_id, execution_id)

    def announce_snapshot(self, product: Product, outbox_id: OutboxId) -> Message:
        """Write a snapshot of the state found last, behind all other events of the product. It is never merged with
        another event: what changes later is a change from its productData.

        A state counts as found once all its parts are read: until then its event is not written.
        """
        newest = self._newest(product, 1)[0]
        state = self._state_without_event(product, newest) or read_event(newest.payload).product_data
        sent = product.send_snapshot(self.now, self._floor)
        body = snapshot_body(
            outbox_id,
            product.item_no,
            product.seller_id,
            sent.version,
            self.now,
            data_json(state),
            deleted=product.is_deleted,
        )
        return self._add(sent, ProductEvent.SNAPSHOT, body, (), outbox_id, None)

    def _newest(self, product: Product, number: int) -> Sequence[Message]:
        """Return the last events of a product, newest first, those of this transaction included."""
        if any(message.subject_id == product.product_id for message in self.product_batch.messages):
            self.outbox.add_all(self.product_batch.take_messages())
        newest = self.outbox.latest_of(product.product_id, number)
        if not newest:
            raise LastEventMissing(item_no=product.item_no, version=product.version)
        return newest

    def _state_without_event(self, product: Product, newest: Message) -> State | None:
        """Return the state found last if it has no event; None if it is that of the newest event.

        A state has no event after a discarded one, and where a merge withdrew an event and left a difference within a
        tolerance.
        """
        if newest.status is not MessageStatus.DISCARDED and not self.policies.by_field:
            return None
        last = self.history.of_product(product.product_id, 1)
        if not last or last[0].outbox_id is not None:
            return None
        *_, (_, state) = states(self.history.of_product(product.product_id))
        return state

    @cached_property
    def _floor(self) -> int:
        """Since a restore versions go on above all that may have been sent before it."""
        return self.backups.version_floor()

    def _merge(
        self,
        product: Product,
        waiting: Message,
        base: Message | None,
        found: Sequence[Change],
        product_data: bytes,
        execution_id: ExecutionId | None,
    ) -> None:
        """Put the new state into an undelivered event. A creation stays one; an event without changes is withdrawn."""
        kind = ProductEvent(waiting.event_type)
        changes: Sequence[Change] = ()
        if kind is ProductEvent.UPDATED and base is not None:
            changes = differences(read_event(base.payload).product_data, orjson.loads(product_data))
            if not self.policies.matter(changes):
                self.outbox.remove(waiting.outbox_id)
                withdrawn = product.withdraw_event(self.now)
                self._add_history(withdrawn, ProductEvent.UPDATED, found, None, execution_id)
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
            product_data,
        )
        self.outbox.replace_payload(structs.replace(waiting, payload=body), self.now)
        self._add_history(product, ProductEvent.UPDATED, found, waiting.outbox_id, execution_id)
        self.product_batch.put(product.mark_unchanged(self.now))

    def _write(
        self,
        product: Product,
        event: ProductEvent,
        changes: Sequence[Change],
        found: Sequence[Change],
        product_data: bytes,
        outbox_id: OutboxId,
        execution_id: ExecutionId | None,
    ) -> Message:
        announced = product.announce(event, self.now, self._floor)
        body = event_body(
            outbox_id, event, product.item_no, product.seller_id, announced.version, self.now, changes, product_data
        )
        # The same bytes as the event: they are compressed once.
        whole = body if event is ProductEvent.CREATED else b""
        return self._add(announced, event, body, found, outbox_id, execution_id, whole)

    def _add(
        self,
        product: Product,
        event: ProductEvent,
        body: bytes,
        found: Sequence[Change],
        outbox_id: OutboxId,
        execution_id: ExecutionId | None,
        whole: bytes = b"",
    ) -> Message:
        """Add an event with its entry in the history. `product` is as it is after the event."""
        self.product_batch.put(product)
        message = Message(
            outbox_id=outbox_id,
            subject_id=product.product_id,
            seller_id=product.seller_id,
            event_type=event,
            payload=body,
            created_at=self.now,
            next_attempt_at=self.now,
            item_no=product.item_no,
            version=product.version,
            execution_id=execution_id,
        )
        self.product_batch.messages.append(message)
        self._add_history(product, event, found, outbox_id, execution_id, whole)
        return message

    def _add_history(
        self,
        product: Product,
        event: ProductEvent,
        found: Sequence[Change],
        outbox_id: OutboxId | None,
        execution_id: ExecutionId | None,
        whole: bytes = b"",
    ) -> None:
        """Add the state to the history if it differs from the one found before; for all events but UPDATED always."""
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
    """Return the name of a product and its productData: from the parts of this batch, else from their stored bodies."""
    stored = product_batch.stored.get(product.product_id)

    def part(type_: PartType) -> NormalizedPart:
        nonlocal stored
        normalized = product_batch.normalized.get((product.item_no, type_))
        if normalized is None:
            if stored is None or type_ not in stored:
                stored = bodies.latest_raws([product.product_id])[product.product_id]
            normalized = NormalizedPart.of(read_part(reader, type_, product.item_no, stored[type_]))
            product_batch.normalized[product.item_no, type_] = normalized
        return normalized

    listed, detail, options = part(PartType.MINISHOP), part(PartType.DETAIL), part(PartType.OPTION)
    return detail.name, product_json(listed, detail, options)


def _mergeable(messages: Sequence[Message]) -> tuple[Message | None, Message | None]:
    """Return the newest event if it was never sent, and the event before it, from which its changes are counted. A
    snapshot takes in nothing."""
    if not messages:
        return None, None
    newest, base = messages[0], messages[1] if len(messages) > 1 else None
    is_unsent = newest.status is MessageStatus.WAITING and not newest.attempted
    is_snapshot = newest.event_type == ProductEvent.SNAPSHOT
    if is_unsent and not is_snapshot and (base is not None or newest.event_type == ProductEvent.CREATED):
        return newest, base
    return None, None
