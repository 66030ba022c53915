"""What must hold between rows, each as a statement that finds what breaks it."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from datetime import datetime

from sellerwatch.adapters.sql.backup_file import damage_in
from sellerwatch.adapters.sql.statements import Repository
from sellerwatch.operations.ports import BrokenInvariant, Invariant

RUN_COUNTS = """
SELECT e.execution_id FROM crawling_schedule_executions e LEFT JOIN (
    SELECT execution_id, COUNT(*) AS total, SUM(status = 'COMPLETED') AS completed, SUM(status = 'FAILED') AS failed
    FROM crawler_tasks GROUP BY execution_id) t ON t.execution_id = e.execution_id
WHERE (e.status IN ('PENDING', 'RUNNING') OR e.completed_at >= :tasks_since) AND (
    e.total_tasks_created <> COALESCE(t.total, 0) OR e.completed_tasks <> COALESCE(t.completed, 0)
    OR e.failed_tasks <> COALESCE(t.failed, 0))
"""
OPEN_RUNS = """
SELECT seller_id FROM crawling_schedule_executions WHERE status IN ('PENDING', 'RUNNING') AND refreshed_products IS NULL
GROUP BY seller_id HAVING COUNT(*) > 1
"""
TASKS_OF_ENDED_RUNS = """
SELECT DISTINCT t.execution_id FROM crawler_tasks t
LEFT JOIN crawling_schedule_executions e ON e.execution_id = t.execution_id
WHERE t.status NOT IN ('COMPLETED', 'FAILED') AND (e.status IS NULL OR e.status NOT IN ('PENDING', 'RUNNING'))
"""
TASKS_WITHOUT_WORKER = "SELECT task_id FROM crawler_tasks WHERE status = 'IN_PROGRESS' AND worker_id IS NULL"
# Retention deletes the oldest events of a product, so the first one that is left has none before it.
VERSIONS = """
SELECT DISTINCT item_no FROM (
    SELECT item_no, version, LAG(version) OVER (PARTITION BY product_id ORDER BY id) AS earlier FROM product_outbox) v
WHERE earlier IS NOT NULL AND version <> earlier + 1 AND NOT EXISTS (
    SELECT 1 FROM restores r WHERE r.version_floor >= v.earlier AND v.version = r.version_floor + 1)
"""
LAST_EVENT = """
SELECT p.item_no FROM products p LEFT JOIN (
    SELECT product_id, MAX(version) AS version FROM product_outbox GROUP BY product_id) o ON o.product_id = p.product_id
WHERE p.version > 0 AND p.version <> COALESCE(o.version, 0)
"""
ORDER_OF_EVENTS = """
SELECT DISTINCT o.item_no FROM product_outbox o
WHERE o.status IN ('WAITING', 'SENDING', 'FAILED') AND EXISTS (
    SELECT 1 FROM product_outbox l
    WHERE l.product_id = o.product_id AND l.id > o.id AND l.status IN ('SENDING', 'COMPLETED'))
"""
BUDGETS = """
SELECT b.agent_id FROM rate_limit_bucket b LEFT JOIN (
    SELECT agent_id, COUNT(*) AS used FROM permits GROUP BY agent_id) p ON p.agent_id = b.agent_id
WHERE b.current_tokens <> b.max_tokens - COALESCE(p.used, 0)
"""
STATEMENTS: Mapping[Invariant, str] = {
    Invariant.RUN_COUNTS: RUN_COUNTS,
    Invariant.OPEN_RUNS: OPEN_RUNS,
    Invariant.TASKS_OF_ENDED_RUNS: TASKS_OF_ENDED_RUNS,
    Invariant.TASKS_WITHOUT_WORKER: TASKS_WITHOUT_WORKER,
    Invariant.VERSIONS: VERSIONS,
    Invariant.LAST_EVENT: LAST_EVENT,
    Invariant.ORDER_OF_EVENTS: ORDER_OF_EVENTS,
    Invariant.BUDGETS: BUDGETS,
}

TABLES = "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() ORDER BY table_name"


class SqlInvariants(Repository):
    def broken(self, tasks_since: datetime) -> Sequence[BrokenInvariant]:
        # At MySQL it ends the transaction, so it comes last. In a damaged file the others would fail.
        damage = [] if self._db.shared else self._damage()
        found = []
        for invariant, sql in STATEMENTS.items() if not damage else ():
            rows = self._db.rows(sql, {"tasks_since": tasks_since})
            if rows:
                found.append(BrokenInvariant(invariant, len(rows), str(rows[0][0])))
        damage = self._damage() if self._db.shared else damage
        return [*([BrokenInvariant(Invariant.INTEGRITY, len(damage), damage[0])] if damage else []), *found]

    def _damage(self) -> Sequence[str]:
        if not self._db.shared:
            return self._damaged_pages()
        tables = ", ".join(f"`{row[0]}`" for row in self._db.rows(TABLES))
        checked = self._db.rows(f"CHECK TABLE {tables}")
        return [f"{row[0]}: {row[3]}" for row in checked if row[2] in ("error", "warning")]

    def _damaged_pages(self) -> Sequence[str]:
        try:
            return damage_in(str(row[0]) for row in self._db.rows("PRAGMA integrity_check(10)"))
        except sqlite3.DatabaseError as error:
            # Some damage ends the check itself.
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CORRUPT:
                raise
            return [str(error)]
