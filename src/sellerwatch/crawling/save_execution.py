"""Save runs, and record as activity that they begin, how far they are, and how they end."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from sellerwatch.crawling.execution import Execution
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.kernel.activity import Activity

#: Batches are absorbed many times a second; people look once.
PROGRESS_EVERY = timedelta(seconds=1)


def add_execution(tx: CrawlTx, execution: Execution) -> None:
    """Add a new run."""
    tx.executions.add(execution)
    _record_status(tx, execution)


def save_execution(tx: CrawlTx, before: Execution, after: Execution) -> None:
    """Save a run. A new status (it begins, ends or begins again) is recorded as activity."""
    tx.executions.save(after)
    if after.status is not before.status:
        _record_status(tx, after)


def record_progress(tx: CrawlTx, execution: Execution, now: datetime) -> None:
    """Record how far an open run is, at most once a second for each run, whichever process absorbs for it."""
    if execution.is_open:
        activity = Activity(now, "execution.progress", "execution", execution.execution_id, _counts(execution))
        tx.activity.add_unless_lately(activity, PROGRESS_EVERY)


def _record_status(tx: CrawlTx, execution: Execution) -> None:
    at = execution.completed_at or execution.started_at or execution.created_at
    kind = f"execution.{execution.status.lower()}"
    tx.activity.add(Activity(at, kind, "execution", execution.execution_id, _counts(execution)))


def _counts(execution: Execution) -> dict[str, Any]:
    return {
        "sellerId": execution.seller_id,
        "status": execution.status,
        "totalTasks": execution.total_tasks_created,
        "completedTasks": execution.completed_tasks,
        "failedTasks": execution.failed_tasks,
        "progressRate": round(execution.progress_rate, 2),
    }
