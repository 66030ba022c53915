"""The clock of Redis, on which processes on several machines agree.

Every answer of Redis carries its time. Between answers, this machine's monotonic clock counts on from the answer that
came back fastest. It runs behind Redis by at most one way of the network, never ahead, so a departure is never early.
Old answers are trusted less and less, because two clocks drift apart.

It stops working when the clock of Redis is set. Forward: a process that knew the time before notices, and every window
counts as full for one window. Backward: time stands still until Redis has caught up.
"""

from __future__ import annotations

from datetime import datetime

from sellerwatch.kernel.clock import SHARED, Clock

#: How fast two clocks may drift apart, in seconds a second.
DRIFT = 2e-4
#: A difference that no drift explains, in seconds.
JUMP = 2.0


class RedisClock:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead = 0.0
        self._heard_at: float | None = None

    @property
    def boot_id(self) -> str:
        return SHARED

    def now(self) -> datetime:
        return self._clock.now()

    def monotonic(self) -> float:
        return self.local() + self._ahead

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)

    def local(self) -> float:
        """Return this machine's own time, to note when a question was sent."""
        return self._clock.monotonic()

    def heard(self, sent: float, server_us: int) -> bool:
        """Take in an answer of Redis to a question sent then. Return False if its clock was set forward since the
        last."""
        now, server = self.local(), server_us / 1_000_000
        least, most = server - now, server - sent
        known, self._heard_at = self._heard_at, now
        if known is None:
            self._ahead = least
            return True
        expected = self._ahead - DRIFT * (now - known)
        jumped = least > self._ahead + JUMP
        self._ahead = least if jumped or most < expected - JUMP else max(least, expected)
        return not jumped
