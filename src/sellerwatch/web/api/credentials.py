"""Who asks: JWTs of people and programs, and the keys of the internal endpoints.

The algorithm is pinned, so a token cannot choose how it is checked. Times are checked against the clock the service
goes by, not the library's own. JWT_SECRET signs API tokens itself, because other programs may sign them too; what only
this program signs (cookies, forms, known devices) has keys derived from it, or from secrets of their own: none is good
for another purpose.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cached_property
from typing import Any

import jwt
from jwt.types import Options

from sellerwatch.access.users import Role
from sellerwatch.kernel.errors import Forbidden, Invalid, Unauthenticated
from sellerwatch.kernel.ids import ApiTokenId, LoginSessionId

__all__ = ["Caller", "CallerKind", "Credentials", "NotLoggedIn", "Role", "RoleNeeded", "TokenExpired", "WrongApiKey"]

ALGORITHM = "HS256"
REQUIRED = ("sub", "role", "iss", "aud", "iat", "exp")
#: Clocks of two machines differ a little.
LEEWAY = timedelta(seconds=10)
#: The last second of the year 9999: no later one can be shown.
LATEST = 253_402_300_799.0
FOR_GOOD = datetime.fromtimestamp(LATEST, UTC)
LONGEST_TOKEN = 4096
LONGEST_SUBJECT = 90
#: In characters. A comma-separated list of shorter ones is one secret.
SHORTEST_SECRET = 32
_OPTIONS: Options = {"verify_exp": False, "verify_nbf": False, "verify_iat": False}


@dataclass(eq=False)
class NotLoggedIn(Unauthenticated):
    """No credential, or one that is not valid; which of its checks failed is for the log."""


@dataclass(eq=False)
class TokenExpired(Unauthenticated):
    """It was valid once."""


@dataclass(eq=False)
class RoleNeeded(Forbidden):
    """Known, but not allowed to do this."""

    role: str


@dataclass(eq=False)
class WrongApiKey(Unauthenticated):
    """No key, or none of the valid ones."""


class CallerKind(StrEnum):
    """How a caller is known. A user logged in by name; a token or key is named by who made it."""

    USER = "api"
    TOKEN = "token"  # noqa: S105 - the name of a kind
    KEY = "key"


@dataclass(frozen=True)
class Caller:
    """Who asks. `actor` is what the audit trail says. A log-in carries its session, a token of `auth token` its id; a
    token that another program signed with JWT_SECRET has neither."""

    name: str
    role: Role
    expires_at: datetime = FOR_GOOD
    kind: CallerKind = CallerKind.TOKEN
    session_id: LoginSessionId | None = None
    token_id: ApiTokenId | None = None

    @property
    def actor(self) -> str:
        return f"{self.kind}:{self.name}"

    def must_be(self, role: Role) -> None:
        if role is Role.ADMIN and self.role is not Role.ADMIN:
            raise RoleNeeded(role=role)


@dataclass(frozen=True, repr=False)
class Credentials:
    """What is accepted. `secret` is one or several, separated by commas: the first signs, all are accepted, so that a
    secret can be replaced while tokens of the old one are in use. A purpose may have secrets of its own in
    `secret_for`, which are replaced by themselves. The secrets never show."""

    secret: str
    issuer: str
    audience: str
    api_keys: Sequence[str] = ()
    secret_for: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Credentials({self.issuer!r}, {self.audience!r}, hidden)"

    @cached_property
    def _secrets(self) -> tuple[bytes, ...]:
        return _encoded(self.secret)

    def keys_for(self, purpose: str) -> tuple[bytes, ...]:
        """Return the keys of one purpose, the one that signs first."""
        label = f"sellerwatch {purpose} v1".encode()
        given = self.secret_for.get(purpose)
        used = self._secrets if given is None else _encoded(given)
        return tuple(hmac.digest(secret, label, "sha256") for secret in used)

    def issue(
        self,
        name: str,
        role: Role,
        lifetime: timedelta,
        now: datetime,
        *,
        session_id: str | None = None,
        token_id: str | None = None,
    ) -> str:
        claims: dict[str, str | int] = {
            "sub": name,
            "role": str(role),
            "iss": self.issuer,
            "aud": self.audience,
            "iat": int(now.timestamp()),
            "exp": int((now + lifetime).timestamp()),
        }
        claims |= {key: value for key, value in (("sid", session_id), ("jti", token_id)) if value is not None}
        return jwt.encode(claims, self._secrets[0], algorithm=ALGORITHM)

    def read(self, token: str, now: datetime) -> Caller:
        """Return whose token this is, as far as its signature and its times say."""
        claims = verified(token, self._secrets, self.audience, self.issuer, REQUIRED)
        try:
            expires, begins, issued = _second(claims["exp"]), _second(claims.get("nbf", 0)), _second(claims["iat"])
            name, role = str(claims["sub"]), Role(claims["role"])
            session_id, token_id = claims.get("sid"), claims.get("jti")
            caller = Caller(name, role, datetime.fromtimestamp(min(expires, LATEST), UTC))
            if session_id is not None:
                caller = replace(caller, kind=CallerKind.USER, session_id=LoginSessionId.parse(str(session_id)))
            elif token_id is not None:
                caller = replace(caller, token_id=ApiTokenId.parse(str(token_id)))
        except (ValueError, TypeError, OverflowError, Invalid):
            raise NotLoggedIn from None
        second, slack = now.timestamp(), LEEWAY.total_seconds()
        if expires <= second:
            raise TokenExpired
        if begins > second + slack or issued > second + slack or not 0 < len(name) <= LONGEST_SUBJECT:
            raise NotLoggedIn
        return caller

    def check_key(self, given: str | None) -> None:
        """Constant time over all valid keys: how long it takes says nothing about any of them."""
        found = False
        for key in self.api_keys:
            found |= hmac.compare_digest(key.encode(), (given or "").encode())
        if not found:
            raise WrongApiKey


def secrets_of(setting: str) -> tuple[str, ...]:
    """Return the secrets of a setting. A comma in a single secret is part of it: no part is then long enough."""
    parts = tuple(part.strip() for part in setting.split(","))
    return parts if all(len(part) >= SHORTEST_SECRET for part in parts) else (setting,)


def _encoded(setting: str) -> tuple[bytes, ...]:
    return tuple(secret.encode() for secret in secrets_of(setting))


def verified(token: str, keys: Sequence[bytes], audience: str, issuer: str, required: Sequence[str]) -> dict[str, Any]:
    """Return the claims of a token that one of the keys signed."""
    if len(token) <= LONGEST_TOKEN:
        for key in keys:
            try:
                return jwt.decode(
                    token,
                    key,
                    algorithms=[ALGORITHM],
                    audience=audience,
                    issuer=issuer,
                    options={**_OPTIONS, "require": list(required)},
                )
            except (jwt.InvalidTokenError, ValueError, TypeError, RecursionError):
                continue
    raise NotLoggedIn


def _second(claim: object) -> float:
    """A time as a token may state it: a number, and one that a clock can show. NaN is later than nothing and earlier
    than nothing: a token with it would never expire."""
    if isinstance(claim, bool) or not isinstance(claim, int | float) or not abs(claim) < 1e12:
        raise ValueError("not a time")
    return float(claim)
