"""Log-ins: one row for each, so that any of them can be listed and ended.

A log-in of the console ends after it was not used for SESSION_IDLE_SECONDS, and SESSION_SECONDS after the password was
given; a token of `POST /api/v1/auth/login` ends after LOGIN_SECONDS. Log-out, another password and another role delete
the row: a copy of the cookie or the token is worth nothing from then on.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from sellerwatch.access.ports import UsersTx
from sellerwatch.access.users import User
from sellerwatch.kernel.errors import NotFound
from sellerwatch.kernel.ids import LoginSessionId
from sellerwatch.kernel.operations import OperationContext

#: The use of a log-in or a token is written at most this often.
USE_NOTED = timedelta(minutes=1)
LONGEST_CLIENT = 200


class LoginKind(StrEnum):
    """Where somebody logged in. API: a token of `POST /api/v1/auth/login`."""

    CONSOLE = "CONSOLE"
    API = "API"


@dataclass(eq=False)
class LoginSessionNotFound(NotFound):
    session_id: str


@dataclass(frozen=True)
class SessionLimits:
    """How long log-ins are valid: unused, in all, and those of the API."""

    idle: timedelta
    longest: timedelta
    api: timedelta

    def lifetime(self, kind: LoginKind) -> timedelta:
        return self.longest if kind is LoginKind.CONSOLE else self.api

    @property
    def use_noted(self) -> timedelta:
        """How often the last use is written: often enough that a session in use does not end."""
        return min(USE_NOTED, self.idle / 4)


@dataclass(frozen=True)
class LoginSession:
    """A log-in of a user. `client` is what the browser or program calls itself."""

    session_id: LoginSessionId
    user_name: str
    kind: LoginKind
    address: str
    client: str
    created_at: datetime
    last_used_at: datetime
    expires_at: datetime

    def is_valid(self, limits: SessionLimits, now: datetime) -> bool:
        is_idle = self.kind is LoginKind.CONSOLE and now - self.last_used_at >= limits.idle
        return now < self.expires_at and not is_idle


@dataclass(frozen=True)
class LoggedIn:
    """A valid log-in and its user."""

    user: User
    session: LoginSession


def find_login(
    tx: UsersTx, context: OperationContext, session_id: LoginSessionId, limits: SessionLimits
) -> LoggedIn | None:
    """Return a log-in with its user as the database has them now; None where it ended."""
    session = tx.login_sessions.get(session_id)
    if session is None or not session.is_valid(limits, context.now):
        return None
    user = tx.users.get(session.user_name)
    return None if user is None or user.must_change else LoggedIn(user, session)


def note_login_use(tx: UsersTx, context: OperationContext, session_id: LoginSessionId) -> None:
    """Write that a log-in was used. One that ended meanwhile stays ended."""
    tx.login_sessions.used(session_id, context.now)
