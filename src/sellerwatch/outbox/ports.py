"""What delivery needs: the rows, the way out, and somebody to give them to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from sellerwatch.kernel.activity import ActivityLog
from sellerwatch.kernel.ids import OutboxId, PublicId, SellerId, WorkerId
from sellerwatch.kernel.paging import Cursor, Page
from sellerwatch.outbox.channel import Channel
from sellerwatch.outbox.message import AttemptGuard, Message, MessageStatus, OutboxKind
from sellerwatch.outbox.receipt import Attempt, Receipt
from sellerwatch.oversight.ports import AuditTx


class Receiver(Protocol):
    """Takes one message: the same key and the same body on every try. Never raises: every end is a receipt."""

    async def deliver(self, message: Message, now: datetime) -> Receipt: ...


class Outbox(Protocol):
    """One of the two tables. Within a subject messages stand in the order they were added."""

    def add(self, message: Message) -> None: ...

    def add_all(self, messages: Sequence[Message]) -> None: ...

    def due(self, now: datetime, limit: int) -> Sequence[Message]:
        """WAITING, due, oldest first, and first in line: no earlier message of the same subject is unfinished.

        An unfinished one is WAITING, SENDING or FAILED: what failed for good holds its subject until a person frees it.
        """
        ...

    def get(self, outbox_id: OutboxId) -> Message | None: ...

    def get_many(self, outbox_ids: Sequence[OutboxId]) -> Sequence[Message]:
        """Those that are there, in the order they were added."""
        ...

    def move(self, messages: Sequence[Message], now: datetime) -> None:
        """All that can change of messages that are there but their bodies: a large one is not written again."""
        ...

    def reword(self, message: Message, now: datetime) -> None:
        """Another body for a message that waits and nobody has seen; nothing else of it changes."""
        ...

    def attempt_guards(self, outbox_ids: Sequence[OutboxId]) -> Mapping[OutboxId, AttemptGuard]:
        """Which of these are being sent, by whom and at which try."""
        ...

    def held_by(self, worker_id: WorkerId) -> Sequence[Message]:
        """SENDING, by this worker."""
        ...

    def held_by_lapsed(self, beat_before: datetime) -> Sequence[Message]:
        """SENDING, by a worker whose heartbeat is older than that, or that is gone; at most a thousand at a time."""
        ...

    def under_way(self) -> int:
        """How many are SENDING, by whomever."""
        ...

    def next_due(self) -> datetime | None:
        """When the next first-in-line message becomes due."""
        ...

    def latest_of(self, subject_id: PublicId, limit: int) -> Sequence[Message]:
        """The newest messages of one subject, newest first."""
        ...

    def pending(self) -> int:
        """Messages that will still move by themselves: WAITING or SENDING, but not behind one that failed for good."""
        ...

    def remove(self, outbox_id: OutboxId) -> None:
        """Take back a message nobody has seen; one that was ever put on the wire stays."""
        ...

    def set_aside(self, now: datetime, until: datetime, limit: int) -> int:
        """Of the first `limit` that are due, those behind one that failed for good are not looked at again until then:
        however many there are, `due` need not pass over them each time. Says how many that were."""
        ...

    def free(self, subject_ids: Sequence[PublicId], now: datetime) -> None:
        """The one before them is out of the way: what was set aside of these subjects is due again."""
        ...

    def superseded(self, before: datetime, limit: int) -> Sequence[OutboxId]:
        """Over and made before then, and not the last that its subject's receiver was told: that is what the next
        change is a change of."""
        ...

    def forget(self, outbox_ids: Sequence[OutboxId]) -> int: ...


class Channels(Protocol):
    """The way out of each outbox."""

    def get(self, kind: OutboxKind) -> Channel: ...

    def save(self, channel: Channel, now: datetime) -> None: ...


class Attempts(Protocol):
    """Every try there was."""

    def add(self, kind: OutboxKind, attempts: Sequence[Attempt]) -> None: ...

    def of(self, outbox_id: OutboxId, limit: int) -> Sequence[Attempt]:
        """Of one message, newest first."""
        ...

    def forget(self, before: datetime, limit: int) -> int: ...


@dataclass(frozen=True)
class MessageFilter:
    """Which messages: what is given narrows it. `since` and `until` are about when a message was made."""

    status: MessageStatus | None = None
    seller_id: SellerId | None = None
    event_type: str | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True)
class Chosen:
    """A choice in numbers. `held` are those that wait behind chosen ones."""

    messages: int
    subjects: int
    held: int
    by_type: Mapping[str, int]
    by_seller: Mapping[str, int]


@dataclass(frozen=True)
class Tally:
    """An outbox in numbers. `oldest_at` is when the oldest was made of those that wait and may go; `held` wait behind
    one that failed for good."""

    by_status: Mapping[MessageStatus, int]
    held: int
    oldest_at: datetime | None


class OutboxView(Protocol):
    """An outbox as an operator looks at it; nothing is changed by looking."""

    def newest(self, choice: MessageFilter, limit: int) -> Sequence[Message]:
        """Newest first."""
        ...

    def page(self, choice: MessageFilter, cursor: Cursor | None, limit: int) -> Page[Message]:
        """Newest first, behind a cursor."""
        ...

    def ids(self, choice: MessageFilter, limit: int) -> Sequence[OutboxId]:
        """Oldest first."""
        ...

    def count(self, choice: MessageFilter) -> Chosen: ...

    def tally(self) -> Tally: ...

    def holders(self, outbox_ids: Sequence[OutboxId]) -> dict[OutboxId, OutboxId]:
        """Which of these stand behind a message that failed for good, and behind which."""
        ...

    def failed_of(self, subject_id: PublicId) -> Sequence[OutboxId]:
        """Those of one subject that failed for good, oldest first."""
        ...


class OutboxTx(AuditTx, Protocol):
    @property
    def product_outbox(self) -> Outbox: ...

    @property
    def scheduler_outbox(self) -> Outbox: ...

    def outbox(self, kind: OutboxKind) -> Outbox: ...

    @property
    def channels(self) -> Channels: ...

    @property
    def attempts(self) -> Attempts: ...

    @property
    def activity(self) -> ActivityLog: ...

    def outbox_view(self, kind: OutboxKind) -> OutboxView: ...
