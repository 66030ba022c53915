"""Resends in SQL: which delivered events they are about, and how each was answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any

import orjson

from sellerwatch.adapters.sql.columns import Columns
from sellerwatch.adapters.sql.paging import PageQuery, of_seller, read_page
from sellerwatch.adapters.sql.statements import AnyRow, Repository
from sellerwatch.kernel.ids import ItemNo, OutboxId, ResendId, SellerId
from sellerwatch.kernel.paging import Cursor, Page
from sellerwatch.outbox.resend import Resend, ResendAnswer, ResendChoice, ResendCounts, ResendStatus, ResentEvent

CHOICE = ("seller_id", "event_type", "item_no", "since", "until")
RESEND = Columns[Resend](
    "resends",
    same="resend_id status total last_row after_row accepted refused failed failures not_before problem"
    " requested_by created_at ended_at ended_by",
    named={"accepted_at": "answered_at"},
    other={
        "outbox_ids": lambda resend: orjson.dumps(resend.choice.outbox_ids).decode(),
        **{name: attrgetter(f"choice.{name}") for name in CHOICE},
    },
    read_as={"status": ResendStatus},
)
ADD = RESEND.insert()
SAVE = RESEND.update("resend_id", without=f"total last_row requested_by created_at outbox_ids {' '.join(CHOICE)}")

EVENT = Columns[ResentEvent](
    "resent_events",
    same="resend_id outbox_id answer tries tried_at duration_ms http_status_code text next_try_at",
    read_as={"answer": ResendAnswer},
)
PUT = f"""{EVENT.insert().sql}
ON CONFLICT (resend_id, outbox_id) DO UPDATE SET answer = excluded.answer, tries = excluded.tries,
    tried_at = excluded.tried_at, duration_ms = excluded.duration_ms, http_status_code = excluded.http_status_code,
    text = excluded.text, next_try_at = excluded.next_try_at
"""

# The delivered events of a choice. `{where}` holds only the conditions that are given.
COUNTED = """
SELECT o.event_type, o.seller_id, COUNT(*), MAX(o.id) FROM product_outbox o
WHERE o.status = 'COMPLETED'{where} GROUP BY o.event_type, o.seller_id
"""

# In the order of the rows, whose index alone is of use: a round begins where the last one ended.
NEXT = """
SELECT o.id, o.outbox_id FROM product_outbox o
WHERE o.id > :after_row AND o.id <= :last_row AND +o.status = 'COMPLETED'{where} ORDER BY o.id LIMIT :limit
"""

# By ids their own index is of use.
NEXT_OF_IDS = """
SELECT o.id, o.outbox_id FROM product_outbox o
WHERE o.outbox_id IN (:outbox_ids) AND +o.id > :after_row AND +o.id <= :last_row AND +o.status = 'COMPLETED'
ORDER BY o.id LIMIT :limit
"""

# By the index of states and times, from its end.
WITNESS = """
SELECT o.outbox_id FROM product_outbox o WHERE o.status = 'COMPLETED' AND o.outbox_id NOT IN (:besides)
ORDER BY o.created_at DESC LIMIT 1
"""

HAS_DUE = "SELECT 1 FROM product_outbox WHERE status = 'WAITING' AND next_attempt_at <= :now LIMIT 1"

DUE = f"""{EVENT.select} WHERE resend_id = :resend_id AND next_try_at <= :now ORDER BY next_try_at LIMIT :limit"""

NEXT_TRY = """
SELECT next_try_at FROM resent_events WHERE resend_id = :resend_id AND next_try_at IS NOT NULL
ORDER BY next_try_at LIMIT 1
"""

OLD = """
SELECT e.id FROM resent_events e JOIN resends r ON r.resend_id = e.resend_id
WHERE e.tried_at < :before AND r.status <> 'RUNNING' ORDER BY e.tried_at LIMIT :limit
"""

CONDITIONS = {
    "seller_id": "o.seller_id = :seller_id",
    "event_type": "o.event_type = :event_type",
    "item_no": "o.item_no = :item_no",
    "since": "o.sent_at >= :since",
    "until": "o.sent_at < :until",
}


class SqlResends(Repository):
    """Implements `outbox.resend_ports.Resends`."""

    def add(self, resend: Resend) -> None:
        self._db.many(ADD.sql, [ADD.values(resend)])

    def save(self, resend: Resend) -> None:
        self._db.many(SAVE.sql, [SAVE.values(resend)])

    def get(self, resend_id: ResendId) -> Resend | None:
        row = self._db.hold_row(f"{RESEND.select} WHERE resend_id = :resend_id", {"resend_id": resend_id})
        return None if row is None else _resend(row)

    def running(self) -> Sequence[ResendId]:
        rows = self._db.rows("SELECT resend_id FROM resends WHERE status = 'RUNNING' ORDER BY id")
        return [ResendId(row[0]) for row in rows]

    def page(self, status: ResendStatus | None, cursor: Cursor | None, limit: int) -> Page[Resend]:
        query = of_seller("resends", None, status)
        return read_page(self._db, query, RESEND.select_rows, _resend, cursor=cursor, limit=limit)

    def counts(self, choice: ResendChoice) -> ResendCounts:
        where = _where(choice) + (" AND o.outbox_id IN (:outbox_ids)" if choice.outbox_ids else "")
        lists = {"outbox_ids": choice.outbox_ids} if choice.outbox_ids else {}
        rows = self._db.rows(COUNTED.replace("{where}", where), _given(choice), **lists)
        by_type, by_seller = Counter[str](), Counter[str]()
        for event_type, seller_id, number, _ in rows:
            by_type[event_type] += number
            by_seller[seller_id] += number
        return ResendCounts(by_type.total(), max((row[3] for row in rows), default=0), dict(by_type), dict(by_seller))

    def next_events(self, resend: Resend, limit: int) -> Sequence[tuple[int, OutboxId]]:
        given = {"after_row": resend.after_row, "last_row": resend.last_row, "limit": limit}
        if resend.choice.outbox_ids:
            rows = self._db.rows(NEXT_OF_IDS, given, outbox_ids=resend.choice.outbox_ids)
        else:
            rows = self._db.rows(NEXT.replace("{where}", _where(resend.choice)), given | _given(resend.choice))
        return [(row[0], OutboxId(row[1])) for row in rows]

    def witness(self, besides: Sequence[OutboxId]) -> OutboxId | None:
        rows = self._db.rows(WITNESS, besides=besides)
        return OutboxId(rows[0][0]) if rows else None

    def has_due_events(self, now: datetime) -> bool:
        return self._db.value(HAS_DUE, {"now": now}) is not None


class SqlResentEvents(Repository):
    """Implements `outbox.resend_ports.ResentEvents`."""

    def save(self, events: Sequence[ResentEvent]) -> None:
        insert = EVENT.insert()
        self._db.many(PUT, [insert.values(event) for event in events])

    def due(self, resend_id: ResendId, now: datetime, limit: int) -> Sequence[ResentEvent]:
        rows = self._db.rows(DUE, {"resend_id": resend_id, "now": now, "limit": limit}) if limit > 0 else ()
        return [_event(row) for row in rows]

    def next_try_at(self, resend_id: ResendId) -> datetime | None:
        found: datetime | None = self._db.value(NEXT_TRY, {"resend_id": resend_id})
        return found

    def page(
        self, resend_id: ResendId, answer: ResendAnswer | None, cursor: Cursor | None, limit: int
    ) -> Page[ResentEvent]:
        given = {"resend_id": resend_id, "answer": answer}
        only = {} if answer is None else {"answer": "w.answer = :answer"}
        query = PageQuery("resent_events", given, ["w.resend_id = :resend_id"], only, time="tried_at")
        return read_page(self._db, query, EVENT.select_rows, _event, cursor=cursor, limit=limit)

    def forget(self, before: datetime, limit: int) -> int:
        rows = [row[0] for row in self._db.rows(OLD, {"before": before, "limit": limit})]
        return self._db.run("DELETE FROM resent_events WHERE id IN (:rows)", rows=rows) if rows else 0


def _where(choice: ResendChoice) -> str:
    return "".join(f" AND {text}" for name, text in CONDITIONS.items() if getattr(choice, name) is not None)


def _given(choice: ResendChoice) -> dict[str, Any]:
    return {name: getattr(choice, name) for name in CHOICE}


def _resend(row: AnyRow) -> Resend:
    values = RESEND.by_name(row)
    chosen = {name: values.pop(name) for name in CHOICE}
    outbox_ids = tuple(OutboxId(each) for each in orjson.loads(values.pop("outbox_ids")))
    chosen["seller_id"] = None if chosen["seller_id"] is None else SellerId(chosen["seller_id"])
    chosen["item_no"] = None if chosen["item_no"] is None else ItemNo(chosen["item_no"])
    return Resend(choice=ResendChoice(outbox_ids, **chosen), **values)


def _event(row: AnyRow) -> ResentEvent:
    return ResentEvent(**EVENT.by_name(row))
