"""The shared test world: a store with a clock and ids, and the steps that tests of several folders take on it.

Each folder's own world is a `StoreWorld` with what is special to the folder: a crawl, deliveries, a whole service, the
API, the command line.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from tests.builders import worker_id

from sellerwatch.adapters.sql.engine import make_engine
from sellerwatch.adapters.sql.store import InlineRunner, SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.agents.agent import Agent
from sellerwatch.crawling.execution import Execution
from sellerwatch.crawling.ports import WorkerInfo
from sellerwatch.crawling.task import Task, TaskStatus
from sellerwatch.kernel.clock import Clock
from sellerwatch.kernel.ids import ExecutionId, Ids, ItemNo, ReplayableIds, SellerId, TaskId
from sellerwatch.kernel.store import Commits
from sellerwatch.outbox.message import Message
from sellerwatch.schedules.interval import CrawlingInterval
from sellerwatch.schedules.schedule import Schedule
from sellerwatch.sellers.commands import register

T = TypeVar("T")


class StoreWorld:
    """A store, the time and the ids of a test."""

    def __init__(self, store: SqlStore, clock: Clock, ids: Ids) -> None:
        self.store = store
        self.clock = clock
        self.ids = ids

    @property
    def now(self) -> datetime:
        return self.clock.now()

    async def transact(self, work: Callable[[Transaction], T]) -> T:
        return await self.store.transact(work)

    async def transact_with_ids(self, work: Callable[[Transaction, Iterator[str]], T]) -> T:
        """The same ids each time `work` is run."""
        replayable = ReplayableIds(self.ids)
        return await self.store.transact(lambda tx: work(tx, replayable.replay()))

    async def read(self, work: Callable[[Transaction], T]) -> T:
        return await self.store.read(work)

    async def register(
        self, sellers: Iterable[SellerId], name: str = "상점", every: CrawlingInterval | None = None
    ) -> None:
        now, registered = self.now, list(sellers)

        def work(tx: Transaction, ids: Iterator[str]) -> None:
            for seller_id in registered:
                register(tx, seller_id, f"{name} {seller_id}", every, actor="test", ids=ids, now=now)

        await self.transact_with_ids(work)

    async def enter_worker(self, number: int = 1) -> None:
        now = self.now
        await self.transact(lambda tx: enter_worker(tx, number, now))

    async def schedule(self, seller_id: SellerId) -> Schedule:
        return await self._found(lambda tx: tx.schedules.of_seller(seller_id))

    async def run(self, execution_id: ExecutionId) -> Execution:
        return await self._found(lambda tx: tx.executions.get(execution_id))

    async def executions(self) -> Sequence[Execution]:
        """Every run there was, oldest first."""
        newest = await self.read(lambda tx: tx.execution_queries.newest(seller_id=None, status=None, limit=1000))
        return newest[::-1]

    async def task(self, task_id: TaskId) -> Task:
        return await self._found(lambda tx: tx.tasks.get(task_id))

    async def tasks(self, execution_id: ExecutionId) -> Sequence[Task]:
        return await self.read(lambda tx: tx.run_tasks.open_of(execution_id, tuple(TaskStatus)))

    async def agent(self, row: int) -> Agent:
        return (await self.read(lambda tx: tx.agents.get_rows([row])))[row]

    async def agents(self) -> list[Agent]:
        """In the order of their rows."""
        return [stored.agent for stored in await self.read(lambda tx: tx.pool_report.agents())]

    async def messages_of(self, item_no: int) -> list[Message]:
        """Of this product, oldest first."""

        def work(tx: Transaction) -> list[Message]:
            product = tx.products.of_items([ItemNo(item_no)]).get(ItemNo(item_no))
            return [] if product is None else list(tx.product_outbox.latest_of(product.product_id, 100))[::-1]

        return await self.read(work)

    async def count(self, sql: str, **values: Any) -> int:
        return await self.read(lambda tx: int(tx.db.value(sql, values)))

    async def all_rows(self) -> dict[str, list[tuple[Any, ...]]]:
        """To see that something refused left everything as it was."""
        return await self.read(all_rows)

    async def _found(self, look: Callable[[Transaction], T | None]) -> T:
        found = await self.read(look)
        assert found is not None
        return found


def store_in_memory(template: Path, clock: Clock, commits: Commits | None = None) -> SqlStore:
    """A store on a copy of a migrated file, that rehearses every transaction."""
    engine = make_engine("sqlite://")
    raw, source = engine.raw_connection(), sqlite3.connect(template)
    try:
        assert isinstance(raw.driver_connection, sqlite3.Connection)
        source.backup(raw.driver_connection)
    finally:
        source.close()
        raw.close()
    return SqlStore(engine, clock, InlineRunner(), InlineRunner(), rehearse=True, commits=commits)


def enter_worker(tx: Transaction, number: int, now: datetime) -> None:
    """A worker that is alive from now on."""
    tx.workers.enter(WorkerInfo(worker_id(number), "test", "here", number, now, now))


def keep_agents(tx: Transaction, number: int) -> None:
    """Remove all agents but the first ones: a small pool is soon at its limits."""
    for stored in tx.pool_report.agents()[number:]:
        tx.agents.remove(stored.row)


def all_rows(tx: Transaction) -> dict[str, list[tuple[Any, ...]]]:
    tables = [row[0] for row in tx.db.rows("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
    return {name: [tuple(row) for row in tx.db.rows(f"SELECT * FROM {name}")] for name in tables}  # noqa: S608
