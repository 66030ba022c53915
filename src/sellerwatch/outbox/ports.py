"""What delivery needs: the rows, and somebody to give them to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from sellerwatch.kernel.activity import ActivityLog
from sellerwatch.kernel.ids import OutboxId, PublicId, SellerId, WorkerId
from sellerwatch.outbox.message import Message, MessageStatus

#: What is kept of an answer's body.
LONGEST_ANSWER = 500

_OK = range(200, 300)
_CLIENT_ERRORS = range(400, 500)
_WORTH_REPEATING = frozenset({408, 429})


class Verdict(StrEnum):
    """What became of one try."""

    DELIVERED = "DELIVERED"
    RETRY = "RETRY"
    REFUSED = "REFUSED"


@dataclass(frozen=True, slots=True)
class Receipt:
    """The receiver's answer to one try. `wait` is what it asked for; `status` is None when it did not answer."""

    verdict: Verdict
    status: int | None = None
    problem: str = ""
    wait: timedelta | None = None

    @classmethod
    def of_answer(cls, status: int, body: bytes, wait: timedelta | None = None) -> Receipt:
        """2xx is success whatever its body; 4xx but 408 and 429 will not get better; the rest (a redirect too) may."""
        if status in _OK:
            return cls(Verdict.DELIVERED, status)
        refused = status in _CLIENT_ERRORS and status not in _WORTH_REPEATING
        verdict, kept = (Verdict.REFUSED, None) if refused else (Verdict.RETRY, wait)
        return cls(verdict, status, f"answered {status}: {_said(body)}".removesuffix(": "), kept)

    @classmethod
    def of_silence(cls, problem: str) -> Receipt:
        """No answer: it may have arrived or not, which the same key on the next try makes harmless."""
        return cls(Verdict.RETRY, None, _said(problem.encode("utf-8", "replace")))


def _said(body: bytes) -> str:
    """The first lines of an answer, in characters any column takes."""
    text = body[: 4 * LONGEST_ANSWER].decode("utf-8", "replace")
    return "".join(c if c.isprintable() or c in "\n\t" else " " for c in text).strip()[:LONGEST_ANSWER]


class Receiver(Protocol):
    """Takes one message: the same key and the same body on every try. Never raises: every end is a receipt."""

    async def deliver(self, message: Message, now: datetime) -> Receipt: ...


class Outbox(Protocol):
    """One of the two tables. Within a subject messages stand in the order they were added."""

    def add(self, message: Message) -> None: ...

    def due(self, now: datetime, limit: int) -> Sequence[Message]:
        """WAITING, due, oldest first, and first in line: no earlier message of the same subject is unfinished.

        An unfinished one is WAITING, SENDING or FAILED: what failed for good holds its subject until a person frees it.
        """
        ...

    def get(self, outbox_id: OutboxId) -> Message | None: ...

    def get_many(self, outbox_ids: Sequence[OutboxId]) -> Sequence[Message]:
        """Those that are there, in the order they were added."""
        ...

    def save(self, messages: Sequence[Message], now: datetime) -> None:
        """All that can change of messages that are there."""
        ...

    def held_by(self, worker_id: WorkerId) -> Sequence[Message]:
        """SENDING, by this worker."""
        ...

    def held_by_lapsed(self, beat_before: datetime) -> Sequence[Message]:
        """SENDING, by a worker whose heartbeat is older than that, or that is gone; at most a thousand at a time."""
        ...

    def next_due(self) -> datetime | None:
        """When the next first-in-line message becomes due."""
        ...

    def latest_of(self, subject_id: PublicId, limit: int) -> Sequence[Message]:
        """The newest messages of one subject, newest first."""
        ...

    def newest(self, *, seller_id: SellerId | None, status: MessageStatus | None, limit: int) -> Sequence[Message]:
        """For those who look: newest first."""
        ...

    def holders(self, outbox_ids: Sequence[OutboxId]) -> dict[OutboxId, OutboxId]:
        """Which of these stand behind a message that failed for good, and behind which."""
        ...

    def pending(self) -> int:
        """Messages that will still move by themselves: WAITING or SENDING, but not behind one that failed for good."""
        ...

    def remove(self, outbox_id: OutboxId) -> None:
        """Take back a message nobody has seen; one that was ever put on the wire stays."""
        ...


class OutboxTx(Protocol):
    @property
    def product_outbox(self) -> Outbox: ...

    @property
    def scheduler_outbox(self) -> Outbox: ...

    @property
    def activity(self) -> ActivityLog: ...
