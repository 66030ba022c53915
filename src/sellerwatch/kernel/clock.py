"""Time as an argument. Nothing else in the program reads a clock.

`now` is aware UTC with microseconds, and an administrator can set it back and forward. `monotonic` counts
seconds since the machine was booted, sleeping included: it never jumps, and all processes of one boot agree on it.
`boot_id` says which boot. `sleep` is the only way to wait, so that a loop on virtual time can run a week in seconds.
"""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Protocol

#: CLOCK_BOOTTIME also counts while the machine sleeps; where it does not exist, the next best.
_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: The boot's id of a clock that all machines share: a server's, not this machine's. Its second 0 is 1970, not a start.
SHARED = "shared"


@dataclass(frozen=True, slots=True)
class Moment:
    """One instant on both clocks: the wall's for people, the boot's for what must not be fooled."""

    now: datetime
    boot_us: int
    boot_id: str


class Clock(Protocol):
    """What a part of the program may know of time."""

    @property
    def boot_id(self) -> str: ...

    def now(self) -> datetime: ...

    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's clocks. Where the boot's id cannot be had, each process counts as a boot of its own, which began
    when it did: what it finds of earlier ones is then as old as itself, which errs towards too few requests. Two such
    processes at a time do not agree on any clock; there only one may crawl."""

    def __init__(self) -> None:
        known = _boot_id()
        self._boot_id = known or f"process-{os.getpid()}-{time.time_ns()}"
        self._booted = 0.0 if known else time.clock_gettime(_BOOT_CLOCK)

    @property
    def boot_id(self) -> str:
        return self._boot_id

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.clock_gettime(_BOOT_CLOCK) - self._booted

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def moment(clock: Clock) -> Moment:
    return Moment(clock.now(), int(clock.monotonic() * 1_000_000), clock.boot_id)


def _boot_id(path: Path = Path("/proc/sys/kernel/random/boot_id")) -> str:
    """Empty where it cannot be had."""
    try:
        return path.read_text("ascii").strip()
    except OSError:
        return ""


def from_timestamp(seconds: float) -> datetime:
    """Exact to the microsecond, where `datetime.fromtimestamp` rounds by the platform."""
    return EPOCH + timedelta(microseconds=round(seconds * 1_000_000))


@lru_cache(64)
def stamp(time: datetime) -> str:
    """A time as text outside the database: ISO-8601, UTC, microseconds always, and Z. One moment has one spelling.

    A group has one time for all its events, so the last few are remembered.
    """
    return time.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
