"""The coming day, hour by hour: what the schedules will ask for, and whether the pool's budget has room for it.

An estimate. It knows how many products a seller had last time and what the agents that are available now may ask; it
knows nothing of retries, of a shop that grows, or of agents that fall ill. What does not fit into an hour is carried
into the next one, as the service itself does it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sellerwatch.kernel.ids import SellerId

HOUR = timedelta(hours=1)
HOURS = 24


@dataclass(frozen=True, slots=True)
class ExpectedRuns:
    """How often a seller is crawled, and how many requests a run takes. `next_run_at` is None where none is due."""

    seller_id: SellerId
    next_run_at: datetime | None
    interval: timedelta
    requests: int

    def starts(self, now: datetime, until: datetime) -> list[Due]:
        """An overdue run starts now, once however many were missed; the rhythm is kept, as the scheduler does it."""
        found: list[Due] = []
        at = self.next_run_at
        while at is not None and at < until:
            found.append(Due(at, self.seller_id, self.requests))
            at += self.interval * (max(0, (now - at) // self.interval) + 1)
        return found


@dataclass(frozen=True, slots=True)
class Due:
    """A run that will start, and how many requests it takes."""

    at: datetime
    seller_id: SellerId
    requests: int


@dataclass(frozen=True, slots=True)
class Hour:
    """`asked` comes up in it, `carried` came over from before, `over` does not fit and goes on to the next."""

    at: datetime
    runs: tuple[Due, ...]
    carried: int
    room: int

    @property
    def asked(self) -> int:
        return sum(run.requests for run in self.runs)

    @property
    def over(self) -> int:
        return max(0, self.carried + self.asked - self.room)


def requests_of(products: int, page_size: int) -> int:
    """A run asks for the total, every page of the list, and two parts of every product."""
    return 1 + max(1, -(-products // page_size)) + 2 * products


def coming_day(runs: Sequence[Due], room: int, now: datetime) -> list[Hour]:
    """The hour that has begun and the 24 behind it; runs overdue are in the first. `room` is what may be asked in an
    hour."""
    first = now.replace(minute=0, second=0, microsecond=0)
    carried = 0
    hours: list[Hour] = []
    for number in range(HOURS + 1):
        begin = first + number * HOUR
        within = [r for r in runs if r.at < begin + HOUR and (r.at >= begin or not number)]
        # Of the hour that has begun only the rest is left.
        left = room if number else int(room * ((begin + HOUR - now) / HOUR))
        hour = Hour(begin, tuple(sorted(within, key=lambda run: (run.at, run.seller_id))), carried, left)
        carried = hour.over
        hours.append(hour)
    return hours
