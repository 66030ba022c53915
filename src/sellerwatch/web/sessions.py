"""The log-in of a browser: a signed cookie that names a log-in in the database, and the token that its forms carry.

The signature is checked without the database; everything else is what the database says at each request
(`access/login_sessions.py`). The cookie is set once and never renewed: it ends where the log-in ends.

Where the page came by HTTPS, cookies have the prefix `__Host-`: no other host, and no page without TLS, can set them.
Each kind of cookie has an audience and keys of its own, so that none is accepted for another.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import jwt

from sellerwatch.access.login_sessions import LoggedIn, LoginSession, find_login, note_login_use
from sellerwatch.kernel.errors import Invalid, Unavailable
from sellerwatch.kernel.ids import LoginSessionId
from sellerwatch.kernel.store import StoreFailed
from sellerwatch.web.api.credentials import ALGORITHM, Caller, CallerKind, NotLoggedIn, TokenExpired, verified

if TYPE_CHECKING:
    from fastapi import Request

    from sellerwatch.web.api.context import Parts

COOKIE, DEVICE = "sellerwatch_session", "sellerwatch_device"
SECURE_PREFIX = "__Host-"
COOKIE_KEYS, FORM_KEYS, DEVICE_KEYS = "console cookie", "form token", "known device"
#: How long a browser stays a known device of a user who logged in there.
DEVICE_KNOWN = timedelta(days=180)


@dataclass(frozen=True)
class SessionCookie:
    """What the cookie says."""

    session_id: LoginSessionId
    expires_at: datetime


def is_secure(request: Request) -> bool:
    """Return whether the request came by HTTPS, as a trusted proxy says."""
    return bool(request.url.scheme == "https")


def cookie_name(request: Request, name: str) -> str:
    return f"{SECURE_PREFIX}{name}" if is_secure(request) else name


def seal(parts: Parts, session: LoginSession) -> str:
    """Return the cookie of a log-in."""
    claims = {"sid": session.session_id, "exp": int(session.expires_at.timestamp())}
    return _sealed(parts, COOKIE_KEYS, claims)


def read(parts: Parts, request: Request) -> SessionCookie:
    """Return what the cookie of a request says, checked without the database."""
    cookie = request.cookies.get(cookie_name(request, COOKIE), "")
    claims = _opened(parts, COOKIE_KEYS, cookie, ("sid", "exp"))
    try:
        found = SessionCookie(LoginSessionId.parse(str(claims["sid"])), datetime.fromtimestamp(int(claims["exp"]), UTC))
    except (ValueError, TypeError, OverflowError, OSError, Invalid):
        raise NotLoggedIn from None
    if found.expires_at <= parts.clock.now():
        raise TokenExpired
    return found


async def login_of(parts: Parts, session_id: LoginSessionId) -> LoggedIn:
    """Return a valid log-in with its user, and note its use."""
    limits, quiet = parts.session_limits, parts.quiet_session()
    found = await quiet.ask(find_login, session_id, limits)
    if found is None:
        raise NotLoggedIn
    if parts.clock.now() - found.session.last_used_at >= limits.use_noted:
        # A page can be read while nothing can be written.
        with suppress(StoreFailed, Unavailable):
            await quiet.run(note_login_use, session_id)
    return found


async def follower_of(request: Request, parts: Parts) -> Caller:
    """Return the user who follows the event stream from a page."""
    return caller_of(await login_of(parts, read(parts, request).session_id))


def caller_of(login: LoggedIn) -> Caller:
    user, session = login.user, login.session
    return Caller(user.name, user.role, session.expires_at, CallerKind.USER, session.session_id)


def form_token(parts: Parts, session_id: LoginSessionId) -> str:
    """Return the token that forms of this log-in carry: another site can make a browser send the cookie, but does not
    know this."""
    return _form_tokens(parts, session_id)[0]


def is_form_token(parts: Parts, session_id: LoginSessionId, given: str) -> bool:
    found = False
    for expected in _form_tokens(parts, session_id):
        found |= hmac.compare_digest(expected.encode(), given.encode())
    return found


def _form_tokens(parts: Parts, session_id: LoginSessionId) -> list[str]:
    signed = session_id.encode()
    return [hmac.new(key, signed, hashlib.sha256).hexdigest() for key in parts.credentials.keys_for(FORM_KEYS)]


def seal_device(parts: Parts, user_name: str) -> str:
    """Return the cookie by which a browser is a known device of a user."""
    until = parts.clock.now() + DEVICE_KNOWN
    return _sealed(
        parts, DEVICE_KEYS, {"sub": user_name, "jti": secrets.token_urlsafe(16), "exp": int(until.timestamp())}
    )


def device_of(parts: Parts, request: Request, user_name: str) -> str | None:
    """Return the id of the device that a request comes from, if it is a known one of this user."""
    cookie = request.cookies.get(cookie_name(request, DEVICE), "")
    try:
        claims = _opened(parts, DEVICE_KEYS, cookie, ("sub", "jti", "exp"))
    except NotLoggedIn:
        return None
    is_known = claims["sub"] == user_name and int(claims["exp"]) > parts.clock.now().timestamp()
    return str(claims["jti"]) if is_known else None


def _sealed(parts: Parts, purpose: str, claims: dict[str, Any]) -> str:
    credentials = parts.credentials
    all_claims = {**claims, "aud": _audience(parts, purpose), "iss": credentials.issuer}
    return jwt.encode(all_claims, credentials.keys_for(purpose)[0], algorithm=ALGORITHM)


def _opened(parts: Parts, purpose: str, cookie: str, required: tuple[str, ...]) -> dict[str, Any]:
    credentials = parts.credentials
    names = (*required, "aud", "iss")
    return verified(cookie, credentials.keys_for(purpose), _audience(parts, purpose), credentials.issuer, names)


def _audience(parts: Parts, purpose: str) -> str:
    return f"{parts.credentials.audience}:{purpose}"
