"""When a loop of the service runs again: at its due time, at a nudge, or when something may have changed.

Where other processes may write to the database, something may have changed whenever `seconds` have passed. Where no
other process can (`kernel/store.py`, `Commits`), nothing changes without a commit of this process: a loop runs
`seconds` after the first commit since its last run began, and sleeps while there is none. So a simulation does not pay
for loops that look and find nothing, and its loops are never later than those of a real process.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from sellerwatch.kernel.clock import Clock
from sellerwatch.kernel.store import Commits


class WakeUp:
    """Lets one loop wait between its runs."""

    def __init__(self, clock: Clock, commits: Commits | None, seconds: float) -> None:
        self.seconds = seconds
        self._clock = clock
        self._commits = commits
        self._seen = 0
        self._wake = asyncio.Event()
        self._is_nudged = False

    def nudge(self) -> None:
        """Run now, or once more after the run that is under way."""
        self._is_nudged = True
        self._wake.set()

    def begin(self) -> None:
        """Begin a run: it sees what was committed, and each nudge, until now."""
        self._is_nudged = False
        self._wake.clear()
        self._seen = 0 if self._commits is None else self._commits.number

    async def wait(self, due: datetime | None = None) -> None:
        """Return when the next run is to begin: at `due` at the latest."""
        if await self.change(due):
            later = self._clock.now() + timedelta(seconds=self.seconds)
            await self.pause(later if due is None else min(due, later))

    async def change(self, until: datetime | None = None) -> bool:
        """Wait until something may have changed since the run began; False if it is `until` or nudged before that."""
        commits = self._commits
        while commits is not None and commits.number == self._seen and not self._is_nudged:
            commits.call_next(self._wake.set)
            if not await self._woken(until):
                return False
        return not self._is_nudged

    async def pause(self, until: datetime) -> None:
        """Wait for a nudge, until then."""
        while not self._is_nudged and await self._woken(until):
            pass

    async def _woken(self, until: datetime | None) -> bool:
        """Return whether it was woken before that time."""
        seconds = None if until is None else (until - self._clock.now()).total_seconds()
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return False
        if not self._is_nudged:
            self._wake.clear()
        return True
