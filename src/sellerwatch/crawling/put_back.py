"""Put back tasks whose worker vanished or stopped, and end runs from outside."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from datetime import datetime, timedelta

from sellerwatch.crawling.absorb_batch import CrawlRules
from sellerwatch.crawling.absorb_results import end_failed, over_of
from sellerwatch.crawling.execution import Execution, ExecutionNotFound
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.crawling.save_execution import save_execution
from sellerwatch.crawling.task import Task, TaskStatus
from sellerwatch.kernel.clock import Moment
from sellerwatch.kernel.errors import SellerwatchError
from sellerwatch.kernel.failure import Failure, FailureCode
from sellerwatch.kernel.ids import ExecutionId, TaskId, WorkerId
from sellerwatch.kernel.notices import Notice

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PutBack:
    """What a sweep did: tasks put back, tasks that failed as poison, and permits of lost workers counted as used."""

    again: int
    poison: int
    permits: int
    notices: tuple[Notice, ...] = ()


def put_back_lost(tx: CrawlTx, visibility: timedelta, rules: CrawlRules, ids: Iterator[str], at: Moment) -> PutBack:
    """Put back what silent workers held. One task that cannot be moved does not keep the others from coming back."""
    now = at.now
    beat_before = now - visibility
    again: list[Task] = []
    poison: list[Task] = []
    lost = tx.task_claims.held_by_lapsed(beat_before)
    over = over_of(tx, {task.execution_id for task in lost})
    for task in tx.tasks.hold(lost):
        try:
            moved = task.cancel(now, _run_ended(now)) if task.execution_id in over else task.lose_lease(now)
        except SellerwatchError:
            log.exception("a lost task cannot be put back", extra={"task": task.task_id})
            continue
        (again if moved.is_open else poison).append(moved)
    # Killed between their rows and their messages; where the message was sent after all, a second one does no harm.
    unsent = tx.tasks.hold(tx.task_claims.published_by_lapsed(beat_before))
    tx.tasks.save([*again, *(task.put_back(now) for task in unsent)], now)
    notices = end_failed(tx, poison, rules, ids, now)
    permits = tx.permits.answer_lapsed(beat_before, at)
    tx.workers.bury(beat_before, now)
    return PutBack(len(again), len(poison), permits, notices)


def release(tx: CrawlTx, worker_id: WorkerId, rules: CrawlRules, ids: Iterator[str], at: Moment) -> int:
    """Put back what a worker holds that stops, at no cost to the tasks. Return how many tasks."""
    held = tx.task_claims.held_by(worker_id)
    _hand_back(tx, held, rules, ids, at.now)
    tx.permits.answer_all_of(worker_id, at)
    tx.workers.leave(worker_id, at.now)
    return len(held)


def put_back_unknown(
    tx: CrawlTx, worker_id: WorkerId, known: Set[TaskId], rules: CrawlRules, ids: Iterator[str], at: Moment
) -> int:
    """Put back tasks that a worker holds in the database and does not know, because the result of a claim was lost.
    Their permits count as used. The worker is alive, so no other process puts them back."""
    unknown = [task for task in tx.task_claims.held_by(worker_id) if task.task_id not in known]
    _hand_back(tx, unknown, rules, ids, at.now)
    tx.permits.answer_of(worker_id, [task.task_id for task in unknown], at)
    return len(unknown)


def _hand_back(tx: CrawlTx, held: Sequence[Task], rules: CrawlRules, ids: Iterator[str], now: datetime) -> None:
    over = over_of(tx, {task.execution_id for task in held})
    held = tx.tasks.hold(held)
    tx.tasks.save([task.put_back(now) for task in held if task.execution_id not in over], now)
    end_failed(tx, [task.cancel(now, _run_ended(now)) for task in held if task.execution_id in over], rules, ids, now)


def cancel_execution(
    tx: CrawlTx, execution_id: ExecutionId, reason: Failure, rules: CrawlRules, ids: Iterator[str], now: datetime
) -> Execution:
    """End a run: cancel waiting tasks. Requests in flight may finish, and their results are absorbed."""
    execution = tx.executions.get(execution_id)
    if execution is None:
        raise ExecutionNotFound(execution_id=execution_id)
    failed = execution.fail(reason, now)
    save_execution(tx, execution, failed)
    waiting = tx.run_tasks.open_of(execution_id, (TaskStatus.WAITING, TaskStatus.PUBLISHED, TaskStatus.RETRY))
    end_failed(tx, [task.cancel(now, reason) for task in waiting], rules, ids, now)
    return tx.executions.get(execution_id) or failed


def _run_ended(now: datetime) -> Failure:
    return Failure.of(FailureCode.RUN_ENDED, now)


def reopen_tasks(tx: CrawlTx, tasks: Sequence[Task], now: datetime) -> int:
    """Reopen failed tasks for an operator. Runs that had ended are running again."""
    by_run: dict[ExecutionId, list[Task]] = defaultdict(list)
    for task in tasks:
        by_run[task.execution_id].append(task.reopen(now))
    for execution_id, reopened in sorted(by_run.items()):
        execution = tx.executions.get(execution_id)
        if execution is not None:
            save_execution(tx, execution, execution.reopen_tasks(len(reopened)))
        tx.tasks.save(reopened, now)
    return len(tasks)
