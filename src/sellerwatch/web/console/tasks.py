"""Tasks: the single requests of runs. Each leads to its trace, which shows everything about it."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from sellerwatch.crawling import commands, queries
from sellerwatch.crawling.commands import MOST_RETRIED
from sellerwatch.crawling.ports import TaskFilter
from sellerwatch.crawling.task import TaskStatus, TaskType
from sellerwatch.crawling.views import StatusAgesView, TaskView
from sellerwatch.kernel.ids import ExecutionId, TaskId
from sellerwatch.web.api.cursors import seller_of
from sellerwatch.web.console import tables
from sellerwatch.web.console.page_request import Admin, Viewer, one_of
from sellerwatch.web.console.rendering import PageRoute, ask_first, go, show, show_list
from sellerwatch.web.console.tables import Columns, Filter, Table, seller_page

router = APIRouter(route_class=PageRoute, include_in_schema=False)


def _about(task: TaskView) -> tables.Cell:
    if task.item_no is None:
        return tables.said("tasks.page", n=(task.page_no or 0) + 1)
    return tables.text(task.item_no, f"/products/{task.item_no}")


TASKS: Columns[TaskView] = {
    "task": lambda task: tables.code(task.task_id, f"/why/task/{task.task_id}"),
    "type": lambda task: tables.pill(task.task_type, "type"),
    "status": lambda task: tables.pill(task.status),
    "seller": lambda task: tables.text(task.seller_id, seller_page(task.seller_id)),
    "about": _about,
    "tries": lambda task: tables.number(task.requests_made),
    "agent": lambda task: tables.text(None if task.agent is None else f"#{task.agent}", f"/agents/{task.agent}"),
    "cause": lambda task: tables.sentence(task.error_message or task.note),
    "made": lambda task: tables.when(task.created_at),
    "ended": lambda task: tables.when(task.completed_at),
}


AGES: Columns[StatusAgesView] = {
    "status": lambda ages: tables.pill(ages.status, href=f"/tasks?status={ages.status}"),
    "total": lambda ages: tables.number(ages.total),
    "under10Minutes": lambda ages: tables.number(ages.under10_minutes),
    "under1Hour": lambda ages: tables.number(ages.under1_hour),
    "under1Day": lambda ages: tables.number(ages.under1_day),
    "older": lambda ages: tables.number(ages.older),
    "oldest": lambda ages: tables.when(ages.oldest_at),
}


def _choice(given: dict[str, str]) -> TaskFilter:
    run, status, kind = given["execution"], given["status"], given["type"]
    return TaskFilter(
        ExecutionId.parse(run) if run else None,
        seller_of(given["seller"] or None),
        one_of(TaskStatus, status),
        one_of(TaskType, kind),
    )


@router.get("/tasks")
async def tasks(visit: Viewer) -> Response:
    given = {name: visit.asked(name) for name in ("seller", "status", "type", "execution")}
    page = await visit.operations.ask(queries.list_tasks, _choice(given), visit.cursor, visit.rows)
    buttons = [("/tasks/ages", "tasks.ages_button")]
    buttons += [("/dead-letters", "dead.title")] if visit.parts.service.crawl.dead_letters is not None else []
    if given["status"] == TaskStatus.FAILED and page.content:
        wanted = "&".join(f"{name}={value}" for name, value in given.items() if value and name != "status")
        buttons.append((f"/tasks/retry?{wanted}", "tasks.retry_all"))
    return show_list(
        visit,
        "tasks",
        page.content,
        TASKS,
        fields=[
            Filter("seller", "col.seller_id", given["seller"]),
            Filter("status", "col.status", given["status"], [(s, f"status.{s}") for s in TaskStatus]),
            Filter("type", "col.type", given["type"], [(t, f"type.{t}") for t in TaskType]),
            Filter("execution", "col.run", given["execution"]),
        ],
        next_=visit.page_after(page),
        live="execution task",
        buttons=buttons,
    )


@router.get("/tasks/ages")
async def task_ages(visit: Viewer) -> Response:
    found = await visit.operations.ask(queries.list_task_ages)
    return show(
        visit,
        "list.html",
        title="tasks.ages",
        lead="tasks.ages_lead",
        table=Table.of("task-ages", found.content, AGES, "tasks.empty", caption="tasks.ages"),
        fields=[],
        live="execution",
    )


@router.get("/tasks/retry")
async def confirm_retry(visit: Admin) -> Response:
    """How many failed tasks a choice has, and of how many sellers."""
    given = {name: visit.asked(name) for name in ("seller", "type", "execution")} | {"status": TaskStatus.FAILED.value}
    would = await visit.operations.ask(
        commands.retry_chosen_tasks, _choice(given), None, visit.operations.deadline, dry_run=True
    )
    sentences = [
        ("retry.what", {"n": would.tasks, "sellers": len(would.by_seller)}),
        ("retry.most", {"n": MOST_RETRIED}),
    ]
    hidden = {name: value for name, value in given.items() if value}
    back = "/tasks?status=FAILED"
    return ask_first(visit, "retry.title", "retry.button", sentences, back, hidden=hidden, danger=False)


@router.post("/tasks/retry")
async def retry(visit: Admin) -> Response:
    given = {name: visit.form.get(name, "") for name in ("seller", "type", "execution")}
    choice = _choice(given | {"status": TaskStatus.FAILED.value})
    done = await visit.operations.run(commands.retry_chosen_tasks, choice, None, visit.operations.deadline)
    return go(visit, "/tasks?status=FAILED", "tasks.reopened_some", n=len(done.done), refused=len(done.refused))


@router.post("/tasks/{task_id}/retry")
async def retry_one(task_id: str, visit: Admin) -> Response:
    wanted = TaskId.parse(task_id)
    await visit.operations.run(commands.retry_task, wanted, visit.operations.deadline)
    return go(visit, f"/why/task/{wanted}", "tasks.reopened", n=1)
