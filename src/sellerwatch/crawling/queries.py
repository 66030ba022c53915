"""What can be seen of runs and their tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sellerwatch.catalog.quarantine import problem_kind_text
from sellerwatch.crawling.execution import Execution, ExecutionNotFound, ExecutionStatus
from sellerwatch.crawling.ports import CrawlTx, NoteKind, TaskFilter
from sellerwatch.crawling.recheck import recheck_at
from sellerwatch.crawling.task import Task, TaskNotFound
from sellerwatch.crawling.views import (
    ChangedFieldView,
    ExecutionDetailView,
    ListedExecutionView,
    TaskView,
    UnreadableView,
    execution_fields,
)
from sellerwatch.crawling.waiting import causes_of_waiting, pause_failure
from sellerwatch.kernel.failure_view import FailureCountView, WaitingView, error_message
from sellerwatch.kernel.ids import ExecutionId, SellerId, TaskId
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.paging import decode_cursor, page_view
from sellerwatch.kernel.views import CursorPageView
from sellerwatch.kernel.wording import failure_text
from sellerwatch.sellers.queries import require_seller

EXECUTIONS, TASKS = "executions", "tasks"
#: Causes of failed tasks that are shown of one run, the most frequent first.
MOST_ERRORS = 20


def list_executions(
    tx: CrawlTx,
    context: OperationContext,
    seller_id: SellerId | None,
    status: ExecutionStatus | None,
    cursor: str | None,
    size: int,
) -> CursorPageView[ListedExecutionView]:
    """List runs, newest first, with why each makes no progress where it waits."""
    require_seller(tx, seller_id)
    position = decode_cursor(EXECUTIONS, cursor)
    page = tx.execution_queries.page(seller_id=seller_id, status=status, cursor=position, limit=size)
    causes = causes_of_waiting(tx, page.content)
    return page_view(
        EXECUTIONS,
        page,
        lambda run: ListedExecutionView.of_waiting(run, causes.get(run.execution_id), context.language),
    )


def show_execution(tx: CrawlTx, context: OperationContext, execution_id: ExecutionId) -> ExecutionDetailView:
    """Show a run: how far it is, its tasks by type and state, what it found changed, and its errors by cause."""
    run, language = find_execution(tx, execution_id), context.language
    if run.is_open:
        run = run.count_products(tx.changes.found_by(execution_id, run.seller_id, run.started_at or run.created_at))
    notes = tx.run_notes.of(execution_id)
    tasks: dict[str, dict[str, int]] = {}
    for (task_type, status), number in sorted(tx.run_tasks.tally(execution_id).items()):
        tasks.setdefault(task_type, {})[status] = number
    errors = [
        FailureCountView(failure.code, failure.blame, failure_text(failure, language), count)
        for failure, count in tx.run_tasks.failures(execution_id, MOST_ERRORS)
    ]
    return ExecutionDetailView(
        **execution_fields(run, language),
        waiting=WaitingView.of(causes_of_waiting(tx, [run]).get(execution_id), language),
        tasks=tasks,
        errors=errors,
        paused=error_message(pause_failure(notes, run.created_at), language) if run.is_open else None,
        recheck_at=recheck_at(tx, notes) if run.is_open else None,
        judged=dict(sorted(notes[NoteKind.JUDGED].items())),
        changed_fields=[_changed_field(name, number) for name, number in _most_frequent(notes[NoteKind.CHANGED])],
        unreadable=[_unreadable(name, count, language) for name, count in _most_frequent(notes[NoteKind.UNREADABLE])],
        foreign_items=len(notes[NoteKind.FOREIGN]),
    )


def list_tasks(
    tx: CrawlTx, context: OperationContext, choice: TaskFilter, cursor: str | None, size: int
) -> CursorPageView[TaskView]:
    """List tasks, newest first. A page may be short and not the last: only `next: null` is the end."""
    check_choice(tx, choice)
    page = tx.task_queries.page(choice, decode_cursor(TASKS, cursor), size)
    return page_view(TASKS, page, lambda task: TaskView.of(task, context.language))


def show_task(tx: CrawlTx, context: OperationContext, task_id: TaskId) -> TaskView:
    """Show a task with everything that is known of it."""
    return TaskView.of(find_task(tx, task_id), context.language)


@dataclass(frozen=True)
class FollowedRuns:
    """Runs that a progress display follows, and whether any of them is running and not paused."""

    runs: list[Execution]
    is_any_working: bool


def follow_runs(tx: CrawlTx, _: OperationContext, execution_ids: Sequence[ExecutionId]) -> FollowedRuns:
    """Return these runs as they are now, for a progress display."""
    found = [run for run in map(tx.executions.get, execution_ids) if run is not None]
    working = {run.execution_id for run in tx.executions.at_work()}
    return FollowedRuns(found, any(run.execution_id in working for run in found))


def saw_everything(tx: CrawlTx, _: OperationContext, execution_id: ExecutionId) -> bool:
    """Return whether every task of a run succeeded and it saw as many products as the list stated."""
    run = find_execution(tx, execution_id)
    seen = tx.products.list_counts(run.seller_id, execution_id).seen
    return run.all_succeeded and seen >= (run.list_total or 0)


def find_execution(tx: CrawlTx, execution_id: ExecutionId) -> Execution:
    """Return a run; raise where there is none of that id."""
    run = tx.executions.get(execution_id)
    if run is None:
        raise ExecutionNotFound(execution_id=execution_id)
    return run


def find_task(tx: CrawlTx, task_id: TaskId) -> Task:
    """Return a task; raise where there is none of that id."""
    task = tx.tasks.get(task_id)
    if task is None:
        raise TaskNotFound(task_id=task_id)
    return task


def check_choice(tx: CrawlTx, choice: TaskFilter) -> None:
    """Raise where a choice of tasks names a seller or a run that does not exist."""
    require_seller(tx, choice.seller_id)
    if choice.execution_id is not None:
        find_execution(tx, choice.execution_id)


def _changed_field(name: str, products: int) -> ChangedFieldView:
    """Read a note of the form `PART field`."""
    part, _, field = name.partition(" ")
    return ChangedFieldView(part, field, products)


def _unreadable(kind: str, count: int, language: str) -> UnreadableView:
    sentence = problem_kind_text(kind, language)
    return UnreadableView(sentence, sentence, count)


def _most_frequent(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda each: (-each[1], each[0]))
