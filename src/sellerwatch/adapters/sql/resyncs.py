"""Resyncs in SQL, and which products and snapshots they are about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sellerwatch.adapters.sql.columns import Columns
from sellerwatch.adapters.sql.paging import of_seller, read_page
from sellerwatch.adapters.sql.statements import AnyRow, Repository
from sellerwatch.catalog.ports import ResyncCounts
from sellerwatch.catalog.product import ProductEvent
from sellerwatch.catalog.resync import Resync, ResyncChoice, ResyncStatus
from sellerwatch.kernel.ids import ItemNo, ResyncId, SellerId
from sellerwatch.kernel.paging import Cursor, Page

#: The key of an unfinished resync of all sellers.
ALL_SELLERS = "*"


def _open_key(seller_id: SellerId | None) -> str:
    return seller_id or ALL_SELLERS


RESYNC = Columns[Resync](
    "resyncs",
    same="resync_id seller_id since total last_row requested_by created_at measured_at status after_row written backlog"
    " ended_at ended_by",
    other={
        # Unique: there is one unfinished resync of a choice.
        "open_key": lambda resync: _open_key(resync.seller_id) if resync.is_running else None,
    },
    written="open_key",
    read_as={"status": ResyncStatus},
)
ADD = RESYNC.insert()
SAVE = RESYNC.update("resync_id", without="seller_id since total last_row requested_by created_at")

# An event of the product was delivered since then.
_SINCE = """ AND EXISTS (
    SELECT 1 FROM product_outbox o WHERE o.product_id = p.product_id AND o.sent_at >= :since)"""

# In the order of the rows, whose index alone is of use: a step begins where the last one ended.
PRODUCTS = """
SELECT p.id, p.item_no FROM products p
WHERE {of_seller}p.id > :after_row AND p.id <= :last_row AND p.version > 0{since} ORDER BY p.id LIMIT :limit
"""

COUNTS = """
SELECT COALESCE(SUM(p.version > 0{since}), 0), COALESCE(SUM(p.version > 0 AND p.deleted_at IS NOT NULL{since}), 0),
    COALESCE(SUM(p.version = 0), 0), COALESCE(MAX(p.id), 0)
FROM products p {of_seller}
"""

# Snapshots on their way that no event that failed for good holds.
WAITING = """
SELECT COUNT(*) FROM product_outbox o
WHERE o.status IN ('WAITING', 'SENDING') AND o.event_type = :event_type{of_seller} AND NOT EXISTS (
    SELECT 1 FROM product_outbox f WHERE f.product_id = o.product_id AND f.id < o.id AND f.status = 'FAILED')
"""


class SqlResyncs(Repository):
    """Implements `catalog.ports.Resyncs`."""

    def add(self, resync: Resync) -> None:
        self._db.many(ADD.sql, [ADD.values(resync)])

    def save(self, resync: Resync) -> None:
        self._db.many(SAVE.sql, [SAVE.values(resync)])

    def get(self, resync_id: ResyncId) -> Resync | None:
        row = self._db.hold_row(f"{RESYNC.select} WHERE resync_id = :resync_id", {"resync_id": resync_id})
        return None if row is None else _resync(row)

    def open_of(self, seller_id: SellerId | None) -> Resync | None:
        row = self._db.hold_row(f"{RESYNC.select} WHERE open_key = :open_key", {"open_key": _open_key(seller_id)})
        return None if row is None else _resync(row)

    def running(self) -> Sequence[ResyncId]:
        rows = self._db.rows("SELECT resync_id FROM resyncs WHERE open_key IS NOT NULL ORDER BY open_key")
        return [ResyncId(row[0]) for row in rows]

    def page(
        self, *, seller_id: SellerId | None, status: ResyncStatus | None, cursor: Cursor | None, limit: int
    ) -> Page[Resync]:
        query = of_seller("resyncs", seller_id, status)
        return read_page(self._db, query, RESYNC.select_rows, _resync, cursor=cursor, limit=limit)

    def counts(self, choice: ResyncChoice) -> ResyncCounts:
        of_one = "WHERE p.seller_id = :seller_id" if choice.seller_id else ""
        row = self._db.row(_of(COUNTS, choice, of_one), _given(choice)) or (0, 0, 0, 0)
        return ResyncCounts(*map(int, row))

    def products(self, resync: Resync, limit: int) -> Sequence[tuple[int, ItemNo]]:
        of_one = "+p.seller_id = :seller_id AND " if resync.seller_id else ""
        given = {"after_row": resync.after_row, "last_row": resync.last_row, "limit": limit}
        rows = self._db.rows(_of(PRODUCTS, resync.choice, of_one), _given(resync.choice) | given)
        return [(row[0], ItemNo(row[1])) for row in rows]

    def waiting(self, seller_id: SellerId | None) -> int:
        of_one = " AND o.seller_id = :seller_id" if seller_id else ""
        given = {"seller_id": seller_id, "event_type": ProductEvent.SNAPSHOT}
        return int(self._db.value(WAITING.replace("{of_seller}", of_one), given))


def _of(statement: str, choice: ResyncChoice, of_one: str) -> str:
    return statement.replace("{of_seller}", of_one).replace("{since}", _SINCE if choice.since else "")


def _given(choice: ResyncChoice) -> dict[str, Any]:
    return {"seller_id": choice.seller_id, "since": choice.since}


def _resync(row: AnyRow) -> Resync:
    return Resync(**RESYNC.by_name(row))
