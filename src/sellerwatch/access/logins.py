"""Logging in, slowed down for whoever guesses.

A try is counted in the transaction that admits it, before the password is looked at: a hundred tries at once get no
further than a hundred one after another. A success clears its user's count. Waits grow with the failures of the user
(so that many addresses cannot guess one person's password) and of the address (so that one address cannot try many
people), each up to a limit: nobody is locked out for good by somebody else's guessing.

Kept in the database, not in memory: a restart forgives nothing, and several processes count together. Who was tried is
kept as a hash, because people type their password where their name belongs.
"""

from __future__ import annotations

import hashlib
import ipaddress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sellerwatch.access.ports import UsersTx
from sellerwatch.access.users import User
from sellerwatch.kernel.errors import TooManyRequests, Unauthenticated
from sellerwatch.oversight.audit import AuditEntry

#: After so long without a failure all is forgotten.
FORGOTTEN = timedelta(days=1)


@dataclass(eq=False)
class WrongLogin(Unauthenticated):
    """Unknown user or wrong password: which of the two is not said."""


@dataclass(eq=False)
class TooManyLogins(TooManyRequests):
    seconds: float

    @property
    def retry_after(self) -> float:  # type: ignore[override]
        return self.seconds


@dataclass(frozen=True)
class Throttle:
    """So many failures are free; then each wait is twice the one before it."""

    free: int
    longest: timedelta
    first: timedelta = timedelta(seconds=1)

    def wait(self, failures: int) -> timedelta:
        over = failures - self.free
        return timedelta(0) if over < 0 else min(self.first * 2 ** min(over, 32), self.longest)


#: A person who mistypes is not slowed down; a house full of people behind one address neither.
BY_USER = Throttle(free=5, longest=timedelta(minutes=1))
BY_ADDRESS = Throttle(free=20, longest=timedelta(minutes=15))


@dataclass(frozen=True)
class Failures:
    """How often it failed since the last success, and when last."""

    number: int
    last_at: datetime


@dataclass(frozen=True)
class Attempt:
    """Whose log-in is tried, from where."""

    name: str
    address: str

    @property
    def keys(self) -> dict[bytes, Throttle]:
        return {_key("user", self.name): BY_USER, _key("address", network(self.address)): BY_ADDRESS}


def network(address: str) -> str:
    """Of IPv6 its first half: one household has as many addresses as it likes."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((int(parsed) >> 64 << 64, 64)))
    return address


def admit(tx: UsersTx, attempt: Attempt, now: datetime) -> User | None:
    """Count the try as failed until it succeeds; the user, if there is one. Refuses who must wait."""
    found = tx.logins.get(list(attempt.keys))
    for key, throttle in attempt.keys.items():
        failures = found.get(key)
        if failures is None or now - failures.last_at >= FORGOTTEN:
            continue
        left = failures.last_at + throttle.wait(failures.number) - now
        if left > timedelta(0):
            raise TooManyLogins(seconds=round(left.total_seconds(), 1))
    for key in attempt.keys:
        failures = found.get(key)
        forgotten = failures is None or now - failures.last_at >= FORGOTTEN
        tx.logins.put(key, Failures(1 if failures is None or forgotten else failures.number + 1, now))
    return tx.users.get(attempt.name)


def clear(tx: UsersTx, attempt: Attempt) -> None:
    """The password was right: the user's count is gone; of the address's only this try, or one who has a password could
    guess others'."""
    by_user, by_address = attempt.keys
    tx.logins.clear(by_user)
    tx.logins.forgive(by_address)


def succeed(tx: UsersTx, attempt: Attempt, user: User, now: datetime) -> User:
    """In, and on the trail."""
    clear(tx, attempt)
    logged = replace(user, last_login_at=now)
    tx.users.save(logged)
    tx.audit.record(AuditEntry(now, f"api:{user.name}", "user.login", "user", user.name, note=attempt.address))
    return logged


def fail(tx: UsersTx, attempt: Attempt, user: User | None, now: datetime) -> None:
    """On the trail under the user's name if there is one; else nameless: it may be a password."""
    name = "unknown" if user is None else user.name
    tx.audit.record(AuditEntry(now, "api:nobody", "user.login_failed", "user", name, note=attempt.address))


def _key(kind: str, value: str) -> bytes:
    return hashlib.sha256(f"{kind}:{value}".encode()).digest()
