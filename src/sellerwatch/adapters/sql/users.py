"""Users and counts of failed log-ins, in SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sellerwatch.access.logins import Failures
from sellerwatch.access.users import Role, User
from sellerwatch.adapters.sql.statements import AnyRow, Repository

SELECT = """SELECT name, role, password_hash, created_at, updated_at, must_change, version, last_login_at FROM users"""

ADD = """
INSERT INTO users (name, role, password_hash, created_at, updated_at, must_change, version, last_login_at)
VALUES (:name, :role, :password_hash, :created_at, :updated_at, :must_change, :version, :last_login_at)
"""

SAVE = """
UPDATE users SET role = :role, password_hash = :password_hash, updated_at = :updated_at, must_change = :must_change,
    version = :version, last_login_at = :last_login_at
WHERE name = :name
"""

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
        row = self._db.hold_row(f"{SELECT} WHERE name = :name", {"name": name})
        return None if row is None else _user(row)

    def everyone(self) -> Sequence[User]:
        return [_user(row) for row in self._db.rows(f"{SELECT} ORDER BY name")]

    def add(self, user: User) -> None:
        self._db.run(ADD, _params(user))

    def save(self, user: User) -> None:
        self._db.run(SAVE, _params(user))

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


def _params(user: User) -> dict[str, Any]:
    return {
        "name": user.name,
        "role": user.role,
        "password_hash": user.password_hash,
        "created_at": user.created_at,
        "updated_at": user.updated_at,
        "must_change": user.must_change,
        "version": user.version,
        "last_login_at": user.last_login_at,
    }


def _user(row: AnyRow) -> User:
    return User(
        name=row[0],
        role=Role(row[1]),
        password_hash=row[2],
        created_at=row[3],
        updated_at=row[4],
        must_change=bool(row[5]),
        version=row[6],
        last_login_at=row[7],
    )
