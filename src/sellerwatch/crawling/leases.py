"""Leases: what must be done by one process at a time, wherever many run."""

from __future__ import annotations

from datetime import timedelta
from typing import Protocol

from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.kernel.clock import Clock
from sellerwatch.kernel.ids import WorkerId
from sellerwatch.kernel.store import Store


class JobLeases(Protocol):
    """A lease that lapses by itself: whoever dies in a job keeps the others from it for so long, not for ever."""

    async def take(self, job: str, length: timedelta) -> bool: ...

    async def finish(self, job: str, error: str | None = None) -> None:
        """Done, or failed with this; the next one may."""
        ...

    async def let_go(self, job: str) -> None:
        """Its row was finished in a transaction of its own; what else keeps the next one out goes too."""
        ...


class EmbeddedLeases:
    """A row of the database for each job."""

    def __init__(self, store: Store[CrawlTx], clock: Clock, worker_id: WorkerId) -> None:
        self._store = store
        self._clock = clock
        self._worker_id = worker_id

    async def take(self, job: str, length: timedelta) -> bool:
        now = self._clock.now()
        return await self._store.transact(lambda tx: tx.leases.take(job, self._worker_id, now + length, now))

    async def finish(self, job: str, error: str | None = None) -> None:
        now = self._clock.now()
        await self._store.transact(lambda tx: tx.leases.finish(job, self._worker_id, now, error))

    async def let_go(self, job: str) -> None:
        return None
