"""Guest sessions: a token for a User-Agent, and the check of a request's credentials."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from sellerwatch.simulator.rng import seeded_rng

_SWEEP_ABOVE = 10_000
_SCHEME = "Bearer "


@dataclass(frozen=True, slots=True)
class SimulatedSession:
    token: str
    nid: str
    mustit_uid: str
    user_agent: str
    expires: float
    lifetime: int

    @property
    def cookies(self) -> tuple[tuple[str, str], ...]:
        """The three `set-cookie` headers of a fresh session."""
        values = (("token", self.token), ("nid", self.nid), ("mustit_uid", self.mustit_uid))
        return tuple(("set-cookie", f"{name}={value}; Max-Age={self.lifetime}; Path=/") for name, value in values)


class SimulatedSessions:
    """Issues sessions and checks credentials. Several sessions of one User-Agent may live at once."""

    def __init__(self, seed: int | str = 0) -> None:
        self._rng = seeded_rng(seed, "sessions")
        self._by_token: dict[str, SimulatedSession] = {}
        self.issued = 0

    def issue(self, user_agent: str, now: float, lifetime: int) -> SimulatedSession:
        if len(self._by_token) > _SWEEP_ABOVE:
            self._by_token = {token: kept for token, kept in self._by_token.items() if kept.expires > now}
        session = SimulatedSession(
            token=f"{self._rng.getrandbits(256):064x}",
            nid=str(UUID(int=self._rng.getrandbits(128), version=4)),
            mustit_uid=f"{int(now * 1000)}.{self._rng.randrange(1_000_000):06d}",
            user_agent=user_agent,
            expires=now + lifetime,
            lifetime=lifetime,
        )
        self._by_token[session.token] = session
        self.issued += 1
        return session

    def revoke(self, headers: Mapping[str, str]) -> bool:
        """Void the token of this request before its time; return whether there was one."""
        return self._by_token.pop(headers.get("authorization", "").removeprefix(_SCHEME), None) is not None

    def revoke_all(self) -> int:
        """Void every token, as a restart of the marketplace does; return how many there were."""
        number = len(self._by_token)
        self._by_token.clear()
        return number

    def check(self, headers: Mapping[str, str], now: float) -> tuple[int, str]:
        """Return the status for this request's credentials (200, 400 or 401), and why."""
        authorization = headers.get("authorization")
        cookies = _cookies(headers.get("cookie", ""))
        if "token" in cookies:
            return 400, "the token does not belong in a cookie"
        if authorization is None:
            return 401, "no token"
        token = authorization.removeprefix(_SCHEME)
        if token == authorization or not token or " " in token:
            return 400, "malformed Authorization"
        session = self._by_token.get(token)
        if session is None or session.expires <= now:
            return 401, "the token is unknown or has expired"
        if session.user_agent != headers.get("user-agent", ""):
            return 401, "the token was issued to another User-Agent"
        if cookies.get("nid") != session.nid or cookies.get("mustit_uid") != session.mustit_uid:
            return 401, "the nid and mustit_uid cookies are missing or not those of the token"
        return 200, ""


def _cookies(header: str) -> dict[str, str]:
    pairs = (part.strip().partition("=") for part in header.split(";"))
    return {name: value for name, _, value in pairs}
