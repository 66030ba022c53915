"""When a schedule runs: its next time, spread over sellers, and what happens to times that were missed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from sellerwatch.kernel.ids import SellerId
from sellerwatch.schedules.schedule import Schedule

LONGEST_SPREAD = timedelta(minutes=5)
#: How many coming starts are shown.
NEXT_STARTS = 5


@dataclass(frozen=True)
class DueRun:
    """What the scheduler does with a schedule now: run once, and let `skipped` earlier times pass, noted."""

    skipped: int
    next_run_at: datetime


class SellerInterval(Protocol):
    """What is done for a seller at an interval."""

    @property
    def seller_id(self) -> SellerId: ...

    @property
    def length(self) -> timedelta: ...


class Timed(SellerInterval, Protocol):
    """What has a rhythm of runs: a schedule, or a view of one."""

    @property
    def next_run_at(self) -> datetime | None: ...

    @property
    def waiting_start(self) -> datetime | None: ...


def spread(schedule: SellerInterval) -> timedelta:
    """This seller's own moment within min(5 min, interval / 10), so that not all start in the same second.

    From a hash of the id: the same on every machine and after every restart.
    """
    room = min(LONGEST_SPREAD, schedule.length / 10)
    share = int.from_bytes(hashlib.sha256(schedule.seller_id.encode()).digest()[:4], "big") / 2**32
    return room * share


def tick(schedule: Schedule, now: datetime) -> DueRun | None:
    """None: not yet. After a stop one catch-up run, however many times were missed; the rhythm is kept."""
    if schedule.next_run_at is None or not schedule.is_due(now) or schedule.next_run_at + spread(schedule) > now:
        return None
    passed = (now - schedule.next_run_at) // schedule.length
    return DueRun(skipped=passed, next_run_at=schedule.next_run_at + (passed + 1) * schedule.length)


def late_tick(schedule: Schedule, now: datetime) -> DueRun | None:
    """As `tick`, where another scheduler starts the runs: only what it has let pass by more than a tenth of the
    interval. The rhythm is the other's from then on."""
    late = late_at(schedule)
    if schedule.next_run_at is None or late is None or not schedule.is_due(now) or now < late:
        return None
    return DueRun(skipped=(now - schedule.next_run_at) // schedule.length, next_run_at=now + schedule.length)


def late_at(schedule: Schedule) -> datetime | None:
    """When another scheduler has let the next run pass: a tenth of the interval after its time."""
    if schedule.next_run_at is None:
        return None
    return schedule.next_run_at + schedule.length / 10 + timedelta(microseconds=1)


def due_at(schedule: Timed) -> datetime | None:
    """When the scheduler starts the next run: its time and the seller's own moment after it."""
    return None if schedule.next_run_at is None else schedule.next_run_at + spread(schedule)


def starts_at(schedule: Timed) -> datetime | None:
    """When the next run really starts: one that could not be started when it was due, when it is tried again."""
    return schedule.waiting_start or due_at(schedule)


def next_starts(schedule: Timed) -> list[datetime]:
    """The next few; one that waits to be started comes first."""
    first, waiting = due_at(schedule), schedule.waiting_start
    due = [] if first is None else [first + number * schedule.length for number in range(NEXT_STARTS)]
    return due if waiting is None else [waiting, *due][:NEXT_STARTS]
