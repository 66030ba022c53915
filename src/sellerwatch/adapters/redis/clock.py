"""Redis' clock as ours: the one clock that processes on several machines agree on.

Every answer of Redis carries its time. Between answers this machine's own clock goes on, from the answer that came back
quickest. It runs behind Redis' by at most the way back, never ahead: a departure that waits for it is not early. Old
answers are trusted less and less, since two clocks drift apart.

Where it stops working: a Redis whose clock is set. Forward is noticed by whoever had heard of it before, and every
window counts as full for one window; backward lets time stand until it has caught up.
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
        """This machine's own clock, to say when a question was sent."""
        return self._clock.monotonic()

    def heard(self, sent: float, server_us: int) -> bool:
        """An answer of Redis to a question of then. False: its clock was set forward since the last one."""
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
