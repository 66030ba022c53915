"""Queries over users."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from sellerwatch.access.api_tokens import ApiToken
from sellerwatch.access.login_sessions import LoginKind, LoginSession, SessionLimits
from sellerwatch.access.ports import UsersTx
from sellerwatch.access.users import Role, User, UserNotFound
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.views import About, View, shared_fields


@dataclass(frozen=True)
class UserView(View):
    """A person who can log in."""

    name: Annotated[str, About(example="minji")]
    role: Annotated[Role, About("Admins change things, viewers read.", "viewer")]
    must_change: Annotated[bool, About("The password is a one-time password: it must be changed at the next log-in.")]
    last_login_at: datetime | None
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, user: User) -> UserView:
        return cls(user.name, user.role, user.must_change, user.last_login_at, user.created_at, user.updated_at)


@dataclass(frozen=True)
class UsersView(View):
    """All users, by name."""

    content: Sequence[UserView]


@dataclass(frozen=True)
class LoginSessionView(View):
    """A log-in that is valid."""

    session_id: Annotated[str, About(example="0198c0de-0000-7000-800b-000000000001")]
    user: Annotated[str, About(example="minji")]
    kind: Annotated[LoginKind, About("CONSOLE: in a browser. API: a token of POST /api/v1/auth/login.")]
    address: Annotated[str, About("Where the password was given.", "203.0.113.7")]
    client: Annotated[str, About("What the browser or program calls itself.")]
    created_at: datetime
    last_used_at: Annotated[datetime, About("To the minute.")]
    expires_at: datetime

    @classmethod
    def of(cls, session: LoginSession) -> LoginSessionView:
        return cls(**shared_fields(cls, session), user=session.user_name)


@dataclass(frozen=True)
class LoginSessionsView(View):
    """Valid log-ins, the last used first."""

    content: Sequence[LoginSessionView]


@dataclass(frozen=True)
class ApiTokenView(View):
    """A token of a program. The token itself is shown once, to who made it."""

    token_id: Annotated[str, About(example="0198c0de-0000-7000-800c-000000000001")]
    name: Annotated[str, About("In the audit trail its actor is `token:NAME`.", "nightly-export")]
    role: Role
    created_at: datetime
    created_by: str
    expires_at: datetime
    last_used_at: Annotated[datetime | None, About("To the minute; null where it was never used.")]
    revoked_at: datetime | None
    revoked_by: str | None

    @classmethod
    def of(cls, token: ApiToken) -> ApiTokenView:
        return cls(**shared_fields(cls, token))


@dataclass(frozen=True)
class ApiTokensView(View):
    """Tokens of programs, newest first."""

    content: Sequence[ApiTokenView]


def list_sessions(tx: UsersTx, context: OperationContext, user: str | None, limits: SessionLimits) -> LoginSessionsView:
    """List the valid log-ins of a user, or of all."""
    found = tx.login_sessions.of(user)
    return LoginSessionsView([LoginSessionView.of(each) for each in found if each.is_valid(limits, context.now)])


def list_tokens(tx: UsersTx, _: OperationContext) -> ApiTokensView:
    """List the tokens of programs, revoked and expired ones included."""
    return ApiTokensView([ApiTokenView.of(token) for token in tx.api_tokens.everyone()])


def list_users(tx: UsersTx, _: OperationContext) -> UsersView:
    """List who can log in."""
    return UsersView([UserView.of(user) for user in tx.users.everyone()])


def show_user(tx: UsersTx, _: OperationContext, name: str) -> UserView:
    """Show one user."""
    return UserView.of(find_user(tx, name))


def find_user(tx: UsersTx, name: str) -> User:
    """Return a user, or raise `UserNotFound`."""
    user = tx.users.get(name)
    if user is None:
        raise UserNotFound(name=name)
    return user
