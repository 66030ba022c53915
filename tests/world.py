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

from tests.builders import ITEM, MINUTE, NOW, SELLER, a_context, a_failure, a_task, execution_id, rng, worker_id

from sellerwatch.adapters.sql.engine import make_engine
from sellerwatch.adapters.sql.store import InlineRunner, SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.agents.agent import Agent
from sellerwatch.crawling.execution import Execution
from sellerwatch.crawling.ports import WorkerInfo
from sellerwatch.crawling.task import Task, TaskStatus, TaskType
from sellerwatch.kernel.clock import Clock
from sellerwatch.kernel.failure import Failure, FailureCode
from sellerwatch.kernel.ids import ExecutionId, Ids, ItemNo, ReplayableIds, SellerId, TaskId
from sellerwatch.kernel.store import Commits
from sellerwatch.outbox.message import Message, OutboxKind
from sellerwatch.oversight.audit import AuditEntry
from sellerwatch.schedules.interval import CrawlingInterval
from sellerwatch.schedules.schedule import Schedule
from sellerwatch.sellers.commands import register_seller

T = TypeVar("T")

#: What the failed tasks of `add_run` failed of.
ANSWERED_503 = a_failure()


def due_messages(tx: Transaction, kind: OutboxKind, now: datetime, limit: int) -> list[Message]:
    """The messages of all sellers that delivery would claim now, oldest first."""
    queue = tx.delivery_queue(kind)
    found = [message for seller_id in queue.waiting_sellers() for message in queue.due(now, seller_id, limit)]
    return sorted(found, key=lambda message: (message.next_attempt_at, message.outbox_id))[:limit]


class StoreWorld:
    """A store, the time and the ids of a test."""

    def __init__(self, store: SqlStore, clock: Clock, ids: Ids | None = None) -> None:
        self.store = store
        self.clock = clock
        self.ids = ids or Ids(clock, rng())

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

    async def command(self, act: Callable[..., T], *args: Any, actor: str = "test", now: datetime | None = None) -> T:
        """One command, as it is given by a person."""
        at = now or self.now
        return await self.transact_with_ids(lambda tx, ids: act(tx, a_context(at, ids, actor), *args))

    async def register(
        self,
        sellers: Iterable[SellerId],
        name: str | None = None,
        *,
        every: CrawlingInterval | None = None,
        due: datetime | None = None,
    ) -> None:
        """`due` sets when the scheduler is to start them."""
        now, registered = self.now, list(sellers)

        def work(tx: Transaction, ids: Iterator[str]) -> None:
            for seller_id in registered:
                register_seller(tx, a_context(now, ids), seller_id, name or f"상점 {seller_id}", every)
                schedule = tx.schedules.of_seller(seller_id)
                if schedule is not None and due is not None:
                    tx.schedules.save(schedule.ran(due, now))

        await self.transact_with_ids(work)

    async def enter_worker(self, number: int = 1) -> None:
        now = self.now
        await self.transact(lambda tx: enter_worker(tx, number, now))

    async def add_run(
        self,
        number: int = 1,
        seller_id: SellerId = SELLER,
        *,
        done: int = 0,
        failed: int = 0,
        waiting: int = 0,
        going: int = 0,
    ) -> Execution:
        """A run of a registered seller with so many tasks in each state; the tasks are numbered in that order."""
        return await self.transact(lambda tx: _add_run(tx, seller_id, number, (done, failed, waiting, going)))

    async def add_waiting_run(self, number: int = 1, seller_id: SellerId = SELLER) -> None:
        """A run that could not be started twice and waits for its next try."""
        refused = Failure.of(FailureCode.UNREACHABLE, NOW, detail="connection refused")
        schedule = await self.schedule(seller_id)
        run = Execution.create(execution_id(number), schedule.schedule_id, seller_id, NOW)
        run = run.wait_to_start(refused, NOW).wait_to_start(refused, NOW + MINUTE)
        await self.transact(lambda tx: tx.executions.add(run))

    async def add_failed_messages(self, *messages: Message) -> None:
        """Events the receiver refused for good."""
        refused = [message.send(worker_id()).refuse("answered 422: 상품명이 너무 깁니다") for message in messages]

        def work(tx: Transaction) -> None:
            tx.product_outbox.add_all(messages)
            tx.product_outbox.move(refused, NOW)

        await self.transact(work)

    async def audit_trail(self, actor: str = "") -> list[AuditEntry]:
        """Entries of actors that begin so, newest first."""
        entries = await self.read(lambda tx: tx.audit.newest(limit=1000))
        return [entry for entry in entries if entry.actor.startswith(actor)]

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

    async def schedule_messages(self, seller_id: SellerId) -> list[Message]:
        """What the scheduler is told of this seller, oldest first."""
        schedule = await self.schedule(seller_id)
        found = await self.read(lambda tx: tx.scheduler_outbox.latest_of(schedule.schedule_id, 100))
        return list(found)[::-1]

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


def task_number(run: int = 1) -> int:
    """The number of the first task of a run that `add_run` made."""
    return run * 1000


def _add_run(tx: Transaction, seller_id: SellerId, number: int, counts: tuple[int, int, int, int]) -> Execution:
    schedule = tx.schedules.of_seller(seller_id)
    assert schedule is not None
    done, failed, waiting, _ = counts
    run = Execution.create(execution_id(number), schedule.schedule_id, seller_id, NOW).start(sum(counts), NOW)
    run = run.record(NOW, completed=done, failed=failed)
    tx.executions.add(run)
    made = [_detail_task(run, task_number(number) + place) for place in range(sum(counts))]
    tx.tasks.add(made)
    moved = [_started(task).complete(NOW) for task in made[:done]]
    moved += [_started(task).fail(ANSWERED_503, NOW) for task in made[done : done + failed]]
    moved += [_started(task) for task in made[done + failed + waiting :]]
    tx.tasks.save(moved, NOW)
    return run


def _detail_task(run: Execution, number: int) -> Task:
    item_no = ItemNo(ITEM + number)
    task_type = TaskType.PRODUCT_DETAIL
    return a_task(number, task_type, execution_id=run.execution_id, seller_id=run.seller_id, item_no=item_no)


def _started(task: Task) -> Task:
    return task.publish(NOW).start(worker_id(), NOW)
