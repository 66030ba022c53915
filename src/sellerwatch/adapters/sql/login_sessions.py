"""Log-ins and tokens of programs, in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sellerwatch.access.api_tokens import ApiToken
from sellerwatch.access.login_sessions import LoginKind, LoginSession
from sellerwatch.access.users import Role
from sellerwatch.adapters.sql.columns import Columns
from sellerwatch.adapters.sql.statements import AnyRow, Repository
from sellerwatch.kernel.ids import ApiTokenId, LoginSessionId

SESSION = Columns[LoginSession](
    "login_sessions",
    same="session_id user_name kind address client created_at last_used_at expires_at",
    read_as={"session_id": LoginSessionId, "kind": LoginKind},
)
ADD_SESSION = SESSION.insert()

TOKEN = Columns[ApiToken](
    "api_tokens",
    same="token_id name role created_at created_by expires_at last_used_at revoked_at revoked_by",
    read_as={"token_id": ApiTokenId, "role": Role},
)
ADD_TOKEN = TOKEN.insert()
SAVE_TOKEN = TOKEN.update("token_id", without="name role created_at created_by expires_at")

# A limited number at a time, so that no transaction is long.
FORGET = """
DELETE FROM {table} WHERE id IN (
    SELECT id FROM (SELECT id FROM {table} WHERE expires_at < :before LIMIT :limit) AS expired)
"""
FORGET_SESSIONS, FORGET_TOKENS = FORGET.format(table="login_sessions"), FORGET.format(table="api_tokens")


class SqlLoginSessions(Repository):
    def get(self, session_id: LoginSessionId) -> LoginSession | None:
        row = self._db.hold_row(f"{SESSION.select} WHERE session_id = :id", {"id": session_id})
        return None if row is None else _session(row)

    def of(self, user_name: str | None) -> Sequence[LoginSession]:
        chosen = "" if user_name is None else "WHERE user_name = :name"
        rows = self._db.rows(f"{SESSION.select} {chosen} ORDER BY last_used_at DESC, id DESC", {"name": user_name})
        return [_session(row) for row in rows]

    def add(self, session: LoginSession) -> None:
        self._db.many(ADD_SESSION.sql, [ADD_SESSION.values(session)])

    def used(self, session_id: LoginSessionId, at: datetime) -> None:
        self._db.run(
            "UPDATE login_sessions SET last_used_at = :at WHERE session_id = :id", {"id": session_id, "at": at}
        )

    def end(self, session_id: LoginSessionId) -> None:
        self._db.run("DELETE FROM login_sessions WHERE session_id = :id", {"id": session_id})

    def end_all(self, user_name: str) -> None:
        self._db.run("DELETE FROM login_sessions WHERE user_name = :name", {"name": user_name})

    def forget(self, before: datetime, limit: int) -> int:
        return self._db.run(FORGET_SESSIONS, {"before": before, "limit": limit})


class SqlApiTokens(Repository):
    def get(self, token_id: ApiTokenId) -> ApiToken | None:
        row = self._db.hold_row(f"{TOKEN.select} WHERE token_id = :id", {"id": token_id})
        return None if row is None else _token(row)

    def everyone(self) -> Sequence[ApiToken]:
        return [_token(row) for row in self._db.rows(f"{TOKEN.select} ORDER BY id DESC")]

    def add(self, token: ApiToken) -> None:
        self._db.many(ADD_TOKEN.sql, [ADD_TOKEN.values(token)])

    def save(self, token: ApiToken) -> None:
        self._db.many(SAVE_TOKEN.sql, [SAVE_TOKEN.values(token)])

    def forget(self, before: datetime, limit: int) -> int:
        return self._db.run(FORGET_TOKENS, {"before": before, "limit": limit})


def _session(row: AnyRow) -> LoginSession:
    return LoginSession(**SESSION.by_name(row))


def _token(row: AnyRow) -> ApiToken:
    return ApiToken(**TOKEN.by_name(row))
