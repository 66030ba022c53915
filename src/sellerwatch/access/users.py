"""Users: people who can log in. Only the hash of a password is stored; no response, log or repr shows it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from importlib.resources import files

from sellerwatch.kernel.errors import Conflict, Invalid, NotFound

#: The name of the first user.
FIRST = "admin"
SHORTEST_PASSWORD, LONGEST_PASSWORD = 12, 200
#: The first version of a user counts seconds from here: a name that was removed and added again has a higher version
#: than before, so old tokens stay invalid.
VERSIONS_BEGIN = datetime(2020, 1, 1, tzinfo=UTC)
_NAME = re.compile(r"[a-z0-9][a-z0-9._@-]{0,63}")


_COMMON_WORDS = """
admin administrator asdf asdfghjkl baseball changeme computer default dragon football freedom hello iloveyou internet
letmein login master michael monkey password princess qazwsx qwerty qwertyuiop root secret seller sellerwatch server
shadow starwars sunshine superman superuser system temp test user welcome whatever zxcvbnm
"""
_COMMON = frozenset(_COMMON_WORDS.split())
#: A common password that is shorter than this, inside another, says nothing about it.
_SHORTEST_CORE = 4
_ALPHABET = "abcdefghijklmnopqrstuvwxyz"
_ROWS = tuple(
    row
    for text in (_ALPHABET * 2, "1234567890" * 20, "qwertyuiopasdfghjklzxcvbnm", "1qaz2wsx3edc4rfv5tgb6yhn7ujm8ik9ol0p")
    for row in (text, text[::-1])
)


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
    """Too short, too long, or easily guessed. The password is not among the facts."""

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
    """Return the password if it is long enough and not among those that are tried first. There are no rules about
    characters: length protects, rules make people write passwords down."""
    long_enough = SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD
    if not long_enough or not password.isprintable() or _is_guessed_first(password.lower(), name.lower()):
        raise InvalidPassword(shortest=SHORTEST_PASSWORD, longest=LONGEST_PASSWORD)
    return password


@cache
def common_passwords() -> frozenset[str]:
    """Return the 10,000 commonest passwords, in small letters. Read when a password is chosen."""
    lines = files(__package__).joinpath("common_passwords.txt").read_text("ascii").splitlines()
    return frozenset(line for line in lines if line != "#" and not line.startswith("# "))


def _is_filled_up(password: str) -> bool:
    """Return whether a password is a common one with digits and signs before or after it."""
    letters = [at for at, character in enumerate(password) if character.isalpha()]
    if not letters:
        return False
    first, last = letters[0], letters[-1] + 1
    return any(
        end - start >= _SHORTEST_CORE and password[start:end] in common_passwords()
        for start in range(first + 1)
        for end in range(last, len(password) + 1)
    )


def _is_guessed_first(password: str, name: str) -> bool:
    """Return whether a password is a common one, perhaps with digits and signs around it to make it long enough; common
    words or the user's name with digits; a row of keys; or a repetition."""
    spoken = "".join(filter(str.isalnum, password))
    is_common = bool({password, spoken} & common_passwords()) or _is_filled_up(password)
    rest = spoken
    for word in sorted({name, "".join(filter(str.isalnum, name)), *_COMMON} - {""}, key=len, reverse=True):
        rest = rest.replace(word, "")
    is_words = rest != spoken and (rest == "" or rest.isdecimal())
    is_repeated = password in (password * 2)[1:-1]
    is_row = any(password in row for row in _ROWS)
    return is_common or is_words or is_repeated or is_row or len(set(password)) < 5
