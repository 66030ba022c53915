"""Why? One story from whatever a person looks at: who started the run, what was asked by whom, what changed because of
it, which event told it, and what the receiver answered.

Put together from what each step left behind; nothing was written for it. What was forgotten in time (requests after
USAGE_LOG_DAYS, delivered events after OUTBOX_KEPT_DAYS) is missing from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sellerwatch.agents.agent import Agent
from sellerwatch.catalog.ports import HistoryEntry
from sellerwatch.catalog.product import Product
from sellerwatch.catalog.queries import find_product
from sellerwatch.crawling.execution import Execution, ExecutionNotFound
from sellerwatch.crawling.task import Task, TaskNotFound
from sellerwatch.kernel.ids import ExecutionId, ItemNo, OutboxId, SellerId, TaskId
from sellerwatch.outbox.message import Message
from sellerwatch.outbox.queries import find_message
from sellerwatch.outbox.receipt import Attempt
from sellerwatch.reports.dashboard import Asked
from sellerwatch.reports.ports import ReportsTx
from sellerwatch.schedules.schedule import Schedule
from sellerwatch.sellers.seller import Seller

MOST_ATTEMPTS = 20
#: The log's line of a request is written when its answer is absorbed, a little after the task was started.
AROUND = timedelta(seconds=30)
MOST_REQUESTS = 500


@dataclass(frozen=True)
class Step:
    """A task, the agent it was last given to, and the line of the log nearest to it: which one of several an agent
    made in the same moment it was, nobody wrote down."""

    task: Task
    agent: Agent | None = None
    asked: Asked | None = None


@dataclass(frozen=True)
class Telling:
    message: Message
    attempts: Sequence[Attempt] = ()


@dataclass(frozen=True)
class Trace:
    """Whatever is not known is empty."""

    seller_id: SellerId
    seller: Seller | None = None
    schedule: Schedule | None = None
    started: tuple[datetime, str] | None = None
    execution: Execution | None = None
    steps: Sequence[Step] = ()
    product: Product | None = None
    changes: Sequence[HistoryEntry] = ()
    tellings: Sequence[Telling] = field(default_factory=tuple)


def of_task(tx: ReportsTx, task_id: TaskId) -> Trace:
    task = tx.tasks.get(task_id)
    if task is None:
        raise TaskNotFound(task_id=task_id)
    return _story(tx, task.seller_id, task.execution_id, task.item_no, only=task)


def of_run(tx: ReportsTx, execution_id: ExecutionId) -> Trace:
    run = tx.executions.get(execution_id)
    if run is None:
        raise ExecutionNotFound(execution_id=execution_id)
    return _story(tx, run.seller_id, execution_id, None)


def of_message(tx: ReportsTx, outbox_id: OutboxId) -> Trace:
    _, message = find_message(tx, outbox_id)
    return _story(tx, message.seller_id, message.execution_id, message.item_no, message=message)


def of_product(tx: ReportsTx, item_no: ItemNo, version: int | None = None) -> Trace:
    """Of a version, or of the last one."""
    product = find_product(tx, item_no)
    entries = tx.history.of_product(product.product_id)
    chosen = next((e for e in reversed(entries) if version is None or e.version == version), None)
    run = product.last_seen_execution if chosen is None else chosen.execution_id
    return _story(tx, product.seller_id, run, item_no, entry=chosen)


def _story(
    tx: ReportsTx,
    seller_id: SellerId,
    execution_id: ExecutionId | None,
    item_no: ItemNo | None,
    *,
    only: Task | None = None,
    message: Message | None = None,
    entry: HistoryEntry | None = None,
) -> Trace:
    product = None if item_no is None else tx.products.of_items([item_no]).get(item_no)
    entries = [] if product is None or (only is not None and only.item_no is None) else _entries(tx, product)
    if entry is not None:
        chosen = [entry]
    elif message is not None:
        chosen = [e for e in entries if e.outbox_id == message.outbox_id]
    else:
        chosen = [e for e in entries if e.execution_id == execution_id]
    told = [message] if message is not None else _messages(tx, chosen)
    tasks = [only] if only is not None else []
    if not tasks and execution_id is not None and item_no is not None:
        tasks = list(tx.dashboard.tasks_of_item(execution_id, item_no))
    return Trace(
        seller_id=seller_id,
        seller=tx.sellers.get(seller_id),
        schedule=tx.schedules.of_seller(seller_id),
        started=None if execution_id is None else tx.dashboard.audit_of_run(seller_id, execution_id),
        execution=None if execution_id is None else tx.executions.get(execution_id),
        steps=[_step(tx, task) for task in tasks],
        product=product,
        changes=chosen,
        tellings=[Telling(one, tx.attempts.of(one.outbox_id, MOST_ATTEMPTS)) for one in told],
    )


def _entries(tx: ReportsTx, product: Product) -> Sequence[HistoryEntry]:
    return tx.history.of_product(product.product_id)


def _messages(tx: ReportsTx, entries: Sequence[HistoryEntry]) -> Sequence[Message]:
    ids = list(dict.fromkeys(entry.outbox_id for entry in entries if entry.outbox_id is not None))
    return tx.product_outbox.get_many(ids) if ids else ()


def _step(tx: ReportsTx, task: Task) -> Step:
    if task.agent_row is None or task.started_at is None:
        return Step(task)
    end = (task.completed_at or task.started_at) + AROUND
    asked = tx.dashboard.asked(task.agent_row, task.started_at, end, MOST_REQUESTS)
    over = task.completed_at or task.started_at
    nearest = min(asked, key=lambda one: abs(one.at - over), default=None)
    return Step(task, tx.agents.get_rows([task.agent_row]).get(task.agent_row), nearest)
