"""Faults of the marketplace and how often they happen, in profiles by name.

One random number decides about one request, and all come from one seeded `Random`: the same seed and the same requests
at the same times give the same faults.
"""

from collections import Counter
from dataclasses import dataclass, replace
from email.utils import formatdate
from enum import Enum
from itertools import accumulate
from math import ceil, inf

from sellerwatch.simulator.rng import seeded_rng


class FaultKind(Enum):
    """The fault of a request. The last three happen only during an `Outage`."""

    NONE = "none"
    ERROR = "error"  # a 5xx
    DROP = "drop"  # the connection closed before answering
    CUT = "cut"  # the connection closed after half of the body
    TRUNCATED = "truncated"  # a whole body, correctly counted, whose JSON stops early
    HTML = "html"  # an error page with status 200
    REVOKED = "revoked"  # the token is taken away: 401
    STORM = "storm"  # a 429 that no limit asked for
    REFUSED = "refused"  # the connection is not accepted at all
    UNAUTHORISED = "unauthorised"  # 401 for any token, a fresh one too
    WITHOUT_MODULE = "without module"  # a detail without its ProductInfoModule


@dataclass(frozen=True, slots=True)
class Storms:
    """Periods in which a share of the requests is answered 429: the last `length` of every `every` seconds.

    `at_most` bounds the refusals of one storm, so that it affects some agents and not the whole pool. `retry_after`
    bounds the seconds asked for, sent as a number, as an HTTP date or not at all, in equal shares.
    """

    every: float = 0.0
    length: float = 0.0
    share: float = 0.0
    at_most: int = 1_000_000
    retry_after: tuple[int, int] = (1, 3)


@dataclass(frozen=True, slots=True)
class Outage:
    """A period, in the marketplace's time, in which every matching request gets the fault `ailment`.

    `endpoint` is list, detail, options or session (the token page); `user_agent` is one agent and `item_no` one
    product. None matches anything. The end is not part of the period.
    """

    ailment: FaultKind
    start: float
    end: float = inf
    endpoint: str | None = None
    user_agent: str | None = None
    item_no: int | None = None

    def covers(self, now: float, endpoint: str, user_agent: str, item: str) -> bool:
        return (
            self.start <= now < self.end
            and self.endpoint in (None, endpoint)
            and self.user_agent in (None, user_agent)
            and (self.item_no is None or str(self.item_no) == item)
        )


#: Ailments that an outage can inflict, and the endpoints where each makes sense.
OUTAGE_ENDPOINTS: dict[FaultKind, frozenset[str]] = {
    FaultKind.REFUSED: frozenset({"list", "detail", "options", "session", "robots", "other"}),
    FaultKind.ERROR: frozenset({"list", "detail", "options", "session"}),
    FaultKind.UNAUTHORISED: frozenset({"list", "detail", "options"}),
    FaultKind.STORM: frozenset({"list", "detail", "options"}),
    FaultKind.WITHOUT_MODULE: frozenset({"detail"}),
}


@dataclass(frozen=True, slots=True)
class ChaosProfile:
    """The faults of one kind of bad day: probabilities for each request, latencies in milliseconds."""

    latency_ms: float = 0.0
    jitter_ms: float = 0.0
    error: float = 0.0
    drop: float = 0.0
    cut: float = 0.0
    truncated: float = 0.0
    html: float = 0.0
    revoked: float = 0.0
    storms: Storms = Storms()
    token_seconds: int = 7_200
    foreign: float = 0.0
    """Probability that a list page has an item of another seller mixed in."""
    shift: float = 0.0
    """Probability that an item jumps to the top of the list while a page is being asked for."""
    shifts_per_seller: int = 5
    """After this many changes the list settles: a crawler that tries again must see everything in the end."""
    moduleless: float = 0.0
    """Probability that a detail comes without its ProductInfoModule."""
    inflated: float = 0.0
    """Probability that a list states a total that no seller can have."""

    @property
    def faults(self) -> tuple[tuple[FaultKind, float], ...]:
        return (
            (FaultKind.ERROR, self.error),
            (FaultKind.DROP, self.drop),
            (FaultKind.CUT, self.cut),
            (FaultKind.TRUNCATED, self.truncated),
            (FaultKind.HTML, self.html),
            (FaultKind.REVOKED, self.revoked),
        )

    def with_latency(self, latency_ms: float) -> "ChaosProfile":
        """Return the profile with this mean latency, jittered by a quarter of it."""
        return replace(self, latency_ms=latency_ms, jitter_ms=latency_ms / 4)


PROFILES: dict[str, ChaosProfile] = {
    "calm": ChaosProfile(),
    "flaky": ChaosProfile(
        latency_ms=3,
        jitter_ms=2,
        error=0.012,
        drop=0.006,
        cut=0.003,
        truncated=0.004,
        html=0.003,
        revoked=0.002,
        foreign=0.02,
        shift=0.02,
        shifts_per_seller=2,
    ),
    "hostile": ChaosProfile(
        latency_ms=6,
        jitter_ms=6,
        error=0.020,
        drop=0.015,
        cut=0.010,
        truncated=0.015,
        html=0.010,
        revoked=0.005,
        storms=Storms(every=5.0, length=0.5, share=0.2, at_most=10, retry_after=(1, 2)),
        token_seconds=120,
        foreign=0.2,
        shift=0.1,
        shifts_per_seller=3,
    ),
    "slow": ChaosProfile(latency_ms=400, jitter_ms=300),
    "storm": ChaosProfile(storms=Storms(every=10.0, length=3.0, share=0.5)),
    "expiring": ChaosProfile(token_seconds=20, revoked=0.02),
    "shifting": ChaosProfile(shift=0.5),
    "foreign": ChaosProfile(foreign=1.0),
    "html": ChaosProfile(html=0.1),
    "truncated": ChaosProfile(truncated=0.1),
    "drops": ChaosProfile(drop=0.05, cut=0.05),
    "errors": ChaosProfile(error=0.1),
    "moduleless": ChaosProfile(moduleless=1.0),
    "inflated": ChaosProfile(inflated=1.0),
}
"""Bad days by name: three to live with, and single faults for tests. `hostile` stays under 12 % of requests harmed."""


class Chaos:
    """Decides the faults of one marketplace, and counts those that happened by kind."""

    def __init__(self, profile: ChaosProfile, seed: int | str = 0) -> None:
        self.rng = seeded_rng(seed, "chaos")
        self.inflicted: Counter[str] = Counter()
        self._outages: tuple[Outage, ...] = ()
        self.become(profile)

    def become(self, profile: ChaosProfile) -> None:
        """Switch to another profile; its storms are counted from the next request."""
        self.profile = profile
        self._ailments = tuple(ailment for ailment, _ in profile.faults)
        self._thresholds = tuple(accumulate(share for _, share in profile.faults))
        self._harm = self._thresholds[-1]
        self._began: float | None = None
        self._storm = -1
        self._refused_in_storm = 0
        self._shifts: Counter[str] = Counter()

    def plan(self, outage: Outage) -> None:
        """Plan an outage. Where several match a request the first planned one counts."""
        if outage.endpoint is not None and outage.endpoint not in OUTAGE_ENDPOINTS.get(outage.ailment, ()):
            raise ValueError(f"{outage.ailment.value} does not happen at {outage.endpoint}")
        if outage.ailment not in OUTAGE_ENDPOINTS:
            raise ValueError(f"{outage.ailment.value} is no outage; it has a share in a profile")
        self._outages += (outage,)

    def end_outages(self) -> None:
        """Cancel all outages, planned or current."""
        self._outages = ()

    def outage(self, now: float, endpoint: str, user_agent: str, item: str) -> FaultKind:
        """Return the fault of a matching outage, or NONE. `item` is the number in the path."""
        for outage in self._outages:
            if endpoint in OUTAGE_ENDPOINTS[outage.ailment] and outage.covers(now, endpoint, user_agent, item):
                return outage.ailment
        return FaultKind.NONE

    def strike(self, now: float) -> FaultKind:
        """Return the fault of this request. The caller applies it and then calls `count`.

        Not every fault fits every request: a refusal has no body to cut, and a session no token to revoke.
        """
        return FaultKind.STORM if self._storming(now) else self._throw()

    def count(self, ailment: FaultKind) -> None:
        """Count a fault that was applied."""
        self.inflicted[ailment.value] += 1

    def _throw(self) -> FaultKind:
        if not self._harm:
            return FaultKind.NONE
        thrown = self.rng.random()
        if thrown >= self._harm:
            return FaultKind.NONE
        return next(a for a, limit in zip(self._ailments, self._thresholds, strict=True) if thrown < limit)

    def _storming(self, now: float) -> bool:
        storms = self.profile.storms
        if not storms.every:
            return False
        if self._began is None:
            self._began = now
        number, phase = divmod(now - self._began, storms.every)
        if phase < storms.every - storms.length:
            return False
        if number != self._storm:
            self._storm, self._refused_in_storm = int(number), 0
        if self._refused_in_storm >= storms.at_most or self.rng.random() >= storms.share:
            return False
        self._refused_in_storm += 1
        return True

    def delay(self) -> float:
        """Return the seconds until this answer is sent."""
        profile = self.profile
        if not profile.latency_ms:
            return 0.0
        return max(0.0, profile.latency_ms + self.rng.uniform(-profile.jitter_ms, profile.jitter_ms)) / 1000

    def retry_after(self, now: float) -> tuple[str | None, float]:
        """Return the Retry-After of a storm (None: no header), and the time until which it asks for quiet."""
        seconds = self.rng.randint(*self.profile.storms.retry_after)
        style = self.rng.randrange(3)
        if style == 0:
            return str(seconds), now + seconds
        if style == 1:
            until = ceil(now + seconds)
            return formatdate(until, usegmt=True), float(until)
        return None, now

    def mixes_in_foreign_item(self) -> bool:
        return self._happens("foreign", self.profile.foreign)

    def drops_module(self) -> bool:
        return self._happens("moduleless", self.profile.moduleless)

    def inflates_total(self) -> bool:
        return self._happens("inflated", self.profile.inflated)

    def shifts_list(self, seller_id: str) -> bool:
        """Return whether an item of this seller moves to the top now."""
        if self._shifts[seller_id] >= self.profile.shifts_per_seller or not self._happens("shift", self.profile.shift):
            return False
        self._shifts[seller_id] += 1
        return True

    def _happens(self, name: str, probability: float) -> bool:
        if not probability or self.rng.random() >= probability:
            return False
        self.inflicted[name] += 1
        return True
