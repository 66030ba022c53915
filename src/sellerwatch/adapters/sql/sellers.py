"""Sellers and their schedules in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sellerwatch.adapters.sql.engine import time_of
from sellerwatch.adapters.sql.paging import like
from sellerwatch.adapters.sql.statements import AnyRow, Db
from sellerwatch.kernel.ids import ScheduleId, SellerId
from sellerwatch.schedules.interval import CrawlingInterval, IntervalUnit
from sellerwatch.schedules.schedule import Schedule, ScheduleStatus
from sellerwatch.sellers.seller import Seller, SellerStatus

SELLER = """SELECT seller_id, name, interval_amount, interval_unit, status, total_product_count, created_at, updated_at
FROM sellers"""

ADD_SELLER = """
INSERT INTO sellers (seller_id, name, interval_amount, interval_unit, status, total_product_count, created_at,
    updated_at)
VALUES (:seller_id, :name, :amount, :unit, :status, :total, :created_at, :updated_at)
"""

SAVE_SELLER = """
UPDATE sellers SET name = :name, interval_amount = :amount, interval_unit = :unit, status = :status,
    total_product_count = :total, updated_at = :updated_at WHERE seller_id = :seller_id
"""

SCHEDULE = """
SELECT schedule_id, seller_id, interval_amount, interval_unit, status, next_run_at, created_at, updated_at,
    (SELECT e.next_start_at FROM crawling_schedule_executions e
     WHERE e.open_seller_id = crawling_schedules.seller_id AND e.status = 'PENDING')
FROM crawling_schedules"""

ADD_SCHEDULE = """
INSERT INTO crawling_schedules (schedule_id, seller_id, schedule_rule, schedule_expression, interval_amount,
    interval_unit, status, next_run_at, created_at, updated_at)
VALUES (:schedule_id, :seller_id, :rule, :expression, :amount, :unit, :status, :next_run_at, :created_at, :updated_at)
"""

SAVE_SCHEDULE = """
UPDATE crawling_schedules SET schedule_expression = :expression, interval_amount = :amount, interval_unit = :unit,
    status = :status, next_run_at = :next_run_at, updated_at = :updated_at WHERE schedule_id = :schedule_id
"""

# Schedules whose time has come. A FAILED one still runs here: the embedded scheduler needs no telling.
DUE = f"{SCHEDULE} WHERE status IN ('ACTIVE', 'FAILED') AND next_run_at <= :now ORDER BY next_run_at, seller_id"

# A piece of the id or of the name; `!` escapes what LIKE would take for a sign of its own.
SEARCH = "(seller_id LIKE :like ESCAPE '!' OR name LIKE :like ESCAPE '!')"


class SqlSellers:
    def __init__(self, db: Db) -> None:
        self._db = db

    def get(self, seller_id: SellerId) -> Seller | None:
        row = self._db.hold_row(f"{SELLER} WHERE seller_id = :seller_id", {"seller_id": seller_id})
        return None if row is None else _seller(row)

    def add(self, seller: Seller) -> None:
        self._db.run(ADD_SELLER, _seller_params(seller))

    def save(self, seller: Seller) -> None:
        self._db.run(SAVE_SELLER, _seller_params(seller))

    def page(
        self, *, status: SellerStatus | None, offset: int, limit: int, search: str | None = None
    ) -> tuple[Sequence[Seller], int]:
        asked = [*(["status = :status"] if status else []), *([SEARCH] if search else [])]
        where = f"WHERE {' AND '.join(asked)}" if asked else ""
        params = {"status": status, "offset": offset, "limit": limit, "like": like(search or "")}
        rows = self._db.rows(f"{SELLER} {where} ORDER BY seller_id LIMIT :limit OFFSET :offset", params)
        return [_seller(row) for row in rows], self._db.value(f"SELECT COUNT(*) FROM sellers {where}", params)


class SqlSchedules:
    def __init__(self, db: Db) -> None:
        self._db = db

    def of_seller(self, seller_id: SellerId) -> Schedule | None:
        return self._one("seller_id", seller_id)

    def get(self, schedule_id: ScheduleId) -> Schedule | None:
        return self._one("schedule_id", schedule_id)

    def add(self, schedule: Schedule) -> None:
        self._db.run(ADD_SCHEDULE, _schedule_params(schedule))

    def save(self, schedule: Schedule) -> None:
        self._db.run(SAVE_SCHEDULE, _schedule_params(schedule))

    def due(self, now: datetime) -> Sequence[Schedule]:
        return [_schedule(row) for row in self._db.rows(DUE, {"now": now})]

    def page(self, *, offset: int, limit: int) -> tuple[Sequence[Schedule], int]:
        params = {"offset": offset, "limit": limit}
        rows = self._db.rows(f"{SCHEDULE} ORDER BY seller_id LIMIT :limit OFFSET :offset", params)
        return [_schedule(row) for row in rows], self._db.value("SELECT COUNT(*) FROM crawling_schedules")

    def _one(self, column: str, value: str) -> Schedule | None:
        row = self._db.hold_row(f"{SCHEDULE} WHERE {column} = :value", {"value": value})
        return None if row is None else _schedule(row)


def _seller(row: AnyRow) -> Seller:
    interval = CrawlingInterval(row[2], IntervalUnit(row[3]))
    return Seller(SellerId(row[0]), row[1], interval, SellerStatus(row[4]), row[5], row[6], row[7])


def _seller_params(seller: Seller) -> dict[str, Any]:
    return {
        "seller_id": seller.seller_id,
        "name": seller.name,
        "amount": seller.interval.amount,
        "unit": seller.interval.unit,
        "status": seller.status,
        "total": seller.total_product_count,
        "created_at": seller.created_at,
        "updated_at": seller.updated_at,
    }


def _schedule(row: AnyRow) -> Schedule:
    interval = CrawlingInterval(row[2], IntervalUnit(row[3]))
    waiting_start = time_of(row[8])
    return Schedule(
        ScheduleId(row[0]), SellerId(row[1]), interval, ScheduleStatus(row[4]), row[5], row[6], row[7], waiting_start
    )


def _schedule_params(schedule: Schedule) -> dict[str, Any]:
    return {
        "schedule_id": schedule.schedule_id,
        "seller_id": schedule.seller_id,
        "rule": schedule.rule,
        "expression": schedule.expression,
        "amount": schedule.interval.amount,
        "unit": schedule.interval.unit,
        "status": schedule.status,
        "next_run_at": schedule.next_run_at,
        "created_at": schedule.created_at,
        "updated_at": schedule.updated_at,
    }
