"""The embedded limiter: everything is decided inside the transaction that writes the permits.

The transaction is the arbiter between processes, so this holds wherever they share one database and one boot's clock:
one machine. Processes on several machines need a limiter with a clock of its own (Redis).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from sellerwatch.agents.limits import Host, Limits
from sellerwatch.agents.pool import VISITOR, Candidate, Grant, Lending, lend, pace
from sellerwatch.agents.ports import AgentsTx, Permit, Reservation
from sellerwatch.kernel.clock import Moment


class EmbeddedLimiter:
    """Nothing is kept here: the permits and buckets of the database are all there is."""

    looks_ahead = False

    async def begin(self) -> int:
        return 0

    async def reserve(
        self, candidates: Sequence[Candidate], wanted: int, limits: Limits, host: Host, now: datetime
    ) -> Reservation:
        return Reservation()

    def lend(
        self,
        tx: AgentsTx,
        ahead: Reservation,
        candidates: Sequence[Candidate],
        wanted: int,
        terms: tuple[Limits, Host],
        at: Moment,
    ) -> Lending:
        """What the agents' limits allow, and of that what the marketplace as a whole may be asked now."""
        limits, host = terms
        room = min(wanted, host.concurrency - tx.permits.unanswered())
        lending = lend(candidates, max(room, 0), at, limits)
        if host.per_second is None or not lending.grants:
            return lending
        last_us = tx.windows.last_departure_us()
        paced = pace(lending.grants, last_us, host.per_second, at)
        wait = None if paced else max(1, last_us + int(1_000_000 / host.per_second) - at.boot_us)
        return Lending(tuple(paced), wait)

    async def reserve_visit(self, host: Host) -> Reservation:
        return Reservation()

    def lend_visit(self, tx: AgentsTx, ahead: Reservation, host: Host, at: Moment) -> Lending:
        if host.concurrency <= tx.permits.unanswered():
            return Lending((), None)
        grants = [Grant(VISITOR, at.boot_us)]
        if host.per_second is not None:
            grants = pace(grants, tx.windows.last_departure_us(), host.per_second, at)
        return Lending(tuple(grants), None)

    async def settle(self, ahead: Reservation, permits: Sequence[Permit]) -> None:
        return None

    async def answered(self, permits: Iterable[tuple[int, int]]) -> None:
        return None

    async def tend(self) -> int:
        return 0
