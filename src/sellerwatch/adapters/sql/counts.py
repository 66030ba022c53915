"""Numbers for monitoring, counted from the tables: a counter kept beside them could be wrong.

Counting tasks reads all of them: tenths of a second for a million. A caller that asks often caches the answer.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sellerwatch.adapters.sql.engine import time_of
from sellerwatch.adapters.sql.statements import Repository
from sellerwatch.reports.service_counts import ServiceCounts, ServiceHealth

TASKS = "SELECT task_type, status, COUNT(*) FROM crawler_tasks GROUP BY task_type, status"
EXECUTIONS = "SELECT status, COUNT(*) FROM crawling_schedule_executions GROUP BY status"
SELLERS = "SELECT status, COUNT(*) FROM sellers GROUP BY status"
AGENTS = "SELECT status, COUNT(*) FROM user_agent_pool GROUP BY status"
CIRCUITS = "SELECT circuit_state, COUNT(*) FROM circuit_breaker_state GROUP BY circuit_state"
PRODUCTS = """
SELECT CASE WHEN deleted_at IS NOT NULL THEN 'DELETED' WHEN is_complete THEN 'COMPLETE' ELSE 'INCOMPLETE' END AS state,
    COUNT(*)
FROM products GROUP BY state
"""
OUTBOX = """
SELECT 'product', status, COUNT(*) FROM product_outbox GROUP BY status
UNION ALL SELECT 'scheduler', status, COUNT(*) FROM scheduler_outbox GROUP BY status
"""
OLDEST = """
SELECT 'product', MIN(created_at) FROM product_outbox WHERE status IN ('WAITING', 'SENDING')
UNION ALL SELECT 'scheduler', MIN(created_at) FROM scheduler_outbox WHERE status IN ('WAITING', 'SENDING')
"""
CASES = "SELECT COUNT(*) FROM quarantine WHERE status = 'OPEN'"
REMOVALS = "SELECT COUNT(*) FROM removals WHERE status = 'HELD'"
REPAIRS = "SELECT COUNT(*) FROM audit WHERE action IN ('agent.repair', 'limiter.repair')"
WORKERS = "SELECT COUNT(*) FROM workers WHERE stopped_at IS NULL"

REVISION = "SELECT MAX(version_num) FROM alembic_version"
BEATS = """SELECT role, COUNT(*), MAX(heartbeat_at) FROM workers
WHERE stopped_at IS NULL AND heartbeat_at > :since GROUP BY role"""
#: As which processes enter that crawl, and that start runs.
CRAWLING, SCHEDULING = ("service", "worker"), ("service", "scheduler")
BREAKER = "SELECT state FROM pool_breaker ORDER BY CASE state WHEN 'CLOSED' THEN 1 ELSE 0 END LIMIT 1"
# Due, and nothing of its subject stands before it: what ought to be on its way.
OLDEST_DUE = """
SELECT MIN(next_attempt_at) FROM product_outbox WHERE status = 'WAITING' AND next_attempt_at <= :now
"""


class SqlCounts(Repository):
    def service_counts(self, now: datetime) -> ServiceCounts:
        db = self._db
        oldest = {kind: time_of(at) for kind, at in db.rows(OLDEST)}
        return ServiceCounts(
            tasks={(r[0], r[1]): r[2] for r in db.rows(TASKS)},
            executions={r[0]: r[1] for r in db.rows(EXECUTIONS)},
            products={r[0]: r[1] for r in db.rows(PRODUCTS)},
            outbox={(r[0], r[1]): r[2] for r in db.rows(OUTBOX)},
            outbox_lag={
                kind: 0.0 if at is None else max(0.0, (now - at).total_seconds()) for kind, at in oldest.items()
            },
            agents={r[0]: r[1] for r in db.rows(AGENTS)},
            circuits={r[0]: r[1] for r in db.rows(CIRCUITS)},
            sellers={r[0]: r[1] for r in db.rows(SELLERS)},
            quarantine=db.value(CASES),
            removals=db.value(REMOVALS),
            workers=db.value(WORKERS),
            repairs=db.value(REPAIRS),
        )

    def service_health(self, now: datetime, silent_after: timedelta) -> ServiceHealth:
        alive = {row[0]: row[1:] for row in self._db.rows(BEATS, {"since": now - silent_after})}
        beats = [beat for beat in (time_of(alive[role][1]) for role in CRAWLING if role in alive) if beat is not None]
        return ServiceHealth(
            revision=self._db.value(REVISION),
            beat_at=max(beats, default=None),
            workers=sum(alive[role][0] for role in CRAWLING if role in alive),
            schedulers=sum(alive[role][0] for role in SCHEDULING if role in alive),
            breaker=self._db.value(BREAKER) or "CLOSED",
            oldest_due=time_of(self._db.value(OLDEST_DUE, {"now": now})),
        )
