"""A failure as a value: what went wrong, whose fault it is, the facts, and when. Sentences are made where it is shown.

Every failure is charged to exactly one party (`Blame`). The table `BLAME` is the only place that says whose fault a
code is; `kernel/wording.py` has the sentences in each language.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Self

Fact = str | int | float

#: Longest text that a single fact keeps; anything from outside is cut to it.
LONGEST_FACT = 500


class Blame(StrEnum):
    AGENT = "AGENT"
    MARKETPLACE = "MARKETPLACE"
    SELLER = "SELLER"
    PRODUCT = "PRODUCT"
    PARSER = "PARSER"
    RECEIVER = "RECEIVER"
    PERSON = "PERSON"
    OURSELVES = "OURSELVES"


class FailureCode(StrEnum):
    """What can go wrong with a task or a run, why a completed task left something out, and why a seller is late."""

    # The marketplace answered.
    TOO_MANY_REQUESTS = "TOO_MANY_REQUESTS"
    TOKEN_REJECTED = "TOKEN_REJECTED"  # noqa: S105
    FRESH_TOKEN_REJECTED = "FRESH_TOKEN_REJECTED"  # noqa: S105
    PRODUCT_GONE = "PRODUCT_GONE"
    BAD_REQUEST = "BAD_REQUEST"
    REFUSED = "REFUSED"
    SERVER_ERROR = "SERVER_ERROR"
    NO_TOKEN_GIVEN = "NO_TOKEN_GIVEN"  # noqa: S105
    # There was no whole answer.
    UNREACHABLE = "UNREACHABLE"
    TIMED_OUT = "TIMED_OUT"
    CONNECTION_DROPPED = "CONNECTION_DROPPED"
    ANSWER_TOO_LARGE = "ANSWER_TOO_LARGE"
    # The answer could not be used.
    UNREADABLE = "UNREADABLE"
    # It could not be asked.
    NO_SESSION = "NO_SESSION"
    NO_FREE_AGENT = "NO_FREE_AGENT"
    AGENT_CIRCUITS_OPEN = "AGENT_CIRCUITS_OPEN"
    BUDGET_USED_UP = "BUDGET_USED_UP"
    CIRCUIT_OPEN = "CIRCUIT_OPEN"
    POOL_BREAKER_OPEN = "POOL_BREAKER_OPEN"
    MARKETPLACE_PAUSED = "MARKETPLACE_PAUSED"
    RUN_PAUSED = "RUN_PAUSED"
    # It was given up.
    REQUEST_LIMIT = "REQUEST_LIMIT"
    WORKER_LOST = "WORKER_LOST"
    CANCELLED = "CANCELLED"
    SELLER_DEACTIVATED = "SELLER_DEACTIVATED"
    RUN_ENDED = "RUN_ENDED"
    DEADLINE_PASSED = "DEADLINE_PASSED"
    OVERTAKEN = "OVERTAKEN"
    # Why a seller is late.
    PARTS_HELD = "PARTS_HELD"
    REMOVAL_HELD = "REMOVAL_HELD"
    PARTS_NOT_READ = "PARTS_NOT_READ"
    RUN_TAKES_LONG = "RUN_TAKES_LONG"
    RUN_SKIPPED = "RUN_SKIPPED"
    START_OVERDUE = "START_OVERDUE"
    OUTBOX_PAUSED = "OUTBOX_PAUSED"
    RECEIVER_AWAY = "RECEIVER_AWAY"
    SELLER_REFUSED = "SELLER_REFUSED"
    EVENTS_WAIT = "EVENTS_WAIT"
    # Our own.
    INTERNAL = "INTERNAL"
    #: Recorded as a sentence before failures had codes.
    RECORDED = "RECORDED"


BLAME: Mapping[FailureCode, Blame] = {
    FailureCode.TOO_MANY_REQUESTS: Blame.AGENT,
    FailureCode.TOKEN_REJECTED: Blame.AGENT,
    FailureCode.FRESH_TOKEN_REJECTED: Blame.AGENT,
    FailureCode.PRODUCT_GONE: Blame.PRODUCT,
    FailureCode.BAD_REQUEST: Blame.OURSELVES,
    FailureCode.REFUSED: Blame.MARKETPLACE,
    FailureCode.SERVER_ERROR: Blame.MARKETPLACE,
    FailureCode.NO_TOKEN_GIVEN: Blame.AGENT,
    FailureCode.UNREACHABLE: Blame.MARKETPLACE,
    FailureCode.TIMED_OUT: Blame.MARKETPLACE,
    FailureCode.CONNECTION_DROPPED: Blame.MARKETPLACE,
    FailureCode.ANSWER_TOO_LARGE: Blame.MARKETPLACE,
    FailureCode.UNREADABLE: Blame.PARSER,
    FailureCode.NO_SESSION: Blame.MARKETPLACE,
    FailureCode.NO_FREE_AGENT: Blame.AGENT,
    FailureCode.AGENT_CIRCUITS_OPEN: Blame.AGENT,
    FailureCode.BUDGET_USED_UP: Blame.AGENT,
    FailureCode.CIRCUIT_OPEN: Blame.MARKETPLACE,
    FailureCode.POOL_BREAKER_OPEN: Blame.AGENT,
    FailureCode.MARKETPLACE_PAUSED: Blame.PERSON,
    FailureCode.RUN_PAUSED: Blame.PARSER,
    FailureCode.REQUEST_LIMIT: Blame.MARKETPLACE,
    FailureCode.WORKER_LOST: Blame.OURSELVES,
    FailureCode.CANCELLED: Blame.PERSON,
    FailureCode.SELLER_DEACTIVATED: Blame.PERSON,
    FailureCode.RUN_ENDED: Blame.PERSON,
    FailureCode.DEADLINE_PASSED: Blame.OURSELVES,
    FailureCode.OVERTAKEN: Blame.MARKETPLACE,
    FailureCode.PARTS_HELD: Blame.PERSON,
    FailureCode.REMOVAL_HELD: Blame.PERSON,
    FailureCode.PARTS_NOT_READ: Blame.OURSELVES,
    FailureCode.RUN_TAKES_LONG: Blame.OURSELVES,
    FailureCode.RUN_SKIPPED: Blame.OURSELVES,
    FailureCode.START_OVERDUE: Blame.OURSELVES,
    FailureCode.OUTBOX_PAUSED: Blame.PERSON,
    FailureCode.RECEIVER_AWAY: Blame.RECEIVER,
    FailureCode.SELLER_REFUSED: Blame.RECEIVER,
    FailureCode.EVENTS_WAIT: Blame.RECEIVER,
    FailureCode.INTERNAL: Blame.OURSELVES,
    FailureCode.RECORDED: Blame.OURSELVES,
}


_CODES = {str(code): code for code in FailureCode}
_BLAMES = {str(blame): blame for blame in Blame}


@dataclass(frozen=True, slots=True)
class Failure:
    """`facts` fill the sentence of the code: pairs, so that equal failures are equal and hashable. Where another
    failure is the cause, its facts are among them, and `cause` is its code (with that of its own cause: `A/B`)."""

    code: FailureCode
    at: datetime
    facts: tuple[tuple[str, Fact], ...] = ()
    blamed: Blame | None = None

    @classmethod
    def of(cls, code: FailureCode, at: datetime, blamed: Blame | None = None, **facts: Fact) -> Self:
        kept = tuple((name, v[:LONGEST_FACT] if isinstance(v, str) else v) for name, v in sorted(facts.items()))
        return cls(code, at, kept, None if blamed is BLAME[code] else blamed)

    @classmethod
    def because(
        cls, cause: Failure | None, code: FailureCode, at: datetime, blamed: Blame | None = None, **facts: Fact
    ) -> Self:
        """A failure that another one led to; None: the cause is not known."""
        if cause is None:
            return cls.of(code, at, blamed, **facts)
        given = cause.facts_by_name
        chain = "/".join((cause.code, *cause.causes))
        return cls.of(code, at, blamed, **given | facts | {"cause": chain})

    @property
    def causes(self) -> tuple[str, ...]:
        """The codes of the failures that led to this one, the nearest first."""
        chain = self.facts_by_name.get("cause")
        return tuple(str(chain).split("/")) if chain else ()

    @property
    def blame(self) -> Blame:
        """Whose fault it is: as the code says, unless this failure has a blame of its own."""
        return self.blamed or BLAME[self.code]

    @property
    def facts_by_name(self) -> dict[str, Fact]:
        return dict(self.facts)

    @property
    def facts_json(self) -> str:
        return json.dumps(self.facts_by_name, ensure_ascii=False, sort_keys=True)

    @classmethod
    def stored(cls, code: str | None, blame: str | None, facts: str | None, at: datetime | None) -> Self | None:
        """Read back from its four columns. A code of a newer version is shown as a recorded one."""
        if code is None or at is None:
            return None
        given: dict[str, Fact] = json.loads(facts) if facts else {}
        known = _CODES.get(code, FailureCode.RECORDED)
        if known is FailureCode.RECORDED:
            given.setdefault("text", code)
        return cls.of(known, at, _BLAMES.get(blame or ""), **given)


def failure_columns(failure: Failure | None) -> tuple[str | None, str | None, str | None, datetime | None]:
    """Code, blame, facts and time, as four columns keep them."""
    if failure is None:
        return None, None, None, None
    return failure.code, failure.blame, failure.facts_json, failure.at
