"""Idempotency-Key: one effect however often a request is sent, and the same answer each time.

A key is claimed in a transaction before anything is done, and its answer is kept in another one after it. In between
the process may die; then nobody knows how far it came, and whoever asks again is told so instead of doing it twice: at
most once, never twice. An answer that says that nothing was done frees its key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Set
from dataclasses import dataclass
from datetime import datetime, timedelta

from sellerwatch.access.ports import AnswersTx
from sellerwatch.kernel.errors import Conflict, Invalid
from sellerwatch.kernel.ids import WorkerId

#: How long an answer is kept.
KEPT = timedelta(hours=24)
LONGEST_KEY = 200
#: Refusals that say that nothing was done. Not among them: 502, which leaves a failed run, and our own failures.
NOTHING_DONE = frozenset({400, 401, 403, 404, 405, 409, 413, 429, 503})


@dataclass(eq=False)
class InvalidIdempotencyKey(Invalid):
    longest: int


@dataclass(eq=False)
class IdempotencyKeyUsed(Conflict):
    """The same key with another request: one of the two is a mistake."""


@dataclass(eq=False)
class RequestUnderWay(Conflict):
    """The first request with this key has not been answered yet."""

    retry_after: float = 1.0

    @property
    def facts(self) -> dict[str, object]:
        return {}


@dataclass(eq=False)
class OutcomeUnknown(Conflict):
    """The process that worked on it is gone, or it broke on the way."""


@dataclass(frozen=True)
class Claim:
    """Whoever holds it does the work. `claim_id` tells a second run of the same transaction from a second request."""

    key: bytes
    fingerprint: bytes
    claim_id: str
    worker_id: WorkerId


@dataclass(frozen=True)
class KeptAnswer:
    """`status` is None until it is answered."""

    claim: Claim
    created_at: datetime
    status: int | None
    headers: Mapping[str, str]
    body: bytes


def key_of(caller: str, key: str) -> bytes:
    """Callers do not share keys."""
    if not (0 < len(key) <= LONGEST_KEY and key.isascii() and key.isprintable()):
        raise InvalidIdempotencyKey(longest=LONGEST_KEY)
    return hashlib.sha256(f"{caller}\0{key}".encode()).digest()


def fingerprint_of(path: str, query: bytes, body: bytes) -> bytes:
    """What makes two requests the same."""
    parts = (path.encode("utf-8", "replace"), query, body)
    return hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).digest()


def claim(
    tx: AnswersTx, wanted: Claim, now: datetime, silent_after: timedelta, at_work: Set[str] = frozenset()
) -> KeptAnswer | None:
    """None: it is ours to do. Else the answer that was given. `at_work`: claims this process works on at the moment."""
    found = tx.answers.get(wanted.key)
    if found is not None and now - found.created_at >= KEPT:
        tx.answers.free(found.claim)
        found = None
    if found is None:
        tx.answers.claim(wanted, now)
        return None
    if found.claim.fingerprint != wanted.fingerprint:
        raise IdempotencyKeyUsed
    if found.status is not None:
        return found
    if found.claim.claim_id == wanted.claim_id:
        return None
    if found.claim.worker_id == wanted.worker_id:
        going = found.claim.claim_id in at_work
    else:
        going = tx.answers.is_alive(found.claim.worker_id, now - silent_after)
    raise RequestUnderWay if going else OutcomeUnknown


def keep(tx: AnswersTx, held: Claim, status: int, headers: Mapping[str, str], body: bytes, now: datetime) -> None:
    """The answer from now on, or a free key where nothing was done."""
    if status in NOTHING_DONE:
        tx.answers.free(held)
    else:
        tx.answers.keep(held, status, headers, body, now)
