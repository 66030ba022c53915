"""Idempotency-Keys and their stored responses, in SQL."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import orjson

from sellerwatch.access.idempotency import KeyClaim, StoredResponse
from sellerwatch.adapters.sql.statements import Repository
from sellerwatch.kernel.ids import WorkerId

GET = """
SELECT fingerprint, claim_id, worker_id, created_at, status, headers, body FROM idempotency_keys WHERE key_hash = :key
"""

CLAIM = """
INSERT INTO idempotency_keys (key_hash, fingerprint, claim_id, worker_id, created_at)
VALUES (:key, :fingerprint, :claim_id, :worker_id, :now)
"""

# Only for the claim that holds the key now.
STORE = """
UPDATE idempotency_keys SET status = :status, headers = :headers, body = :body, answered_at = :now
WHERE key_hash = :key AND claim_id = :claim_id
"""

RELEASE = "DELETE FROM idempotency_keys WHERE key_hash = :key AND claim_id = :claim_id"

ALIVE = "SELECT 1 FROM workers WHERE worker_id = :worker_id AND stopped_at IS NULL AND heartbeat_at > :heartbeat_after"

FORGET = """
DELETE FROM idempotency_keys WHERE id IN (
    SELECT id FROM (SELECT id FROM idempotency_keys WHERE created_at < :before LIMIT :limit) AS oldest)
"""


class SqlIdempotencyKeys(Repository):
    """Implements `access.ports.IdempotencyKeys`."""

    def get(self, key: bytes) -> StoredResponse | None:
        row = self._db.hold_row(GET, {"key": key})
        if row is None:
            return None
        claim = KeyClaim(key, bytes(row[0]), row[1], WorkerId(row[2]))
        headers = orjson.loads(row[5]) if row[5] is not None else {}
        return StoredResponse(claim, row[3], row[4], headers, bytes(row[6] or b""))

    def claim(self, claim: KeyClaim, now: datetime) -> None:
        held = {"key": claim.key, "claim_id": claim.claim_id, "worker_id": claim.worker_id}
        self._db.run(CLAIM, held | {"fingerprint": claim.fingerprint, "now": now})

    def store(self, claim: KeyClaim, status: int, headers: Mapping[str, str], body: bytes, now: datetime) -> None:
        response = {"status": status, "headers": orjson.dumps(dict(headers)).decode(), "body": body, "now": now}
        self._db.run(STORE, response | {"key": claim.key, "claim_id": claim.claim_id})

    def release(self, claim: KeyClaim) -> None:
        self._db.run(RELEASE, {"key": claim.key, "claim_id": claim.claim_id})

    def is_alive(self, worker_id: WorkerId, heartbeat_after: datetime) -> bool:
        return self._db.value(ALIVE, {"worker_id": worker_id, "heartbeat_after": heartbeat_after}) is not None

    def forget(self, before: datetime, limit: int) -> int:
        return self._db.run(FORGET, {"before": before, "limit": limit})
