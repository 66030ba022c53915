"""What freshness is computed from, in SQL.

Live products are read in one pass, tenths of a second for 200,000: columns that every request writes have no index.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from sellerwatch.adapters.sql.columns import FAILURE
from sellerwatch.adapters.sql.engine import time_of
from sellerwatch.adapters.sql.statements import AnyRow, Repository
from sellerwatch.kernel.failure import Failure
from sellerwatch.kernel.ids import ExecutionId, SellerId
from sellerwatch.reports.freshness import CompletedRun, InTime, Lateness, PartTimes, SellerTiming, WaitingEvents
from sellerwatch.schedules.interval import CrawlingInterval, IntervalUnit
from sellerwatch.sellers.seller import SellerStatus

# Of each seller its last completed run, which is no refresh, and its open one: the index by seller and time is read
# from its end.
TIMINGS = """
SELECT s.seller_id, s.status, s.interval_amount, s.interval_unit, c.next_run_at, f.planned_run_seconds, f.late_since,
    f.check_at, e.execution_id, e.started_at, e.completed_at, e.failed_tasks, e.total_tasks_created,
    o.execution_id, COALESCE(o.started_at, o.created_at)
FROM sellers s
LEFT JOIN crawling_schedules c ON c.seller_id = s.seller_id
LEFT JOIN seller_freshness f ON f.seller_id = s.seller_id
LEFT JOIN crawling_schedule_executions e ON e.id = (
    SELECT x.id FROM crawling_schedule_executions x
    WHERE x.seller_id = s.seller_id AND x.status = 'COMPLETED' AND x.refreshed_products IS NULL
    ORDER BY x.started_at DESC LIMIT 1)
LEFT JOIN crawling_schedule_executions o ON o.open_seller_id = s.seller_id
{where} ORDER BY s.seller_id
"""

PART_TIMES = """
SELECT seller_id, COUNT(*), SUM(last_seen_at IS NULL OR detail_read_at IS NULL OR option_read_at IS NULL),
    MIN(last_seen_at), MIN(detail_read_at), MIN(option_read_at)
FROM products WHERE deleted_at IS NULL {where} GROUP BY seller_id
"""

IN_TIME = """
SELECT COUNT(*), COALESCE(SUM(last_seen_at >= :since AND detail_read_at >= :since AND option_read_at >= :since), 0)
FROM products WHERE seller_id = :seller_id AND deleted_at IS NULL
"""

# A product found since then that has an unread part is left out.
NOT_JUST_FOUND = "AND NOT (created_at >= :found_since AND (detail_read_at IS NULL OR option_read_at IS NULL))"

# By the states' index: few events are in one of these.
WAITING = """
SELECT seller_id, SUM(created_at < :before), MIN(created_at) FROM product_outbox
WHERE status IN ('WAITING', 'SENDING', 'FAILED') {where} GROUP BY seller_id
"""

FAILED_RUN = f"""
SELECT {", ".join(FAILURE)}, created_at FROM crawling_schedule_executions
WHERE seller_id = :seller_id AND status = 'FAILED' AND refreshed_products IS NULL ORDER BY id DESC LIMIT 1
"""

HELD_PARTS = """
SELECT COUNT(*) FROM held_parts h JOIN products p ON p.item_no = h.item_no
WHERE p.seller_id = :seller_id AND h.status = 'HELD'
"""
HELD_REMOVALS = "SELECT COALESCE(SUM(missing), 0) FROM removals WHERE seller_id = :seller_id AND status = 'HELD'"

NEXT_CHECK = "SELECT MIN(check_at) FROM seller_freshness"
NEWEST_ACTIVITY = "SELECT at FROM activity ORDER BY id DESC LIMIT 1"

SAVE = """
INSERT INTO seller_freshness (seller_id, late_since, check_at, updated_at) VALUES (?, ?, ?, ?)
ON CONFLICT (seller_id) DO UPDATE SET late_since = excluded.late_since, check_at = excluded.check_at,
    updated_at = excluded.updated_at
"""
PLAN = """
INSERT INTO seller_freshness (seller_id, planned_run_seconds, updated_at) VALUES (?, ?, ?)
ON CONFLICT (seller_id) DO UPDATE SET planned_run_seconds = excluded.planned_run_seconds,
    updated_at = excluded.updated_at
"""


class SqlFreshness(Repository):
    def timings(self, seller_ids: Sequence[SellerId] | None) -> Sequence[SellerTiming]:
        return [_timing(row) for row in self._rows(TIMINGS, "WHERE s.seller_id IN (:ids)", seller_ids)]

    def part_times(self, seller_ids: Sequence[SellerId] | None) -> Mapping[SellerId, PartTimes]:
        found = {}
        for seller_id, products, unread, *times in self._rows(PART_TIMES, "AND seller_id IN (:ids)", seller_ids):
            known = [time for time in map(time_of, times) if time is not None]
            found[SellerId(seller_id)] = PartTimes(products, int(unread), min(known, default=None))
        return found

    def count_in_time(self, seller_id: SellerId, since: datetime, found_since: datetime | None) -> InTime:
        given = {"seller_id": seller_id, "since": since, "found_since": found_since}
        sql = IN_TIME if found_since is None else f"{IN_TIME} {NOT_JUST_FOUND}"
        products, in_time = self._db.row(sql, given) or (0, 0)
        return InTime(int(products), int(in_time))

    def waiting_events(
        self, seller_ids: Sequence[SellerId] | None, before: datetime
    ) -> Mapping[SellerId, WaitingEvents]:
        rows = self._rows(WAITING, "AND seller_id IN (:ids)", seller_ids, before=before)
        return {
            SellerId(seller_id): WaitingEvents(int(too_long), oldest)
            for seller_id, too_long, at in rows
            if (oldest := time_of(at)) is not None
        }

    def failed_run_since(self, seller_id: SellerId, since: datetime | None) -> Failure | None:
        row = self._db.row(FAILED_RUN, {"seller_id": seller_id})
        if row is None or (since is not None and row[4] <= since):
            return None
        return Failure.stored(*row[:4])

    def held_parts(self, seller_id: SellerId) -> int:
        return int(self._db.value(HELD_PARTS, {"seller_id": seller_id}))

    def held_removals(self, seller_id: SellerId) -> int:
        return int(self._db.value(HELD_REMOVALS, {"seller_id": seller_id}))

    def next_check(self) -> datetime | None:
        return time_of(self._db.value(NEXT_CHECK))

    def newest_activity_at(self) -> datetime | None:
        return time_of(self._db.value(NEWEST_ACTIVITY))

    def _rows(self, sql: str, where: str, seller_ids: Sequence[SellerId] | None, **given: object) -> Sequence[AnyRow]:
        if seller_ids is None:
            return self._db.rows(sql.replace("{where}", ""), given)
        return self._db.rows(sql.replace("{where}", where), given, ids=seller_ids) if seller_ids else ()


class SqlLateness(Repository):
    def save(self, records: Iterable[Lateness], now: datetime) -> None:
        self._db.many(SAVE, [(one.seller_id, one.late_since, one.check_at, now) for one in records])

    def plan(self, run_times: Mapping[SellerId, timedelta], now: datetime) -> None:
        self._db.many(PLAN, [(seller_id, time.total_seconds(), now) for seller_id, time in run_times.items()])


def _timing(row: AnyRow) -> SellerTiming:
    return SellerTiming(
        seller_id=SellerId(row[0]),
        status=SellerStatus(row[1]),
        interval=CrawlingInterval(row[2], IntervalUnit(row[3])),
        next_run_at=row[4],
        planned=timedelta(seconds=row[5] or 0),
        late_since=row[6],
        check_at=row[7],
        last_run=None if row[8] is None else CompletedRun(ExecutionId(row[8]), *row[9:13]),
        open_run=None if row[13] is None else ExecutionId(row[13]),
        open_since=time_of(row[14]),
    )
