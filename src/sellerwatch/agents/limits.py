"""The limits of one agent and of the marketplace as a whole, as settings that can be changed at run time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from math import ceil
from typing import Any, Protocol

from sellerwatch.agents.breaker import BreakerRules


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


class LimitSettings(Protocol):
    """What the environment, the file and the defaults say of the limits, and what they allow."""

    @property
    def configured(self) -> Mapping[str, Any]:
        """Each limit by its name in lower case, as it is without changes made while the service runs."""

    @property
    def taken_over_within(self) -> float:
        """The seconds after which running services go by a change."""

    def find(self, given: str) -> str:
        """Return a limit's name in lower case; refuse the name of none."""

    def in_force(self, overrides: Mapping[str, str]) -> Mapping[str, Any]:
        """Return all limits with these changes; refuse changes that are wrong."""

    def check(self, name: str, value: str, overrides: Mapping[str, str]) -> Any:
        """Return the value of a limit that is to be changed to `value`; refuse it in one sentence."""

    def faults(self, overrides: Mapping[str, str], language: str) -> Mapping[str, str]:
        """Return what is wrong with these changes by the name of the setting."""

    def origin(self, name: str) -> str:
        """Return where the configured value is from: `environment`, `file` or `default`."""

    def meaning(self, name: str, language: str) -> str:
        """Return what a limit means."""


@dataclass(frozen=True)
class PoolRules:
    """`suspension` is how long an agent rests when a person suspends it without saying for how long."""

    breaker: BreakerRules
    suspension: timedelta
    #: The limits in force, given the settings that were changed at run time.
    limits: Callable[[Mapping[str, str]], Limits]
    #: What the marketplace as a whole may be asked, given the same.
    host: Callable[[Mapping[str, str]], Host]
    #: Whether the database knows of fewer permits than were given out, given the highest number it knows.
    is_restored: Callable[[int], bool]
