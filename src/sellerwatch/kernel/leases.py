"""Leases: what must be done by one process at a time, wherever many run."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Protocol

from sellerwatch.kernel.clock import Clock
from sellerwatch.kernel.ids import WorkerId
from sellerwatch.kernel.store import Store


class JobLeases(Protocol):
    """Leases that lapse: a process that dies in a job keeps the others from it only until its lease ends."""

    async def take(self, job: str, length: timedelta) -> bool: ...

    async def finish(self, job: str, error: str | None = None) -> None:
        """End the lease: the job is done, or failed with this error."""


class Leases(Protocol):
    """The leases kept in the database: a row for each job."""

    def take(self, job: str, owner: str, until: datetime, now: datetime) -> bool: ...

    def finish(self, job: str, owner: str, now: datetime, error: str | None = None) -> None: ...

    def last_finished(self, job: str) -> datetime | None: ...


class LeasesTx(Protocol):
    @property
    def leases(self) -> Leases: ...


class EmbeddedLeases:
    """`JobLeases` on the database that all processes share."""

    def __init__(self, store: Store[LeasesTx], clock: Clock, worker_id: WorkerId) -> None:
        self._store = store
        self._clock = clock
        self._worker_id = worker_id

    async def take(self, job: str, length: timedelta) -> bool:
        now = self._clock.now()
        return await self._store.transact(lambda tx: tx.leases.take(job, self._worker_id, now + length, now))

    async def finish(self, job: str, error: str | None = None) -> None:
        now = self._clock.now()
        await self._store.transact(lambda tx: tx.leases.finish(job, self._worker_id, now, error))
