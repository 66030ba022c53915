"""The limits of one agent: requests in any window, and requests a second."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from math import ceil


@dataclass(frozen=True)
class Limits:
    """The window is the hard limit, exact at every instant; the rate smooths.

    A slot of the window is used from the moment it is lent until one window after the answer came back, so that no
    latency on the way can bring two bursts closer together than they were sent. Departures are spaced by the rate plus
    `margin`, the jitter that the way to the marketplace may have.
    """

    window_limit: int = 80
    window: timedelta = timedelta(hours=1)
    per_second: float = 1.0
    margin: timedelta = timedelta(milliseconds=50)

    @cached_property
    def spacing_us(self) -> int:
        return int(1_000_000 / self.per_second) + self.margin // timedelta(microseconds=1)

    @property
    def refill_rate(self) -> float:
        """Return how many slots a second come free in the long run."""
        return self.window_limit / self.window.total_seconds()

    @cached_property
    def window_us(self) -> int:
        return self.window // timedelta(microseconds=1)


@dataclass(frozen=True)
class Host:
    """The limits of all processes together: requests under way, and requests a second."""

    concurrency: int = 100
    per_second: float | None = None

    def agents_needed(self, limits: Limits) -> int | None:
        """Return how many agents use up the rate, each at its own; None where there is no rate."""
        return None if self.per_second is None else ceil(self.per_second * limits.spacing_us / 1_000_000)
