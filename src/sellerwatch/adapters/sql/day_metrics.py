"""Days in SQL: the rows they are made of, and those that are kept."""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sellerwatch.adapters.sql.statements import Repository
from sellerwatch.kernel.ids import SellerId
from sellerwatch.reports.day_metrics import (
    DELIVERY_BOUNDS,
    INFINITE,
    LATENCY_BOUNDS,
    DayMetrics,
    TasksOfDay,
    bucket_of,
)

# What had become of the tasks at the end of the time.
TASKS = """
SELECT COUNT(*), COALESCE(SUM(is_over AND status = 'COMPLETED'), 0), COALESCE(SUM(is_over AND status = 'FAILED'), 0),
    COALESCE(SUM(NOT is_over AND started_at < :until AND status IN ('IN_PROGRESS', 'COMPLETED', 'FAILED')), 0),
    COUNT(DISTINCT CASE WHEN purpose <> 'REMOVAL_PROOF' THEN item_no END)
FROM (
    SELECT status, started_at, item_no, purpose,
        status IN ('COMPLETED', 'FAILED') AND COALESCE(completed_at, created_at) < :until AS is_over
    FROM crawler_tasks WHERE seller_id = :seller_id AND created_at >= :since AND created_at < :until) AS made
"""

CHANGED = """
SELECT COUNT(DISTINCT item_no) FROM changes
WHERE seller_id = :seller_id AND created_at >= :since AND created_at < :until AND kind NOT IN ('new', 'gone')
"""

# A product is new with its first event, for which it has to be complete, and again when it comes back.
COMPLETE = """
SELECT COALESCE(SUM(CASE kind WHEN 'new' THEN 1 ELSE -1 END), 0) FROM changes
WHERE seller_id = :seller_id AND kind IN ('new', 'gone') AND created_at < :until
"""

LISTED = """
SELECT list_total FROM crawling_schedule_executions
WHERE seller_id = :seller_id AND started_at < :until AND list_total IS NOT NULL ORDER BY started_at DESC LIMIT 1
"""

# From the index alone.
DELIVERED = "SELECT created_at, sent_at FROM product_outbox WHERE {seller} sent_at >= :since AND sent_at < :until"

BUCKET = " ".join(f"WHEN response_time_ms <= {bound} THEN '{bound}'" for bound in LATENCY_BOUNDS)
LATENCIES = f"""
SELECT seller_id, CASE {BUCKET} ELSE '{INFINITE}' END AS bucket, COUNT(*) FROM token_usage_log
WHERE is_success IN (0, 1) AND request_timestamp >= :since AND request_timestamp < :until
    AND seller_id IS NOT NULL {{seller}} GROUP BY seller_id, bucket
"""

SCALARS = (
    *("waiting_tasks", "in_progress_tasks", "completed_tasks", "failed_tasks"),
    *("seen_products", "new_products", "changed_products", "removed_products", "complete_products", "total_products"),
    *("delivered_events", "requests"),
)
COUNTS = {"change": "changes", "latency": "latency", "delivery": "delivery"}

DAYS = f"SELECT seller_id, day, {', '.join(SCALARS)} FROM day_metrics WHERE {{seller}} day >= :first AND day <= :last"
DAY_COUNTS = """
SELECT seller_id, day, kind, name, number FROM day_counts WHERE {seller} day >= :first AND day <= :last
"""
LAST = "SELECT MAX(day) FROM day_metrics"
TOTAL = "SELECT name, SUM(number) FROM day_counts WHERE kind = :kind GROUP BY name"

FORGET = "DELETE FROM day_metrics WHERE seller_id = ? AND day = ?"
FORGET_COUNTS = "DELETE FROM day_counts WHERE seller_id = ? AND day = ?"
ADD = f"""
INSERT INTO day_metrics (seller_id, day, {", ".join(SCALARS)}, computed_at) VALUES ({", ".join("?" * 15)})
"""
ADD_COUNT = "INSERT INTO day_counts (seller_id, day, kind, name, number) VALUES (?, ?, ?, ?, ?)"


class SqlDayRows(Repository):
    def sellers(self) -> Sequence[tuple[SellerId, datetime]]:
        rows = self._db.rows("SELECT seller_id, created_at FROM sellers ORDER BY seller_id")
        return [(SellerId(seller_id), at) for seller_id, at in rows]

    def tasks(self, seller_id: SellerId, since: datetime, until: datetime) -> TasksOfDay:
        given = {"seller_id": seller_id, "since": since, "until": until}
        total, completed, failed, in_progress, products = map(int, self._db.row(TASKS, given) or (0,) * 5)
        return TasksOfDay(total - completed - failed - in_progress, in_progress, completed, failed, products)

    def changed_products(self, seller_id: SellerId, since: datetime, until: datetime) -> int:
        return int(self._db.value(CHANGED, {"seller_id": seller_id, "since": since, "until": until}))

    def complete_products(self, seller_id: SellerId, until: datetime) -> int:
        return int(self._db.value(COMPLETE, {"seller_id": seller_id, "until": until}))

    def listed_products(self, seller_id: SellerId, until: datetime) -> int:
        return int(self._db.value(LISTED, {"seller_id": seller_id, "until": until}) or 0)

    def delivery_buckets(self, seller_id: SellerId | None, since: datetime, until: datetime) -> Mapping[str, int]:
        sql = DELIVERED.replace("{seller}", "" if seller_id is None else "seller_id = :seller_id AND")
        rows = self._db.rows(sql, {"seller_id": seller_id, "since": since, "until": until})
        return Counter(bucket_of((sent_at - at).total_seconds(), DELIVERY_BOUNDS) for at, sent_at in rows)

    def latency_buckets(
        self, seller_id: SellerId | None, since: datetime, until: datetime
    ) -> Mapping[SellerId, Mapping[str, int]]:
        sql = LATENCIES.replace("{seller}", "" if seller_id is None else "AND seller_id = :seller_id")
        found: dict[SellerId, dict[str, int]] = defaultdict(dict)
        for name, bucket, number in self._db.rows(sql, {"seller_id": seller_id, "since": since, "until": until}):
            found[SellerId(name)][bucket] = number
        return found


class SqlKeptDays(Repository):
    def last(self) -> dt.date | None:
        day = self._db.value(LAST)
        return None if day is None else dt.date.fromisoformat(day)

    def between(self, seller_id: SellerId | None, first: dt.date, last: dt.date) -> Sequence[DayMetrics]:
        given = {"seller_id": seller_id, "first": first.isoformat(), "last": last.isoformat()}
        of_seller = "" if seller_id is None else "seller_id = :seller_id AND"
        counts: dict[tuple[str, str], dict[str, Any]] = defaultdict(lambda: {name: {} for name in COUNTS.values()})
        for name, day, kind, bucket, number in self._db.rows(DAY_COUNTS.replace("{seller}", of_seller), given):
            counts[name, day][COUNTS[kind]][bucket] = int(number)
        rows = self._db.rows(DAYS.replace("{seller}", of_seller), given)
        return [
            replace(DayMetrics(SellerId(name), dt.date.fromisoformat(day), *scalars), **counts[name, day])
            for name, day, *scalars in rows
        ]

    def save(self, days: Iterable[DayMetrics], now: datetime) -> None:
        days = list(days)
        keys = [(day.seller_id, day.day.isoformat()) for day in days]
        self._db.many(FORGET, keys)
        self._db.many(FORGET_COUNTS, keys)
        self._db.many(
            ADD,
            [(*key, *(getattr(day, name) for name in SCALARS), now) for key, day in zip(keys, days, strict=True)],
        )
        self._db.many(
            ADD_COUNT,
            [
                (*key, kind, name, number)
                for key, day in zip(keys, days, strict=True)
                for kind, field in COUNTS.items()
                for name, number in getattr(day, field).items()
            ],
        )

    def total_buckets(self, kind: str) -> Mapping[str, int]:
        return {name: int(number) for name, number in self._db.rows(TOTAL, {"kind": kind})}
