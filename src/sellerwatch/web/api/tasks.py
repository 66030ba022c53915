"""/api/v1/tasks: the single requests of runs, and what became of them."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field, StrictBool, StrictStr

from sellerwatch.crawling.commands import retry_tasks
from sellerwatch.crawling.execution import ExecutionNotFound
from sellerwatch.crawling.ports import TaskFilter
from sellerwatch.crawling.task import Purpose, Task, TaskNotFound, TaskStatus, TaskType
from sellerwatch.kernel.bulk import BulkResult
from sellerwatch.kernel.failure_view import failure_view, note_view
from sellerwatch.kernel.ids import ExecutionId, TaskId
from sellerwatch.kernel.paging import Cursor, decode_cursor, encode_cursor
from sellerwatch.operations.ports import ServiceTx
from sellerwatch.web.api.authorization import Admin, Viewer
from sellerwatch.web.api.context import Desk, parts_of
from sellerwatch.web.api.cursors import (
    CursorParameter,
    DryRun,
    RefusedOne,
    SellerFilter,
    cursor_page,
    known_seller,
    one_way,
    refused_of,
    seller_of,
    unreadable,
)
from sellerwatch.web.api.errors import language_of, refusals
from sellerwatch.web.api.models import CursorPage, FailureShown, PageSize, RequestModel, ResponseModel, Stamp

router = APIRouter(prefix="/tasks", tags=["tasks"])

LIST = "tasks"
#: Failed tasks that one call may reopen: a running service waits for the transaction.
AT_ONCE = 500
AN_ID = "0198c0de-0000-7000-8001-000000000001"

TaskPath = Annotated[str, Path(alias="taskId", max_length=100, examples=[AN_ID])]
TypeFilter = Annotated[TaskType | None, Query(alias="taskType")]
ExecutionFilter = Annotated[str | None, Query(alias="executionId", max_length=100, description="Only of this run.")]


class TaskShown(ResponseModel):
    task_id: str = Field(examples=[AN_ID])
    execution_id: str
    seller_id: str = Field(examples=["seller_12345"])
    task_type: TaskType
    purpose: Purpose
    item_no: int | None
    page_no: int | None
    request_url: str
    status: TaskStatus
    retry_count: int
    requests_made: int
    lost_leases: int
    error_message: str | None = Field(description="The failure as a sentence in the caller's language.")
    failure: FailureShown | None
    note: str | None = Field(description="What a completed task left out, as a sentence in the caller's language.")
    note_code: str | None = Field(examples=["STILL_ANSWERS"])
    created_at: Stamp
    available_at: Stamp | None
    published_at: Stamp | None
    started_at: Stamp | None
    completed_at: Stamp | None
    worker_id: str | None

    @classmethod
    def of(cls, task: Task, language: str) -> TaskShown:
        said = failure_view(task.failure, language) | note_view(task.note, language)
        return cls.model_validate(vars(task) | said)


class RetryTasksBody(RequestModel):
    """By ids, or by a choice among all that failed: `allFailed`, or what narrows it."""

    task_ids: list[StrictStr] | None = Field(None, max_length=AT_ONCE, examples=[[AN_ID]])
    all_failed: StrictBool = False
    execution_id: StrictStr | None = Field(None, max_length=100)
    seller_id: StrictStr | None = Field(None, max_length=100)
    task_type: TaskType | None = Field(None, strict=False)


class RetriedTasks(ResponseModel):
    """With `dryRun`: how many failed tasks the choice has. Else: what became of each. `next` leads to the rest."""

    dry_run: bool
    tasks: int
    by_seller: dict[str, int]
    by_type: dict[str, int]
    done: list[str]
    refused: list[RefusedOne]
    next: str | None


@router.get("", responses=refusals(404))
async def list_tasks(
    request: Request,
    _: Viewer,
    execution_id: ExecutionFilter = None,
    seller_id: SellerFilter = None,
    status: Annotated[TaskStatus | None, Query()] = None,
    task_type: TypeFilter = None,
    cursor: CursorParameter = None,
    size: PageSize = 20,
) -> CursorPage[TaskShown]:
    """Tasks, newest first. A slice may be short and not the last: only `next: null` is the end."""
    choice = _choice(execution_id, seller_id, status, task_type)
    place, language = decode_cursor(LIST, cursor), language_of(request)

    def work(tx: ServiceTx) -> CursorPage[TaskShown]:
        _must_be_known(tx, choice)
        return cursor_page(LIST, tx.task_queries.page(choice, place, size), lambda task: TaskShown.of(task, language))

    return await parts_of(request).read(work)


@router.post("/retry", responses=refusals(404))
async def retry_many(
    body: RetryTasksBody, request: Request, caller: Admin, dry_run: DryRun = False, cursor: CursorParameter = None
) -> RetriedTasks:
    """Do failed tasks after all: by their ids, or at most 500 of a choice, newest first; `next` leads to the others."""
    chosen = body.all_failed or any((body.execution_id, body.seller_id, body.task_type))
    one_way(body.task_ids, "taskIds", chosen=chosen)
    choice = _choice(body.execution_id, body.seller_id, TaskStatus.FAILED, body.task_type)
    named = None if body.task_ids is None else [TaskId.parse(task_id) for task_id in body.task_ids]
    if named is not None and (dry_run or cursor is not None):
        raise unreadable("taskIds", "dryRun and cursor are for a choice")
    place, parts = decode_cursor(LIST, cursor), parts_of(request)

    def count(tx: ServiceTx) -> RetriedTasks:
        _must_be_known(tx, choice)
        by_seller: Counter[str] = Counter()
        by_type: Counter[str] = Counter()
        for (seller, task_type), number in tx.task_queries.count(choice).items():
            by_seller[seller] += number
            by_type[task_type] += number
        return RetriedTasks(
            dry_run=True,
            tasks=by_type.total(),
            by_seller=by_seller,
            by_type=by_type,
            done=[],
            refused=[],
            next=None,
        )

    def work(tx: ServiceTx, desk: Desk) -> tuple[BulkResult, list[Task], Cursor | None]:
        if named is not None:
            known = tx.tasks.get_many(named)
            handled = retry_tasks(tx, named, parts.service.crawl.deadline, actor=desk.actor, now=desk.now)
            return handled, [known[task_id] for task_id in known if task_id in handled.done], None
        _must_be_known(tx, choice)
        piece = tx.task_queries.page(choice, place, AT_ONCE)
        ids = [task.task_id for task in piece.content]
        handled = retry_tasks(tx, ids, parts.service.crawl.deadline, actor=desk.actor, now=desk.now)
        done = set(handled.done)
        return handled, [task for task in piece.content if task.task_id in done], piece.next

    if dry_run:
        return await parts.read(count)
    handled, tasks, end = await parts.change(caller.actor, work)
    return RetriedTasks(
        dry_run=False,
        tasks=len(handled.done),
        by_seller=Counter(task.seller_id for task in tasks),
        by_type=Counter(task.task_type for task in tasks),
        done=list(handled.done),
        refused=refused_of(handled, request),
        next=encode_cursor(LIST, end),
    )


@router.get("/{taskId}", responses=refusals(404))
async def get_task(task_id: TaskPath, request: Request, _: Viewer) -> TaskShown:
    """One task, with everything that is known of it."""
    wanted, language = TaskId.parse(task_id), language_of(request)
    return await parts_of(request).read(lambda tx: TaskShown.of(_found(tx, wanted), language))


@router.post("/{taskId}/retry", responses=refusals(404, 409))
async def retry_task(task_id: TaskPath, request: Request, caller: Admin) -> TaskShown:
    """Do a failed task after all, with a fresh count of retries."""
    wanted, deadline = TaskId.parse(task_id), parts_of(request).service.crawl.deadline

    def work(tx: ServiceTx, desk: Desk) -> Task:
        handled = retry_tasks(tx, [wanted], deadline, actor=desk.actor, now=desk.now)
        if handled.refused:
            raise handled.refused[0].error
        return _found(tx, wanted)

    return TaskShown.of(await parts_of(request).change(caller.actor, work), language_of(request))


def _choice(
    execution_id: str | None, seller_id: str | None, status: TaskStatus | None, task_type: TaskType | None
) -> TaskFilter:
    run = None if execution_id is None else ExecutionId.parse(execution_id)
    return TaskFilter(run, seller_of(seller_id), status, task_type)


def _must_be_known(tx: ServiceTx, choice: TaskFilter) -> None:
    known_seller(tx, choice.seller_id)
    if choice.execution_id is not None and tx.executions.get(choice.execution_id) is None:
        raise ExecutionNotFound(execution_id=choice.execution_id)


def _found(tx: ServiceTx, task_id: TaskId) -> Task:
    task = tx.tasks.get(task_id)
    if task is None:
        raise TaskNotFound(task_id=task_id)
    return task
