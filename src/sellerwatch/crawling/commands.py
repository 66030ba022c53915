"""What people and callers can do to runs and tasks. Each command is one transaction, and each change is on the audit
trail.

Several tasks are handled one by one: a refusal is returned with the result and does not stop the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sellerwatch.crawling.absorb_batch import CrawlRules
from sellerwatch.crawling.execution import CrawlInProgress, Execution
from sellerwatch.crawling.ports import CrawlTx, TaskFilter
from sellerwatch.crawling.put_back import cancel_execution as end_run
from sellerwatch.crawling.put_back import reopen_tasks
from sellerwatch.crawling.queries import TASKS, check_choice, find_execution, find_task
from sellerwatch.crawling.save_execution import save_execution
from sellerwatch.crawling.task import OPEN_STATES, Task, TaskNotFound, TaskStatus
from sellerwatch.crawling.views import (
    CancelledExecutionView,
    RetriedExecutionView,
    RetriedTasksView,
    RetriedTaskView,
    execution_fields,
    task_fields,
)
from sellerwatch.kernel.bulk import BulkResult, handle_each, refused_views
from sellerwatch.kernel.errors import Conflict
from sellerwatch.kernel.failure import Failure, FailureCode
from sellerwatch.kernel.ids import ExecutionId, SellerId, TaskId
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.paging import decode_cursor, encode_cursor
from sellerwatch.kernel.wording import failure_text
from sellerwatch.oversight.audit import AuditEntry, record_audit
from sellerwatch.sellers.seller import SellerNotFound

#: Failed tasks that one command reopens: a running service waits for the transaction.
MOST_RETRIED = 500


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
    """A run that was ended. Requests `in_flight` finish, and their answers are still used."""

    execution: Execution
    cancelled: int
    in_flight: int


def cancel_execution(
    tx: CrawlTx, context: OperationContext, execution_id: ExecutionId, rules: CrawlRules, *, dry_run: bool = False
) -> CancelledExecutionView:
    """End an open run: its waiting tasks are cancelled, those in flight finish."""
    run = _open_execution(tx, execution_id)
    if dry_run:
        by_status: Counter[str] = Counter()
        for (_, status), number in tx.run_tasks.tally(execution_id).items():
            by_status[status] += number
        in_flight = by_status[TaskStatus.IN_PROGRESS]
        waiting = sum(by_status[status] for status in OPEN_STATES) - in_flight
        ended = Cancelled(run, waiting, in_flight)
    else:
        ended = cancel(tx, execution_id, rules, actor=context.actor, ids=context.ids, now=context.now)
    return cancelled_view(ended, context.language, dry_run=dry_run)


def cancelled_view(ended: Cancelled, language: str, *, dry_run: bool) -> CancelledExecutionView:
    """Return a run that was ended as people and callers see it."""
    return CancelledExecutionView(
        **execution_fields(ended.execution, language),
        dry_run=dry_run,
        cancelled_tasks=ended.cancelled,
        tasks_in_flight=ended.in_flight,
    )


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
    """End an open run for the reason `code`; part of other commands too."""
    before = _open_execution(tx, execution_id)
    in_flight = len(tx.run_tasks.open_of(execution_id, (TaskStatus.IN_PROGRESS,)))
    reason = Failure.of(code, now)
    after = end_run(tx, execution_id, reason, rules, ids, now)
    states = _execution_state(before), _execution_state(after)
    record_audit(
        tx, AuditEntry(now, actor, "execution.cancel", "execution", execution_id, *states, note=failure_text(reason))
    )
    return Cancelled(after, after.failed_tasks - before.failed_tasks, in_flight)


def retry_execution(
    tx: CrawlTx, context: OperationContext, execution_id: ExecutionId, deadline: timedelta, *, dry_run: bool = False
) -> RetriedExecutionView:
    """Reopen every failed task of a run. A run that had ended is running again."""
    before = find_execution(tx, execution_id)
    failed = tx.run_tasks.open_of(execution_id, (TaskStatus.FAILED,))
    if not failed:
        raise NothingToRetry(execution_id=execution_id)
    _check_reopening(tx, before)
    after = before
    if not dry_run:
        after = _reopen(tx, before, failed, deadline, context.now)
        states = _execution_state(before), _execution_state(after)
        note = f"{len(failed)} failed task(s) reopened"
        record_audit(
            tx, AuditEntry(context.now, context.actor, "execution.retry", "execution", execution_id, *states, note=note)
        )
    return RetriedExecutionView(
        **execution_fields(after, context.language), dry_run=dry_run, reopened_tasks=len(failed)
    )


def retry_task(
    tx: CrawlTx, context: OperationContext, task_id: TaskId, deadline: timedelta, *, dry_run: bool = False
) -> RetriedTaskView:
    """Reopen one failed task, with a fresh count of retries."""
    result = reopen_each(tx, context, [task_id], deadline, dry_run=dry_run)
    for refused in result.refused:
        raise refused.error
    return RetriedTaskView(**task_fields(find_task(tx, task_id), context.language), dry_run=dry_run)


def retry_tasks(
    tx: CrawlTx, context: OperationContext, task_ids: Sequence[TaskId], deadline: timedelta, *, dry_run: bool = False
) -> RetriedTasksView:
    """Reopen these failed tasks, each with a fresh count of retries."""
    tasks = list(tx.tasks.get_many(task_ids).values())
    result = reopen_each(tx, context, task_ids, deadline, dry_run=dry_run)
    return _retried(result, tasks, context.language, None, dry_run=dry_run)


def retry_chosen_tasks(
    tx: CrawlTx,
    context: OperationContext,
    choice: TaskFilter,
    cursor: str | None,
    deadline: timedelta,
    *,
    dry_run: bool = False,
) -> RetriedTasksView:
    """Reopen the failed tasks of a choice, at most `MOST_RETRIED`, newest first. A dry run counts the whole choice."""
    choice = replace(choice, status=TaskStatus.FAILED)
    check_choice(tx, choice)
    position = decode_cursor(TASKS, cursor)
    if dry_run:
        by_seller: Counter[str] = Counter()
        by_type: Counter[str] = Counter()
        for (seller_id, task_type), number in tx.task_queries.count(choice).items():
            by_seller[seller_id] += number
            by_type[task_type] += number
        return RetriedTasksView((), (), True, tasks=by_type.total(), by_seller=by_seller, by_type=by_type, next=None)
    page = tx.task_queries.page(choice, position, MOST_RETRIED)
    result = reopen_each(tx, context, [task.task_id for task in page.content], deadline)
    return _retried(result, page.content, context.language, encode_cursor(TASKS, page.next), dry_run=False)


def reopen_each(
    tx: CrawlTx, context: OperationContext, task_ids: Sequence[TaskId], deadline: timedelta, *, dry_run: bool = False
) -> BulkResult:
    """Reopen failed tasks one by one. A dry run checks each and changes nothing."""
    now = context.now
    #: The runs that a dry run would reopen: a seller has one open run at most.
    reopening: dict[SellerId, ExecutionId] = {}

    def retry(task_id: TaskId) -> None:
        found = tx.tasks.get_many([task_id]).get(task_id)
        if found is None:
            raise TaskNotFound(task_id=task_id)
        # The run is locked before its task, as everywhere.
        run = find_execution(tx, found.execution_id)
        task = tx.tasks.get(task_id) or found
        reopened = task.reopen(now)
        _check_reopening(tx, run)
        if dry_run:
            other = run.execution_id if run.is_refresh else reopening.setdefault(run.seller_id, run.execution_id)
            if not run.is_open and other != run.execution_id:
                raise CrawlInProgress(seller_id=run.seller_id, execution_id=other)
            return
        again = _reopen(tx, run, [task], deadline, now)
        states = _task_state(task, run), _task_state(reopened, again)
        record_audit(tx, AuditEntry(now, context.actor, "task.retry", "task", task_id, *states))

    return handle_each(task_ids, retry)


def _retried(
    result: BulkResult, tasks: Sequence[Task], language: str, next_: str | None, *, dry_run: bool
) -> RetriedTasksView:
    done = set(result.done)
    reopened = [task for task in tasks if task.task_id in done]
    return RetriedTasksView(
        result.done,
        refused_views(result, language),
        dry_run,
        tasks=len(result.done),
        by_seller=Counter(task.seller_id for task in reopened),
        by_type=Counter(task.task_type for task in reopened),
        next=next_,
    )


def _open_execution(tx: CrawlTx, execution_id: ExecutionId) -> Execution:
    run = find_execution(tx, execution_id)
    if not run.is_open:
        raise ExecutionOver(execution_id=execution_id, status=run.status)
    return run


def _check_reopening(tx: CrawlTx, run: Execution) -> None:
    """Raise where tasks of a run cannot be reopened. A run that has ended becomes open again, so its seller must be
    ACTIVE and, unless the run is a refresh, have no other open run."""
    if run.is_open:
        return
    seller = tx.sellers.get(run.seller_id)
    if seller is None:
        raise SellerNotFound(seller_id=run.seller_id)
    seller.must_be_active()
    other = None if run.is_refresh else tx.executions.open_of(run.seller_id)
    if other is not None:
        raise CrawlInProgress(seller_id=run.seller_id, execution_id=other.execution_id)


def _reopen(tx: CrawlTx, run: Execution, tasks: Sequence[Task], deadline: timedelta, now: datetime) -> Execution:
    """Reopen failed tasks of one run. A run that had ended gets a deadline of its own, counted from now."""
    reopen_tasks(tx, tasks, now)
    reopened = again = tx.executions.get(run.execution_id) or run
    if not run.is_open:
        again = replace(reopened, deadline_at=now + deadline)
        save_execution(tx, reopened, again)
    return again


def _execution_state(run: Execution) -> dict[str, Any]:
    return {
        "status": run.status,
        "totalTasksCreated": run.total_tasks_created,
        "completedTasks": run.completed_tasks,
        "failedTasks": run.failed_tasks,
        "failure": run.failure_code,
    }


def _task_state(task: Task, run: Execution) -> dict[str, Any]:
    return {
        "status": task.status,
        "failure": task.failure_code,
        "executionStatus": run.status,
    }
