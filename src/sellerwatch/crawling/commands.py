"""What an operator does by hand: each verb is one transaction, and each thing it changed is on the audit trail.

Several things at once are handled one by one: what is refused is reported beside what was done and keeps nothing else
from being done.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sellerwatch.crawling.absorb_batch import CrawlRules
from sellerwatch.crawling.execution import CrawlInProgress, Execution, ExecutionNotFound
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.crawling.put_back import cancel_execution, reopen_tasks
from sellerwatch.crawling.task import Task, TaskNotFound, TaskStatus
from sellerwatch.kernel.bulk import BulkResult, handle_each
from sellerwatch.kernel.errors import Conflict
from sellerwatch.kernel.failure import Failure, FailureCode
from sellerwatch.kernel.ids import ExecutionId, SellerId, TaskId
from sellerwatch.kernel.wording import failure_text
from sellerwatch.oversight.audit import AuditEntry
from sellerwatch.sellers import commands as seller_commands
from sellerwatch.sellers.seller import Seller, SellerNotFound


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
    in_flight = len(tx.run_tasks.open_of(execution_id, (TaskStatus.IN_PROGRESS,)))
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
    seller = seller_commands.deactivate(tx, seller_id, actor=actor, ids=ids, now=now)
    going = tx.executions.open_of(seller_id)
    if going is None:
        return seller, None
    code = FailureCode.SELLER_DEACTIVATED
    return seller, cancel(tx, going.execution_id, rules, actor=actor, ids=ids, now=now, code=code)


def retry_execution(
    tx: CrawlTx, execution_id: ExecutionId, deadline: timedelta, *, actor: str, now: datetime
) -> tuple[Execution, int]:
    """Every failed task of a run is to be done after all; says how many. A finished run is running again."""
    before = tx.executions.get(execution_id)
    if before is None:
        raise ExecutionNotFound(execution_id=execution_id)
    failed = tx.run_tasks.open_of(execution_id, (TaskStatus.FAILED,))
    if not failed:
        raise NothingToRetry(execution_id=execution_id)
    after = _reopen(tx, before, failed, deadline, now)
    shown = _run(before), _run(after)
    note = f"{len(failed)} failed task(s) reopened"
    tx.audit.record(AuditEntry(now, actor, "execution.retry", "execution", execution_id, *shown, note=note))
    return after, len(failed)


def retry_tasks(
    tx: CrawlTx, task_ids: Sequence[TaskId], deadline: timedelta, *, actor: str, now: datetime
) -> BulkResult:
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

    return handle_each(task_ids, retry)


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
