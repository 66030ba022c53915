"""Answers kept for an Idempotency-Key, in SQL."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import orjson

from sellerwatch.access.idempotency import Claim, KeptAnswer
from sellerwatch.adapters.sql.statements import Db
from sellerwatch.kernel.ids import WorkerId

GET = """
SELECT fingerprint, claim_id, worker_id, created_at, status, headers, body FROM idempotency_keys WHERE key_hash = :key
"""

CLAIM = """
INSERT INTO idempotency_keys (key_hash, fingerprint, claim_id, worker_id, created_at)
VALUES (:key, :fingerprint, :claim_id, :worker_id, :now)
"""

# Only the holder's own: one whose key was given to somebody else since has nothing to say.
KEEP = """
UPDATE idempotency_keys SET status = :status, headers = :headers, body = :body, answered_at = :now
WHERE key_hash = :key AND claim_id = :claim_id
"""

FREE = "DELETE FROM idempotency_keys WHERE key_hash = :key AND claim_id = :claim_id"

ALIVE = "SELECT 1 FROM workers WHERE worker_id = :worker_id AND stopped_at IS NULL AND heartbeat_at > :beat_after"

FORGET = """
DELETE FROM idempotency_keys WHERE id IN (
    SELECT id FROM (SELECT id FROM idempotency_keys WHERE created_at < :before LIMIT :limit) AS oldest)
"""


class SqlAnswers:
    def __init__(self, db: Db) -> None:
        self._db = db

    def get(self, key: bytes) -> KeptAnswer | None:
        row = self._db.hold_row(GET, {"key": key})
        if row is None:
            return None
        claim = Claim(key, bytes(row[0]), row[1], WorkerId(row[2]))
        headers = orjson.loads(row[5]) if row[5] is not None else {}
        return KeptAnswer(claim, row[3], row[4], headers, bytes(row[6] or b""))

    def claim(self, claim: Claim, now: datetime) -> None:
        held = {"key": claim.key, "claim_id": claim.claim_id, "worker_id": claim.worker_id}
        self._db.run(CLAIM, held | {"fingerprint": claim.fingerprint, "now": now})

    def keep(self, claim: Claim, status: int, headers: Mapping[str, str], body: bytes, now: datetime) -> None:
        said = {"status": status, "headers": orjson.dumps(dict(headers)).decode(), "body": body, "now": now}
        self._db.run(KEEP, said | {"key": claim.key, "claim_id": claim.claim_id})

    def free(self, claim: Claim) -> None:
        self._db.run(FREE, {"key": claim.key, "claim_id": claim.claim_id})

    def is_alive(self, worker_id: WorkerId, beat_after: datetime) -> bool:
        return self._db.value(ALIVE, {"worker_id": worker_id, "beat_after": beat_after}) is not None

    def forget(self, before: datetime, limit: int) -> int:
        return self._db.run(FORGET, {"before": before, "limit": limit})
