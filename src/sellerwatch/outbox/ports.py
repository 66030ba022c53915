"""What the outbox needs of the store, and of a receiver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from sellerwatch.kernel.ids import OutboxId, PublicId, SellerId, WorkerId
from sellerwatch.kernel.paging import Cursor, Page
from sellerwatch.outbox.channel import Channel
from sellerwatch.outbox.message import AttemptKey, Message, MessageStatus, OutboxKind
from sellerwatch.outbox.receipt import Attempt, Receipt
from sellerwatch.outbox.resend_ports import ResendTx
from sellerwatch.outbox.seller_circuit import SellerCircuit
from sellerwatch.oversight.ports import AuditTx


class EventBody(Protocol):
    """A key and a body: all that a product server gets."""

    @property
    def outbox_id(self) -> OutboxId: ...

    @property
    def payload(self) -> bytes: ...


class EventReceiver(Protocol):
    """The receiver of events about products: it takes any body with its key. Never raises, as `Receiver`."""

    async def deliver(self, message: EventBody, now: datetime) -> Receipt: ...


class Receiver(Protocol):
    """Sends one message: the same key and the same body on every attempt. Never raises: every result is a receipt."""

    async def deliver(self, message: Message, now: datetime) -> Receipt: ...


class Outbox(Protocol):
    """The messages of one outbox, for use cases that write them. Messages of a subject are sent in insertion order."""

    def add(self, message: Message) -> None: ...

    def add_all(self, messages: Sequence[Message]) -> None: ...

    def get(self, outbox_id: OutboxId) -> Message | None: ...

    def get_many(self, outbox_ids: Sequence[OutboxId]) -> Sequence[Message]:
        """Return those that exist, in insertion order."""
        ...

    def latest_of(self, subject_id: PublicId, limit: int) -> Sequence[Message]:
        """Return the newest messages of a subject, newest first."""
        ...

    def move(self, messages: Sequence[Message], now: datetime) -> None:
        """Write everything that can change except the bodies: a large body is not written again."""
        ...

    def replace_payload(self, message: Message, now: datetime) -> None:
        """Write the body of a WAITING message; nothing else of it changes."""
        ...

    def remove(self, outbox_id: OutboxId) -> None:
        """Delete a message that was never sent; one that was sent at least once stays."""
        ...

    def release_held(self, subject_ids: Sequence[PublicId], now: datetime) -> None:
        """Make postponed messages of these subjects due now: nothing before them failed any longer."""
        ...


class DeliveryQueue(Protocol):
    """The messages of one outbox, for the sender: what is due, and what is being sent by which worker."""

    def due(self, now: datetime, seller_id: SellerId, limit: int) -> Sequence[Message]:
        """Return WAITING messages of a seller that are due and first of their subject, oldest first.

        A message is first when no earlier one of its subject is WAITING, SENDING or FAILED: a FAILED one holds all
        behind it until an operator replays or discards it.
        """
        ...

    def waiting_sellers(self) -> Mapping[SellerId, datetime]:
        """Return the sellers with WAITING messages, and when the next of each that is first of its subject is due."""
        ...

    def current_attempts(self, outbox_ids: Sequence[OutboxId]) -> Mapping[OutboxId, AttemptKey]:
        """Return the current attempt of each of these that is SENDING."""
        ...

    def claimed_by(self, worker_id: WorkerId) -> Sequence[Message]:
        """Return what this worker is sending."""
        ...

    def claimed_by_lost_workers(self, heartbeat_before: datetime) -> Sequence[Message]:
        """Return at most 1,000 SENDING messages whose worker is gone or has an older heartbeat."""
        ...

    def count_sending(self) -> int:
        """Return how many messages are SENDING, over all workers."""
        ...

    def postpone_held(self, now: datetime, until: datetime, limit: int) -> int:
        """Postpone held messages among the first `limit` that are due, and return how many.

        `due` then does not read past them each time, however many there are.
        """
        ...

    def delete_finished(self, outbox_ids: Sequence[OutboxId]) -> int:
        """Delete those of these that are COMPLETED or DISCARDED, and return how many."""
        ...


class Channels(Protocol):
    """The state of sending for each outbox."""

    def get(self, kind: OutboxKind) -> Channel: ...

    def save(self, channel: Channel, now: datetime) -> None: ...


class SellerCircuits(Protocol):
    """The circuits of sellers whose messages failed since one was last accepted."""

    def of(self, kind: OutboxKind) -> Mapping[SellerId, SellerCircuit]: ...

    def save(self, circuits: Sequence[SellerCircuit], now: datetime) -> None:
        """Write these; one with nothing to remember is deleted."""
        ...

    def forget_idle(self, kind: OutboxKind) -> int:
        """Delete those of sellers without a message to send, and return how many."""
        ...


class Attempts(Protocol):
    """The log of attempts to deliver."""

    def add(self, kind: OutboxKind, attempts: Sequence[Attempt]) -> None: ...

    def of(self, outbox_id: OutboxId, limit: int) -> Sequence[Attempt]:
        """Return the attempts of one message, newest first."""
        ...

    def count(self, outbox_ids: Sequence[OutboxId]) -> Mapping[OutboxId, int]:
        """Count the attempts of each of these messages that had any."""
        ...

    def last_ended(self, outbox_ids: Sequence[OutboxId]) -> Mapping[OutboxId, datetime]:
        """Return when the last attempt of each of these messages ended that had any."""
        ...

    def forget(self, before: datetime, limit: int) -> int:
        """Delete at most `limit` attempts made before then, and return how many."""
        ...


@dataclass(frozen=True)
class MessageFilter:
    """Which messages: every field that is given narrows it. `since` and `until` compare when a message was made."""

    status: MessageStatus | None = None
    seller_id: SellerId | None = None
    event_type: str | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True)
class MessageCounts:
    """The messages of a filter in numbers. `held` wait behind one of them."""

    messages: int
    subjects: int
    held: int
    by_type: Mapping[str, int]
    by_seller: Mapping[str, int]


@dataclass(frozen=True)
class OutboxCounts:
    """An outbox in numbers. `held` wait behind a FAILED message; `tried` are WAITING and were sent before; `oldest_at`
    is when the oldest WAITING message that is not held was made."""

    by_status: Mapping[MessageStatus, int]
    held: int
    tried: int
    oldest_at: datetime | None


class OutboxQueries(Protocol):
    """Read-only queries over one outbox."""

    def page(self, chosen: MessageFilter, cursor: Cursor | None, limit: int) -> Page[Message]:
        """Return messages, newest first."""
        ...

    def ids(self, chosen: MessageFilter, limit: int) -> Sequence[OutboxId]:
        """Return ids, oldest first."""
        ...

    def count(self, chosen: MessageFilter) -> MessageCounts: ...

    def counts(self) -> OutboxCounts: ...

    def pending(self) -> int:
        """Return how many messages are WAITING or SENDING and not held."""
        ...

    def holders(self, outbox_ids: Sequence[OutboxId]) -> dict[OutboxId, OutboxId]:
        """Return, for each of these that is held, the FAILED message it waits behind."""
        ...

    def failed_of(self, subject_id: PublicId) -> Sequence[OutboxId]:
        """Return the FAILED messages of a subject, oldest first."""
        ...

    def deliveries(self, limit: int) -> Sequence[tuple[datetime, datetime]]:
        """Return when the newest delivered messages were made and delivered, oldest first."""
        ...

    def superseded(self, before: datetime, limit: int) -> Sequence[OutboxId]:
        """Return finished messages made before then, except the last delivered one of each subject: the next change of
        a product is a change from that one."""
        ...


class OutboxTx(ResendTx, AuditTx, Protocol):
    @property
    def product_outbox(self) -> Outbox: ...

    @property
    def scheduler_outbox(self) -> Outbox: ...

    def outbox(self, kind: OutboxKind) -> Outbox: ...

    @property
    def channels(self) -> Channels: ...

    @property
    def seller_circuits(self) -> SellerCircuits: ...

    @property
    def attempts(self) -> Attempts: ...

    def delivery_queue(self, kind: OutboxKind) -> DeliveryQueue: ...

    def outbox_queries(self, kind: OutboxKind) -> OutboxQueries: ...
