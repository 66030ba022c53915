"""The last backup and the restores of this database, in SQL."""

from __future__ import annotations

from dataclasses import asdict

import orjson

from sellerwatch.adapters.sql.columns import Columns
from sellerwatch.adapters.sql.statements import Repository
from sellerwatch.oversight.backups import LastBackup, Restore

#: Its one row.
ONLY = "database"

LAST = Columns[LastBackup](
    "last_backup",
    same="made_at file bytes seconds revision failed_at error_code",
    other={"error_facts": lambda last: orjson.dumps(last.error_facts).decode()},
    read_as={"error_facts": lambda facts: orjson.loads(facts or "{}")},
)
SAVE = LAST.update("name", without="")
FIRST = "INSERT INTO last_backup (name) VALUES (:name) ON CONFLICT (name) DO NOTHING"
ADD_RESTORE = """
INSERT INTO restores (restored_at, file, version_floor) VALUES (:restored_at, :file, :version_floor)
"""
FLOOR = "SELECT MAX(version_floor) FROM restores"


class SqlBackups(Repository):
    def last(self) -> LastBackup | None:
        row = self._db.row(f"{LAST.select} WHERE name = :name", {"name": ONLY})
        return None if row is None else LastBackup(**LAST.by_name(row))

    def save(self, last: LastBackup) -> None:
        self._db.run(FIRST, {"name": ONLY})
        self._db.many(SAVE.sql, [(*SAVE.values(last), ONLY)])

    def add_restore(self, restore: Restore) -> None:
        self._db.run(ADD_RESTORE, asdict(restore))

    def version_floor(self) -> int:
        return int(self._db.value(FLOOR) or 0)
