"""Rows that are deleted by their age, in SQL: each kind is found by an index, in the order of time.

On MySQL the usage log is left out: there whole months are dropped (`usage_log_partitions.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sellerwatch.adapters.sql.statements import Repository
from sellerwatch.oversight.retention import KeptRows

# Tasks of a run that is not over are never deleted, however old they are.
IS_OF_ENDED_RUN = """
COALESCE(completed_at, created_at) < :before AND execution_id NOT IN (
    SELECT execution_id FROM crawling_schedule_executions WHERE status IN ('PENDING', 'RUNNING'))
"""


@dataclass(frozen=True)
class _Kind:
    """`groups`: the values of `column`, the first of the index; `time` is the second. Without a column the numbers are
    in the order of time."""

    number: str
    time: str
    column: str = ""
    groups: Sequence[object] = (None,)
    condition: str = ""


KINDS: Mapping[KeptRows, _Kind] = {
    KeptRows.REQUESTS: _Kind("log_id", "request_timestamp", "is_success", (0, 1)),
    KeptRows.TOKENS: _Kind("token_id", "expires_at", condition="is_active = 0"),
    KeptRows.CIRCUIT_EVENTS: _Kind("event_id", "event_timestamp", "event_type", ("STATE_CHANGE", "FAILURE", "SUCCESS")),
    KeptRows.TASKS: _Kind("id", "created_at", "status", ("COMPLETED", "FAILED"), IS_OF_ENDED_RUN),
    KeptRows.AUDIT: _Kind("id", "at"),
}

# Only the oldest are looked at: the first that is young enough ends the search.
OLDEST_AUDIT = """
SELECT id FROM (SELECT id, at FROM audit ORDER BY id LIMIT :limit) AS oldest WHERE at < :before
"""

# The numbers are in the order of time: the first that is young enough is where counting ends.
COUNT_AUDIT = """
SELECT COUNT(*) FROM audit WHERE id < COALESCE((SELECT id FROM audit WHERE at >= :before ORDER BY id LIMIT 1),
    (SELECT MAX(id) + 1 FROM audit))
"""


class SqlOldRows(Repository):
    def find(self, kind: KeptRows, before: datetime, limit: int) -> Sequence[int]:
        if self._is_dropped_by_month(kind):
            return []
        given = {"before": before, "limit": limit}
        if kind is KeptRows.AUDIT:
            return [int(row[0]) for row in self._db.rows(OLDEST_AUDIT, given)]
        of, found = KINDS[kind], list[int]()
        for group in of.groups:
            sql = f"SELECT {of.number} FROM {kind} WHERE {_where(of)} ORDER BY {of.time} LIMIT :limit"
            more = given | {"group": group, "limit": limit - len(found)}
            found += [int(row[0]) for row in self._db.rows(sql, more)]
        return found

    def delete(self, kind: KeptRows, rows: Sequence[int]) -> int:
        return self._db.run(f"DELETE FROM {kind} WHERE {KINDS[kind].number} IN (:rows)", rows=rows) if rows else 0

    def count(self, kind: KeptRows, before: datetime) -> int:
        if kind is KeptRows.AUDIT:
            return int(self._db.value(COUNT_AUDIT, {"before": before}) or 0)
        if self._is_dropped_by_month(kind):
            before = before.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        of, total = KINDS[kind], 0
        for group in of.groups:
            sql = f"SELECT COUNT(*) FROM {kind} WHERE {_where(of)}"
            total += int(self._db.value(sql, {"before": before, "group": group}))
        return total

    def _is_dropped_by_month(self, kind: KeptRows) -> bool:
        return self._db.shared and kind is KeptRows.REQUESTS


def _where(of: _Kind) -> str:
    group = f"{of.column} = :group" if of.column else ""
    return " AND ".join(filter(None, (group, f"{of.time} < :before", of.condition)))
