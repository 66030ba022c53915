"""Logging in with a password, with growing waits after failures.

An attempt is counted in the transaction that admits it, before the password is checked: a hundred attempts at once get
no further than a hundred one after another. Waits grow with the failures of the user (many addresses cannot guess one
person's password) and of the address (one address cannot try many people), each up to a limit.

A browser in which a user has logged in before carries a signed cookie: it is a known device of that user. Its attempts
count on their own, so strangers who guess cannot lock the user out of it. Devices without the cookie share one count
for each user. A success clears the count that the attempt was counted on.

Counts are in the database: a restart keeps them, and several processes count together. The name is kept as a hash,
because people type their password where their name belongs.
"""

from __future__ import annotations

import hashlib
import ipaddress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sellerwatch.access.commands import add_user, set_password
from sellerwatch.access.login_sessions import LONGEST_CLIENT, LoggedIn, LoginKind, LoginSession, SessionLimits
from sellerwatch.access.ports import UsersTx
from sellerwatch.access.queries import UserView, find_user
from sellerwatch.access.users import FIRST, Role, User
from sellerwatch.kernel.errors import Forbidden, Invalid, TooManyRequests, Unauthenticated
from sellerwatch.kernel.ids import LoginSessionId
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.oversight.audit import AuditEntry, record_audit

#: After this time without a failure the count starts again.
FORGOTTEN = timedelta(days=1)


@dataclass(eq=False)
class WrongLogin(Unauthenticated):
    """Unknown user or wrong password; the answer is the same for both."""


@dataclass(eq=False)
class SamePassword(Invalid):
    """The new password is the old one."""


@dataclass(eq=False)
class PasswordMustChange(Forbidden):
    """The password is right, but a one-time password: it can only be used to choose another."""


@dataclass(eq=False)
class TooManyLogins(TooManyRequests):
    seconds: float

    @property
    def retry_after(self) -> float:  # type: ignore[override]
        return self.seconds


@dataclass(frozen=True)
class Throttle:
    """`free` failures cost nothing; then each wait is twice the one before."""

    free: int
    longest: timedelta
    first: timedelta = timedelta(seconds=1)

    def wait(self, failures: int) -> timedelta:
        over = failures - self.free
        return timedelta(0) if over < 0 else min(self.first * 2 ** min(over, 32), self.longest)


#: A typing mistake costs nothing, and neither do several people behind one address.
BY_USER = Throttle(free=5, longest=timedelta(minutes=1))
BY_ADDRESS = Throttle(free=20, longest=timedelta(minutes=15))


@dataclass(frozen=True)
class Failures:
    """The failures since the last success, and when the last one was."""

    number: int
    last_at: datetime


@dataclass(frozen=True)
class LoginAttempt:
    """The name, the address and the client of an attempt to log in. `device` is the id of a known device of this user;
    None for all others."""

    name: str
    address: str
    client: str = ""
    device: str | None = None

    @property
    def keys(self) -> dict[bytes, Throttle]:
        """Return what the attempt is counted on: what a success clears comes first."""
        if self.device is not None:
            return {_key("device", f"{self.name}:{self.device}"): BY_USER}
        return {_key("user", self.name): BY_USER, _key("address", network(self.address)): BY_ADDRESS}


def add_first_user(tx: UsersTx, context: OperationContext, password_hash: str, must_change: bool) -> UserView | None:
    """Add the first administrator; None where there are users already."""
    if tx.users.everyone():
        return None
    return add_user(tx, context, FIRST, Role.ADMIN, password_hash, must_change)


def network(address: str) -> str:
    """Return the /64 network of an IPv6 address: one household can use all addresses of it. An IPv4 address inside an
    IPv6 one is an IPv4 address: else all of them would be one network."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((int(parsed) >> 64 << 64, 64)))
    return address


def admit_login(tx: UsersTx, context: OperationContext, attempt: LoginAttempt) -> User | None:
    """Count the attempt as a failure until it succeeds, and return the user. Refuse it while the wait lasts."""
    now, found = context.now, tx.logins.get(list(attempt.keys))
    current = {key: failures for key, failures in found.items() if now - failures.last_at < FORGOTTEN}
    for key, throttle in attempt.keys.items():
        failures = current.get(key)
        left = timedelta(0) if failures is None else failures.last_at + throttle.wait(failures.number) - now
        if left > timedelta(0):
            raise TooManyLogins(seconds=round(left.total_seconds(), 1))
    for key in attempt.keys:
        number = current[key].number + 1 if key in current else 1
        tx.logins.put(key, Failures(number, now))
    return tx.users.get(attempt.name)


def clear_failures(tx: UsersTx, _: OperationContext, attempt: LoginAttempt) -> None:
    """After the right password: clear the failures of the user or the device. Of the address only this attempt is taken
    back, else one known password would let it guess others without waits."""
    own, *by_address = attempt.keys
    tx.logins.clear(own)
    for key in by_address:
        tx.logins.forgive(key)


def complete_login(
    tx: UsersTx,
    context: OperationContext,
    attempt: LoginAttempt,
    user: User,
    kind: LoginKind,
    limits: SessionLimits,
) -> LoggedIn:
    """Log the user in and record it in the audit trail. Refused where the user was changed since the password was
    checked."""
    if find_user(tx, user.name).version != user.version:
        raise WrongLogin
    clear_failures(tx, context, attempt)
    now = context.now
    logged_in = replace(user, last_login_at=now)
    tx.users.save(logged_in)
    session = LoginSession(
        LoginSessionId(next(context.ids)),
        user.name,
        kind,
        attempt.address,
        attempt.client[:LONGEST_CLIENT],
        now,
        now,
        now + limits.lifetime(kind),
    )
    tx.login_sessions.add(session)
    _record(tx, context, f"api:{user.name}", "user.login", user.name, attempt)
    return LoggedIn(logged_in, session)


def change_password(
    tx: UsersTx,
    context: OperationContext,
    attempt: LoginAttempt,
    user: User,
    password_hash: str,
    kind: LoginKind,
    limits: SessionLimits,
) -> LoggedIn:
    """Set the password that the user chose, then log in. Refused where it was changed since it was checked."""
    if find_user(tx, user.name).version != user.version:
        raise WrongLogin
    as_user = replace(context, actor=f"api:{user.name}")
    set_password(tx, as_user, user.name, password_hash)
    return complete_login(tx, context, attempt, find_user(tx, user.name), kind, limits)


def record_failed_login(tx: UsersTx, context: OperationContext, attempt: LoginAttempt, user: User | None) -> None:
    """Record a failure under the user's name; without a user under none, because what was typed may be a password."""
    _record(tx, context, "api:nobody", "user.login_failed", "unknown" if user is None else user.name, attempt)


def _record(tx: UsersTx, context: OperationContext, actor: str, action: str, name: str, attempt: LoginAttempt) -> None:
    record_audit(tx, AuditEntry(context.now, actor, action, "user", name, note=attempt.address))


def _key(kind: str, value: str) -> bytes:
    return hashlib.sha256(f"{kind}:{value}".encode()).digest()
