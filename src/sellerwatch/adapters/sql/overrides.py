"""Settings changed at run time, in SQL."""

from __future__ import annotations

from datetime import datetime

from sellerwatch.adapters.sql.statements import Repository

SET = """
INSERT INTO setting_overrides (name, value, changed_by, changed_at) VALUES (:name, :value, :by, :now)
ON CONFLICT (name) DO UPDATE SET value = :value, changed_by = :by, changed_at = :now
"""


class SqlOverrides(Repository):
    def all(self) -> dict[str, str]:
        return {r[0]: r[1] for r in self._db.rows("SELECT name, value FROM setting_overrides ORDER BY name")}

    def set(self, name: str, value: str, by: str, now: datetime) -> None:
        self._db.run(SET, {"name": name, "value": value, "by": by, "now": now})

    def unset(self, name: str) -> bool:
        return self._db.run("DELETE FROM setting_overrides WHERE name = :name", {"name": name}) == 1
