"""One clock for all machines that share a database server: the server's own.

Permits, leases and heartbeats are written on one machine and judged on another. The clock of a boot means nothing to a
second machine, and two wall clocks never agree. So each process asks the server for its time now and then, and counts
on with its own machine's monotonic clock. Two processes agree to within the time that a question usually takes.

The server's clock can be set. After it is set back, this clock stands still until the server has caught up: too few
requests rather than too many. After it is set forward, windows would be free too early: a process that notices counts
every window as full for one window. If no process ran at that moment, it goes unnoticed.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from sqlalchemy import Connection, Engine

from sellerwatch.adapters.sql.engine import answering
from sellerwatch.kernel.clock import EPOCH, Clock, SystemClock

log = logging.getLogger(__name__)

#: All machines count by the same clock, so to the limiter they are one boot.
BOOT_ID = "database-server"
#: A machine's own clock is off by some parts in a hundred thousand: in this time by less than a millisecond.
ASK_EVERY = 10.0
#: An answer that took longer, and twice as long as usual, says too little about the moment.
LONGEST_TRIP = 0.02
#: More than any clock gains between two questions.
LEAP = 1.0

# Each bucket knows its window: its limit by its rate.
FILL = """
UPDATE rate_limit_bucket SET full_reason = 'CLOCK',
    full_until_us = %(now_us)s + CAST(max_tokens / refill_rate * 1000000 AS SIGNED INTEGER)
"""


class ServerClock:
    """Implements `kernel.clock.Clock`. A store calls `pulse` with every transaction to keep it right."""

    def __init__(self, engine: Engine, machine: Clock | None = None) -> None:
        self._machine = machine or SystemClock()
        self._latest = 0.0
        with answering(engine), engine.connect() as connection:
            # The best of a few: the first question also pays for whatever is done for the first time.
            self._ahead, usual = min((self._ask(connection) for _ in range(4)), key=lambda answer: answer[1])
        self._longest = max(LONGEST_TRIP, 2 * usual)
        self._asked = self._machine.monotonic()

    @property
    def boot_id(self) -> str:
        return BOOT_ID

    def now(self) -> datetime:
        return EPOCH + timedelta(microseconds=int(self.monotonic() * 1_000_000))

    def monotonic(self) -> float:
        self._latest = max(self._latest, self._machine.monotonic() + self._ahead)
        return self._latest

    async def sleep(self, seconds: float) -> None:
        await self._machine.sleep(seconds)

    def pulse(self, connection: Connection) -> None:
        """Ask the server again if that is due. Called outside of transactions."""
        if self._machine.monotonic() - self._asked < ASK_EVERY:
            return
        ahead, trip = self._ask(connection)
        self._asked = self._machine.monotonic()
        leap = ahead - self._ahead
        # The server answered at some moment of the trip: only what no such moment explains is a leap.
        leapt = abs(leap) - trip / 2 > LEAP
        if trip > self._longest and not leapt:
            return
        if leapt and leap > 0:
            log.warning("the database server's clock was set forward: every window counts as full", extra={"by": leap})
            now_us = int((self._asked + ahead) * 1_000_000)
            with connection.begin():
                connection.exec_driver_sql(FILL, {"now_us": now_us})
        elif leapt:
            log.warning("the database server's clock was set back: time stands still until then", extra={"by": leap})
        self._ahead = ahead

    def _ask(self, connection: Connection) -> tuple[float, float]:
        """Return how far the server's clock is ahead of the machine's, and how long the question took."""
        with connection.begin():
            before = self._machine.monotonic()
            server_now = connection.exec_driver_sql("SELECT UTC_TIMESTAMP(6)").scalar_one()
            after = self._machine.monotonic()
        return (server_now - EPOCH).total_seconds() - (before + after) / 2, after - before
