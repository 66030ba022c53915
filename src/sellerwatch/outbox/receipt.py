"""The result of one attempt to deliver, and what is kept of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from sellerwatch.kernel.ids import OutboxId

#: How many characters of an answer's body are kept.
LONGEST_ANSWER = 500

_OK = range(200, 300)
_CLIENT_ERRORS = range(400, 500)
_WORTH_REPEATING = frozenset({408, 429})
#: With these statuses a Retry-After is about the whole receiver, not about one message.
_WHOLE_RECEIVER = frozenset({429, 503})


class DeliveryVerdict(StrEnum):
    """What an attempt came to: delivered, worth repeating, or refused for good."""

    DELIVERED = "DELIVERED"
    RETRY = "RETRY"
    REFUSED = "REFUSED"


@dataclass(frozen=True, slots=True)
class Receipt:
    """The receiver's answer to one attempt. `wait` is its Retry-After; `status` is None when it did not answer;
    `answer` is the beginning of its body. `is_cut`: the connection was there and ended before the answer, which the
    same request made again at once may well get."""

    verdict: DeliveryVerdict
    status: int | None = None
    problem: str = ""
    wait: timedelta | None = None
    answer: str = ""
    is_cut: bool = False

    @property
    def asks_for_rest(self) -> bool:
        """Whether the receiver wants nothing at all for a while."""
        return self.wait is not None and self.status in _WHOLE_RECEIVER

    @classmethod
    def of_answer(cls, status: int, body: bytes, wait: timedelta | None = None) -> Receipt:
        """Judge an answer: 2xx is delivered, 4xx except 408 and 429 is refused, everything else may be repeated."""
        kept = _readable(body)
        if status in _OK:
            return cls(DeliveryVerdict.DELIVERED, status, answer=kept)
        refused = status in _CLIENT_ERRORS and status not in _WORTH_REPEATING
        verdict, asked = (DeliveryVerdict.REFUSED, None) if refused else (DeliveryVerdict.RETRY, wait)
        return cls(verdict, status, f"answered {status}: {kept}".removesuffix(": "), asked, kept)

    @classmethod
    def of_damage(cls) -> Receipt:
        """Return the receipt of a message that is not sent, because its stored body is damaged."""
        return cls(DeliveryVerdict.REFUSED, None, "not sent: its stored body is damaged")

    @classmethod
    def of_silence(cls, problem: str, *, is_cut: bool = False) -> Receipt:
        """Return the receipt of an attempt without an answer. The message may have arrived; the same key on the next
        attempt makes that harmless."""
        return cls(DeliveryVerdict.RETRY, None, _readable(problem.encode("utf-8", "replace")), is_cut=is_cut)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt in the log. `try_number` counts from 1, again after a replay; an attempt that is not counted shares
    its number with the next. `answer` is the beginning of the answer, or why there was none."""

    outbox_id: OutboxId
    try_number: int
    at: datetime
    duration_ms: int | None
    status: int | None
    verdict: DeliveryVerdict
    is_counted: bool
    answer: str


def _readable(body: bytes) -> str:
    """Return the beginning of an answer in printable characters."""
    text = body[: 4 * LONGEST_ANSWER].decode("utf-8", "replace")
    if not text.isprintable():
        text = "".join(c if c.isprintable() or c in "\n\t" else " " for c in text)
    return text.strip()[:LONGEST_ANSWER]
