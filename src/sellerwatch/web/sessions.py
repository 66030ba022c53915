"""The log-in of a browser: a signed cookie that names a user, and the token that its forms must carry.

The server keeps no session: after a removal, a new password or a new role the next request is refused. A log-out
deletes the cookie in that browser; a copy stolen before stays valid until it expires, at most LOGIN_SECONDS later. A
log-in in use is renewed, up to `LONGEST` after the password was given.

The audience differs from that of API tokens, so that neither is accepted for the other.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import jwt
from jwt.types import Options

from sellerwatch.access.logins import get_user
from sellerwatch.web.api.credentials import ALGORITHM, LONGEST_TOKEN, Caller, NotLoggedIn, TokenExpired

if TYPE_CHECKING:
    from fastapi import Request

    from sellerwatch.access.users import User
    from sellerwatch.web.api.context import Parts

COOKIE = "sellerwatch_session"
LONGEST = timedelta(hours=12)
_OPTIONS: Options = {
    "require": ["sub", "ver", "sid", "began", "exp", "aud", "iss"],
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
}


@dataclass(frozen=True)
class ConsoleSession:
    """What the cookie says. `session_id` stays when the cookie is renewed, so that open forms stay valid."""

    name: str
    version: int
    session_id: str
    began: datetime
    expires_at: datetime


def begin(user: User, lifetime: timedelta, now: datetime) -> ConsoleSession:
    return ConsoleSession(user.name, user.version, secrets.token_urlsafe(16), now, now + lifetime)


def renewed(session: ConsoleSession, lifetime: timedelta, now: datetime) -> ConsoleSession | None:
    """Return a longer session once half of its time is over; None before that, and when it has lasted long enough."""
    if session.expires_at - now > lifetime / 2:
        return None
    until = min(now + lifetime, session.began + max(LONGEST, lifetime))
    return None if until <= session.expires_at else replace(session, expires_at=until)


def seal(parts: Parts, session: ConsoleSession) -> str:
    claims: dict[str, str | int] = {
        "sub": session.name,
        "ver": session.version,
        "sid": session.session_id,
        "began": int(session.began.timestamp()),
        "exp": int(session.expires_at.timestamp()),
        "aud": _audience(parts),
        "iss": parts.credentials.issuer,
    }
    return jwt.encode(claims, parts.credentials.secret, algorithm=ALGORITHM)


def read(parts: Parts, cookie: str | None, now: datetime) -> ConsoleSession:
    """Return the session of a cookie, checked without the database."""
    if cookie is None or len(cookie) > LONGEST_TOKEN:
        raise NotLoggedIn
    try:
        claims = jwt.decode(
            cookie,
            parts.credentials.secret,
            algorithms=[ALGORITHM],
            audience=_audience(parts),
            issuer=parts.credentials.issuer,
            options=_OPTIONS,
        )
        session = ConsoleSession(
            str(claims["sub"]),
            int(claims["ver"]),
            str(claims["sid"]),
            datetime.fromtimestamp(int(claims["began"]), UTC),
            datetime.fromtimestamp(int(claims["exp"]), UTC),
        )
    except (jwt.InvalidTokenError, ValueError, TypeError, OverflowError, OSError, RecursionError):
        raise NotLoggedIn from None
    if session.expires_at <= now:
        raise TokenExpired
    return session


async def user_of(parts: Parts, session: ConsoleSession) -> User:
    """Return the user of a session as the database has it now."""
    user = await parts.quiet_session().ask(get_user, session.name)
    if user is None or user.version != session.version or user.must_change:
        raise NotLoggedIn
    return user


async def follower_of(request: Request, parts: Parts) -> Caller:
    """Return the user who follows the event stream from a page."""
    session = read(parts, request.cookies.get(COOKIE), parts.clock.now())
    user = await user_of(parts, session)
    return Caller(user.name, user.role, session.expires_at, user.version)


def form_token(parts: Parts, session: ConsoleSession) -> str:
    """Return the token that forms of this log-in carry: another site can make a browser send the cookie, but does not
    know this."""
    signed = f"form:{session.session_id}".encode()
    return hmac.new(parts.credentials.secret.encode(), signed, hashlib.sha256).hexdigest()


def is_form_token(parts: Parts, session: ConsoleSession, given: str) -> bool:
    return hmac.compare_digest(form_token(parts, session).encode(), given.encode())


def _audience(parts: Parts) -> str:
    return f"{parts.credentials.audience}:console"
