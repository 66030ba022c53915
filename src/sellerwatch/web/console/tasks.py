"""Tasks: the single requests of runs. One of them leads to its story, where everything about it stands."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from sellerwatch.crawling.commands import retry_tasks
from sellerwatch.crawling.ports import TaskFilter
from sellerwatch.crawling.task import Task, TaskNotFound, TaskStatus, TaskType
from sellerwatch.kernel.bulk import BulkResult
from sellerwatch.kernel.ids import ExecutionId, TaskId
from sellerwatch.kernel.paging import decode_cursor, encode_cursor
from sellerwatch.operations.ports import ServiceTx
from sellerwatch.web.api.context import Desk
from sellerwatch.web.api.cursors import seller_of
from sellerwatch.web.api.tasks import AT_ONCE, LIST
from sellerwatch.web.console import tables
from sellerwatch.web.console.page_request import Admin, Viewer, Visit
from sellerwatch.web.console.rendering import PageRoute, go, show
from sellerwatch.web.console.tables import Confirm, Filter, Table, seller_page

router = APIRouter(route_class=PageRoute, include_in_schema=False)

COLUMNS = (
    "col.task",
    "col.type",
    "col.status",
    "col.seller",
    "col.about",
    "col.tries",
    "col.agent",
    "col.cause",
    "col.made",
    "col.ended",
)


def _choice(visit: Visit, given: dict[str, str]) -> TaskFilter:
    run, status, kind = given["execution"], given["status"], given["type"]
    return TaskFilter(
        ExecutionId.parse(run) if run else None,
        seller_of(given["seller"] or None),
        TaskStatus(status) if status in list(TaskStatus) else None,
        TaskType(kind) if kind in list(TaskType) else None,
    )


@router.get("/tasks")
async def tasks(visit: Viewer) -> Response:
    given = {name: visit.asked(name) for name in ("seller", "status", "type", "execution")}
    choice, place = _choice(visit, given), decode_cursor(LIST, visit.place("cursor"))
    piece = await visit.read(lambda tx: tx.task_queries.page(choice, place, visit.rows))
    cursor = encode_cursor(LIST, piece.next)
    table = Table(
        "tasks",
        COLUMNS,
        [_row(visit, task) for task in piece.content],
        "tasks.none_found" if any(given.values()) else "tasks.empty",
        next=visit.link(cursor=cursor) if cursor else None,
        caption="nav.tasks",
    )
    fields = [
        Filter("seller", "col.seller_id", given["seller"]),
        Filter("status", "col.status", given["status"], [(s, f"status.{s}") for s in TaskStatus]),
        Filter("type", "col.type", given["type"], [(t, f"type.{t}") for t in TaskType]),
        Filter("execution", "col.run", given["execution"]),
    ]
    buttons = []
    if given["status"] == TaskStatus.FAILED and piece.content:
        wanted = "&".join(f"{name}={value}" for name, value in given.items() if value and name != "status")
        buttons = [(f"/tasks/retry?{wanted}", "tasks.retry_all")]
    return show(
        visit,
        "list.html",
        title="nav.tasks",
        lead="tasks.lead",
        table=table,
        fields=fields,
        live="execution task",
        buttons=buttons,
    )


def _row(visit: Visit, task: Task) -> tuple[tables.Cell, ...]:
    about = tables.text(task.item_no, f"/products/{task.item_no}")
    if task.item_no is None:
        about = tables.said("tasks.page", n=(task.page_no or 0) + 1)
    return (
        tables.code(task.task_id, f"/why/task/{task.task_id}"),
        tables.pill(task.task_type, "type"),
        tables.pill(task.status),
        tables.text(task.seller_id, seller_page(task.seller_id)),
        about,
        tables.number(task.requests_made),
        tables.text(None if task.agent_row is None else f"#{task.agent_row}", f"/agents/{task.agent_row}"),
        tables.sentence(visit.failure(task.failure) or visit.note(task.note)),
        tables.when(task.created_at),
        tables.when(task.completed_at),
    )


@router.get("/tasks/retry")
async def confirm_retry(visit: Admin) -> Response:
    """All failed ones of a choice: how many, of whom."""
    given = {name: visit.asked(name) for name in ("seller", "type", "execution")} | {"status": TaskStatus.FAILED.value}
    choice = _choice(visit, given)
    counts = await visit.read(lambda tx: tx.task_queries.count(choice))
    return show(
        visit,
        "confirm.html",
        confirm=Confirm(
            "retry.title",
            "/tasks/retry",
            "retry.button",
            [
                ("retry.what", {"n": sum(counts.values()), "sellers": len({seller for seller, _ in counts})}),
                ("retry.most", {"n": AT_ONCE}),
            ],
            "/tasks?status=FAILED",
            hidden={name: value for name, value in given.items() if value},
            danger=False,
        ),
    )


@router.post("/tasks/retry")
async def retry(visit: Admin) -> Response:
    given = {name: visit.form.get(name, "") for name in ("seller", "type", "execution")}
    choice = _choice(visit, given | {"status": TaskStatus.FAILED.value})
    deadline = visit.parts.service.crawl.deadline

    def work(tx: ServiceTx, desk: Desk) -> BulkResult:
        found = tx.task_queries.page(choice, None, AT_ONCE).content
        return retry_tasks(tx, [task.task_id for task in found], deadline, actor=desk.actor, now=desk.now)

    handled = await visit.change(work)
    return go(visit, "/tasks?status=FAILED", "tasks.reopened_some", n=len(handled.done), refused=len(handled.refused))


@router.post("/tasks/{task_id}/retry")
async def retry_one(task_id: str, visit: Admin) -> Response:
    wanted, deadline = TaskId.parse(task_id), visit.parts.service.crawl.deadline

    def work(tx: ServiceTx, desk: Desk) -> None:
        if tx.tasks.get(wanted) is None:
            raise TaskNotFound(task_id=wanted)
        handled = retry_tasks(tx, [wanted], deadline, actor=desk.actor, now=desk.now)
        if handled.refused:
            raise handled.refused[0].error

    await visit.change(work)
    return go(visit, f"/why/task/{wanted}", "tasks.reopened", n=1)
