"""An outbox message: something that must be told to somebody outside, written in the transaction that made it true.

One noun, two tables: messages about products go to the product server, messages about schedules to the scheduler.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from sellerwatch.kernel.errors import Conflict, Invalid, NotFound
from sellerwatch.kernel.fast_values import quick
from sellerwatch.kernel.ids import ExecutionId, ItemNo, OutboxId, PublicId, SellerId, WorkerId
from sellerwatch.kernel.lifecycle import Lifecycle


class OutboxKind(StrEnum):
    """Which of the two outboxes."""

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
    },
    resting=frozenset({MessageStatus.COMPLETED, MessageStatus.FAILED, MessageStatus.DISCARDED}),
)

TRIES = 5
LONGEST_ERROR = 2000

#: Whoever sends a message, and how many of its tries had failed before.
AttemptGuard = tuple[WorkerId, int]


@dataclass(eq=False)
class InvalidPayload(Invalid):
    """A payload that is not a JSON object."""

    problem: str


@dataclass(eq=False)
class MessageNotFound(NotFound):
    outbox_id: str


@dataclass(eq=False)
class TriesSpent(Conflict):
    """A message that failed for good; an operator can replay or discard it."""

    outbox_id: str
    tries: int


@quick
@dataclass(frozen=True)
class Message:
    """`subject_id` is the product or the schedule it is about: messages of one subject go one at a time, in order.

    `retry_count` counts tries that failed. `next_attempt_at` is when it may be sent; a FAILED message without one has
    failed for good: it is kept, holds its subject, and is replayed or discarded by a person. The payload is fixed once
    it was put on the wire (`attempted`): one idempotency key, one body. The last three fields are a product's alone.
    """

    outbox_id: OutboxId
    subject_id: PublicId
    seller_id: SellerId
    event_type: str
    payload: str
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
        # Made by our own serialiser: its first and last character tell an object from everything else it makes.
        if not (self.payload.startswith("{") and self.payload.endswith("}")):
            raise InvalidPayload(problem="it is not an object")

    @property
    def kind(self) -> OutboxKind:
        return OutboxKind.SCHEDULER if self.item_no is None else OutboxKind.PRODUCT

    def send(self, worker_id: WorkerId) -> Message:
        return self._move("send", worker_id=worker_id, attempted=True)

    def complete(self, now: datetime) -> Message:
        return self._move("complete", sent_at=now, error_message=None, next_attempt_at=None, worker_id=None)

    def fail(self, error: str, now: datetime, wait: timedelta, tries: int = TRIES) -> Message:
        """A counted try. While tries are left the next is `wait` away; after the last it has failed for good."""
        spent = self.retry_count + 1
        then = now + wait if spent < tries else None
        return self._move("fail", retry_count=spent, next_attempt_at=then, **_said(error))

    def refuse(self, error: str) -> Message:
        """The receiver will never take it unchanged: failed for good at the first answer."""
        return self._move("refuse", retry_count=self.retry_count + 1, next_attempt_at=None, **_said(error))

    def lose_lease(self, now: datetime, wait: timedelta, tries: int = TRIES) -> Message:
        """Its sender vanished. It may have arrived, so the try counts; the same key and body make a repeat harmless."""
        spent = self.retry_count + 1
        if spent >= tries:
            return self.fail("its sender vanished", now, wait, tries)
        return self._move("lose_lease", retry_count=spent, next_attempt_at=now + wait, worker_id=None)

    def put_back(self, not_before: datetime) -> Message:
        """Claimed, but without an answer when we stopped: not counted. It may have been seen, so it stays as it is."""
        return self._move("put_back", next_attempt_at=not_before, worker_id=None)

    def can_retry(self) -> bool:
        return self.status is MessageStatus.FAILED and self.next_attempt_at is not None

    def retry(self) -> Message:
        """Back to WAITING until its next time. Refused when it failed for good: that takes a person (`replay`)."""
        moved = self._move("retry", error_message=None)
        if not self.can_retry():
            raise TriesSpent(outbox_id=self.outbox_id, tries=self.retry_count)
        return moved

    def replay(self, now: datetime) -> Message:
        """By an operator: once more from the start, with a fresh count and the same key and body."""
        return self._move("replay", retry_count=0, next_attempt_at=now, error_message=None)

    def discard(self) -> Message:
        """By an operator: given up; its subject goes on without it."""
        return self._move("discard", next_attempt_at=None)

    def is_due(self, now: datetime) -> bool:
        return self.status is MessageStatus.WAITING and self.next_attempt_at is not None and self.next_attempt_at <= now

    @property
    def grip(self) -> AttemptGuard | None:
        """Who sends it, and at which try: the guard of a late answer. None while nobody does."""
        if self.status is not MessageStatus.SENDING or self.worker_id is None:
            return None
        return self.worker_id, self.retry_count

    def _move(self, verb: str, **changed: object) -> Message:
        return replace(self, status=MESSAGE_LIFE.after(self.status, verb, self.outbox_id), **changed)  # type: ignore[arg-type]


def _said(error: str) -> dict[str, object]:
    """What is kept of an error: never longer than its column, or the failure itself could not be saved."""
    return {"error_message": error[:LONGEST_ERROR], "worker_id": None}
