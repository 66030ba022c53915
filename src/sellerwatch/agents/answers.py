"""What the marketplace answered, in the words that decide what happens next, and the port that asks it.

A client puts an answer into these words and decides nothing: `agents/judgement.py` says what each kind means.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from sellerwatch.agents.token import Token
from sellerwatch.kernel.ids import UserAgentId

UNAVAILABLE = 503


class Identity(Struct, frozen=True):
    """The agent that a request is made as. Its token is decrypted only where the header is built, and only for it."""

    user_agent_id: UserAgentId
    user_agent: str
    token: Token


class AnswerKind(StrEnum):
    """OK: 2xx. The network's failures are kinds of their own: there was no whole answer."""

    OK = "OK"
    GONE = "GONE"
    TOO_MANY = "TOO_MANY"
    UNAUTHORISED = "UNAUTHORISED"
    BAD_REQUEST = "BAD_REQUEST"
    REFUSED = "REFUSED"
    REDIRECTED = "REDIRECTED"
    SERVER_ERROR = "SERVER_ERROR"
    UNREACHABLE = "UNREACHABLE"
    TIMED_OUT = "TIMED_OUT"
    DROPPED = "DROPPED"
    TOO_LARGE = "TOO_LARGE"
    #: Of the token page: 2xx without a usable token cookie.
    NO_TOKEN = "NO_TOKEN"  # noqa: S105


class Answer(Struct, frozen=True):
    """One request's end. `detail` is for the operator and never holds a header or a body; `wait` is what a 429 or a 503
    asked for, if it did."""

    kind: AnswerKind
    status: int | None
    body: bytes = b""
    detail: str = ""
    wait: timedelta | None = None

    @property
    def is_rate_limited(self) -> bool:
        """A 429, or a 503 that says when to come back."""
        return self.kind is AnswerKind.TOO_MANY or (self.status == UNAVAILABLE and self.wait is not None)


@dataclass(frozen=True, repr=False)
class Session:
    """What the token page gave an identity, in the clear: sealed at once and never kept or printed."""

    token: str
    nid: str
    mustit_uid: str
    lifetime: timedelta

    def __repr__(self) -> str:
        return "Session(hidden)"


class Client(Protocol):
    """Asks the marketplace, one request for one answer; nothing is retried and nothing raised."""

    async def fetch(self, url: str, identity: Identity, now: datetime) -> Answer: ...

    async def open_session(self, user_agent: str, now: datetime) -> Session | Answer:
        """A new guest session, or the answer that gave none."""
