"""Users and counts of failed log-ins, in SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from sellerwatch.access.logins import Failures
from sellerwatch.access.users import Role, User
from sellerwatch.adapters.sql.columns import Columns
from sellerwatch.adapters.sql.statements import AnyRow, Repository

USER = Columns[User](
    "users",
    same="name role password_hash created_at updated_at must_change version last_login_at",
    read_as={"role": Role, "must_change": bool},
)
ADD = USER.insert()
SAVE = USER.update("name", without="created_at")

PUT = """
INSERT INTO login_attempts (who_hash, failures, last_at) VALUES (:key, :failures, :last_at)
ON CONFLICT (who_hash) DO UPDATE SET failures = :failures, last_at = :last_at
"""

FORGIVE = "UPDATE login_attempts SET failures = failures - 1 WHERE who_hash = :key AND failures > 0"

# A limited number at a time, so that no transaction is long.
FORGET = """
DELETE FROM login_attempts WHERE id IN (
    SELECT id FROM (SELECT id FROM login_attempts WHERE last_at < :before LIMIT :limit) AS oldest)
"""


class SqlUsers(Repository):
    def get(self, name: str) -> User | None:
        row = self._db.hold_row(f"{USER.select} WHERE name = :name", {"name": name})
        return None if row is None else _user(row)

    def everyone(self) -> Sequence[User]:
        return [_user(row) for row in self._db.rows(f"{USER.select} ORDER BY name")]

    def add(self, user: User) -> None:
        self._db.many(ADD.sql, [ADD.values(user)])

    def save(self, user: User) -> None:
        self._db.many(SAVE.sql, [SAVE.values(user)])

    def remove(self, name: str) -> None:
        self._db.run("DELETE FROM users WHERE name = :name", {"name": name})


class SqlLogins(Repository):
    def get(self, keys: Sequence[bytes]) -> Mapping[bytes, Failures]:
        statement = "SELECT who_hash, failures, last_at FROM login_attempts WHERE who_hash IN (:keys)"
        return {bytes(r[0]): Failures(r[1], r[2]) for r in self._db.hold(statement, keys=keys)}

    def put(self, key: bytes, failures: Failures) -> None:
        self._db.run(PUT, {"key": key, "failures": failures.number, "last_at": failures.last_at})

    def clear(self, key: bytes) -> None:
        self._db.run("DELETE FROM login_attempts WHERE who_hash = :key", {"key": key})

    def forgive(self, key: bytes) -> None:
        self._db.run(FORGIVE, {"key": key})

    def forget(self, before: datetime, limit: int) -> int:
        return self._db.run(FORGET, {"before": before, "limit": limit})


def _user(row: AnyRow) -> User:
    return User(**USER.by_name(row))
