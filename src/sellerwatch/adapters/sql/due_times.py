"""When each kind of work is due next, in SQL. Each statement reads a few rows by an index."""

from __future__ import annotations

from datetime import datetime

from sellerwatch.adapters.sql.engine import time_of
from sellerwatch.adapters.sql.outbox import for_table
from sellerwatch.adapters.sql.permits import FORGOTTEN_US
from sellerwatch.adapters.sql.statements import Repository
from sellerwatch.kernel.clock import EPOCH
from sellerwatch.kernel.ids import WorkerId
from sellerwatch.outbox.message import OutboxKind

START = """
SELECT next_run_at FROM crawling_schedules WHERE status IN ('ACTIVE', 'FAILED') AND next_run_at > :now
ORDER BY next_run_at LIMIT 1
"""

# Processes that are not known to have ended, and those that still hold something; the last may be unknown.
HEARTBEATS = """
SELECT heartbeat_at FROM workers WHERE stopped_at IS NULL AND worker_id <> :worker_id
UNION SELECT w.heartbeat_at FROM (
    SELECT worker_id FROM crawler_tasks WHERE status = 'IN_PROGRESS'
    UNION SELECT worker_id FROM permits WHERE answered_boot_us IS NULL
    UNION SELECT worker_id FROM product_outbox WHERE status = 'SENDING'
    UNION SELECT worker_id FROM scheduler_outbox WHERE status = 'SENDING') h
LEFT JOIN workers w ON w.worker_id = h.worker_id WHERE h.worker_id <> :worker_id
"""

DEADLINE = """
SELECT deadline_at FROM crawling_schedule_executions WHERE status = 'RUNNING' AND deadline_at IS NOT NULL
ORDER BY deadline_at LIMIT 1
"""

OLDEST_PERMIT_US = "SELECT MIN(boot_us) FROM permits WHERE answered_boot_us IS NULL"

# Found from the messages that failed for good, which are few.
BEHIND_FAILED = """
SELECT MIN(w.next_attempt_at) FROM {outbox} f CROSS JOIN {outbox} w
WHERE w.{subject} = f.{subject} AND w.id > f.id AND f.status = 'FAILED' AND w.status = 'WAITING'
"""

SUSPENDED_UNTIL = """
SELECT suspended_until FROM user_agent_pool WHERE status = 'SUSPENDED' ORDER BY suspended_until LIMIT 1
"""

RENEWAL = """
SELECT s.next_refresh_time FROM token_refresh_schedule s JOIN user_agent_pool a ON a.agent_id = s.agent_id
WHERE s.is_enabled = 1 AND a.status = 'AVAILABLE' ORDER BY s.next_refresh_time LIMIT 1
"""

UNJUDGED = """
SELECT 1 FROM held_parts h JOIN crawling_schedule_executions e ON e.execution_id = h.execution_id
WHERE h.status = 'PENDING' AND e.open_seller_id IS NULL LIMIT 1
"""


class SqlDueTimes(Repository):
    """Implements `crawling.ports.Dues`."""

    def start(self, now: datetime) -> datetime | None:
        found: datetime | None = self._db.value(START, {"now": now})
        return found

    def heartbeat(self, worker_id: WorkerId) -> datetime | None:
        beats = [time_of(row[0]) or EPOCH for row in self._db.rows(HEARTBEATS, {"worker_id": worker_id})]
        return min(beats, default=None)

    def deadline(self) -> datetime | None:
        found: datetime | None = self._db.value(DEADLINE)
        return found

    def forgotten_us(self) -> int | None:
        oldest = self._db.value(OLDEST_PERMIT_US)
        return None if oldest is None else int(oldest) + FORGOTTEN_US

    def behind_failed(self) -> datetime | None:
        found = [time_of(self._db.value(for_table(BEHIND_FAILED, kind))) for kind in OutboxKind]
        return min((time for time in found if time is not None), default=None)

    def suspended_until(self) -> datetime | None:
        rows = self._db.rows(SUSPENDED_UNTIL)
        return rows[0][0] or EPOCH if rows else None

    def renewal(self) -> datetime | None:
        found: datetime | None = self._db.value(RENEWAL)
        return found

    def has_unjudged(self) -> bool:
        return self._db.value(UNJUDGED) is not None
