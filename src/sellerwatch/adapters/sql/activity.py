"""The activity feed in SQL.

SQLite has one writer, so numbers are committed in order: a reader that has seen a number has missed none below it. On
MySQL, where several transactions write at once, a lower number may be committed after a higher one. There the feed
stops before a missing number until that transaction has had time to commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import orjson

from sellerwatch.adapters.sql.statements import Repository
from sellerwatch.kernel.activity import Activity

ADD = """
INSERT INTO activity (at, kind, subject_type, subject_id, data) VALUES (:at, :kind, :subject_type, :subject_id, :data)
"""

ADD_UNLESS = """
INSERT INTO activity (at, kind, subject_type, subject_id, data)
SELECT :at, :kind, :subject_type, :subject_id, :data FROM (SELECT 1 AS one) AS once
WHERE NOT EXISTS (SELECT 1 FROM activity WHERE subject_id = :subject_id AND at > :since AND kind = :kind)
"""

AFTER = """
SELECT id, at, kind, subject_type, subject_id, data FROM activity WHERE id > :number ORDER BY id LIMIT :limit
"""

# The newest, and whether they are so young that somebody who began before them may not have ended yet (MySQL).
NEWEST = """
SELECT id, ABS(TIMESTAMPDIFF(SECOND, at, UTC_TIMESTAMP(6))) < 3 FROM activity ORDER BY id DESC LIMIT 500
"""

LOWEST = "SELECT MIN(id) FROM activity"

# In the order of the ids, which is that of the times: the first that is young enough ends the search.
FORGET = """
DELETE FROM activity WHERE id IN (
    SELECT id FROM (SELECT id, at FROM activity ORDER BY id LIMIT :limit) AS oldest WHERE at < :before)
"""


class SqlActivity(Repository):
    def add(self, activity: Activity) -> None:
        self._db.run(ADD, _params(activity))

    def add_unless_lately(self, activity: Activity, within: timedelta) -> bool:
        return self._db.run(ADD_UNLESS, _params(activity) | {"since": activity.at - within}) == 1

    def after(self, number: int, limit: int) -> Sequence[tuple[int, Activity]]:
        rows = self._db.rows(AFTER, {"number": number, "limit": limit})
        if self._db.shared:
            last = self._last_settled()
            rows = [row for row in rows if row[0] <= last]
        return [(r[0], Activity(r[1], r[2], r[3], r[4], None if r[5] is None else orjson.loads(r[5]))) for r in rows]

    def span(self) -> tuple[int, int]:
        highest = self._last_settled() if self._db.shared else self._db.highest("activity")
        return self._db.value(LOWEST) or 0, highest

    def _last_settled(self) -> int:
        """Return the highest number below which no more entries can appear."""
        last = 0
        for number, is_young in reversed(self._db.rows(NEWEST)):
            if last and number != last + 1 and is_young:
                break
            last = number
        return last

    def forget(self, before: datetime, limit: int) -> int:
        return self._db.run(FORGET, {"before": before, "limit": limit})


def _params(activity: Activity) -> dict[str, Any]:
    return {
        "at": activity.at,
        "kind": activity.kind,
        "subject_type": activity.subject_type,
        "subject_id": None if activity.subject_id is None else activity.subject_id[:100],
        "data": None if activity.data is None else orjson.dumps(dict(activity.data), default=str).decode(),
    }
