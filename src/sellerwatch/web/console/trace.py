"""Why? From a product, a task, a run or an event: one line of what led to it and what came of it."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from sellerwatch.kernel.ids import ExecutionId, ItemNo, OutboxId, TaskId
from sellerwatch.reports import trace
from sellerwatch.web.console.page_request import Viewer, Visit
from sellerwatch.web.console.rendering import PageRoute, show
from sellerwatch.web.console.sellers import number_of

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/why/product/{item_no}")
async def why_product(item_no: int, visit: Viewer) -> Response:
    version = number_of(visit.asked("version")) or None
    told = await visit.read(lambda tx: trace.of_product(tx, ItemNo.parse(item_no), version))
    return _show(visit, told, f"/products/{item_no}")


@router.get("/why/task/{task_id}")
async def why_task(task_id: str, visit: Viewer) -> Response:
    wanted = TaskId.parse(task_id)
    return _show(visit, await visit.read(lambda tx: trace.of_task(tx, wanted)), "/tasks")


@router.get("/why/run/{execution_id}")
async def why_run(execution_id: str, visit: Viewer) -> Response:
    wanted = ExecutionId.parse(execution_id)
    return _show(visit, await visit.read(lambda tx: trace.of_run(tx, wanted)), f"/executions/{wanted}")


@router.get("/why/event/{outbox_id}")
async def why_event(outbox_id: str, visit: Viewer) -> Response:
    wanted = OutboxId.parse(outbox_id)
    return _show(visit, await visit.read(lambda tx: trace.of_message(tx, wanted)), f"/outbox/{wanted}")


def _show(visit: Visit, told: trace.Trace, back: str) -> Response:
    return show(visit, "why.html", told=told, back=back)
