"""The two outboxes in SQL: one class, its statements made once for each table.

Order within a subject is the order of the inner ids: whoever adds a message of a subject holds that subject's row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sellerwatch.adapters.sql.statements import AnyRow, Db, Params
from sellerwatch.kernel.ids import ExecutionId, ItemNo, OutboxId, ProductId, PublicId, ScheduleId, SellerId, WorkerId
from sellerwatch.outbox.message import AttemptGuard, Message, MessageStatus, OutboxKind

# What a message is made of, in the order `_message` reads it.
COLUMNS = """o.outbox_id, o.{subject}, o.seller_id, o.event_type, o.payload, o.created_at, o.next_attempt_at, o.status,
o.retry_count, {attempted}, o.error_message, o.sent_at, o.worker_id, {of_a_product}"""

# Nobody of the same subject stands before it: what waits, is being sent, or failed for good holds all behind it.
FIRST_IN_LINE = """NOT EXISTS (
    SELECT 1 FROM {outbox} e
    WHERE e.{subject} = o.{subject} AND e.id < o.id AND e.status IN ('WAITING', 'SENDING', 'FAILED'))"""

# Add a product's event.
ADD_TO_PRODUCT = """
INSERT INTO product_outbox (outbox_id, product_id, item_no, seller_id, execution_id, event_type, version, payload,
    status, retry_count, attempted, error_message, worker_id, next_attempt_at, created_at, updated_at, sent_at)
VALUES (:outbox_id, :subject_id, :item_no, :seller_id, :execution_id, :event_type, :version, :payload,
    :status, :retry_count, :attempted, :error_message, :worker_id, :next_attempt_at, :created_at, :updated_at, :sent_at)
"""

# Add a schedule's event.
ADD_TO_SCHEDULER = """
INSERT INTO scheduler_outbox (outbox_id, schedule_id, seller_id, event_type, payload,
    status, retry_count, error_message, worker_id, next_attempt_at, created_at, updated_at, sent_at)
VALUES (:outbox_id, :subject_id, :seller_id, :event_type, :payload,
    :status, :retry_count, :error_message, :worker_id, :next_attempt_at, :created_at, :updated_at, :sent_at)
"""

# Due and first in line, oldest first. The limit counts rows that may go: those that are held are passed over, so that
# however many there are they keep nobody else waiting.
DUE = """
SELECT {columns} FROM {outbox} o
WHERE o.status = 'WAITING' AND o.next_attempt_at <= :now AND {first_in_line}
ORDER BY o.next_attempt_at, o.id LIMIT :limit
"""

# The time at which the next first-in-line message may go.
NEXT_DUE = """
SELECT o.next_attempt_at FROM {outbox} o
WHERE o.status = 'WAITING' AND o.next_attempt_at IS NOT NULL AND {first_in_line}
ORDER BY o.next_attempt_at, o.id LIMIT 1
"""

# Some messages by their ids.
GET_MANY = "SELECT {columns} FROM {outbox} o WHERE o.outbox_id IN (:outbox_ids) ORDER BY o.id"

# Another body for a message that waits. No index knows it.
REWORD = """
UPDATE {outbox} SET payload = :payload, updated_at = :now
WHERE outbox_id = :outbox_id AND CASE status WHEN 'WAITING' THEN 1 END = 1
"""

# Everything that can change of a message but its body: a large one is not bound and compared again.
MOVE = """
UPDATE {outbox} SET {set_attempted} status = :status, retry_count = :retry_count, error_message = :error_message,
    worker_id = :worker_id, next_attempt_at = :next_attempt_at, updated_at = :updated_at, sent_at = :sent_at
WHERE outbox_id = :outbox_id
"""

# Which of some messages are being sent, by whom and at which try. The CASE leaves but one index to go by, the ids'.
GRIPS = """
SELECT o.outbox_id, o.worker_id, o.retry_count FROM {outbox} o
WHERE o.outbox_id IN (:outbox_ids) AND CASE o.status WHEN 'SENDING' THEN 1 END = 1
"""

# What one worker is sending.
HELD_BY = "SELECT {columns} FROM {outbox} o WHERE o.status = 'SENDING' AND o.worker_id = :worker_id ORDER BY o.id"

# What is being sent by a worker that has not been heard of since, or never.
HELD_BY_LAPSED = """
SELECT {columns} FROM {outbox} o LEFT JOIN workers w ON w.worker_id = o.worker_id
WHERE o.status = 'SENDING' AND (w.heartbeat_at IS NULL OR w.heartbeat_at < :beat_before)
ORDER BY o.id LIMIT 1000
"""

# The newest of one subject.
LATEST_OF = "SELECT {columns} FROM {outbox} o WHERE o.{subject} = :subject_id ORDER BY o.id DESC LIMIT :limit"

# How many wait or are being sent.
UNFINISHED = "SELECT COUNT(*) FROM {outbox} WHERE status IN ('WAITING', 'SENDING')"

# How many of those wait behind one that failed for good; counted from the failures, which are few.
HELD_BACK = """
SELECT COUNT(*) FROM (
    SELECT DISTINCT w.id FROM {outbox} f CROSS JOIN {outbox} w
    WHERE w.{subject} = f.{subject} AND w.id > f.id AND f.status = 'FAILED' AND w.status = 'WAITING') held
"""

# How many are being sent.
UNDER_WAY = "SELECT COUNT(*) FROM {outbox} WHERE status = 'SENDING'"

# Of the first that are due, those behind one that failed for good: others leave, so these gather at the head.
BEHIND_FAILED = """
SELECT held.id FROM (
    SELECT w.id, w.{subject} AS subject_id FROM {outbox} w WHERE w.status = 'WAITING' AND w.next_attempt_at <= :now
    ORDER BY w.next_attempt_at, w.id LIMIT :limit) held
WHERE EXISTS (
    SELECT 1 FROM {outbox} f WHERE f.{subject} = held.subject_id AND f.id < held.id AND f.status = 'FAILED')
"""

SET_ASIDE = "UPDATE {outbox} SET next_attempt_at = :until, updated_at = :now WHERE id = :id AND status = 'WAITING'"

# One that was ever sent has a time of its own to wait for. The CASE leaves but one index to go by, the subject's.
FREE = """
UPDATE {outbox} SET next_attempt_at = :now, updated_at = :now
WHERE {subject} = :subject_id AND CASE status WHEN 'WAITING' THEN next_attempt_at END > :now AND NOT ({attempted})
"""

# Over, old, and not the last that the receiver of its subject was told.
SUPERSEDED = """
SELECT o.outbox_id FROM {outbox} o WHERE o.status IN ('COMPLETED', 'DISCARDED') AND o.created_at < :before AND EXISTS (
    SELECT 1 FROM {outbox} n WHERE n.{subject} = o.{subject} AND n.id > o.id AND n.status = 'COMPLETED')
LIMIT :limit
"""

FORGET = "DELETE FROM {outbox} WHERE outbox_id IN (:outbox_ids) AND status IN ('COMPLETED', 'DISCARDED')"

# Take back a message that nobody has seen.
REMOVE = "DELETE FROM {outbox} WHERE outbox_id = :outbox_id AND status = 'WAITING' AND NOT ({attempted})"


@dataclass(frozen=True)
class _Statements:
    """One table's statements."""

    add: str
    due: str
    next_due: str
    get_many: str
    reword: str
    move: str
    attempt_guards: str
    held_by: str
    held_by_lapsed: str
    latest_of: str
    unfinished: str
    held_back: str
    remove: str
    under_way: str
    behind_failed: str
    set_aside: str
    free: str
    superseded: str
    forget: str

    @classmethod
    def of(cls, kind: OutboxKind, add: str) -> _Statements:
        sent = (DUE, NEXT_DUE, GET_MANY, REWORD, MOVE, GRIPS, HELD_BY, HELD_BY_LAPSED, LATEST_OF, UNFINISHED, HELD_BACK)
        kept = (REMOVE, UNDER_WAY, BEHIND_FAILED, SET_ASIDE, FREE, SUPERSEDED, FORGET)
        return cls(add, *(for_table(statement, kind) for statement in (*sent, *kept)))


def for_table(statement: str, kind: OutboxKind) -> str:
    """A statement that is written once, for one of the two tables."""
    for name, text in (("columns", COLUMNS), ("first_in_line", FIRST_IN_LINE), *PARTS[kind].items()):
        statement = statement.replace(f"{{{name}}}", text)
    return statement


# A schedule's message is never merged, so whether it was attempted is not kept of it.
PARTS: Mapping[OutboxKind, Mapping[str, str]] = {
    OutboxKind.PRODUCT: {
        "outbox": "product_outbox",
        "subject": "product_id",
        "attempted": "attempted",
        "of_a_product": "o.item_no, o.version, o.execution_id",
        "set_attempted": "attempted = :attempted,",
    },
    OutboxKind.SCHEDULER: {
        "outbox": "scheduler_outbox",
        "subject": "schedule_id",
        "attempted": "retry_count > 0 OR status <> 'WAITING'",
        "of_a_product": "NULL, 0, NULL",
        "set_attempted": "",
    },
}

STATEMENTS: Mapping[OutboxKind, _Statements] = {
    OutboxKind.PRODUCT: _Statements.of(OutboxKind.PRODUCT, ADD_TO_PRODUCT),
    OutboxKind.SCHEDULER: _Statements.of(OutboxKind.SCHEDULER, ADD_TO_SCHEDULER),
}


class SqlOutbox:
    """Implements `outbox.ports.Outbox`."""

    def __init__(self, db: Db, kind: OutboxKind) -> None:
        self._db = db
        self._sql = STATEMENTS[kind]
        self._kind = kind

    def add(self, message: Message) -> None:
        self.add_all([message])

    def add_all(self, messages: Sequence[Message]) -> None:
        self._db.many(self._sql.add, [_values(each, each.created_at) for each in messages])

    def due(self, now: datetime, limit: int) -> Sequence[Message]:
        return self._found(self._db.take(self._sql.due, {"now": now, "limit": limit})) if limit > 0 else ()

    def get(self, outbox_id: OutboxId) -> Message | None:
        return next(iter(self.get_many([outbox_id])), None)

    def get_many(self, outbox_ids: Sequence[OutboxId]) -> Sequence[Message]:
        return self._found(self._db.hold(self._sql.get_many, outbox_ids=outbox_ids)) if outbox_ids else ()

    def move(self, messages: Sequence[Message], now: datetime) -> None:
        self._db.many(self._sql.move, [_moved(message, now) for message in messages])

    def reword(self, message: Message, now: datetime) -> None:
        given = {"outbox_id": message.outbox_id, "payload": message.payload, "now": now}
        self._db.run(self._sql.reword, given)

    def attempt_guards(self, outbox_ids: Sequence[OutboxId]) -> Mapping[OutboxId, AttemptGuard]:
        rows = self._db.hold(self._sql.attempt_guards, outbox_ids=outbox_ids) if outbox_ids else ()
        return {OutboxId(row[0]): (WorkerId(row[1]), row[2]) for row in rows}

    def held_by(self, worker_id: WorkerId) -> Sequence[Message]:
        return self._found(self._db.hold(self._sql.held_by, {"worker_id": worker_id}))

    def held_by_lapsed(self, beat_before: datetime) -> Sequence[Message]:
        found = self._found(self._db.rows(self._sql.held_by_lapsed, {"beat_before": beat_before}))
        if not self._db.shared:
            return found
        # Not held at once: that would hold the workers' rows too, and their hearts could not beat.
        still = {message.outbox_id: message for message in self.get_many([each.outbox_id for each in found])}
        return [each for each in found if still.get(each.outbox_id) == each]

    def next_due(self) -> datetime | None:
        due: datetime | None = self._db.value(self._sql.next_due)
        return due

    def latest_of(self, subject_id: PublicId, limit: int) -> Sequence[Message]:
        return self._found(self._db.hold(self._sql.latest_of, {"subject_id": subject_id, "limit": limit}))

    def under_way(self) -> int:
        return int(self._db.value(self._sql.under_way))

    def pending(self) -> int:
        return int(self._db.value(self._sql.unfinished)) - int(self._db.value(self._sql.held_back))

    def remove(self, outbox_id: OutboxId) -> None:
        self._db.run(self._sql.remove, {"outbox_id": outbox_id})

    def set_aside(self, now: datetime, until: datetime, limit: int) -> int:
        rows = self._db.rows(self._sql.behind_failed, {"now": now, "limit": limit})
        return self._db.many(self._sql.set_aside, [{"id": row[0], "now": now, "until": until} for row in rows])

    def free(self, subject_ids: Sequence[PublicId], now: datetime) -> None:
        self._db.many(self._sql.free, [{"subject_id": subject_id, "now": now} for subject_id in subject_ids])

    def superseded(self, before: datetime, limit: int) -> Sequence[OutboxId]:
        return [OutboxId(row[0]) for row in self._db.rows(self._sql.superseded, {"before": before, "limit": limit})]

    def forget(self, outbox_ids: Sequence[OutboxId]) -> int:
        return self._db.run(self._sql.forget, outbox_ids=outbox_ids) if outbox_ids else 0

    def _found(self, rows: Sequence[AnyRow]) -> Sequence[Message]:
        return [message_of(row, self._kind) for row in rows]


def _values(message: Message, now: datetime) -> Params:
    return {
        **_moved(message, now),
        "subject_id": message.subject_id,
        "item_no": message.item_no,
        "seller_id": message.seller_id,
        "execution_id": message.execution_id,
        "event_type": message.event_type,
        "version": message.version,
        "payload": message.payload,
        "created_at": message.created_at,
    }


def _moved(message: Message, now: datetime) -> Params:
    return {
        "outbox_id": message.outbox_id,
        "status": message.status.value,
        "retry_count": message.retry_count,
        "attempted": message.attempted,
        "error_message": message.error_message,
        "worker_id": message.worker_id,
        "next_attempt_at": message.next_attempt_at,
        "updated_at": now,
        "sent_at": message.sent_at,
    }


def message_of(row: AnyRow, kind: OutboxKind) -> Message:
    """A message from `COLUMNS`."""
    return Message(
        outbox_id=OutboxId(row[0]),
        subject_id=ProductId(row[1]) if kind is OutboxKind.PRODUCT else ScheduleId(row[1]),
        seller_id=SellerId(row[2]),
        event_type=row[3],
        payload=row[4],
        created_at=row[5],
        next_attempt_at=row[6],
        status=MessageStatus(row[7]),
        retry_count=row[8],
        attempted=bool(row[9]),
        error_message=row[10],
        sent_at=row[11],
        worker_id=None if row[12] is None else WorkerId(row[12]),
        item_no=None if row[13] is None else ItemNo(row[13]),
        version=row[14],
        execution_id=None if row[15] is None else ExecutionId(row[15]),
    )
