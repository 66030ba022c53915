"""What can be seen of runs and their tasks, and why an open run makes no progress.

That cause is computed from the present state at each query, so it is never out of date and nothing is stored for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from sellerwatch.agents.marketplace_circuit import Endpoint, MarketplaceCircuit
from sellerwatch.agents.no_agent import why_no_agent
from sellerwatch.agents.ports import Pause
from sellerwatch.catalog.quarantine import problem_kind_text
from sellerwatch.crawling.execution import Execution, ExecutionNotFound, ExecutionStatus
from sellerwatch.crawling.ports import CrawlTx, NoteKind, TaskFilter
from sellerwatch.crawling.recheck import recheck_at
from sellerwatch.crawling.task import ENDPOINTS, OPEN_STATES, Task, TaskNotFound, TaskStatus, TaskType
from sellerwatch.crawling.views import (
    ChangedFieldView,
    ExecutionDetailView,
    ListedExecutionView,
    StatusAgesView,
    TaskAgesView,
    TaskView,
    UnreadableView,
    execution_fields,
)
from sellerwatch.kernel.answer_problem import AnswerProblem
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.failure import Failure, FailureCode
from sellerwatch.kernel.failure_view import FailureCountView, WaitingView, error_message
from sellerwatch.kernel.ids import ExecutionId, SellerId, TaskId
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.paging import decode_cursor, page_view
from sellerwatch.kernel.views import CursorPageView
from sellerwatch.kernel.wording import failure_text
from sellerwatch.sellers.queries import require_seller

EXECUTIONS, TASKS = "executions", "tasks"
#: Ages by which tasks are counted.
TASK_AGES = (timedelta(minutes=10), timedelta(hours=1), timedelta(days=1))
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
    causes = causes_of_waiting(tx, page.content, context.now)
    return page_view(
        EXECUTIONS,
        page,
        lambda run: ListedExecutionView.of_waiting(run, causes.get(run.execution_id), context.language),
    )


def list_task_ages(tx: CrawlTx, context: OperationContext) -> TaskAgesView:
    """Count the tasks in each status by their age: what waits for long is stuck."""
    found = tx.task_queries.ages([context.now - age for age in TASK_AGES])
    return TaskAgesView(
        [
            StatusAgesView(
                status,
                found[status].number,
                found[status].oldest_at,
                *(after - before for before, after in pairwise((0, *found[status].made_since, found[status].number))),
            )
            for status in TaskStatus
            if status in found
        ]
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
        waiting=WaitingView.of(causes_of_waiting(tx, [run], context.now).get(execution_id), language),
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


#: Failures of a start that a new token may end.
NEEDS_TOKEN = (FailureCode.NO_FREE_AGENT, FailureCode.NO_SESSION, FailureCode.TOKEN_REJECTED)


@dataclass(frozen=True)
class _Marketplace:
    """What may keep runs waiting, read once for all of them. `rate`: available agents in percent, while the pool's
    breaker is open. `no_agent`: why no agent can be asked, while none can."""

    pauses: Mapping[SellerId | None, Pause]
    away: Mapping[Endpoint, MarketplaceCircuit]
    rate: str | None
    no_agent: Failure | None


def causes_of_waiting(tx: CrawlTx, runs: Iterable[Execution], now: datetime) -> dict[ExecutionId, Failure]:
    """Return the cause for each of these runs that waits. A run that is over, or at work, has none."""
    open_runs = [run for run in runs if run.is_open]
    if not open_runs:
        return {}
    marketplace = _look(tx, now)
    causes = ((run.execution_id, _cause(tx, run, marketplace)) for run in open_runs)
    return {execution_id: cause for execution_id, cause in causes if cause is not None}


def _look(tx: CrawlTx, now: datetime) -> _Marketplace:
    circuits = tx.marketplace.circuits().items()
    rate = None
    if tx.circuits.breaker().state is not CircuitState.CLOSED:
        available, total = tx.agents.tally()
        rate = f"{100 * available / total if total else 0.0:.2f}"
    return _Marketplace(
        pauses={pause.seller_id: pause for pause in tx.marketplace.pauses()},
        away={endpoint: circuit for endpoint, circuit in circuits if not circuit.is_closed},
        rate=rate,
        no_agent=why_no_agent(tx.pool_report.agents(), now),
    )


def _cause(tx: CrawlTx, run: Execution, marketplace: _Marketplace) -> Failure | None:
    """Return why a run waits. A pause by an operator comes first."""
    pause = marketplace.pauses.get(None) or marketplace.pauses.get(run.seller_id)
    if pause is not None:
        return Failure.of(FailureCode.MARKETPLACE_PAUSED, pause.paused_at)
    if run.waits_to_start:
        return _away_from_start(run, marketplace) or run.failure
    began = run.started_at or run.created_at
    paused = pause_failure(tx.run_notes.of(run.execution_id), began)
    if paused is not None:
        return paused
    needed: set[Endpoint] = set()
    is_at_work = False
    if marketplace.away or marketplace.no_agent is not None:
        tally = tx.run_tasks.tally(run.execution_id)
        needed = {ENDPOINTS[TaskType(type_)] for (type_, status) in tally if TaskStatus(status) in OPEN_STATES}
        # While agents with a valid token work for the run, it does not wait for new ones.
        is_at_work = any(TaskStatus(status) is TaskStatus.IN_PROGRESS for _, status in tally)
        for endpoint in (*sorted(needed), Endpoint.TOKEN):
            if endpoint in marketplace.away and not (endpoint is Endpoint.TOKEN and is_at_work):
                circuit = marketplace.away[endpoint]
                return _away(circuit, circuit.since or began)
    if marketplace.rate is not None:
        return Failure.of(FailureCode.POOL_BREAKER_OPEN, began, rate=marketplace.rate)
    if marketplace.no_agent is not None and needed and not is_at_work:
        return marketplace.no_agent
    return None


def pause_failure(notes: Mapping[NoteKind, Mapping[str, int]], began: datetime) -> Failure | None:
    """Return why a run is paused, from its notes; None for one that is not. A reason from before
    problems had codes is a sentence itself."""
    found = next(iter(notes[NoteKind.PAUSED].items()), None)
    if found is None:
        return None
    stored, answers = found
    problem = AnswerProblem.read(stored)
    facts = {"problem": stored} if problem is None else problem.failure_facts
    return Failure.of(FailureCode.RUN_PAUSED, began, answers=answers, **facts)


def _away_from_start(run: Execution, marketplace: _Marketplace) -> Failure | None:
    """What keeps a start waiting now may have begun after its last try. The token page matters where that found no
    agent with a token that is accepted."""
    needed = [Endpoint.LIST]
    if run.failure_code in NEEDS_TOKEN:
        needed.append(Endpoint.TOKEN)
    away = next((marketplace.away[endpoint] for endpoint in needed if endpoint in marketplace.away), None)
    return None if away is None else _away(away, away.since or run.created_at)


def _away(circuit: MarketplaceCircuit, since: datetime) -> Failure:
    return Failure.because(circuit.failure, FailureCode.CIRCUIT_OPEN, since, endpoint=circuit.endpoint)
