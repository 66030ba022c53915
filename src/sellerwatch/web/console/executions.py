"""Runs: the list, and one run as it goes: tasks by type, how fast, what failed and why, and what it found changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from fastapi import APIRouter
from starlette.responses import Response

from sellerwatch.crawling import commands
from sellerwatch.crawling.commands import Cancelled
from sellerwatch.crawling.execution import Execution, ExecutionNotFound, ExecutionStatus
from sellerwatch.crawling.ports import NoteKind
from sellerwatch.crawling.recheck import recheck_at
from sellerwatch.crawling.task import OPEN_STATES, TaskStatus
from sellerwatch.crawling.waiting import causes_of_waiting
from sellerwatch.kernel.failure import Failure
from sellerwatch.kernel.ids import ExecutionId
from sellerwatch.kernel.paging import Page, decode_cursor, encode_cursor
from sellerwatch.operations.ports import ServiceTx
from sellerwatch.reports.dashboard import Progress
from sellerwatch.web.api.context import Desk
from sellerwatch.web.api.cursors import seller_of
from sellerwatch.web.api.executions import LIST
from sellerwatch.web.console import tables
from sellerwatch.web.console.page_request import Admin, Viewer, Visit
from sellerwatch.web.console.rendering import PageRoute, go, show
from sellerwatch.web.console.sellers import runs_table
from sellerwatch.web.console.tables import Chart, Confirm, Filter, Table

router = APIRouter(route_class=PageRoute, include_in_schema=False)

MOST_ERRORS = 20
#: Steps of a run that are read, and points of its chart.
MOST_STEPS, MOST_POINTS = 4000, 200


@router.get("/executions")
async def executions(visit: Viewer) -> Response:
    seller, status = visit.asked("seller"), visit.asked("status")
    wanted = ExecutionStatus(status) if status in list(ExecutionStatus) else None
    position, seller_id = decode_cursor(LIST, visit.place("cursor")), seller_of(seller or None)

    def work(tx: ServiceTx) -> tuple[Page[Execution], Mapping[ExecutionId, Failure]]:
        found = tx.execution_queries.page(seller_id=seller_id, status=wanted, cursor=position, limit=visit.rows)
        return found, causes_of_waiting(tx, found.content)

    piece, waiting = await visit.read(work)
    cursor = encode_cursor(LIST, piece.next)
    table = runs_table(
        visit,
        piece.content,
        waiting,
        visit.link(cursor=cursor) if cursor else None,
        "executions.none_found" if seller or status else "executions.empty",
    )
    fields = [
        Filter("seller", "col.seller_id", seller),
        Filter("status", "col.status", status, [(s, f"status.{s}") for s in ExecutionStatus]),
    ]
    return show(
        visit,
        "list.html",
        title="nav.executions",
        lead="executions.lead",
        table=table,
        fields=fields,
        live="execution",
    )


@dataclass(frozen=True)
class Seen:
    run: Execution
    tally: Mapping[tuple[str, str], int]
    failures: Sequence[tuple[Failure, int]]
    notes: Mapping[NoteKind, Mapping[str, int]]
    progress: Sequence[Progress]
    recheck_at: datetime | None
    waiting: Failure | None

    @property
    def failed(self) -> int:
        return sum(number for (_, state), number in self.tally.items() if state == TaskStatus.FAILED)

    @property
    def per_second(self) -> float | None:
        """As fast as it was lately: between the last steps that were told."""
        steps = self.progress[-10:]
        if len(steps) < 2:
            return None
        seconds = (steps[-1].at - steps[0].at).total_seconds()
        done = steps[-1].completed + steps[-1].failed - steps[0].completed - steps[0].failed
        return round(done / seconds, 1) if seconds > 0 else None

    @property
    def paused(self) -> str | None:
        return next(iter(self.notes[NoteKind.PAUSED]), None) if self.run.is_open else None

    @property
    def types(self) -> list[tuple[str, int, int, int]]:
        """Of each type: done, failed, and all."""
        found: dict[str, list[int]] = {}
        for (kind, state), number in sorted(self.tally.items()):
            sums = found.setdefault(kind, [0, 0, 0])
            sums[0] += number if state == TaskStatus.COMPLETED else 0
            sums[1] += number if state == TaskStatus.FAILED else 0
            sums[2] += number
        return [(kind, done, failed, total) for kind, (done, failed, total) in found.items()]


def _look(tx: ServiceTx, execution_id: ExecutionId) -> Seen:
    run = tx.executions.get(execution_id)
    if run is None:
        raise ExecutionNotFound(execution_id=execution_id)
    notes = tx.run_notes.of(execution_id)
    return Seen(
        run,
        tx.run_tasks.tally(execution_id),
        tx.run_tasks.failures(execution_id, MOST_ERRORS),
        notes,
        tx.dashboard.progress(execution_id, MOST_STEPS),
        recheck_at(tx, notes) if run.is_open else None,
        causes_of_waiting(tx, [run]).get(execution_id),
    )


@router.get("/executions/{execution_id}")
async def execution_page(execution_id: str, visit: Viewer) -> Response:
    wanted = ExecutionId.parse(execution_id)
    seen = await visit.read(lambda tx: _look(tx, wanted))
    return show(
        visit,
        "execution.html",
        seen=seen,
        run=seen.run,
        errors=_errors(visit, seen, wanted),
        changed=_changed(seen),
        speed=_speed(seen),
    )


def _errors(visit: Visit, seen: Seen, execution_id: ExecutionId) -> Table:
    return Table(
        "errors",
        ("col.blame", "col.cause", "col.failures"),
        [
            (tables.pill(failure.blame, "blame"), tables.sentence(visit.failure(failure)), tables.number(number))
            for failure, number in seen.failures
        ],
        "execution.no_errors",
        caption="execution.errors",
        next=f"/tasks?execution={execution_id}&status=FAILED" if seen.failures else None,
    )


def _changed(seen: Seen) -> Table:
    counts = sorted(seen.notes[NoteKind.CHANGED].items(), key=lambda each: (-each[1], each[0]))
    return Table(
        "changed",
        ("col.part", "col.field", "col.products"),
        [
            (tables.pill(name.partition(" ")[0], "part"), tables.code(name.partition(" ")[2]), tables.number(number))
            for name, number in counts
        ],
        "execution.no_changes",
        caption="execution.changed",
    )


def _speed(seen: Seen) -> Chart:
    """Ended tasks a second, between the points."""
    steps = seen.progress
    stride = max(1, len(steps) // MOST_POINTS)
    points = [*steps[:-1:stride], steps[-1]] if len(steps) > 1 else []
    x: list[float] = []
    speeds: list[float | None] = []
    for before, after in pairwise(points):
        seconds = (after.at - before.at).total_seconds()
        done = after.completed + after.failed - before.completed - before.failed
        if seconds > 0:
            x.append(after.at.timestamp())
            speeds.append(round(max(0, done) / seconds, 1))
    return Chart("speed", "execution.speed", x, [("chart.per_second", "accent", speeds)])


@router.get("/executions/{execution_id}/cancel")
async def confirm_cancel(execution_id: str, visit: Admin) -> Response:
    wanted = ExecutionId.parse(execution_id)
    seen = await visit.read(lambda tx: _look(tx, wanted))
    going = sum(n for (_, state), n in seen.tally.items() if state == TaskStatus.IN_PROGRESS)
    waiting = sum(n for (_, state), n in seen.tally.items() if state in OPEN_STATES) - going
    return show(
        visit,
        "confirm.html",
        confirm=Confirm(
            "cancel.title",
            f"/executions/{wanted}/cancel",
            "cancel.button",
            [("cancel.waiting", {"n": waiting}), ("cancel.going", {"n": going}), ("cancel.kept", {})],
            f"/executions/{wanted}",
            facts={"seller": seen.run.seller_id},
        ),
    )


@router.post("/executions/{execution_id}/cancel")
async def cancel(execution_id: str, visit: Admin) -> Response:
    wanted, rules = ExecutionId.parse(execution_id), visit.parts.service.crawl.rules

    def work(tx: ServiceTx, desk: Desk) -> Cancelled:
        return commands.cancel(tx, wanted, rules, actor=desk.actor, ids=desk.ids, now=desk.now)

    ended = await visit.change(work)
    return go(visit, f"/executions/{wanted}", "cancel.done", n=ended.cancelled, going=ended.in_flight)


@router.post("/executions/{execution_id}/retry")
async def retry(execution_id: str, visit: Admin) -> Response:
    wanted, deadline = ExecutionId.parse(execution_id), visit.parts.service.crawl.deadline

    def work(tx: ServiceTx, desk: Desk) -> int:
        return commands.retry_execution(tx, wanted, deadline, actor=desk.actor, now=desk.now)[1]

    return go(visit, f"/executions/{wanted}", "tasks.reopened", n=await visit.change(work))
