"""Read-only queries over an outbox, in SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sellerwatch.adapters.sql.deltas import Deltas
from sellerwatch.adapters.sql.outbox import for_table, messages_of
from sellerwatch.adapters.sql.paging import PageQuery, read_page
from sellerwatch.adapters.sql.statements import Db
from sellerwatch.kernel.ids import OutboxId, PublicId
from sellerwatch.kernel.paging import Cursor, Page
from sellerwatch.outbox.message import Message, MessageStatus, OutboxKind
from sellerwatch.outbox.ports import MessageCounts, MessageFilter, OutboxCounts

ROW = "SELECT o.id, {columns} FROM {outbox} o WHERE o.id IN (:rows)"

# The oldest of a filter, only their ids. `{where}` holds only the conditions that are given.
IDS = "SELECT o.outbox_id FROM {outbox} o {where} ORDER BY o.id LIMIT :limit"

# The messages of a filter in numbers.
COUNTED = "SELECT o.event_type, o.seller_id, COUNT(*) FROM {outbox} o {where} GROUP BY o.event_type, o.seller_id"

SUBJECTS = "SELECT COUNT(DISTINCT o.{subject}) FROM {outbox} o {where}"

# How many messages wait behind those of a filter.
HELD_BY_CHOSEN = """
SELECT COUNT(*) FROM (
    SELECT DISTINCT w.id FROM {outbox} o CROSS JOIN {outbox} w
    {where} AND w.{subject} = o.{subject} AND w.id > o.id AND w.status = 'WAITING') held
"""

BY_STATUS = "SELECT status, COUNT(*) FROM {outbox} GROUP BY status"

UNFINISHED = "SELECT COUNT(*) FROM {outbox} WHERE status IN ('WAITING', 'SENDING')"

# How many waiting messages were sent before.
TRIED = "SELECT COUNT(*) FROM {outbox} WHERE status = 'WAITING' AND ({attempted})"

# How many messages are held; counted from the failed ones, which are few.
HELD = """
SELECT COUNT(*) FROM (
    SELECT DISTINCT w.id FROM {outbox} f CROSS JOIN {outbox} w
    WHERE w.{subject} = f.{subject} AND w.id > f.id AND f.status = 'FAILED' AND w.status = 'WAITING') held
"""

# When the oldest message that waits and is not held was made.
OLDEST = """
SELECT o.created_at FROM {outbox} o WHERE o.status = 'WAITING' AND NOT EXISTS (
    SELECT 1 FROM {outbox} f WHERE f.{subject} = o.{subject} AND f.id < o.id AND f.status = 'FAILED')
ORDER BY o.created_at LIMIT 1
"""

# For each of some waiting messages, the first failed one before it.
HOLDERS = """
SELECT w.outbox_id, (
    SELECT f.outbox_id FROM {outbox} f
    WHERE f.{subject} = w.{subject} AND f.id < w.id AND f.status = 'FAILED' ORDER BY f.id LIMIT 1)
FROM {outbox} w WHERE +w.status = 'WAITING' AND w.outbox_id IN (:outbox_ids)
"""

FAILED_OF = "SELECT outbox_id FROM {outbox} WHERE {subject} = :subject_id AND status = 'FAILED' ORDER BY id"

DELIVERIES = """
SELECT created_at, sent_at FROM {outbox} WHERE status = 'COMPLETED' ORDER BY created_at DESC LIMIT :limit
"""

# Finished and old, and not the last delivered one of its subject.
SUPERSEDED = """
SELECT o.outbox_id FROM {outbox} o WHERE o.status IN ('COMPLETED', 'DISCARDED') AND o.created_at < :before AND EXISTS (
    SELECT 1 FROM {outbox} n WHERE n.{subject} = o.{subject} AND n.id > o.id AND n.status = 'COMPLETED')
LIMIT :limit
"""

CONDITIONS = {
    "status": "o.status = :status",
    "seller_id": "o.seller_id = :seller_id",
    "event_type": "o.event_type = :event_type",
    "since": "o.created_at >= :since",
    "until": "o.created_at < :until",
}


class SqlOutboxQueries:
    """Implements `outbox.ports.OutboxQueries`."""

    def __init__(self, db: Db, kind: OutboxKind, deltas: Deltas) -> None:
        self._db = db
        self._kind = kind
        self._deltas = deltas

    def page(self, chosen: MessageFilter, cursor: Cursor | None, limit: int) -> Page[Message]:
        given = vars(chosen)
        asked = {name: text.replace("o.", "w.", 1) for name, text in CONDITIONS.items() if given[name] is not None}
        # With a status an index gives the order of time and finds the times; every other row is read and compared.
        indexed = ("status", "since", "until") if chosen.status else ()
        within = [asked.pop(name) for name in indexed if name in asked]
        times = " AND ".join(asked.pop(name) for name in ("since", "until") if name in asked)
        only = asked | ({"created_at": times} if times else {})
        table = for_table("{outbox}", self._kind)
        query = PageQuery(table, given, within, only, by_time=bool(chosen.status), since=chosen.since)
        row = for_table(ROW, self._kind)
        page = read_page(self._db, query, row, tuple, cursor=cursor, limit=limit)
        return Page(messages_of(page.content, self._kind, self._deltas), page.next)

    def ids(self, chosen: MessageFilter, limit: int) -> Sequence[OutboxId]:
        sql = IDS.replace("{where}", _where(chosen))
        return [OutboxId(row[0]) for row in self._rows(sql, vars(chosen) | {"limit": limit})]

    def count(self, chosen: MessageFilter) -> MessageCounts:
        where, given = _where(chosen), vars(chosen)
        by_type: dict[str, int] = {}
        by_seller: dict[str, int] = {}
        for event_type, seller_id, number in self._rows(COUNTED.replace("{where}", where), given):
            by_type[event_type] = by_type.get(event_type, 0) + number
            by_seller[seller_id] = by_seller.get(seller_id, 0) + number
        return MessageCounts(
            messages=sum(by_type.values()),
            subjects=self._number(SUBJECTS.replace("{where}", where), given),
            held=self._number(HELD_BY_CHOSEN.replace("{where}", where or "WHERE 1 = 1"), given),
            by_type=by_type,
            by_seller=by_seller,
        )

    def counts(self) -> OutboxCounts:
        oldest: datetime | None = self._db.value(for_table(OLDEST, self._kind))
        by_status = {MessageStatus(row[0]): int(row[1]) for row in self._rows(BY_STATUS, {})}
        return OutboxCounts(by_status, self._number(HELD, {}), self._number(TRIED, {}), oldest)

    def pending(self) -> int:
        return self._number(UNFINISHED, {}) - self._number(HELD, {})

    def holders(self, outbox_ids: Sequence[OutboxId]) -> dict[OutboxId, OutboxId]:
        rows = self._db.rows(for_table(HOLDERS, self._kind), outbox_ids=outbox_ids) if outbox_ids else ()
        return {OutboxId(row[0]): OutboxId(row[1]) for row in rows if row[1] is not None}

    def failed_of(self, subject_id: PublicId) -> Sequence[OutboxId]:
        return [OutboxId(row[0]) for row in self._rows(FAILED_OF, {"subject_id": subject_id})]

    def deliveries(self, limit: int) -> Sequence[tuple[datetime, datetime]]:
        rows = self._rows(DELIVERIES, {"limit": limit})
        return [(made, sent) for made, sent in reversed(rows) if sent is not None]

    def superseded(self, before: datetime, limit: int) -> Sequence[OutboxId]:
        return [OutboxId(row[0]) for row in self._rows(SUPERSEDED, {"before": before, "limit": limit})]

    def _rows(self, sql: str, params: Mapping[str, Any]) -> Sequence[Any]:
        return self._db.rows(for_table(sql, self._kind), params)

    def _number(self, sql: str, params: Mapping[str, Any]) -> int:
        return int(self._db.value(for_table(sql, self._kind), params))


def _where(chosen: MessageFilter) -> str:
    given = vars(chosen)
    conditions = [text for name, text in CONDITIONS.items() if given[name] is not None]
    return f"WHERE {' AND '.join(conditions)}" if conditions else ""
