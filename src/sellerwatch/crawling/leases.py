"""Leases kept in the database: a row for each job."""

from __future__ import annotations

from datetime import timedelta

from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.kernel.clock import Clock
from sellerwatch.kernel.ids import WorkerId
from sellerwatch.kernel.store import Store


class EmbeddedLeases:
    """`JobLeases` on the database that all processes share."""

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
