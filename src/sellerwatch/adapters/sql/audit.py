"""The audit trail in SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from sellerwatch.adapters.sql.activity import SqlActivity
from sellerwatch.adapters.sql.statements import Db
from sellerwatch.kernel.activity import Activity
from sellerwatch.oversight.audit import AuditEntry

# Append one entry.
RECORD = """
INSERT INTO audit (at, actor, action, subject_type, subject_id, state_before, state_after, note)
VALUES (:at, :actor, :action, :subject_type, :subject_id, :before, :after, :note)
"""

# The newest entries; `{where}` holds only what is asked for, so that each question finds its index.
NEWEST = """
SELECT at, actor, action, subject_type, subject_id, state_before, state_after, note FROM audit
{where} ORDER BY id DESC LIMIT :limit
"""


class SqlAuditTrail:
    def __init__(self, db: Db) -> None:
        self._db = db
        self._activity = SqlActivity(db)

    def record(self, entry: AuditEntry) -> None:
        """Also told to whoever watches; of people who log in only the trail knows."""
        if entry.subject_type != "user":
            told = {"actor": entry.actor, "note": entry.note}
            self._activity.add(Activity(entry.at, entry.action, entry.subject_type, entry.subject_id, told))
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

    def newest(
        self, *, limit: int, subject_type: str | None = None, subject_id: str | None = None, actor: str | None = None
    ) -> Sequence[AuditEntry]:
        given = {"subject_type": subject_type, "subject_id": subject_id, "actor": actor}
        asked = [f"{name} = :{name}" for name, value in given.items() if value is not None]
        statement = NEWEST.replace("{where}", f"WHERE {' AND '.join(asked)}" if asked else "")
        return [
            AuditEntry(r[0], r[1], r[2], r[3], r[4], _object(r[5]), _object(r[6]), r[7])
            for r in self._db.rows(statement, given | {"limit": limit})
        ]


def _text(value: Mapping[str, Any] | None) -> str | None:
    return None if value is None else orjson.dumps(value, default=str).decode()


def _object(text: str | None) -> Mapping[str, Any] | None:
    return None if text is None else dict(orjson.loads(text))
