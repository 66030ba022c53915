"""A database with a history for the operator's commands to work on: made by the real use cases, in a real file."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from tests.builders import (
    ITEM,
    NOW,
    SELLER,
    a_context,
    a_message,
    a_task,
    execution_id,
    ids,
    outbox_id,
    task_id,
    worker_id,
)

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.crawling.execution import Execution
from sellerwatch.crawling.task import Task, TaskStatus, TaskType
from sellerwatch.kernel.failure import Failure, FailureCode
from sellerwatch.kernel.ids import ItemNo, ReplayableIds, SellerId
from sellerwatch.outbox.message import Message
from sellerwatch.oversight.audit import AuditEntry
from sellerwatch.schedules.interval import CrawlingInterval
from sellerwatch.sellers.commands import register_seller

from .conftest import Run

T = TypeVar("T")

#: What the failed tasks of a run failed of.
UNWELL = Failure.of(FailureCode.SERVER_ERROR, NOW, status=503)
NAME = "럭셔리 하우스 [명품] 🧥"


@dataclass(frozen=True)
class Office:
    """Commands on one database, and a look behind them."""

    run: Run
    store: SqlStore
    file: Path

    def __call__(self, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        return self.run(*arguments, DATABASE_URL=f"sqlite:///{self.file}", **settings)

    def said(self, *arguments: str) -> str:
        """What a command that does its work says, to people."""
        done = self(*arguments)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def json(self, *arguments: str, code: int = 0) -> Any:
        """The one JSON object a command answers with."""
        done = self(*arguments, "--json")
        assert (done.returncode, done.stderr) == (code, "")
        return json.loads(done.stdout)

    def do(self, work: Callable[[Transaction], T]) -> T:
        return asyncio.run(self.store.transact(work))

    def see(self, work: Callable[[Transaction], T]) -> T:
        return asyncio.run(self.store.read(work))

    def trail(self) -> Sequence[AuditEntry]:
        """What people did, newest first: what the preparation did is left out."""
        entries = self.see(lambda tx: tx.audit.newest(limit=1000))
        return [entry for entry in entries if entry.actor.startswith("cli:")]

    def everything(self) -> dict[str, list[tuple[Any, ...]]]:
        """Every row there is: to see that a refused command left all as it was."""

        def look(tx: Transaction) -> dict[str, list[tuple[Any, ...]]]:
            tables = [row[0] for row in tx.db.rows("SELECT name FROM sqlite_master WHERE type = 'table'")]
            return {name: [tuple(row) for row in tx.db.rows(f"SELECT * FROM {name}")] for name in tables}  # noqa: S608

        return self.see(look)

    def register(
        self, seller_id: SellerId = SELLER, name: str = NAME, interval: CrawlingInterval | None = None
    ) -> None:
        draw = ReplayableIds(ids(hash_of(seller_id)))
        self.do(lambda tx: register_seller(tx, a_context(NOW, draw.replay()), seller_id, name, interval))

    def run_of(
        self,
        seller_id: SellerId = SELLER,
        number: int = 1,
        *,
        done: int = 0,
        failed: int = 0,
        waiting: int = 0,
        going: int = 0,
    ) -> Execution:
        """A run of a registered seller with so many tasks in each state; the tasks are numbered in that order."""
        return self.do(lambda tx: _run_of(tx, seller_id, number, (done, failed, waiting, going)))

    def failed_message(self, number: int = 1, **changes: Any) -> Message:
        """An event the receiver refused for good."""
        refused = a_message(number, **changes).send(worker_id()).refuse("answered 422: 상품명이 너무 깁니다")

        def work(tx: Transaction) -> None:
            tx.product_outbox.add(a_message(number, **changes))
            tx.product_outbox.move([refused], NOW)

        self.do(work)
        return refused

    def tasks(self) -> dict[str, TaskStatus]:
        found = self.see(lambda tx: tx.task_queries.newest(execution_id=None, seller_id=None, status=None, limit=1000))
        return {task.task_id: task.status for task in found}


def hash_of(text: str) -> int:
    return int.from_bytes(text.encode()[:8], "big")


def _run_of(tx: Transaction, seller_id: SellerId, number: int, counts: tuple[int, int, int, int]) -> Execution:
    schedule = tx.schedules.of_seller(seller_id)
    assert schedule is not None
    total = sum(counts)
    run = Execution.create(execution_id(number), schedule.schedule_id, seller_id, NOW).start(total, NOW)
    run = run.record(NOW, completed=counts[0], failed=counts[1])
    tx.executions.add(run)
    first = task_number(number)
    made = [_task(run, first + place) for place in range(total)]
    tx.tasks.add(made)
    done, failed, waiting, _ = counts
    moved = [_done(task, NOW) for task in made[:done]]
    moved += [_failed(task, NOW) for task in made[done : done + failed]]
    moved += [_started(task, NOW) for task in made[done + failed + waiting :]]
    tx.tasks.save(moved, NOW)
    return run


def task_number(run: int = 1) -> int:
    """The number of a run's first task."""
    return run * 1000


def _task(run: Execution, number: int) -> Task:
    made = a_task(number, TaskType.PRODUCT_DETAIL, execution_id=run.execution_id, seller_id=run.seller_id)
    return replace(made, item_no=ItemNo(ITEM + number))


def _started(task: Task, now: datetime) -> Task:
    return task.publish(now).start(worker_id(), now)


def _done(task: Task, now: datetime) -> Task:
    return _started(task, now).complete(now)


def _failed(task: Task, now: datetime) -> Task:
    return _started(task, now).fail(UNWELL, now)


__all__ = ["NAME", "NOW", "SELLER", "UNWELL", "Office", "execution_id", "outbox_id", "task_id", "task_number"]
