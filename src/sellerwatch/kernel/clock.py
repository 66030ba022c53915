"""Time as an argument. Nothing else in the program reads a clock.

`now` is aware UTC with microseconds. `monotonic` measures durations and never jumps; it means nothing outside the
process. `sleep` is the only way to wait, so that a loop on virtual time can run a week in seconds.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Clock(Protocol):
    """What a part of the program may know of time."""

    def now(self) -> datetime: ...

    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's clock. It can be set back; what must not be fooled by that uses `monotonic` beside it."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def from_timestamp(seconds: float) -> datetime:
    """Exact to the microsecond, where `datetime.fromtimestamp` rounds by the platform."""
    return EPOCH + timedelta(microseconds=round(seconds * 1_000_000))
