"""The settings of delivery."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from sellerwatch.kernel.backoff import Backoff
from sellerwatch.outbox.message import MAX_ATTEMPTS

_BETWEEN_ATTEMPTS = Backoff(first=30.0, longest=3600.0)
_BETWEEN_PROBES = Backoff(first=30.0, longest=300.0)


@dataclass(frozen=True)
class DeliveryRules:
    """`interval`: how often the table is read when nothing wakes the loop; `grace`: how long a stop waits for answers.

    Both are in seconds. `failures` in a row open the receiver's circuit, or one seller's, for the back-off `opened`; up
    to `probes` messages then find out whether it can be closed, and others follow when they have no answer after
    `patience`, which is longer than any request lasts. `per_second` limits how many messages all processes send
    together; `concurrency` limits one process."""

    concurrency: int = 20
    batch: int = 100
    max_attempts: int = MAX_ATTEMPTS
    interval: float = 300.0
    backoff: Backoff = _BETWEEN_ATTEMPTS
    grace: float = 6.0
    per_second: float | None = None
    failures: int = 5
    probes: int = 5
    opened: Backoff = _BETWEEN_PROBES
    patience: timedelta = timedelta(seconds=60)

    @property
    def most_of_a_seller(self) -> int:
        """How many messages of one seller a process sends at a time: slow answers to them leave slots for others."""
        return max(1, self.concurrency * 3 // 4)
