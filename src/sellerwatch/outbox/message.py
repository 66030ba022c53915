"""An outbox message: an event to deliver, written in the transaction that caused it.

Messages about products go to the product server, messages about schedules to the scheduler; each has its own table.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from msgspec import Struct, structs

from sellerwatch.kernel.errors import Conflict, Invalid, NotFound
from sellerwatch.kernel.ids import ExecutionId, ItemNo, OutboxId, PublicId, SellerId, WorkerId
from sellerwatch.kernel.lifecycle import Lifecycle


class OutboxKind(StrEnum):
    """Which outbox: messages about products, or about schedules."""

    PRODUCT = "product"
    SCHEDULER = "scheduler"


class MessageStatus(StrEnum):
    WAITING = "WAITING"
    SENDING = "SENDING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    DISCARDED = "DISCARDED"


MESSAGE_LIFE = Lifecycle(
    noun="message",
    first=MessageStatus.WAITING,
    moves={
        (MessageStatus.WAITING, "send"): MessageStatus.SENDING,
        (MessageStatus.SENDING, "complete"): MessageStatus.COMPLETED,
        (MessageStatus.SENDING, "fail"): MessageStatus.FAILED,
        (MessageStatus.SENDING, "refuse"): MessageStatus.FAILED,
        (MessageStatus.SENDING, "lose_lease"): MessageStatus.WAITING,
        (MessageStatus.SENDING, "put_back"): MessageStatus.WAITING,
        (MessageStatus.FAILED, "retry"): MessageStatus.WAITING,
        (MessageStatus.FAILED, "replay"): MessageStatus.WAITING,
        (MessageStatus.FAILED, "discard"): MessageStatus.DISCARDED,
        (MessageStatus.WAITING, "supersede"): MessageStatus.DISCARDED,
        (MessageStatus.SENDING, "supersede"): MessageStatus.DISCARDED,
        (MessageStatus.FAILED, "supersede"): MessageStatus.DISCARDED,
    },
    resting=frozenset({MessageStatus.COMPLETED, MessageStatus.FAILED, MessageStatus.DISCARDED}),
)

MAX_ATTEMPTS = 5
LONGEST_ERROR = 2000

#: The payload of a message whose stored one is damaged.
DAMAGED = b'{"damaged":"the stored body cannot be read; it is not sent"}'

#: Identifies an attempt: the worker that sends the message, and how many attempts had failed before.
AttemptKey = tuple[WorkerId, int]


@dataclass(eq=False)
class InvalidPayload(Invalid):
    """The payload is not a JSON object."""

    problem: str


@dataclass(eq=False)
class MessageNotFound(NotFound):
    outbox_id: str


@dataclass(eq=False)
class TriesSpent(Conflict):
    """The message has used all its attempts; an operator can replay or discard it."""

    outbox_id: str
    tries: int


class Message(Struct, frozen=True):
    """An event to deliver. `subject_id` is the product or schedule it is about: the messages of a subject are sent one
    at a time, in order.

    `retry_count` counts failed attempts. `next_attempt_at` is when it may be sent; a FAILED message without one has no
    attempt left: it holds the later messages of its subject until an operator replays or discards it. The payload is
    fixed once it was sent (`attempted`): one idempotency key, one body. It is `DAMAGED` where the stored one cannot
    be read: such a message is never sent. Only messages about products have the last three fields.
    """

    outbox_id: OutboxId
    subject_id: PublicId
    seller_id: SellerId
    event_type: str
    payload: bytes
    created_at: datetime
    next_attempt_at: datetime | None
    status: MessageStatus = MESSAGE_LIFE.first
    retry_count: int = 0
    attempted: bool = False
    error_message: str | None = None
    sent_at: datetime | None = None
    worker_id: WorkerId | None = None
    item_no: ItemNo | None = None
    version: int = 0
    execution_id: ExecutionId | None = None

    def __post_init__(self) -> None:
        # The payload comes from our own serialiser, so its first and last bytes are enough to know an object.
        if not (self.payload.startswith(b"{") and self.payload.endswith(b"}")):
            raise InvalidPayload(problem="it is not an object")

    @property
    def kind(self) -> OutboxKind:
        return OutboxKind.SCHEDULER if self.item_no is None else OutboxKind.PRODUCT

    @property
    def is_damaged(self) -> bool:
        return self.payload == DAMAGED

    def send(self, worker_id: WorkerId) -> Message:
        return self._move("send", worker_id=worker_id, attempted=True)

    def complete(self, now: datetime) -> Message:
        return self._move("complete", sent_at=now, error_message=None, next_attempt_at=None, worker_id=None)

    def fail(self, error: str, now: datetime, wait: timedelta, max_attempts: int = MAX_ATTEMPTS) -> Message:
        """Count a failed attempt. The next one is due after `wait`; after the last the message stays FAILED."""
        failed = self.retry_count + 1
        then = now + wait if failed < max_attempts else None
        return self._move("fail", retry_count=failed, next_attempt_at=then, **_failed_with(error))

    def refuse(self, error: str) -> Message:
        """Fail without another attempt: the receiver will never accept this body."""
        return self._move("refuse", retry_count=self.retry_count + 1, next_attempt_at=None, **_failed_with(error))

    def lose_lease(self, now: datetime, wait: timedelta, max_attempts: int = MAX_ATTEMPTS) -> Message:
        """Take the message back from a worker that is gone. It may have arrived, so the attempt counts; the same key
        and body make a repetition harmless."""
        failed = self.retry_count + 1
        if failed >= max_attempts:
            return self.fail("its sender vanished", now, wait, max_attempts)
        return self._move("lose_lease", retry_count=failed, next_attempt_at=now + wait, worker_id=None)

    def put_back(self, not_before: datetime) -> Message:
        """Take the message back without counting the attempt. It may have arrived, so its body must not change."""
        return self._move("put_back", next_attempt_at=not_before, worker_id=None)

    def can_retry(self) -> bool:
        return self.status is MessageStatus.FAILED and self.next_attempt_at is not None

    def retry(self) -> Message:
        """Return to WAITING until the next attempt is due. Refused when no attempt is left: that needs `replay`."""
        moved = self._move("retry", error_message=None)
        if not self.can_retry():
            raise TriesSpent(outbox_id=self.outbox_id, tries=self.retry_count)
        return moved

    def replay(self, now: datetime) -> Message:
        """Start over for an operator: attempts count from 0, the key and the body stay."""
        return self._move("replay", retry_count=0, next_attempt_at=now, error_message=None)

    def discard(self) -> Message:
        """Give up for an operator; later messages of the subject are sent without it."""
        return self._move("discard", next_attempt_at=None)

    def supersede(self) -> Message:
        """Give up because the database was restored: a later event of the subject may have been sent since."""
        return self._move("supersede", next_attempt_at=None, worker_id=None)

    def is_due(self, now: datetime) -> bool:
        return self.status is MessageStatus.WAITING and self.next_attempt_at is not None and self.next_attempt_at <= now

    @property
    def attempt_key(self) -> AttemptKey | None:
        """The current attempt, by which a late outcome is recognised; None while the message is not SENDING."""
        if self.status is not MessageStatus.SENDING or self.worker_id is None:
            return None
        return self.worker_id, self.retry_count

    def _move(self, verb: str, **changed: object) -> Message:
        return structs.replace(self, status=MESSAGE_LIFE.after(self.status, verb, self.outbox_id), **changed)


def _failed_with(error: str) -> dict[str, object]:
    """Return the fields of a failure; the error is cut to the length of its column."""
    return {"error_message": error[:LONGEST_ERROR], "worker_id": None}
