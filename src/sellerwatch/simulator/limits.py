"""The marketplace's rate limits, checked for each agent.

They count by arrival and exactly, so that a crawler's own limiter can be checked against them. Every API request of an
agent counts, also one that is refused or answered with an error.
"""

from collections import deque
from dataclasses import dataclass
from enum import Enum
from math import ceil

_FLOAT_NOISE = 1e-6
"""Adding an hour to a Unix time and taking it off again may be short by a rounding error."""
_RATE_TOLERANCE = 0.05
_IN_FLIGHT_SECONDS = 1.0
"""Requests already on their way when a 429 was answered do not count as ignoring it."""


@dataclass(frozen=True, slots=True)
class SimulatedLimits:
    """How often one agent may ask: in any window, and (unless None) in a second.

    The rate is checked over a second shortened by a twentieth, because requests sent evenly arrive unevenly.
    """

    window_limit: int = 80
    window_seconds: float = 3600.0
    requests_per_second: float | None = 1.0


class LimitVerdict(Enum):
    WITHIN = "within"
    OVER_BUDGET = "over_budget"
    OVER_RATE = "over_rate"


class SlidingWindow:
    """Counts arrivals in the half-open span of `seconds` that ends now."""

    __slots__ = ("_arrivals", "_seconds")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds - _FLOAT_NOISE
        self._arrivals: deque[float] = deque()

    def arrive(self, now: float) -> int:
        """Count an arrival and return how many there are in the window."""
        arrivals = self._arrivals
        oldest_counted = now - self._seconds
        while arrivals and arrivals[0] <= oldest_counted:
            arrivals.popleft()
        arrivals.append(now)
        return len(arrivals)

    def seconds_until_free(self, now: float, limit: int) -> float:
        """Return how long until another arrival is within `limit`, if nothing arrives meanwhile."""
        excess = len(self._arrivals) - limit
        return self._arrivals[excess] + self._seconds - now if excess >= 0 else 0.0


class RequestLimiter:
    """The limits of one agent."""

    __slots__ = ("_limits", "_quiet_from", "_quiet_until", "_rate", "_rate_limit", "_window", "ignored", "most")

    def __init__(self, limits: SimulatedLimits) -> None:
        self._limits = limits
        self._window = SlidingWindow(limits.window_seconds)
        self._rate: SlidingWindow | None = None
        self._rate_limit = 1
        if limits.requests_per_second is not None:
            self._rate_limit = max(1, int(limits.requests_per_second))
            span = self._rate_limit / limits.requests_per_second
            self._rate = SlidingWindow(span * (1 - _RATE_TOLERANCE))
        self._quiet_from = self._quiet_until = 0.0
        self.most = 0
        """The largest number ever seen in one window."""
        self.ignored = 0
        """Requests that arrived although a Retry-After asked for quiet."""

    def judge(self, now: float) -> LimitVerdict:
        """Count one arrival and return whether it was allowed."""
        if self._quiet_from < now < self._quiet_until:
            self.ignored += 1
        in_window = self._window.arrive(now)
        self.most = max(self.most, in_window)
        in_second = self._rate.arrive(now) if self._rate is not None else 0
        if in_window > self._limits.window_limit:
            return LimitVerdict.OVER_BUDGET
        return LimitVerdict.OVER_RATE if in_second > self._rate_limit else LimitVerdict.WITHIN

    def retry_after(self, now: float) -> int:
        """Return the whole seconds after which the window has room again."""
        return max(1, ceil(self._window.seconds_until_free(now, self._limits.window_limit)))

    def asked_for_quiet(self, now: float, until: float) -> None:
        """Record that a 429 asked for quiet until then."""
        self._quiet_from, self._quiet_until = now + _IN_FLIGHT_SECONDS, until
