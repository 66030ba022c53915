"""Queries over users."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from sellerwatch.access.ports import UsersTx
from sellerwatch.access.users import Role, User, UserNotFound
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.views import About, View


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
