"""Doors that fail: a process that can be killed between any two steps, and a database that is away for a while.

Each stands before the real thing and passes everything on. What a killed process had in memory goes on running here for
a moment, as exceptions and clean-up do; it gets through no door any more, so nobody outside can tell.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from sellerwatch.adapters.sql.engine import DatabaseUnavailable
from sellerwatch.adapters.sql.store import InlineRunner, SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.kernel.clock import Clock
from sellerwatch.marketplaces.ports import Reply, Transport
from sellerwatch.outbox.receipt import Receipt

M_contra = TypeVar("M_contra", contravariant=True)

Work = Callable[[Transaction], Any]


class Killed(BaseException):
    """kill -9: no handler of the program's own may catch it."""


class Life:
    """Counts the steps of one process, two for each passage: before it, and after it before the caller learns of it.
    It ends with step `ends_at`, or when somebody kills it."""

    def __init__(self, ends_at: int | None = None) -> None:
        self.steps: list[str] = []
        self.over = asyncio.Event()
        self._ends_at = ends_at

    def kill(self) -> None:
        self.over.set()

    def step(self, name: str) -> None:
        if self.over.is_set():
            raise Killed
        self.steps.append(name)
        if len(self.steps) == self._ends_at:
            self.kill()
            raise Killed


class MortalStore(SqlStore):
    def __init__(self, store: SqlStore, clock: Clock, life: Life) -> None:
        super().__init__(store._engine, clock, InlineRunner(), InlineRunner(), rehearse=True, commits=store.commits)
        self._life = life

    def transact(self, work: Work) -> Any:
        return self._through(super().transact(work))

    def read(self, work: Work) -> Any:
        return self._through(super().read(work), "read")

    async def _through(self, passage: Any, name: str = "transaction") -> Any:
        try:
            self._life.step(f"before a {name}")
        except Killed:
            passage.close()
            raise
        result = await passage
        self._life.step(f"after a {name}")
        return result


class MortalTransport:
    def __init__(self, transport: Transport, life: Life) -> None:
        self._transport = transport
        self._life = life

    async def get(self, url: str, headers: Mapping[str, str]) -> Reply:
        self._life.step("before a request")
        reply = await self._transport.get(url, headers)
        self._life.step("after a request")
        return reply


class Door(Protocol[M_contra]):
    async def deliver(self, message: M_contra, now: datetime) -> Receipt: ...


class MortalReceiver(Generic[M_contra]):
    def __init__(self, receiver: Door[M_contra], life: Life) -> None:
        self._receiver = receiver
        self._life = life

    async def deliver(self, message: M_contra, now: datetime) -> Receipt:
        self._life.step("before a delivery")
        receipt = await self._receiver.deliver(message, now)
        self._life.step("after a delivery")
        return receipt


class ShakyStore(SqlStore):
    """A database that cannot be used while `away` says so. With `too_late` what it was asked for is done, and only the
    answer is lost: nobody who hears an error may conclude that nothing happened."""

    def __init__(
        self, store: SqlStore, clock: Clock, away: Callable[[], bool], *, too_late: Callable[[], bool] = lambda: False
    ) -> None:
        super().__init__(store._engine, clock, InlineRunner(), InlineRunner(), rehearse=True, commits=store.commits)
        self._away = away
        self._too_late = too_late
        self.refused = 0

    def transact(self, work: Work) -> Any:
        return self._tried(lambda: super(ShakyStore, self).transact(work), self._too_late)

    def read(self, work: Work) -> Any:
        return self._tried(lambda: super(ShakyStore, self).read(work), lambda: False)

    async def _tried(self, passage: Callable[[], Any], too_late: Callable[[], bool]) -> Any:
        away, lost = self._away(), too_late()
        result = None if away else await passage()
        if away or lost:
            self.refused += 1
            raise DatabaseUnavailable(where="sqlite://", problem="disk I/O error")
        return result
