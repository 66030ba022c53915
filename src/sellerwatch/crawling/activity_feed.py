"""Telling whoever watches what happens (`kernel/activity.py`): how far a run is, and what a person should hear of.

That runs begin and end is told where they are saved, and what people do where the trail is written.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from sellerwatch.crawling.execution import Execution
from sellerwatch.kernel.activity import Activity
from sellerwatch.oversight.alerts import Alert, Alerts

if TYPE_CHECKING:
    from sellerwatch.crawling.ports import CrawlTx
    from sellerwatch.kernel.store import Store

log = logging.getLogger(__name__)

#: Groups are absorbed many times a second; people look once.
AT_MOST_EVERY = timedelta(seconds=1)


def execution_told(execution: Execution) -> dict[str, Any]:
    return {
        "sellerId": execution.seller_id,
        "status": execution.status,
        "totalTasks": execution.total_tasks_created,
        "completedTasks": execution.completed_tasks,
        "failedTasks": execution.failed_tasks,
        "progressRate": round(execution.progress_rate, 2),
    }


def tell_progress(tx: CrawlTx, execution: Execution, now: datetime) -> None:
    """At most once a second for each run, whichever process absorbs for it."""
    if execution.is_open:
        told = Activity(now, "execution.progress", "execution", execution.execution_id, execution_told(execution))
        tx.activity.add_unless_lately(told, AT_MOST_EVERY)


class RecordingAlerts:
    """Alerts on their way out, told to whoever watches too. That they cannot be told keeps none from being sent."""

    def __init__(self, store: Store[CrawlTx], alerts: Alerts) -> None:
        self._store, self._alerts = store, alerts

    async def send(self, alert: Alert) -> None:
        kind = alert.kind.partition(".")[0]
        told = Activity(alert.at, alert.kind, kind, alert.subject, {"text": alert.text})
        try:
            await self._store.transact(lambda tx: tx.activity.add(told))
        except Exception:
            log.exception("an alert could not be told to those who watch", extra={"kind": alert.kind})
        await self._alerts.send(alert)
