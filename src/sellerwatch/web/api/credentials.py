"""Who asks: JWTs of people and programs, and the keys of the internal endpoints.

The algorithm is pinned, so a token cannot choose how it is checked. Times are checked against the clock the service
goes by, not the library's own.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import jwt
from jwt.types import Options

from sellerwatch.access.users import Role
from sellerwatch.kernel.errors import Forbidden, Unauthenticated

__all__ = ["Caller", "Credentials", "NotLoggedIn", "Role", "RoleNeeded", "TokenExpired", "WrongApiKey"]

ALGORITHM = "HS256"
REQUIRED = ("sub", "role", "iss", "aud", "iat", "exp")
#: Clocks of two machines differ a little.
LEEWAY = timedelta(seconds=10)
#: The last second of the year 9999: no later one can be shown.
LATEST = 253_402_300_799.0
FOR_GOOD = datetime.fromtimestamp(LATEST, UTC)
LONGEST_TOKEN = 4096
LONGEST_SUBJECT = 90


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


@dataclass(frozen=True)
class Caller:
    """Who asks. `actor` is what the audit trail says. A log-in carries the `version` of the user it was made for."""

    name: str
    role: Role
    expires_at: datetime = FOR_GOOD
    version: int | None = None

    @property
    def actor(self) -> str:
        return f"api:{self.name}"

    def must_be(self, role: Role) -> None:
        if role is Role.ADMIN and self.role is not Role.ADMIN:
            raise RoleNeeded(role=role)


@dataclass(frozen=True, repr=False)
class Credentials:
    """What is accepted. The secrets never show."""

    secret: str
    issuer: str
    audience: str
    api_keys: Sequence[str] = ()

    def __repr__(self) -> str:
        return f"Credentials({self.issuer!r}, {self.audience!r}, hidden)"

    def issue(self, name: str, role: Role, lifetime: timedelta, now: datetime, *, version: int | None = None) -> str:
        claims: dict[str, str | int] = {
            "sub": name,
            "role": str(role),
            "iss": self.issuer,
            "aud": self.audience,
            "iat": int(now.timestamp()),
            "exp": int((now + lifetime).timestamp()),
        }
        if version is not None:
            claims["ver"] = version
        return jwt.encode(claims, self.secret, algorithm=ALGORITHM)

    def read(self, token: str, now: datetime) -> Caller:
        """Whose token this is, or why it is none."""
        if len(token) > LONGEST_TOKEN:
            raise NotLoggedIn
        options: Options = {"require": list(REQUIRED), "verify_exp": False, "verify_nbf": False, "verify_iat": False}
        try:
            claims = jwt.decode(
                token,
                self.secret,
                algorithms=[ALGORITHM],
                issuer=self.issuer,
                audience=self.audience,
                options=options,
            )
            expires, begins, issued = _second(claims["exp"]), _second(claims.get("nbf", 0)), _second(claims["iat"])
            name, role, version = str(claims["sub"]), Role(claims["role"]), claims.get("ver")
        except (jwt.InvalidTokenError, ValueError, TypeError, RecursionError):
            raise NotLoggedIn from None
        second, slack = now.timestamp(), LEEWAY.total_seconds()
        if expires <= second:
            raise TokenExpired
        if begins > second + slack or issued > second + slack or not 0 < len(name) <= LONGEST_SUBJECT:
            raise NotLoggedIn
        if version is not None and type(version) is not int:
            raise NotLoggedIn
        return Caller(name, role, datetime.fromtimestamp(min(expires, LATEST), UTC), version)

    def check_key(self, given: str | None) -> None:
        """Constant time over all valid keys: how long it takes says nothing about any of them."""
        found = False
        for key in self.api_keys:
            found |= hmac.compare_digest(key.encode(), (given or "").encode())
        if not found:
            raise WrongApiKey


def _second(claim: object) -> float:
    """A time as a token may state it: a number, and one that a clock can show. NaN is later than nothing and earlier
    than nothing: a token with it would never expire."""
    if isinstance(claim, bool) or not isinstance(claim, int | float) or not abs(claim) < 1e12:
        raise ValueError("not a time")
    return float(claim)
