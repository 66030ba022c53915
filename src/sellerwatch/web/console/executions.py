"""Runs: the list, and one run: tasks by type, how fast, what failed and why, and what it found changed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from fastapi import APIRouter
from starlette.responses import Response

from sellerwatch.crawling import commands, queries
from sellerwatch.crawling.execution import ExecutionStatus
from sellerwatch.crawling.task import TaskStatus
from sellerwatch.crawling.views import ChangedFieldView, ExecutionDetailView
from sellerwatch.kernel.failure_view import FailureCountView
from sellerwatch.kernel.ids import ExecutionId
from sellerwatch.reports.queries import ProgressStepView, show_execution_progress
from sellerwatch.web.api.cursors import seller_of
from sellerwatch.web.console import tables
from sellerwatch.web.console.page_request import Admin, Viewer, one_of
from sellerwatch.web.console.rendering import PageRoute, ask_first, go, show, show_list
from sellerwatch.web.console.run_tables import RUNS
from sellerwatch.web.console.tables import Chart, Columns, Filter, Table

router = APIRouter(route_class=PageRoute, include_in_schema=False)

#: Points of a run's chart, and steps that its present speed is calculated from.
MOST_POINTS, LAST_STEPS = 200, 10
ERRORS: Columns[FailureCountView] = {
    "blame": lambda error: tables.pill(error.blame, "blame"),
    "cause": lambda error: tables.sentence(error.message),
    "failures": lambda error: tables.number(error.count),
}
CHANGED_FIELDS: Columns[ChangedFieldView] = {
    "part": lambda changed: tables.pill(changed.part, "part"),
    "field": lambda changed: tables.code(changed.field),
    "products": lambda changed: tables.number(changed.products),
}


@router.get("/executions")
async def executions(visit: Viewer) -> Response:
    seller, status = visit.asked("seller"), visit.asked("status")
    seller_id, wanted = seller_of(seller or None), one_of(ExecutionStatus, status)
    page = await visit.operations.ask(queries.list_executions, seller_id, wanted, visit.cursor, visit.rows)
    return show_list(
        visit,
        "executions",
        page.content,
        RUNS,
        fields=[
            Filter("seller", "col.seller_id", seller),
            Filter("status", "col.status", status, [(s, f"status.{s}") for s in ExecutionStatus]),
        ],
        next_=visit.page_after(page),
        live="execution",
    )


@router.get("/executions/{execution_id}")
async def execution_page(execution_id: str, visit: Viewer) -> Response:
    wanted = ExecutionId.parse(execution_id)
    run = await visit.operations.ask(queries.show_execution, wanted)
    steps = (await visit.operations.ask(show_execution_progress, wanted)).content
    all_failed = f"/tasks?execution={wanted}&status=FAILED" if run.errors else None
    return show(
        visit,
        "execution.html",
        run=run,
        failed=run.count_tasks(TaskStatus.FAILED),
        types=_types(run),
        per_second=_per_second(steps[-LAST_STEPS:]),
        errors=Table.of(
            "errors", run.errors, ERRORS, "execution.no_errors", caption="execution.errors", next_=all_failed
        ),
        changed=Table.of(
            "changed", run.changed_fields, CHANGED_FIELDS, "execution.no_changes", caption="execution.changed"
        ),
        speed=_speed(steps),
    )


def _types(run: ExecutionDetailView) -> list[tuple[str, int, int, int]]:
    """Return each type of task with how many are done, failed, and all."""
    return [
        (
            task_type,
            by_status.get(TaskStatus.COMPLETED, 0),
            by_status.get(TaskStatus.FAILED, 0),
            sum(by_status.values()),
        )
        for task_type, by_status in run.tasks.items()
    ]


def _per_second(steps: Sequence[ProgressStepView]) -> float | None:
    """Return the tasks ended in a second between the first and the last of these steps."""
    if len(steps) < 2:
        return None
    seconds = (steps[-1].at - steps[0].at).total_seconds()
    return round((steps[-1].ended_tasks - steps[0].ended_tasks) / seconds, 1) if seconds > 0 else None


def _speed(steps: Sequence[ProgressStepView]) -> Chart:
    """Return a chart of the tasks ended in a second, between its points."""
    stride = max(1, len(steps) // MOST_POINTS)
    points = [*steps[:-1:stride], steps[-1]] if len(steps) > 1 else []
    x: list[float] = []
    speeds: list[float | None] = []
    for before, after in pairwise(points):
        seconds = (after.at - before.at).total_seconds()
        if seconds > 0:
            x.append(after.at.timestamp())
            speeds.append(round(max(0, after.ended_tasks - before.ended_tasks) / seconds, 1))
    return Chart("speed", "execution.speed", x, [("chart.per_second", "accent", speeds)])


@router.get("/executions/{execution_id}/cancel")
async def confirm_cancel(execution_id: str, visit: Admin) -> Response:
    wanted = ExecutionId.parse(execution_id)
    would = await visit.operations.ask(commands.cancel_execution, wanted, visit.operations.rules, dry_run=True)
    sentences = [
        ("cancel.waiting", {"n": would.cancelled_tasks}),
        ("cancel.going", {"n": would.tasks_in_flight}),
        ("cancel.kept", {}),
    ]
    return ask_first(visit, "cancel.title", "cancel.button", sentences, f"/executions/{wanted}", seller=would.seller_id)


@router.post("/executions/{execution_id}/cancel")
async def cancel(execution_id: str, visit: Admin) -> Response:
    wanted = ExecutionId.parse(execution_id)
    ended = await visit.operations.run(commands.cancel_execution, wanted, visit.operations.rules)
    return go(visit, f"/executions/{wanted}", "cancel.done", n=ended.cancelled_tasks, going=ended.tasks_in_flight)


@router.post("/executions/{execution_id}/retry")
async def retry(execution_id: str, visit: Admin) -> Response:
    wanted = ExecutionId.parse(execution_id)
    run = await visit.operations.run(commands.retry_execution, wanted, visit.operations.deadline)
    return go(visit, f"/executions/{wanted}", "tasks.reopened", n=run.reopened_tasks)
