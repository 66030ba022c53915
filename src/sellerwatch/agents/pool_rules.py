"""The settings that commands and queries of the pool need."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from sellerwatch.agents.breaker import BreakerRules
from sellerwatch.agents.limits import Host, Limits


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
