"""How long to wait before trying again: doubling, bounded, with jitter.

Jitter is not decoration: after an outage everything that failed would come back in the same second.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True)
class Backoff:
    """`first` doubles with every try up to `longest`; `jitter` is the share of the wait that rng decides."""

    first: float
    longest: float
    jitter: float = 0.5

    def wait(self, tries: int, rng: random.Random) -> timedelta:
        """The wait after `tries` failed tries (1 or more): between (1 - jitter) and 1 of the doubled time."""
        exponent = min(max(tries, 1) - 1, 62)
        whole = min(self.first * 2**exponent, self.longest)
        return timedelta(seconds=whole * (1 - self.jitter * rng.random()))
