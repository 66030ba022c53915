"""Why? From a product, a task, a run or an event: one line of what led to it and what came of it."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from sellerwatch.crawling import story
from sellerwatch.kernel.ids import ExecutionId, ItemNo, OutboxId, TaskId
from sellerwatch.web.console.page import Page, show
from sellerwatch.web.console.sellers import number_of
from sellerwatch.web.console.visit import Viewer, Visit

router = APIRouter(route_class=Page, include_in_schema=False)


@router.get("/why/product/{item_no}")
async def why_product(item_no: int, visit: Viewer) -> Response:
    version = number_of(visit.asked("version")) or None
    told = await visit.read(lambda tx: story.of_product(tx, ItemNo.parse(item_no), version))
    return _show(visit, told, f"/products/{item_no}")


@router.get("/why/task/{task_id}")
async def why_task(task_id: str, visit: Viewer) -> Response:
    wanted = TaskId.parse(task_id)
    return _show(visit, await visit.read(lambda tx: story.of_task(tx, wanted)), "/tasks")


@router.get("/why/run/{execution_id}")
async def why_run(execution_id: str, visit: Viewer) -> Response:
    wanted = ExecutionId.parse(execution_id)
    return _show(visit, await visit.read(lambda tx: story.of_run(tx, wanted)), f"/executions/{wanted}")


@router.get("/why/event/{outbox_id}")
async def why_event(outbox_id: str, visit: Viewer) -> Response:
    wanted = OutboxId.parse(outbox_id)
    return _show(visit, await visit.read(lambda tx: story.of_message(tx, wanted)), f"/outbox/{wanted}")


def _show(visit: Visit, told: story.Story, back: str) -> Response:
    return show(visit, "why.html", told=told, back=back)
