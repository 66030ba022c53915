"""A resend: delivered events sent again, byte for byte and with their keys, because an operator asks for it.

It is a delivery beside the ordinary one: the events stay COMPLETED, hold no other event of their product, and an answer
changes neither them nor the receiver's circuit. It goes through the outbox once, in its order; events that fail are
tried again later, so that they do not keep the others. While nothing is accepted it waits longer and longer, and in the
end it fails. Resent events reach a receiver late: it applies by version.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from sellerwatch.kernel.errors import Conflict, NotFound
from sellerwatch.kernel.ids import ItemNo, OutboxId, ResendId, SellerId
from sellerwatch.kernel.lifecycle import Lifecycle

#: While new events wait to be delivered, so many of a resend are sent in a round, and a round begins once a second.
BESIDE_OTHERS = 1
#: So many rounds in a row of which nothing was accepted end a resend: with the usual back-off about 6 hours.
MOST_FAILED_ROUNDS = 100


class ResendStatus(StrEnum):
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


RESEND_LIFE = Lifecycle(
    noun="resend",
    first=ResendStatus.RUNNING,
    moves={
        (ResendStatus.RUNNING, "record"): ResendStatus.RUNNING,
        (ResendStatus.RUNNING, "complete"): ResendStatus.COMPLETED,
        (ResendStatus.RUNNING, "give_up"): ResendStatus.FAILED,
        (ResendStatus.RUNNING, "cancel"): ResendStatus.CANCELLED,
        (ResendStatus.CANCELLED, "record"): ResendStatus.CANCELLED,
    },
    resting=frozenset({ResendStatus.COMPLETED, ResendStatus.FAILED, ResendStatus.CANCELLED}),
)


class ResendAnswer(StrEnum):
    """What came of resending one event. FAILED: tried as often as an event is; RETRYING: tried, and tried again."""

    ACCEPTED = "ACCEPTED"
    REFUSED = "REFUSED"
    FAILED = "FAILED"
    RETRYING = "RETRYING"


@dataclass(eq=False)
class ResendNotFound(NotFound):
    resend_id: str


@dataclass(eq=False)
class NothingToResend(Conflict):
    """No delivered event is in the choice."""


@dataclass(eq=False)
class NotDelivered(Conflict):
    """The event was not delivered: it cannot be sent again, it has not arrived once."""

    outbox_id: str
    status: str


@dataclass(frozen=True)
class ResendChoice:
    """Which delivered events: these, or all that every given field fits. `since` and `until` compare when an event was
    delivered."""

    outbox_ids: tuple[OutboxId, ...] = ()
    seller_id: SellerId | None = None
    event_type: str | None = None
    item_no: ItemNo | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True)
class ResentEvent:
    """The last try to resend one event. `tries` are those that count."""

    resend_id: ResendId
    outbox_id: OutboxId
    answer: ResendAnswer
    tries: int
    tried_at: datetime
    duration_ms: int
    http_status_code: int | None
    text: str | None
    next_try_at: datetime | None = None

    @property
    def is_over(self) -> bool:
        return self.answer is not ResendAnswer.RETRYING


@dataclass(frozen=True)
class Resend:
    """A resend and how far it is. `after_row` is the last row of the outbox that was tried once, `last_row` the last of
    the choice when it was asked for; `retrying` events before it are tried again.

    `failures` counts rounds in a row of which every event failed; nothing is sent before `not_before`. `answered_at` is
    when the receiver last accepted an event or refused one for good: either way it was there.
    """

    resend_id: ResendId
    choice: ResendChoice
    total: int
    last_row: int
    requested_by: str
    created_at: datetime
    status: ResendStatus = RESEND_LIFE.first
    after_row: int = 0
    accepted: int = 0
    refused: int = 0
    failed: int = 0
    failures: int = 0
    answered_at: datetime | None = None
    not_before: datetime | None = None
    problem: str | None = None
    ended_at: datetime | None = None
    ended_by: str | None = None

    @property
    def is_running(self) -> bool:
        return self.status is ResendStatus.RUNNING

    @property
    def answered(self) -> int:
        """How many events came to an end."""
        return self.accepted + self.refused + self.failed

    def record(
        self,
        events: Sequence[ResentEvent],
        after_row: int,
        answered_at: datetime | None,
        not_before: datetime | None,
        problem: str | None,
    ) -> Resend:
        """Count the answers of a round. `not_before`: every event of the round failed, and the receiver is left alone
        until then."""
        number = {answer: sum(event.answer is answer for event in events) for answer in ResendAnswer}
        return self._move(
            "record",
            after_row=after_row,
            accepted=self.accepted + number[ResendAnswer.ACCEPTED],
            refused=self.refused + number[ResendAnswer.REFUSED],
            failed=self.failed + number[ResendAnswer.FAILED],
            failures=0 if not_before is None else self.failures + 1,
            answered_at=answered_at,
            not_before=not_before,
            problem=problem,
        )

    def complete(self, now: datetime) -> Resend:
        return self._move("complete", ended_at=now, not_before=None)

    @property
    def is_hopeless(self) -> bool:
        return self.failures >= MOST_FAILED_ROUNDS

    def give_up(self, now: datetime) -> Resend:
        """End it with events left: the receiver accepted nothing of it for too long."""
        return self._move("give_up", ended_at=now, not_before=None)

    def cancel(self, by: str, now: datetime) -> Resend:
        """Send no more of it. Requests under way are still answered and counted."""
        return self._move("cancel", ended_at=now, ended_by=by, not_before=None)

    def _move(self, verb: str, **changed: object) -> Resend:
        status = RESEND_LIFE.after(self.status, verb, self.resend_id)
        return replace(self, status=status, **changed)  # type: ignore[arg-type]


@dataclass(frozen=True)
class ResendCounts:
    """The delivered events of a choice in numbers, and the row of the last one."""

    messages: int
    last_row: int
    by_type: dict[str, int] = field(default_factory=dict)
    by_seller: dict[str, int] = field(default_factory=dict)
