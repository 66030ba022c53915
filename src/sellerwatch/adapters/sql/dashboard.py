"""Queries for the console's pages in SQL. Each uses an index and reads a bounded number of rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

import orjson

from sellerwatch.adapters.sql.engine import time_of
from sellerwatch.adapters.sql.executions import SqlExecutionQueries
from sellerwatch.adapters.sql.statements import AnyRow, Repository
from sellerwatch.adapters.sql.tasks import SELECT, task_of
from sellerwatch.crawling.execution import Execution, ExecutionStatus
from sellerwatch.crawling.task import Task
from sellerwatch.kernel.failure import Blame
from sellerwatch.kernel.ids import ExecutionId, ItemNo, SellerId
from sellerwatch.reports.dashboard import Asked, Needs, RunProgress, SellerTimes
from sellerwatch.schedules.interval import CrawlingInterval, IntervalUnit
from sellerwatch.schedules.schedule import ScheduleStatus
from sellerwatch.sellers.seller import SellerStatus

#: Failed tasks are counted up to this number; a person reads "1000 or more".
MOST_COUNTED = 1000

# Of each seller its last run that was completed: the index by seller and time is read from its end.
FRESHNESS = """
SELECT s.seller_id, s.name, s.status, s.interval_amount, s.interval_unit, s.total_product_count, c.status,
    c.next_run_at,
    (SELECT e.started_at FROM crawling_schedule_executions e
     WHERE e.seller_id = s.seller_id AND e.status = 'COMPLETED' AND e.refreshed_products IS NULL
     ORDER BY e.started_at DESC LIMIT 1),
    (SELECT o.execution_id FROM crawling_schedule_executions o WHERE o.open_seller_id = s.seller_id),
    (SELECT w.next_start_at FROM crawling_schedule_executions w
     WHERE w.open_seller_id = s.seller_id AND w.status = 'PENDING')
FROM sellers s LEFT JOIN crawling_schedules c ON c.seller_id = s.seller_id
"""

FAILED_EVENTS = "SELECT COUNT(*) FROM product_outbox WHERE status = 'FAILED'"
# Without those of a seller whose run is paused by them.
OPEN_CASES = """
SELECT COUNT(*) FROM quarantine q WHERE q.status = 'OPEN' AND NOT (q.kind = 'UNREADABLE' AND EXISTS (
    SELECT 1 FROM crawling_schedule_executions e JOIN run_notes n ON n.execution_id = e.execution_id
    WHERE e.open_seller_id = q.seller_id AND e.status = 'RUNNING' AND n.kind = 'paused'))
"""
HELD_REMOVALS = "SELECT COUNT(*) FROM removals WHERE status = 'HELD'"
FAILED_SCHEDULES = "SELECT COUNT(*) FROM crawling_schedules WHERE status = 'FAILED'"
PAUSED_RUNS = """
SELECT COUNT(DISTINCT e.execution_id) FROM crawling_schedule_executions e
JOIN run_notes n ON n.execution_id = e.execution_id AND n.kind = 'paused' WHERE e.status = 'RUNNING'
"""

# The newest failed tasks; the index by state and time gives them in order.
FAILED_TASKS = """
SELECT failure_blame FROM crawler_tasks WHERE status = 'FAILED' AND created_at >= :since
ORDER BY created_at DESC LIMIT :limit
"""

# Of the newest failed tasks those whose worker vanished, where no later run of the seller has completed.
LOST_TASKS = """
SELECT COUNT(*) FROM (SELECT seller_id, failure_code, created_at FROM crawler_tasks
    WHERE status = 'FAILED' AND created_at >= :since ORDER BY created_at DESC LIMIT :limit) t
WHERE t.failure_code = 'WORKER_LOST' AND NOT EXISTS (
    SELECT 1 FROM crawling_schedule_executions e
    WHERE e.seller_id = t.seller_id AND e.status = 'COMPLETED' AND e.refreshed_products IS NULL
        AND e.started_at > t.created_at)
"""

PROGRESS = """
SELECT at, data FROM activity WHERE subject_id = :execution_id AND subject_type = 'execution'
ORDER BY at DESC LIMIT :limit
"""

ASKED = """
SELECT request_timestamp, http_status_code, response_time_ms, is_success, is_429_error FROM token_usage_log
WHERE agent_id = :row AND request_timestamp >= :since AND request_timestamp < :until
ORDER BY request_timestamp DESC LIMIT :limit
"""

OF_ITEM = f"{SELECT} WHERE execution_id = :execution_id AND item_no = :item_no ORDER BY task_type"


_BLAMES = {str(blame): blame for blame in Blame}


class SqlDashboard(Repository):
    """Implements `reports.dashboard.DashboardQueries`."""

    def freshness(self, seller_ids: Sequence[SellerId] | None = None) -> Sequence[SellerTimes]:
        if seller_ids is None:
            rows = self._db.rows(f"{FRESHNESS} ORDER BY s.seller_id")
        elif seller_ids:
            rows = self._db.rows(f"{FRESHNESS} WHERE s.seller_id IN (:ids) ORDER BY s.seller_id", ids=seller_ids)
        else:
            rows = ()
        return [_freshness(row) for row in rows]

    def needs(self, since: datetime) -> Needs:
        return Needs(
            failed_events=self._db.value(FAILED_EVENTS),
            open_cases=self._db.value(OPEN_CASES),
            held_removals=self._db.value(HELD_REMOVALS),
            failed_schedules=self._db.value(FAILED_SCHEDULES),
            lost_tasks=self._db.value(LOST_TASKS, {"since": since, "limit": MOST_COUNTED}),
            paused_runs=self._db.value(PAUSED_RUNS),
        )

    def failed_runs(self, limit: int) -> Sequence[Execution]:
        failed = SqlExecutionQueries(self._db).newest(seller_id=None, status=ExecutionStatus.FAILED, limit=limit)
        return [run for run in failed if not run.is_refresh]

    def failures(self, since: datetime, limit: int) -> Mapping[Blame, int]:
        """A blame that only a newer version knows counts as our own."""
        rows = self._db.rows(FAILED_TASKS, {"since": since, "limit": limit})
        return Counter(_BLAMES.get(row[0], Blame.OURSELVES) for row in rows)

    def progress(self, execution_id: ExecutionId, limit: int) -> Sequence[RunProgress]:
        rows = self._db.rows(PROGRESS, {"execution_id": execution_id, "limit": limit})
        reports = [(row[0], orjson.loads(row[1])) for row in reversed(rows) if row[1] is not None]
        return [
            RunProgress(at, data["completedTasks"], data["failedTasks"], data["totalTasks"])
            for at, data in reports
            if "completedTasks" in data and "totalTasks" in data
        ]

    def asked(self, agent_row: int, since: datetime, until: datetime, limit: int) -> Sequence[Asked]:
        rows = self._db.rows(ASKED, {"row": agent_row, "since": since, "until": until, "limit": limit})
        return [Asked(row[0], row[1], row[2], bool(row[3]), bool(row[4])) for row in reversed(rows)]

    def tasks_of_item(self, execution_id: ExecutionId, item_no: ItemNo) -> Sequence[Task]:
        rows = self._db.rows(OF_ITEM, {"execution_id": execution_id, "item_no": item_no})
        return [task_of(row) for row in rows]


def _freshness(row: AnyRow) -> SellerTimes:
    return SellerTimes(
        seller_id=SellerId(row[0]),
        name=row[1],
        status=SellerStatus(row[2]),
        interval=CrawlingInterval(row[3], IntervalUnit(row[4])),
        products=row[5],
        schedule=None if row[6] is None else ScheduleStatus(row[6]),
        next_run_at=row[7],
        fresh_as_of=time_of(row[8]),
        open_run=None if row[9] is None else ExecutionId(row[9]),
        waiting_start=time_of(row[10]),
    )
