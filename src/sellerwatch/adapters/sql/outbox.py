"""The outboxes in SQL: each statement is written once and used for both tables.

Messages of a subject are ordered by row id: a transaction that adds a message holds the row of its subject. Events of
products are stored compressed (`deltas.py`), messages about schedules as they are, and so are events stored by older
versions until a job has compressed them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache

from sellerwatch.adapters.sql.deltas import Deltas
from sellerwatch.adapters.sql.statements import AnyRow, Db, Params
from sellerwatch.kernel.ids import ExecutionId, ItemNo, OutboxId, ProductId, PublicId, ScheduleId, SellerId, WorkerId
from sellerwatch.outbox.message import DAMAGED, Message, MessageStatus, OutboxKind

# The columns of a message, in the order `messages_of` reads them.
COLUMNS = """o.outbox_id, o.{subject}, o.seller_id, o.event_type, o.payload, o.created_at, o.next_attempt_at, o.status,
o.retry_count, {attempted}, o.error_message, o.sent_at, o.worker_id, {of_a_product}"""

# No unfinished or failed message of the same subject stands before it.
FIRST_IN_LINE = """NOT EXISTS (
    SELECT 1 FROM {outbox} e
    WHERE e.{subject} = o.{subject} AND e.id < o.id AND e.status IN ('WAITING', 'SENDING', 'FAILED'))"""

# Add an event of a product.
ADD_TO_PRODUCT = """
INSERT INTO product_outbox (outbox_id, product_id, item_no, seller_id, execution_id, event_type, version, payload,
    base_id, status, retry_count, attempted, error_message, worker_id, next_attempt_at, created_at, updated_at, sent_at)
VALUES (:outbox_id, :subject_id, :item_no, :seller_id, :execution_id, :event_type, :version, :payload,
    :base_id, :status, :retry_count, :attempted, :error_message, :worker_id, :next_attempt_at, :created_at, :updated_at,
    :sent_at)
"""

# Add an event of a schedule.
ADD_TO_SCHEDULER = """
INSERT INTO scheduler_outbox (outbox_id, schedule_id, seller_id, event_type, payload,
    status, retry_count, error_message, worker_id, next_attempt_at, created_at, updated_at, sent_at)
VALUES (:outbox_id, :subject_id, :seller_id, :event_type, :payload,
    :status, :retry_count, :error_message, :worker_id, :next_attempt_at, :created_at, :updated_at, :sent_at)
"""

ADD: Mapping[OutboxKind, str] = {OutboxKind.PRODUCT: ADD_TO_PRODUCT, OutboxKind.SCHEDULER: ADD_TO_SCHEDULER}

# Some messages by their ids.
GET_MANY = "SELECT {columns} FROM {outbox} o WHERE o.outbox_id IN (:outbox_ids) ORDER BY o.id"

# Another body for a WAITING message. The CASE leaves the ids' index as the only one to use.
REPLACE_PAYLOAD = """
UPDATE {outbox} SET payload = :payload, {set_base} updated_at = :now
WHERE outbox_id = :outbox_id AND CASE status WHEN 'WAITING' THEN 1 END = 1
"""

# Everything that can change of a message except its body: a large one is not bound and compared again.
MOVE = """
UPDATE {outbox} SET {set_attempted} status = :status, retry_count = :retry_count, error_message = :error_message,
    worker_id = :worker_id, next_attempt_at = :next_attempt_at, updated_at = :updated_at, sent_at = :sent_at
WHERE outbox_id = :outbox_id
"""

# The newest messages of one subject.
LATEST_OF = "SELECT {columns} FROM {outbox} o WHERE o.{subject} = :subject_id ORDER BY o.id DESC LIMIT :limit"

# Make postponed messages due; one that was sent before waits for its own back-off. The CASE leaves the subject's index
# as the only one to use.
RELEASE_HELD = """
UPDATE {outbox} SET next_attempt_at = :now, updated_at = :now
WHERE {subject} = :subject_id AND CASE status WHEN 'WAITING' THEN next_attempt_at END > :now AND NOT ({attempted})
"""

# Delete a message that was never sent.
REMOVE = "DELETE FROM {outbox} WHERE outbox_id = :outbox_id AND status = 'WAITING' AND NOT ({attempted})"

# What differs between the tables. Messages about schedules are never merged, so they need no column `attempted`.
PARTS: Mapping[OutboxKind, Mapping[str, str]] = {
    OutboxKind.PRODUCT: {
        "outbox": "product_outbox",
        "subject": "product_id",
        "attempted": "attempted",
        "of_a_product": "o.item_no, o.version, o.execution_id, o.base_id",
        "set_base": "base_id = :base_id,",
        "set_attempted": "attempted = :attempted,",
    },
    OutboxKind.SCHEDULER: {
        "outbox": "scheduler_outbox",
        "subject": "schedule_id",
        "attempted": "retry_count > 0 OR status <> 'WAITING'",
        "of_a_product": "NULL, 0, NULL, NULL",
        "set_base": "",
        "set_attempted": "",
    },
}


@lru_cache(None)
def for_table(statement: str, kind: OutboxKind) -> str:
    """Return a statement for one of the two tables."""
    for name, text in (("columns", COLUMNS), ("first_in_line", FIRST_IN_LINE), *PARTS[kind].items()):
        statement = statement.replace(f"{{{name}}}", text)
    return statement


class SqlOutbox:
    """Implements `outbox.ports.Outbox`."""

    def __init__(self, db: Db, kind: OutboxKind, deltas: Deltas) -> None:
        self._db = db
        self._kind = kind
        self._deltas = deltas

    def add(self, message: Message) -> None:
        self.add_all([message])

    def add_all(self, messages: Sequence[Message]) -> None:
        stored = zip(messages, self._stored(messages), strict=True)
        self._db.many(ADD[self._kind], [{**_values(each, each.created_at), **payload} for each, payload in stored])

    def get(self, outbox_id: OutboxId) -> Message | None:
        return next(iter(self.get_many([outbox_id])), None)

    def get_many(self, outbox_ids: Sequence[OutboxId]) -> Sequence[Message]:
        return self._messages(self._db.hold(self._sql(GET_MANY), outbox_ids=outbox_ids)) if outbox_ids else ()

    def latest_of(self, subject_id: PublicId, limit: int) -> Sequence[Message]:
        return self._messages(self._db.hold(self._sql(LATEST_OF), {"subject_id": subject_id, "limit": limit}))

    def move(self, messages: Sequence[Message], now: datetime) -> None:
        self._db.many(self._sql(MOVE), [_moved(message, now) for message in messages])

    def replace_payload(self, message: Message, now: datetime) -> None:
        (payload,) = self._stored([message])
        self._db.run(self._sql(REPLACE_PAYLOAD), {"outbox_id": message.outbox_id, "now": now, **payload})

    def remove(self, outbox_id: OutboxId) -> None:
        self._db.run(self._sql(REMOVE), {"outbox_id": outbox_id})

    def release_held(self, subject_ids: Sequence[PublicId], now: datetime) -> None:
        given = [{"subject_id": subject_id, "now": now} for subject_id in subject_ids]
        self._db.many(self._sql(RELEASE_HELD), given)

    def _sql(self, statement: str) -> str:
        return for_table(statement, self._kind)

    def _messages(self, rows: Sequence[AnyRow]) -> Sequence[Message]:
        return messages_of(rows, self._kind, self._deltas)

    def _stored(self, messages: Sequence[Message]) -> list[Params]:
        if self._kind is OutboxKind.SCHEDULER:
            return [{"payload": message.payload.decode()} for message in messages]
        packed = self._deltas.pack([(ProductId(message.subject_id), message.payload) for message in messages])
        return [{"payload": data, "base_id": base} for data, base in packed]


def _values(message: Message, now: datetime) -> Params:
    return {
        **_moved(message, now),
        "subject_id": message.subject_id,
        "item_no": message.item_no,
        "seller_id": message.seller_id,
        "execution_id": message.execution_id,
        "event_type": message.event_type,
        "version": message.version,
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


def messages_of(rows: Sequence[AnyRow], kind: OutboxKind, deltas: Deltas) -> list[Message]:
    """Return the messages of rows of `COLUMNS`. The payload of a damaged one says so."""
    packed = [(row[4], row[16]) for row in rows if isinstance(row[4], bytes) and not row[4].startswith(b"{")]
    texts = iter(deltas.readable(packed))
    return [_message_of(row, kind, texts) for row in rows]


def _message_of(row: AnyRow, kind: OutboxKind, texts: Iterator[bytes | None]) -> Message:
    payload = row[4].encode() if isinstance(row[4], str) else row[4]
    return Message(
        outbox_id=OutboxId(row[0]),
        subject_id=ProductId(row[1]) if kind is OutboxKind.PRODUCT else ScheduleId(row[1]),
        seller_id=SellerId(row[2]),
        event_type=row[3],
        payload=payload if payload.startswith(b"{") else next(texts) or DAMAGED,
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
