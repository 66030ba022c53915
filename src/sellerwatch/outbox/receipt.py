"""What a receiver said to one try, and what is kept of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from sellerwatch.kernel.ids import OutboxId

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
    """The receiver's answer to one try. `wait` is what it asked for; `status` is None when it did not answer, and
    `answer` is the beginning of what it said."""

    verdict: Verdict
    status: int | None = None
    problem: str = ""
    wait: timedelta | None = None
    answer: str = ""

    @classmethod
    def of_answer(cls, status: int, body: bytes, wait: timedelta | None = None) -> Receipt:
        """2xx is success whatever its body; 4xx but 408 and 429 will not get better; the rest (a redirect too) may."""
        said = _said(body)
        if status in _OK:
            return cls(Verdict.DELIVERED, status, answer=said)
        refused = status in _CLIENT_ERRORS and status not in _WORTH_REPEATING
        verdict, kept = (Verdict.REFUSED, None) if refused else (Verdict.RETRY, wait)
        return cls(verdict, status, f"answered {status}: {said}".removesuffix(": "), kept, said)

    @classmethod
    def of_silence(cls, problem: str) -> Receipt:
        """No answer: it may have arrived or not, which the same key on the next try makes harmless."""
        return cls(Verdict.RETRY, None, _said(problem.encode("utf-8", "replace")))


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try as it is kept. `try_number` counts from 1 and again after a replay; a try that was not `is_counted`
    shares its number with the next. `answer` is the beginning of what was said, or why nothing was."""

    outbox_id: OutboxId
    try_number: int
    at: datetime
    duration_ms: int | None
    status: int | None
    verdict: Verdict
    is_counted: bool
    answer: str


def _said(body: bytes) -> str:
    """The first lines of an answer, in characters any column takes."""
    text = body[: 4 * LONGEST_ANSWER].decode("utf-8", "replace")
    if not text.isprintable():
        text = "".join(c if c.isprintable() or c in "\n\t" else " " for c in text)
    return text.strip()[:LONGEST_ANSWER]
