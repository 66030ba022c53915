"""Users: people who can log in. Only the hash of a password is stored; no response, log or repr shows it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from sellerwatch.kernel.errors import Conflict, Invalid, NotFound

#: The name of the first user.
FIRST = "admin"
SHORTEST_PASSWORD, LONGEST_PASSWORD = 12, 200
#: The first version of a user counts seconds from here: a name that was removed and added again has a higher version
#: than before, so old tokens stay invalid.
VERSIONS_BEGIN = datetime(2020, 1, 1, tzinfo=UTC)
_NAME = re.compile(r"[a-z0-9][a-z0-9._@-]{0,63}")


class Role(StrEnum):
    """Admins change things, viewers read."""

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
    """Too short, too long, or the name of the user. The password is not among the facts."""

    shortest: int
    longest: int


@dataclass(frozen=True)
class User:
    """A person who can log in.

    `version` rises with every change of password or role: tokens issued before are invalid. With `must_change` the
    password is a one-time password: it can only be used to choose another.
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
    """Return the name in small letters without spaces around it; refuse what is not a name."""
    name = given.strip().lower()
    if not _NAME.fullmatch(name):
        raise InvalidUserName(given=given[:100])
    return name


def check_password(password: str, name: str = "") -> str:
    """Return the password if it is long enough. There are no rules about characters: length protects, rules make people
    write passwords down."""
    long_enough = SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD
    if not long_enough or not password.isprintable() or password.strip().lower() == name.lower():
        raise InvalidPassword(shortest=SHORTEST_PASSWORD, longest=LONGEST_PASSWORD)
    return password
