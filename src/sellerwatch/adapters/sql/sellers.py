"""Sellers and their schedules in SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sellerwatch.adapters.sql.columns import Columns, Get
from sellerwatch.adapters.sql.engine import time_of
from sellerwatch.adapters.sql.paging import like
from sellerwatch.adapters.sql.statements import AnyRow, Repository
from sellerwatch.kernel.ids import ScheduleId, SellerId
from sellerwatch.schedules.interval import CrawlingInterval, IntervalUnit
from sellerwatch.schedules.schedule import Schedule, ScheduleStatus
from sellerwatch.sellers.seller import Seller, SellerStatus

INTERVAL: Mapping[str, Get] = {
    "interval_amount": lambda noun: noun.interval.amount,
    "interval_unit": lambda noun: noun.interval.unit,
}

SELLER = Columns[Seller](
    "sellers",
    same="seller_id name status total_product_count created_at updated_at",
    other=INTERVAL,
    read_as={"status": SellerStatus},
)
ADD_SELLER = SELLER.insert()
SAVE_SELLER = SELLER.update("seller_id", without="created_at")

SCHEDULE = Columns[Schedule](
    "crawling_schedules",
    same="schedule_id seller_id status next_run_at created_at updated_at",
    other={
        **INTERVAL,
        "schedule_rule": lambda schedule: schedule.rule,
        "schedule_expression": lambda schedule: schedule.expression,
    },
    written="schedule_rule schedule_expression",
    read_as={"status": ScheduleStatus},
)
ADD_SCHEDULE = SCHEDULE.insert()
SAVE_SCHEDULE = SCHEDULE.update("schedule_id", without="seller_id schedule_rule created_at")

# A schedule, and when its run that waits to be started is tried again.
SELECT_SCHEDULE = f"""
SELECT {SCHEDULE.listed},
    (SELECT e.next_start_at FROM crawling_schedule_executions e
     WHERE e.open_seller_id = crawling_schedules.seller_id AND e.status = 'PENDING')
FROM crawling_schedules"""

# Schedules whose time has come. A FAILED one still runs here: the embedded scheduler needs no telling.
DUE = f"{SELECT_SCHEDULE} WHERE status IN ('ACTIVE', 'FAILED') AND next_run_at <= :now ORDER BY next_run_at, seller_id"

# A piece of the id or of the name; `!` escapes what LIKE would take for a sign of its own.
SEARCH = "(seller_id LIKE :like ESCAPE '!' OR name LIKE :like ESCAPE '!')"


class SqlSellers(Repository):
    def get(self, seller_id: SellerId) -> Seller | None:
        row = self._db.hold_row(f"{SELLER.select} WHERE seller_id = :seller_id", {"seller_id": seller_id})
        return None if row is None else _seller(row)

    def add(self, seller: Seller) -> None:
        self._db.many(ADD_SELLER.sql, [ADD_SELLER.values(seller)])

    def save(self, seller: Seller) -> None:
        self._db.many(SAVE_SELLER.sql, [SAVE_SELLER.values(seller)])

    def page(
        self, *, status: SellerStatus | None, offset: int, limit: int, search: str | None = None
    ) -> tuple[Sequence[Seller], int]:
        asked = ["status = :status" if status else "status <> 'ARCHIVED'", *([SEARCH] if search else [])]
        where = f"WHERE {' AND '.join(asked)}"
        params = {"status": status, "offset": offset, "limit": limit, "like": like(search or "")}
        rows = self._db.rows(f"{SELLER.select} {where} ORDER BY seller_id LIMIT :limit OFFSET :offset", params)
        return [_seller(row) for row in rows], self._db.value(f"SELECT COUNT(*) FROM sellers {where}", params)


class SqlSchedules(Repository):
    def of_seller(self, seller_id: SellerId) -> Schedule | None:
        return self._one("seller_id", seller_id)

    def get(self, schedule_id: ScheduleId) -> Schedule | None:
        return self._one("schedule_id", schedule_id)

    def add(self, schedule: Schedule) -> None:
        self._db.many(ADD_SCHEDULE.sql, [ADD_SCHEDULE.values(schedule)])

    def save(self, schedule: Schedule) -> None:
        self._db.many(SAVE_SCHEDULE.sql, [SAVE_SCHEDULE.values(schedule)])

    def due(self, now: datetime) -> Sequence[Schedule]:
        return [_schedule(row) for row in self._db.rows(DUE, {"now": now})]

    def page(self, *, offset: int, limit: int) -> tuple[Sequence[Schedule], int]:
        params = {"offset": offset, "limit": limit}
        rows = self._db.rows(f"{SELECT_SCHEDULE} ORDER BY seller_id LIMIT :limit OFFSET :offset", params)
        return [_schedule(row) for row in rows], self._db.value("SELECT COUNT(*) FROM crawling_schedules")

    def _one(self, column: str, value: str) -> Schedule | None:
        row = self._db.hold_row(f"{SELECT_SCHEDULE} WHERE {column} = :value", {"value": value})
        return None if row is None else _schedule(row)


def _seller(row: AnyRow) -> Seller:
    values = SELLER.by_name(row)
    return Seller(interval=_take_interval(values), **values)


def _schedule(row: AnyRow) -> Schedule:
    values = SCHEDULE.by_name(row)
    return Schedule(interval=_take_interval(values), waiting_start=time_of(row[-1]), **values)


def _take_interval(values: dict[str, Any]) -> CrawlingInterval:
    return CrawlingInterval(values.pop("interval_amount"), IntervalUnit(values.pop("interval_unit")))
