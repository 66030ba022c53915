"""Why? The trace of a product, a task, a run or an event: the schedule, what started the run, the requests and the
agents that made them, what changed, the events, and the receiver's answers.

It is put together from rows that each step wrote for itself. Rows that were deleted by age are missing from it:
requests after USAGE_LOG_DAYS, delivered events after OUTBOX_KEPT_DAYS.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated

from sellerwatch.catalog.ports import HistoryEntry
from sellerwatch.catalog.product import Product, ProductState
from sellerwatch.catalog.product_views import HistoryEntryView, ProductEventView
from sellerwatch.catalog.queries import find_product
from sellerwatch.crawling.execution import Execution
from sellerwatch.crawling.task import Task
from sellerwatch.crawling.views import ExecutionView, TaskView
from sellerwatch.kernel.errors import Invalid, NotFound
from sellerwatch.kernel.ids import ExecutionId, InvalidId, ItemNo, OutboxId, PublicId, SellerId, TaskId
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.views import About, View
from sellerwatch.outbox.message import Message, MessageNotFound
from sellerwatch.outbox.queries import AttemptView, find_message, list_attempts
from sellerwatch.reports.ports import ReportsTx
from sellerwatch.schedules.queries import ScheduleView

MOST_ATTEMPTS = 20
#: The log's row of a request is written when its answer is absorbed, some time after the task was started.
LOG_DELAY = timedelta(seconds=30)
MOST_REQUESTS = 500


class TraceKind(StrEnum):
    """What an id names."""

    PRODUCT = "product"
    TASK = "task"
    RUN = "run"
    EVENT = "event"


@dataclass(eq=False)
class InvalidTraceId(Invalid):
    """A text that is neither an item number nor a UUID."""

    given: str


@dataclass(eq=False)
class TraceNotFound(NotFound):
    """No task, run or event has this id."""

    id: str


@dataclass(frozen=True)
class StartView(View):
    """When a run was started, and by whom."""

    at: datetime
    actor: Annotated[str, About(example="scheduler")]


@dataclass(frozen=True)
class RequestView(View):
    """A request to the marketplace, from the log."""

    at: datetime
    http_status_code: int | None
    duration_ms: int | None
    succeeded: bool
    too_many: Annotated[bool, About("The answer was 429.")]


@dataclass(frozen=True)
class TaskTraceView(View):
    """A task, the agent that made its last request, and the request. Of several requests that the agent made at about
    the same time, the one nearest to the task's end is shown."""

    task: TaskView
    user_agent: str | None
    request: RequestView | None


@dataclass(frozen=True)
class EventTraceView(ProductEventView):
    """An event with its last attempts, newest first."""

    attempts: Sequence[AttemptView]


@dataclass(frozen=True)
class TraceView(View):
    """Everything that led to one product, task, run or event, and what came of it. What is not known is null."""

    kind: TraceKind
    id: Annotated[str, About("The id that was given.")]
    seller_id: str
    seller_name: str | None
    item_no: int | None
    product_state: ProductState | None
    schedule: ScheduleView | None
    started: StartView | None
    execution: ExecutionView | None
    tasks: Sequence[TaskTraceView]
    changes: Sequence[HistoryEntryView]
    events: Sequence[EventTraceView]


@dataclass(frozen=True)
class _Subject:
    """Where a trace begins: what was named, and what is known from it at once."""

    kind: TraceKind
    id: str
    seller_id: SellerId
    execution_id: ExecutionId | None
    item_no: ItemNo | None = None
    task: Task | None = None
    message: Message | None = None
    entry: HistoryEntry | None = None


def why(tx: ReportsTx, context: OperationContext, given: str, version: int | None = None) -> TraceView:
    """Trace an item number, or the id of a task, a run or an event. `version` is one of a product; else its last."""
    subject = _find_subject(tx, given, version)
    run_id, item_no, language = subject.execution_id, subject.item_no, context.language
    run = None if run_id is None else tx.executions.get(run_id)
    seller, schedule = tx.sellers.get(subject.seller_id), tx.schedules.of_seller(subject.seller_id)
    product = None if item_no is None else tx.products.of_items([item_no]).get(item_no)
    changes = _changes(tx, subject, product)
    return TraceView(
        kind=subject.kind,
        id=subject.id,
        seller_id=subject.seller_id,
        seller_name=None if seller is None else seller.name,
        item_no=item_no,
        product_state=None if product is None else product.state,
        schedule=None if schedule is None else ScheduleView.of(schedule),
        started=None if run is None else _start(run),
        execution=None if run is None else ExecutionView.of(run, language),
        tasks=[_task_trace(tx, task, language) for task in _tasks(tx, subject)],
        changes=[HistoryEntryView.of(entry) for entry in changes],
        events=[_event_trace(tx, context, message) for message in _messages(tx, subject, changes)],
    )


def _start(run: Execution) -> StartView | None:
    if run.started_at is None or run.started_by is None:
        return None
    return StartView(run.started_at, run.started_by)


def _find_subject(tx: ReportsTx, given: str, version: int | None) -> _Subject:
    if given.isascii() and given.isdigit():
        return _product_subject(tx, ItemNo.parse(int(given[:30])), version)
    try:
        name = PublicId.parse(given)
    except InvalidId:
        raise InvalidTraceId(given=given[:100]) from None
    task = tx.tasks.get_many([TaskId(name)]).get(TaskId(name))
    if task is not None:
        return _Subject(TraceKind.TASK, name, task.seller_id, task.execution_id, task.item_no, task=task)
    run = tx.executions.get(ExecutionId(name))
    if run is not None:
        return _Subject(TraceKind.RUN, name, run.seller_id, run.execution_id)
    try:
        _, message = find_message(tx, OutboxId(name))
    except MessageNotFound:
        raise TraceNotFound(id=name) from None
    event = TraceKind.EVENT
    return _Subject(event, name, message.seller_id, message.execution_id, message.item_no, message=message)


def _product_subject(tx: ReportsTx, item_no: ItemNo, version: int | None) -> _Subject:
    product = find_product(tx, item_no)
    entries = tx.history.of_product(product.product_id)
    entry = next((each for each in reversed(entries) if version is None or each.version == version), None)
    run_id = product.last_seen_execution if entry is None else entry.execution_id
    return _Subject(TraceKind.PRODUCT, str(item_no), product.seller_id, run_id, item_no, entry=entry)


def _changes(tx: ReportsTx, subject: _Subject, product: Product | None) -> Sequence[HistoryEntry]:
    """Return the states of the product that belong to the trace."""
    if subject.entry is not None:
        return [subject.entry]
    if product is None:
        return []
    entries = tx.history.of_product(product.product_id)
    if subject.message is not None:
        return [entry for entry in entries if entry.outbox_id == subject.message.outbox_id]
    return [entry for entry in entries if entry.execution_id == subject.execution_id]


def _messages(tx: ReportsTx, subject: _Subject, changes: Sequence[HistoryEntry]) -> Sequence[Message]:
    if subject.message is not None:
        return [subject.message]
    ids = list(dict.fromkeys(entry.outbox_id for entry in changes if entry.outbox_id is not None))
    return tx.product_outbox.get_many(ids) if ids else ()


def _tasks(tx: ReportsTx, subject: _Subject) -> Sequence[Task]:
    if subject.task is not None:
        return [subject.task]
    if subject.execution_id is None or subject.item_no is None:
        return ()
    return tx.dashboard.tasks_of_item(subject.execution_id, subject.item_no)


def _event_trace(tx: ReportsTx, context: OperationContext, message: Message) -> EventTraceView:
    attempts = list_attempts(tx, context, message.outbox_id, MOST_ATTEMPTS).content
    return EventTraceView(**vars(ProductEventView.of(message, None)), attempts=attempts)


def _task_trace(tx: ReportsTx, task: Task, language: str) -> TaskTraceView:
    view = TaskView.of(task, language)
    if task.agent_row is None or task.started_at is None:
        return TaskTraceView(view, None, None)
    ended = task.completed_at or task.started_at
    requests = tx.dashboard.asked(task.agent_row, task.started_at, ended + LOG_DELAY, MOST_REQUESTS)
    nearest = min(requests, key=lambda each: abs(each.at - ended), default=None)
    agent = tx.agents.get_rows([task.agent_row]).get(task.agent_row)
    return TaskTraceView(
        view,
        None if agent is None else agent.user_agent,
        None
        if nearest is None
        else RequestView(nearest.at, nearest.status, nearest.milliseconds, nearest.succeeded, nearest.too_many),
    )
