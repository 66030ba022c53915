"""Operations on users that hash or check a password between two transactions."""

from __future__ import annotations

from sellerwatch.access import commands, logins
from sellerwatch.access.login_sessions import LoggedIn, LoginKind, SessionLimits
from sellerwatch.access.logins import LoginAttempt, PasswordMustChange, SamePassword, WrongLogin
from sellerwatch.access.passwords import PasswordHasher
from sellerwatch.access.ports import UsersTx
from sellerwatch.access.queries import UserView, find_user
from sellerwatch.access.users import Role, User, check_password, user_name
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.operations.session import OperationSession


async def add_user(
    session: OperationSession,
    passwords: PasswordHasher,
    name: str,
    role: Role,
    password: str,
    must_change: bool = False,
) -> UserView:
    """Add a user. With `must_change` the password is a one-time password."""
    known = user_name(name)
    hashed = await passwords.hash(check_password(password, known))
    return await session.run(commands.add_user, known, role, hashed, must_change)


async def set_password(
    session: OperationSession, passwords: PasswordHasher, name: str, password: str, must_change: bool = False
) -> UserView:
    """Set a user's password. With `must_change` it is a one-time password."""
    known = user_name(name)
    check_password(password, known)
    if await passwords.check(await session.ask(_password_hash, known), password):
        raise SamePassword
    hashed = await passwords.hash(password)
    return await session.run(commands.set_password, known, hashed, must_change)


def _password_hash(tx: UsersTx, _: OperationContext, name: str) -> str:
    return find_user(tx, name).password_hash


async def log_in(
    session: OperationSession,
    passwords: PasswordHasher,
    attempt: LoginAttempt,
    password: str,
    kind: LoginKind,
    limits: SessionLimits,
) -> LoggedIn:
    """Log in with a password. A wrong password and an unknown user take the same time and get the same answer."""
    user = await _checked_user(session, passwords, attempt, password)
    if user.must_change:
        await session.run(logins.clear_failures, attempt)
        raise PasswordMustChange
    return await session.run(logins.complete_login, attempt, user, kind, limits)


async def log_in_with_new_password(
    session: OperationSession,
    passwords: PasswordHasher,
    attempt: LoginAttempt,
    password: str,
    new_password: str,
    kind: LoginKind,
    limits: SessionLimits,
) -> LoggedIn:
    """Choose another password by the old one, a one-time password included, and log in."""
    check_password(new_password, attempt.name)
    if new_password == password:
        raise SamePassword
    user = await _checked_user(session, passwords, attempt, password)
    hashed = await passwords.hash(new_password)
    return await session.run(logins.change_password, attempt, user, hashed, kind, limits)


async def _checked_user(
    session: OperationSession, passwords: PasswordHasher, attempt: LoginAttempt, password: str
) -> User:
    user = await session.run(logins.admit_login, attempt)
    is_right = await passwords.check(None if user is None else user.password_hash, password)
    if is_right and user is not None:
        return user
    await session.run(logins.record_failed_login, attempt, user)
    raise WrongLogin
