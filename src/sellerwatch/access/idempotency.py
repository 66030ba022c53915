"""Idempotency-Key: a request takes effect once however often it is sent, and gets the same response each time.

A key is claimed in one transaction before the request is handled; the response is stored in another one after it. If
the process dies in between, it is unknown how far the request came: a repetition is refused instead of done twice. A
response that says that nothing was done releases the key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sellerwatch.access.ports import IdempotencyTx
from sellerwatch.kernel.errors import Conflict, Invalid
from sellerwatch.kernel.ids import WorkerId
from sellerwatch.kernel.operations import OperationContext

#: How long a response is kept.
KEPT = timedelta(hours=24)
LONGEST_KEY = 200
#: The worker of a claim that no process handles any more.
NO_WORKER = WorkerId("00000000-0000-0000-0000-000000000000")
#: Statuses that say that nothing was done. 502 is not among them (it leaves a failed run), nor are our own failures.
NOTHING_DONE = frozenset({400, 401, 403, 404, 405, 409, 413, 429, 503})
#: Statuses of our own failures: it is unknown what was done.
OUR_FAILURES = range(500, 600)


@dataclass(eq=False)
class InvalidIdempotencyKey(Invalid):
    longest: int


@dataclass(eq=False)
class IdempotencyKeyUsed(Conflict):
    """The key was used for a different request."""


@dataclass(eq=False)
class RequestUnderWay(Conflict):
    """The first request with this key has no response yet."""

    retry_after: float = 1.0

    @property
    def facts(self) -> dict[str, object]:
        return {}


@dataclass(eq=False)
class OutcomeUnknown(Conflict):
    """The process that handled the first request is gone, or the request broke half-way."""


@dataclass(frozen=True)
class KeyClaim:
    """The claim of a key by one request. `claim_id` differs between requests, not between runs of one transaction."""

    key: bytes
    fingerprint: bytes
    claim_id: str
    worker_id: WorkerId


@dataclass(frozen=True)
class StoredResponse:
    """A claimed key and its response. `status` is None until there is one."""

    claim: KeyClaim
    created_at: datetime
    status: int | None
    headers: Mapping[str, str]
    body: bytes


def key_of(caller: str, key: str) -> bytes:
    """Return the hash under which a key of a caller is kept. Callers do not share keys."""
    if not (0 < len(key) <= LONGEST_KEY and key.isascii() and key.isprintable()):
        raise InvalidIdempotencyKey(longest=LONGEST_KEY)
    return hashlib.sha256(f"{caller}\0{key}".encode()).digest()


def fingerprint_of(path: str, query: bytes, body: bytes) -> bytes:
    """Return what two requests must have in common to be the same."""
    parts = (path.encode("utf-8", "replace"), query, body)
    return hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).digest()


def claim_key(
    tx: IdempotencyTx,
    context: OperationContext,
    claim: KeyClaim,
    silent_after: timedelta,
    in_progress: Set[str] = frozenset(),
) -> StoredResponse | None:
    """Claim a key and return None, or return the response that its first request got.

    `in_progress` are the claims that this process is handling.
    """
    now, found = context.now, tx.idempotency_keys.get(claim.key)
    if found is not None and now - found.created_at >= KEPT:
        tx.idempotency_keys.release(found.claim)
        found = None
    if found is None:
        tx.idempotency_keys.claim(claim, now)
        return None
    if found.claim.fingerprint != claim.fingerprint:
        raise IdempotencyKeyUsed
    if found.status is not None:
        return found
    if found.claim.claim_id == claim.claim_id:
        return None
    if found.claim.worker_id == claim.worker_id:
        is_handled = found.claim.claim_id in in_progress
    else:
        is_handled = tx.idempotency_keys.is_alive(found.claim.worker_id, now - silent_after)
    raise RequestUnderWay if is_handled else OutcomeUnknown


def store_response(
    tx: IdempotencyTx, context: OperationContext, claim: KeyClaim, status: int, headers: Mapping[str, str], body: bytes
) -> None:
    """Store the response for repetitions, or release the key where nothing was done. After a failure of ours it is
    unknown what was done: that response is not stored."""
    if status in NOTHING_DONE:
        tx.idempotency_keys.release(claim)
    elif status in OUR_FAILURES:
        abandon_key(tx, context, claim)
    else:
        tx.idempotency_keys.store(claim, status, headers, body, context.now)


def abandon_key(tx: IdempotencyTx, context: OperationContext, claim: KeyClaim) -> None:
    """Record that a request broke half-way: no process handles it any more, and its outcome is unknown."""
    tx.idempotency_keys.release(claim)
    tx.idempotency_keys.claim(replace(claim, worker_id=NO_WORKER), context.now)
