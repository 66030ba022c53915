"""/api/v1/tasks: the single requests of runs, and what became of them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field, StrictBool, StrictStr

from sellerwatch.crawling import commands, queries
from sellerwatch.crawling.commands import MOST_RETRIED
from sellerwatch.crawling.ports import TaskFilter
from sellerwatch.crawling.task import TaskStatus, TaskType
from sellerwatch.crawling.views import A_TASK_ID, RetriedTasksView, RetriedTaskView, TaskAgesView, TaskView
from sellerwatch.kernel.bulk import BulkResultView
from sellerwatch.kernel.ids import ExecutionId, TaskId
from sellerwatch.kernel.views import CursorPageView
from sellerwatch.operations import dead_letters
from sellerwatch.operations.dead_letters import DeadLettersView
from sellerwatch.web.api.authorization import AdminSession, ViewerSession
from sellerwatch.web.api.context import parts_of
from sellerwatch.web.api.cursors import (
    CursorParameter,
    DryRun,
    ExecutionFilter,
    SellerFilter,
    one_way,
    seller_of,
    unreadable,
)
from sellerwatch.web.api.errors import refusals
from sellerwatch.web.api.models import PageSize, RequestModel
from sellerwatch.web.api.view_route import ViewRoute

router = APIRouter(prefix="/tasks", tags=["tasks"], route_class=ViewRoute)

TaskPath = Annotated[str, Path(alias="taskId", max_length=100, examples=[A_TASK_ID])]
TypeFilter = Annotated[TaskType | None, Query(alias="taskType")]


class RetryTasksBody(RequestModel):
    """By ids, or by a choice among all that failed: `allFailed`, or what narrows it."""

    task_ids: list[StrictStr] | None = Field(None, max_length=MOST_RETRIED, examples=[[A_TASK_ID]])
    all_failed: StrictBool = False
    execution_id: StrictStr | None = Field(None, max_length=100)
    seller_id: StrictStr | None = Field(None, max_length=100)
    task_type: TaskType | None = Field(None, strict=False)


class RedriveBody(RequestModel):
    """The dead letters of these tasks, or `all`."""

    task_ids: list[StrictStr] | None = Field(None, max_length=dead_letters.MOST_REDRIVEN, examples=[[A_TASK_ID]])
    all: StrictBool = False


@router.get("", responses=refusals(404))
async def list_tasks(
    session: ViewerSession,
    execution_id: ExecutionFilter = None,
    seller_id: SellerFilter = None,
    status: Annotated[TaskStatus | None, Query()] = None,
    task_type: TypeFilter = None,
    cursor: CursorParameter = None,
    size: PageSize = 20,
) -> CursorPageView[TaskView]:
    """Tasks, newest first. A page may be short and not the last: only `next: null` is the end."""
    return await session.ask(queries.list_tasks, _choice(execution_id, seller_id, status, task_type), cursor, size)


@router.post("/retry", responses=refusals(404))
async def retry_tasks(
    session: AdminSession, body: RetryTasksBody, dry_run: DryRun = False, cursor: CursorParameter = None
) -> RetriedTasksView:
    """Do failed tasks again: by their ids, or at most 500 of a choice, newest first; `next` leads to the others."""
    chosen = body.all_failed or any((body.execution_id, body.seller_id, body.task_type))
    one_way(body.task_ids, "taskIds", chosen=chosen)
    choice = _choice(body.execution_id, body.seller_id, TaskStatus.FAILED, body.task_type)
    if body.task_ids is None:
        return await session.run(commands.retry_chosen_tasks, choice, cursor, session.deadline, dry_run=dry_run)
    if cursor is not None:
        raise unreadable("cursor", "cursor_for_choice")
    task_ids = [TaskId.parse(task_id) for task_id in body.task_ids]
    return await session.run(commands.retry_tasks, task_ids, session.deadline, dry_run=dry_run)


@router.get("/ages")
async def list_task_ages(session: ViewerSession) -> TaskAgesView:
    """Tasks in each status by their age: what waits for long is stuck."""
    return await session.ask(queries.list_task_ages)


@router.get("/dead-letters", responses=refusals(409))
async def list_dead_letters(session: ViewerSession, request: Request, size: PageSize = 20) -> DeadLettersView:
    """Messages that the queue gave up, and why, by the rows of their tasks. Only with QUEUE `sqs`."""
    box = parts_of(request).service.crawl.dead_letters
    return await dead_letters.list_dead_letters(session, box, size)


@router.post("/dead-letters/redrive", responses=refusals(409))
async def redrive_dead_letters(
    session: AdminSession, request: Request, body: RedriveBody, dry_run: DryRun = False
) -> BulkResultView:
    """Do the tasks of dead letters again and remove the letters."""
    one_way(body.task_ids, "taskIds", chosen=body.all)
    task_ids = None if body.task_ids is None else [TaskId.parse(task_id) for task_id in body.task_ids]
    box = parts_of(request).service.crawl.dead_letters
    return await dead_letters.redrive_dead_letters(session, box, task_ids, dry_run=dry_run)


@router.get("/{taskId}", responses=refusals(404))
async def show_task(session: ViewerSession, task_id: TaskPath) -> TaskView:
    """One task, with everything that is known of it."""
    return await session.ask(queries.show_task, TaskId.parse(task_id))


@router.post("/{taskId}/retry", responses=refusals(404, 409))
async def retry_task(session: AdminSession, task_id: TaskPath, dry_run: DryRun = False) -> RetriedTaskView:
    """Do a failed task again, with a fresh count of retries."""
    return await session.run(commands.retry_task, TaskId.parse(task_id), session.deadline, dry_run=dry_run)


def _choice(
    execution_id: str | None, seller_id: str | None, status: TaskStatus | None, task_type: TaskType | None
) -> TaskFilter:
    run = None if execution_id is None else ExecutionId.parse(execution_id)
    return TaskFilter(run, seller_of(seller_id), status, task_type)
