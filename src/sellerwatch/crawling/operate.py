"""What an operator does by hand: each verb is one transaction, and each thing it changed is on the audit trail.

Several things at once are handled one by one: what is refused is reported beside what was done and keeps nothing else
from being done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from sellerwatch.crawling.execution import CrawlInProgress, Execution, ExecutionNotFound
from sellerwatch.crawling.group import CrawlRules
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.crawling.put_back import cancel_execution, reopen_tasks
from sellerwatch.crawling.task import Task, TaskNotFound, TaskStatus
from sellerwatch.kernel.errors import Conflict, NotFound
from sellerwatch.kernel.failure import Failure, FailureCode
from sellerwatch.kernel.ids import ExecutionId, PublicId, SellerId, TaskId
from sellerwatch.kernel.wording import failure_text
from sellerwatch.oversight.audit import AuditEntry
from sellerwatch.schedules.missed import spread
from sellerwatch.schedules.schedule import Schedule
from sellerwatch.sellers import register
from sellerwatch.sellers.seller import Seller, SellerNotFound

Id = TypeVar("Id", bound=PublicId)


@dataclass(eq=False)
class ExecutionOver(Conflict):
    """A run that has ended cannot be cancelled."""

    execution_id: str
    status: str


@dataclass(eq=False)
class NothingToRetry(Conflict):
    """A run without a failed task."""

    execution_id: str


@dataclass(frozen=True)
class Cancelled:
    """A run that was ended. What was `in_flight` finishes and is still taken in."""

    execution: Execution
    cancelled: int
    in_flight: int


@dataclass(frozen=True)
class Refused:
    """One of several that could not be handled, and why."""

    id: PublicId
    error: NotFound | Conflict


@dataclass(frozen=True)
class Handled:
    """What became of several: those that were done, and those that were refused."""

    done: tuple[PublicId, ...]
    refused: tuple[Refused, ...]


def cancel(
    tx: CrawlTx,
    execution_id: ExecutionId,
    rules: CrawlRules,
    *,
    actor: str,
    ids: Iterator[str],
    now: datetime,
    code: FailureCode = FailureCode.CANCELLED,
) -> Cancelled:
    """End a run that is going: its waiting tasks are cancelled, those in flight finish."""
    before = tx.executions.get(execution_id)
    if before is None:
        raise ExecutionNotFound(execution_id=execution_id)
    if not before.is_open:
        raise ExecutionOver(execution_id=execution_id, status=before.status)
    in_flight = len(tx.tasks.open_of(execution_id, (TaskStatus.IN_PROGRESS,)))
    reason = Failure.of(code, now)
    after = cancel_execution(tx, execution_id, reason, rules, ids, now)
    shown = _run(before), _run(after)
    tx.audit.record(
        AuditEntry(now, actor, "execution.cancel", "execution", execution_id, *shown, note=failure_text(reason))
    )
    return Cancelled(after, after.failed_tasks - before.failed_tasks, in_flight)


def deactivate_seller(
    tx: CrawlTx, seller_id: SellerId, rules: CrawlRules, *, actor: str, ids: Iterator[str], now: datetime
) -> tuple[Seller, Cancelled | None]:
    """Not crawled any more; a run that is going is ended with it."""
    seller = register.deactivate(tx, seller_id, actor=actor, ids=ids, now=now)
    going = tx.executions.open_of(seller_id)
    if going is None:
        return seller, None
    code = FailureCode.SELLER_DEACTIVATED
    return seller, cancel(tx, going.execution_id, rules, actor=actor, ids=ids, now=now, code=code)


def run_now(tx: CrawlTx, seller_id: SellerId, *, actor: str, now: datetime) -> Schedule:
    """Make the seller's next run due at once: the scheduler starts it at its next turn, and the rhythm goes on from
    here. Set back by the seller's own spread, which would otherwise let it wait for minutes.
    """
    seller, schedule = tx.sellers.get(seller_id), tx.schedules.of_seller(seller_id)
    if seller is None or schedule is None:
        raise SellerNotFound(seller_id=seller_id)
    seller.must_be_active()
    moved = schedule.ran(now - spread(schedule), now)
    tx.schedules.save(moved)
    shown = {"nextRunAt": schedule.next_run_at}, {"nextRunAt": moved.next_run_at}
    tx.audit.record(AuditEntry(now, actor, "schedule.run_now", "seller", seller_id, *shown))
    return moved


def retry_execution(
    tx: CrawlTx, execution_id: ExecutionId, deadline: timedelta, *, actor: str, now: datetime
) -> tuple[Execution, int]:
    """Every failed task of a run is to be done after all; says how many. A finished run is running again."""
    before = tx.executions.get(execution_id)
    if before is None:
        raise ExecutionNotFound(execution_id=execution_id)
    failed = tx.tasks.open_of(execution_id, (TaskStatus.FAILED,))
    if not failed:
        raise NothingToRetry(execution_id=execution_id)
    after = _reopen(tx, before, failed, deadline, now)
    shown = _run(before), _run(after)
    note = f"{len(failed)} failed task(s) reopened"
    tx.audit.record(AuditEntry(now, actor, "execution.retry", "execution", execution_id, *shown, note=note))
    return after, len(failed)


def retry_tasks(tx: CrawlTx, task_ids: Sequence[TaskId], deadline: timedelta, *, actor: str, now: datetime) -> Handled:
    """These failed tasks are to be done after all."""

    def retry(task_id: TaskId) -> None:
        found = tx.tasks.get_many([task_id]).get(task_id)
        if found is None:
            raise TaskNotFound(task_id=task_id)
        # The run is held before its task, as everybody does.
        run, task = tx.executions.get(found.execution_id), tx.tasks.get(task_id) or found
        reopened = task.reopen(now)
        if run is None:
            raise ExecutionNotFound(execution_id=task.execution_id)
        again = _reopen(tx, run, [task], deadline, now)
        shown = _task(task, run), _task(reopened, again)
        tx.audit.record(AuditEntry(now, actor, "task.retry", "task", task_id, *shown))

    return each(task_ids, retry)


def _reopen(tx: CrawlTx, run: Execution, tasks: Sequence[Task], deadline: timedelta, now: datetime) -> Execution:
    """Reopen failed tasks of one run. One that had ended is a run like any other again: of an ACTIVE seller that has
    none going, and with a deadline of its own, counted from now.
    """
    if not run.is_open:
        seller = tx.sellers.get(run.seller_id)
        if seller is None:
            raise SellerNotFound(seller_id=run.seller_id)
        seller.must_be_active()
        going = tx.executions.open_of(run.seller_id)
        if going is not None:
            raise CrawlInProgress(seller_id=run.seller_id, execution_id=going.execution_id)
    reopen_tasks(tx, tasks, now)
    again = tx.executions.get(run.execution_id) or run
    if not run.is_open:
        again = replace(again, deadline_at=now + deadline)
        tx.executions.save(again)
    return again


def each(ids: Sequence[Id], handle: Callable[[Id], None]) -> Handled:
    """One by one. A refusal comes before anything of that one is written, so there is nothing to undo."""
    done: list[PublicId] = []
    refused: list[Refused] = []
    for id_ in dict.fromkeys(ids):
        try:
            handle(id_)
            done.append(id_)
        except (NotFound, Conflict) as error:
            refused.append(Refused(id_, error))
    return Handled(tuple(done), tuple(refused))


def _run(execution: Execution) -> dict[str, Any]:
    return {
        "status": execution.status,
        "totalTasksCreated": execution.total_tasks_created,
        "completedTasks": execution.completed_tasks,
        "failedTasks": execution.failed_tasks,
        "failure": None if execution.failure is None else execution.failure.code,
    }


def _task(task: Task, run: Execution) -> dict[str, Any]:
    return {
        "status": task.status,
        "failure": None if task.failure is None else task.failure.code,
        "executionStatus": run.status,
    }
