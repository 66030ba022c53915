"""What delivery goes by, in one place: the settings of an outbox as its transactions see them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from sellerwatch.kernel.backoff import Backoff
from sellerwatch.outbox.message import TRIES

_BETWEEN_TRIES = Backoff(first=30.0, longest=3600.0)
_BETWEEN_PROBES = Backoff(first=30.0, longest=300.0)


@dataclass(frozen=True)
class DeliveryRules:
    """`interval`: how often to look without a nudge; `grace`: how long a stop waits for answers; both in seconds.

    `failures` in a row open the receiver's circuit, for `opened`; a probe's answer is waited for during `patience`,
    which is longer than any request lasts. `per_second` bounds how many leave, over all processes; None: nothing but
    `concurrency` does, which is one process's own.
    """

    concurrency: int = 20
    batch: int = 100
    tries: int = TRIES
    interval: float = 300.0
    backoff: Backoff = _BETWEEN_TRIES
    grace: float = 6.0
    per_second: float | None = None
    failures: int = 5
    opened: Backoff = _BETWEEN_PROBES
    patience: timedelta = timedelta(seconds=60)
