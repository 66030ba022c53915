"""One clock for all machines that share a database server: the server's own.

Permits, leases and heartbeats are stamped by one machine and judged by another. The boot's clock, which serves one
machine well, means nothing to a second one, and two wall clocks never agree. So each process asks the server now and
then what time it is, and in between counts on by its own machine's clock, which nobody can set. Two processes agree to
within the time a question usually takes.

The server's clock can be set. Set back, time stands still here until it has caught up: fewer requests than might be
made, never more. Set forward, windows would come free too early: whoever notices counts every window as full for one
window. Where nobody ran at that moment, nobody can know.
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
#: More than any clock gains by itself between two questions.
LEAP = 1.0

# Each bucket knows its window: its limit by its rate.
FILL = """
UPDATE rate_limit_bucket SET full_until_us = %(now_us)s + CAST(max_tokens / refill_rate * 1000000 AS SIGNED INTEGER)
"""


class ServerClock:
    """Implements `kernel.clock.Clock`. `pulse` keeps it right: a store calls it with every transaction."""

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
        """Ask again if that is due. Outside any transaction."""
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
        """How far the server's clock is ahead of the machine's, and how long the question took."""
        with connection.begin():
            before = self._machine.monotonic()
            said = connection.exec_driver_sql("SELECT UTC_TIMESTAMP(6)").scalar_one()
            after = self._machine.monotonic()
        return (said - EPOCH).total_seconds() - (before + after) / 2, after - before
