"""People who may log in. What is kept of a password is its hash; the hash never leaves by any answer, log or repr."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from sellerwatch.access.ports import UsersTx
from sellerwatch.kernel.errors import Conflict, Invalid, NotFound
from sellerwatch.oversight.audit import AuditEntry

FIRST = "admin"
SHORTEST_PASSWORD, LONGEST_PASSWORD = 12, 200
#: A name that was removed and is given again begins with a higher version than it ever had: old tokens stay void.
_VERSIONS_BEGIN = datetime(2020, 1, 1, tzinfo=UTC)
_NAME = re.compile(r"[a-z0-9][a-z0-9._@-]{0,63}")


class Role(StrEnum):
    """An admin changes things, a viewer reads."""

    VIEWER = "viewer"
    ADMIN = "admin"


@dataclass(eq=False)
class UserNotFound(NotFound):
    name: str


@dataclass(eq=False)
class UserExists(Conflict):
    name: str


@dataclass(eq=False)
class InvalidUserName(Invalid):
    given: str


@dataclass(eq=False)
class InvalidPassword(Invalid):
    """Too short, too long, or the user's own name. The password is no fact of it."""

    shortest: int
    longest: int


@dataclass(frozen=True)
class User:
    """`version` rises with every change of password or role: tokens issued before it are void.

    `must_change`: the password was printed or sent somewhere, and is good for one thing only, choosing another.
    """

    name: str
    role: Role
    password_hash: str = field(repr=False)
    created_at: datetime
    updated_at: datetime
    must_change: bool = False
    version: int = 1
    last_login_at: datetime | None = None


def user_name(given: str) -> str:
    """Names are one whatever case they are typed in."""
    name = given.strip().lower()
    if not _NAME.fullmatch(name):
        raise InvalidUserName(given=given[:100])
    return name


def check_password(password: str, name: str = "") -> str:
    """Length is what keeps a password from being guessed; rules about signs only make people write it down."""
    long_enough = SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD
    if not long_enough or not password.isprintable() or password.strip().lower() == name.lower():
        raise InvalidPassword(shortest=SHORTEST_PASSWORD, longest=LONGEST_PASSWORD)
    return password


def add_user(
    tx: UsersTx, name: str, role: Role, password_hash: str, *, actor: str, now: datetime, must_change: bool = False
) -> User:
    if tx.users.get(name) is not None:
        raise UserExists(name=name)
    user = User(name, role, password_hash, now, now, must_change, version=int((now - _VERSIONS_BEGIN).total_seconds()))
    tx.users.add(user)
    tx.audit.record(AuditEntry(now, actor, "user.add", "user", name, after=_shown(user)))
    return user


def add_first(tx: UsersTx, password_hash: str, *, now: datetime, must_change: bool) -> User | None:
    """The first administrator; None where there are people already, whoever they are."""
    if tx.users.everyone():
        return None
    return add_user(tx, FIRST, Role.ADMIN, password_hash, actor="setup", now=now, must_change=must_change)


def remove_user(tx: UsersTx, name: str, *, actor: str, now: datetime) -> User:
    user = find_user(tx, name)
    tx.users.remove(name)
    tx.audit.record(AuditEntry(now, actor, "user.remove", "user", name, before=_shown(user)))
    return user


def set_password(tx: UsersTx, name: str, password_hash: str, *, actor: str, now: datetime) -> User:
    user = find_user(tx, name)
    changed = replace(user, password_hash=password_hash, must_change=False, version=user.version + 1, updated_at=now)
    return _changed(tx, user, changed, "user.password", actor, now)


def set_role(tx: UsersTx, name: str, role: Role, *, actor: str, now: datetime) -> User:
    user = find_user(tx, name)
    return _changed(
        tx, user, replace(user, role=role, version=user.version + 1, updated_at=now), "user.role", actor, now
    )


def find_user(tx: UsersTx, name: str) -> User:
    user = tx.users.get(name)
    if user is None:
        raise UserNotFound(name=name)
    return user


def _changed(tx: UsersTx, before: User, after: User, action: str, actor: str, now: datetime) -> User:
    tx.users.save(after)
    tx.audit.record(AuditEntry(now, actor, action, "user", after.name, _shown(before), _shown(after)))
    return after


def _shown(user: User) -> dict[str, Any]:
    return {"role": user.role, "mustChange": user.must_change, "version": user.version}
