"""What the sender of an outbox reads and writes, in SQL: due messages, current attempts, messages of lost workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from sellerwatch.adapters.sql.deltas import Deltas
from sellerwatch.adapters.sql.engine import time_of
from sellerwatch.adapters.sql.outbox import GET_MANY, for_table, messages_of
from sellerwatch.adapters.sql.statements import AnyRow, Db
from sellerwatch.kernel.ids import OutboxId, SellerId, WorkerId
from sellerwatch.outbox.message import AttemptKey, Message, OutboxKind

# Due and first of their subject, oldest first. The limit counts rows that can be sent: held ones are read past, however
# many there are.
DUE = """
SELECT {columns} FROM {outbox} o
WHERE o.status = 'WAITING' AND o.seller_id = :seller_id AND o.next_attempt_at <= :now AND {first_in_line}
ORDER BY o.next_attempt_at, o.id LIMIT :limit
"""

# The sellers with waiting messages, from one to the next by the index, however many messages each has; and when the
# next of each that is first of its subject becomes due.
WAITING_SELLERS = """
WITH RECURSIVE sellers(seller_id) AS (
    SELECT MIN(w.seller_id) FROM {outbox} w WHERE w.status = 'WAITING'
    UNION ALL
    SELECT (SELECT MIN(w.seller_id) FROM {outbox} w WHERE w.status = 'WAITING' AND w.seller_id > s.seller_id)
    FROM sellers s WHERE s.seller_id IS NOT NULL)
SELECT s.seller_id, (
    SELECT o.next_attempt_at FROM {outbox} o
    WHERE o.status = 'WAITING' AND o.seller_id = s.seller_id AND o.next_attempt_at IS NOT NULL AND {first_in_line}
    ORDER BY o.next_attempt_at, o.id LIMIT 1)
FROM sellers s WHERE s.seller_id IS NOT NULL
"""

# The current attempts of some messages. The CASE leaves the ids' index as the only one to use.
CURRENT_ATTEMPTS = """
SELECT o.outbox_id, o.worker_id, o.retry_count FROM {outbox} o
WHERE o.outbox_id IN (:outbox_ids) AND CASE o.status WHEN 'SENDING' THEN 1 END = 1
"""

# What one worker is sending.
CLAIMED_BY = "SELECT {columns} FROM {outbox} o WHERE o.status = 'SENDING' AND o.worker_id = :worker_id ORDER BY o.id"

# What is being sent by a worker whose heartbeat is old or that has no row.
CLAIMED_BY_LOST_WORKERS = """
SELECT {columns} FROM {outbox} o LEFT JOIN workers w ON w.worker_id = o.worker_id
WHERE o.status = 'SENDING' AND (w.heartbeat_at IS NULL OR w.heartbeat_at < :heartbeat_before)
ORDER BY o.id LIMIT 1000
"""

# How many are being sent.
COUNT_SENDING = "SELECT COUNT(*) FROM {outbox} WHERE status = 'SENDING'"

# Held messages among the first that are due: the others are sent, so held ones gather at the head of the index.
HELD = """
SELECT held.id FROM (
    SELECT w.id, w.{subject} AS subject_id FROM {outbox} w WHERE w.status = 'WAITING' AND w.next_attempt_at <= :now
    ORDER BY w.next_attempt_at, w.id LIMIT :limit) held
WHERE EXISTS (
    SELECT 1 FROM {outbox} f WHERE f.{subject} = held.subject_id AND f.id < held.id AND f.status = 'FAILED')
"""

POSTPONE = "UPDATE {outbox} SET next_attempt_at = :until, updated_at = :now WHERE id = :id AND status = 'WAITING'"

DELETE_FINISHED = "DELETE FROM {outbox} WHERE outbox_id IN (:outbox_ids) AND status IN ('COMPLETED', 'DISCARDED')"


class SqlDeliveryQueue:
    """Implements `outbox.ports.DeliveryQueue`."""

    def __init__(self, db: Db, kind: OutboxKind, deltas: Deltas) -> None:
        self._db = db
        self._kind = kind
        self._deltas = deltas

    def due(self, now: datetime, seller_id: SellerId, limit: int) -> Sequence[Message]:
        given = {"now": now, "seller_id": seller_id, "limit": limit}
        return self._messages(self._db.take(self._sql(DUE), given)) if limit > 0 else ()

    def waiting_sellers(self) -> Mapping[SellerId, datetime]:
        rows = [(row[0], time_of(row[1])) for row in self._db.rows(self._sql(WAITING_SELLERS))]
        return {SellerId(seller_id): due_at for seller_id, due_at in rows if due_at is not None}

    def current_attempts(self, outbox_ids: Sequence[OutboxId]) -> Mapping[OutboxId, AttemptKey]:
        rows = self._db.hold(self._sql(CURRENT_ATTEMPTS), outbox_ids=outbox_ids) if outbox_ids else ()
        return {OutboxId(row[0]): (WorkerId(row[1]), row[2]) for row in rows}

    def claimed_by(self, worker_id: WorkerId) -> Sequence[Message]:
        return self._messages(self._db.hold(self._sql(CLAIMED_BY), {"worker_id": worker_id}))

    def claimed_by_lost_workers(self, heartbeat_before: datetime) -> Sequence[Message]:
        given = {"heartbeat_before": heartbeat_before}
        found = self._messages(self._db.rows(self._sql(CLAIMED_BY_LOST_WORKERS), given))
        if not self._db.shared or not found:
            return found
        # Locked in a second statement: a lock on the joined rows would also stop the workers' heartbeats.
        rows = self._db.hold(self._sql(GET_MANY), outbox_ids=[each.outbox_id for each in found])
        locked = {message.outbox_id: message for message in self._messages(rows)}
        return [each for each in found if locked.get(each.outbox_id) == each]

    def count_sending(self) -> int:
        return int(self._db.value(self._sql(COUNT_SENDING)))

    def postpone_held(self, now: datetime, until: datetime, limit: int) -> int:
        rows = self._db.rows(self._sql(HELD), {"now": now, "limit": limit})
        return self._db.many(self._sql(POSTPONE), [{"id": row[0], "now": now, "until": until} for row in rows])

    def delete_finished(self, outbox_ids: Sequence[OutboxId]) -> int:
        return self._db.run(self._sql(DELETE_FINISHED), outbox_ids=outbox_ids) if outbox_ids else 0

    def _sql(self, statement: str) -> str:
        return for_table(statement, self._kind)

    def _messages(self, rows: Sequence[AnyRow]) -> Sequence[Message]:
        return messages_of(rows, self._kind, self._deltas)
