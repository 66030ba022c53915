"""The audit trail in SQL."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import orjson

from sellerwatch.adapters.sql.paging import PageQuery, read_page
from sellerwatch.adapters.sql.statements import AnyRow, Repository
from sellerwatch.kernel.paging import Cursor, Page
from sellerwatch.oversight.audit import AuditEntry
from sellerwatch.oversight.ports import AuditFilter

# Append one entry.
RECORD = """
INSERT INTO audit (at, actor, action, subject_type, subject_id, state_before, state_after, note)
VALUES (:at, :actor, :action, :subject_type, :subject_id, :before, :after, :note)
"""

# The newest entries; `{where}` holds only what is asked for, so that each question finds its index.
NEWEST = """
SELECT id, at, actor, action, subject_type, subject_id, state_before, state_after, note FROM audit
{where} ORDER BY id DESC LIMIT :limit
"""


ROW = """SELECT id, id, at, actor, action, subject_type, subject_id, state_before, state_after, note FROM audit
WHERE id IN (:rows)"""

GET = NEWEST.replace("{where}", "WHERE id = :entry_id")

INDEXED = ("subject_type", "subject_id", "actor", "action")


def _found_by(conditions: Collection[str]) -> tuple[str, ...]:
    """Return the columns of the most selective index. The index of a subject needs both its type and its id."""
    if {"subject_type", "subject_id"} <= set(conditions):
        return ("subject_type", "subject_id")
    return tuple(name for name in ("actor", "action") if name in conditions)[:1]


class SqlAuditTrail(Repository):
    def record(self, entry: AuditEntry) -> None:
        self._db.run(
            RECORD,
            {
                "at": entry.at,
                "actor": entry.actor,
                "action": entry.action,
                "subject_type": entry.subject_type,
                "subject_id": entry.subject_id,
                "before": _text(entry.before),
                "after": _text(entry.after),
                "note": entry.note,
            },
        )

    def get(self, entry_id: int) -> AuditEntry | None:
        row = self._db.row(GET, {"entry_id": entry_id, "limit": 1})
        return None if row is None else _entry(row)

    def newest(
        self, *, limit: int, subject_type: str | None = None, subject_id: str | None = None, actor: str | None = None
    ) -> Sequence[AuditEntry]:
        given = {"subject_type": subject_type, "subject_id": subject_id, "actor": actor}
        conditions = [f"{name} = :{name}" for name, value in given.items() if value is not None]
        statement = NEWEST.replace("{where}", f"WHERE {' AND '.join(conditions)}" if conditions else "")
        return [_entry(row) for row in self._db.rows(statement, given | {"limit": limit})]

    def page(self, choice: AuditFilter, cursor: Cursor | None, limit: int) -> Page[AuditEntry]:
        given = vars(choice)
        conditions = {name: f"w.{name} = :{name}" for name in INDEXED if given[name] is not None}
        found_by = _found_by(conditions)
        times = {"since": "w.at >= :since", "until": "w.at < :until"}
        looked_at = " AND ".join(text for name, text in times.items() if given[name] is not None)
        only = {name: text for name, text in conditions.items() if name not in found_by}
        only |= {"at": looked_at} if looked_at else {}
        query = PageQuery("audit", given, [conditions[name] for name in found_by], only, time="at", since=choice.since)
        return read_page(self._db, query, ROW, _entry, cursor=cursor, limit=limit)


def _entry(row: AnyRow) -> AuditEntry:
    number, at, actor, action, subject_type, subject_id, before, after, note = row
    return AuditEntry(at, actor, action, subject_type, subject_id, _object(before), _object(after), note, number)


def _text(value: Mapping[str, Any] | None) -> str | None:
    return None if value is None else orjson.dumps(value, default=str).decode()


def _object(text: str | None) -> Mapping[str, Any] | None:
    return None if text is None else dict(orjson.loads(text))
