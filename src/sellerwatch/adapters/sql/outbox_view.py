"""An outbox as an operator looks at it, in SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sellerwatch.adapters.sql.outbox import HELD_BACK, for_table, message_of
from sellerwatch.adapters.sql.paging import Walk, walk
from sellerwatch.adapters.sql.statements import Db
from sellerwatch.kernel.ids import OutboxId, PublicId
from sellerwatch.kernel.paging import Cursor, Page
from sellerwatch.outbox.message import Message, MessageStatus, OutboxKind
from sellerwatch.outbox.ports import Chosen, MessageFilter, Tally

# The newest there are; `{where}` holds only what is asked for.
NEWEST = "SELECT {columns} FROM {outbox} o {where} LIMIT :limit"

# The oldest of a choice, by their ids alone.
IDS = "SELECT o.outbox_id FROM {outbox} o {where} ORDER BY o.id LIMIT :limit"

# A choice in numbers.
COUNTED = "SELECT o.event_type, o.seller_id, COUNT(*) FROM {outbox} o {where} GROUP BY o.event_type, o.seller_id"

SUBJECTS = "SELECT COUNT(DISTINCT o.{subject}) FROM {outbox} o {where}"

# How many wait behind chosen ones.
BEHIND = """
SELECT COUNT(*) FROM (
    SELECT DISTINCT w.id FROM {outbox} o CROSS JOIN {outbox} w
    {where} AND w.{subject} = o.{subject} AND w.id > o.id AND w.status = 'WAITING') behind
"""

BY_STATUS = "SELECT status, COUNT(*) FROM {outbox} GROUP BY status"

# The oldest that waits and is not behind one that failed for good.
OLDEST = """
SELECT o.created_at FROM {outbox} o WHERE o.status = 'WAITING' AND NOT EXISTS (
    SELECT 1 FROM {outbox} f WHERE f.{subject} = o.{subject} AND f.id < o.id AND f.status = 'FAILED')
ORDER BY o.created_at LIMIT 1
"""

# For each of some messages that wait, the first before it in its line that failed for good.
HOLDERS = """
SELECT w.outbox_id, (
    SELECT f.outbox_id FROM {outbox} f
    WHERE f.{subject} = w.{subject} AND f.id < w.id AND f.status = 'FAILED' ORDER BY f.id LIMIT 1)
FROM {outbox} w WHERE +w.status = 'WAITING' AND w.outbox_id IN (:outbox_ids)
"""

FAILED_OF = "SELECT outbox_id FROM {outbox} WHERE {subject} = :subject_id AND status = 'FAILED' ORDER BY id"


ROW = "SELECT o.id, {columns} FROM {outbox} o WHERE o.id IN (:rows)"

ASKED = {
    "status": "o.status = :status",
    "seller_id": "o.seller_id = :seller_id",
    "event_type": "o.event_type = :event_type",
    "since": "o.created_at >= :since",
    "until": "o.created_at < :until",
}


class SqlOutboxView:
    """Implements `outbox.ports.OutboxView`."""

    def __init__(self, db: Db, kind: OutboxKind) -> None:
        self._db = db
        self._kind = kind

    def newest(self, choice: MessageFilter, limit: int) -> Sequence[Message]:
        # By state an index gives the order; without one the inner id does.
        order = "ORDER BY o.created_at DESC, o.id DESC" if choice.status else "ORDER BY o.id DESC"
        sql = NEWEST.replace("{where}", f"{_where(choice)} {order}")
        return [message_of(row, self._kind) for row in self._rows(sql, _given(choice) | {"limit": limit})]

    def page(self, choice: MessageFilter, cursor: Cursor | None, limit: int) -> Page[Message]:
        given = _given(choice)
        asked = {name: text.replace("o.", "w.", 1) for name, text in ASKED.items() if given[name] is not None}
        # By state an index gives the order of time, and finds the times; all else is looked at.
        indexed = ("status", "since", "until") if choice.status else ()
        within = [asked.pop(name) for name in indexed if name in asked]
        times = " AND ".join(asked.pop(name) for name in ("since", "until") if name in asked)
        only = asked | ({"created_at": times} if times else {})
        way = Walk(
            for_table("{outbox}", self._kind), given, within, only, by_time=bool(choice.status), since=choice.since
        )
        return walk(
            self._db,
            way,
            for_table(ROW, self._kind),
            lambda row: message_of(row, self._kind),
            cursor=cursor,
            limit=limit,
        )

    def ids(self, choice: MessageFilter, limit: int) -> Sequence[OutboxId]:
        sql = IDS.replace("{where}", _where(choice))
        return [OutboxId(row[0]) for row in self._rows(sql, _given(choice) | {"limit": limit})]

    def count(self, choice: MessageFilter) -> Chosen:
        where, given = _where(choice), _given(choice)
        by_type: dict[str, int] = {}
        by_seller: dict[str, int] = {}
        for event_type, seller_id, number in self._rows(COUNTED.replace("{where}", where), given):
            by_type[event_type] = by_type.get(event_type, 0) + number
            by_seller[seller_id] = by_seller.get(seller_id, 0) + number
        return Chosen(
            messages=sum(by_type.values()),
            subjects=self._number(SUBJECTS.replace("{where}", where), given),
            held=self._number(BEHIND.replace("{where}", where or "WHERE 1 = 1"), given),
            by_type=by_type,
            by_seller=by_seller,
        )

    def tally(self) -> Tally:
        oldest: datetime | None = self._db.value(for_table(OLDEST, self._kind))
        by_status = {MessageStatus(row[0]): int(row[1]) for row in self._rows(BY_STATUS, {})}
        return Tally(by_status, self._number(HELD_BACK, {}), oldest)

    def holders(self, outbox_ids: Sequence[OutboxId]) -> dict[OutboxId, OutboxId]:
        rows = self._db.rows(for_table(HOLDERS, self._kind), outbox_ids=outbox_ids) if outbox_ids else ()
        return {OutboxId(row[0]): OutboxId(row[1]) for row in rows if row[1] is not None}

    def failed_of(self, subject_id: PublicId) -> Sequence[OutboxId]:
        return [OutboxId(row[0]) for row in self._rows(FAILED_OF, {"subject_id": subject_id})]

    def _rows(self, sql: str, params: Mapping[str, Any]) -> Sequence[Any]:
        return self._db.rows(for_table(sql, self._kind), params)

    def _number(self, sql: str, params: Mapping[str, Any]) -> int:
        return int(self._db.value(for_table(sql, self._kind), params))


def _given(choice: MessageFilter) -> dict[str, Any]:
    return {
        "status": choice.status,
        "seller_id": choice.seller_id,
        "event_type": choice.event_type,
        "since": choice.since,
        "until": choice.until,
    }


def _where(choice: MessageFilter) -> str:
    chosen = [ASKED[name] for name, value in _given(choice).items() if value is not None]
    return f"WHERE {' AND '.join(chosen)}" if chosen else ""
