"""/api/v1/executions: runs, how far they are, and what went wrong in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field

from sellerwatch.crawling import commands
from sellerwatch.crawling.commands import Cancelled
from sellerwatch.crawling.execution import Execution, ExecutionNotFound, ExecutionStatus
from sellerwatch.crawling.ports import NoteKind
from sellerwatch.crawling.recheck import recheck_at
from sellerwatch.crawling.waiting import causes_of_waiting
from sellerwatch.kernel.failure import Blame, Failure, FailureCode
from sellerwatch.kernel.failure_view import failure_counts_view, failure_view
from sellerwatch.kernel.ids import ExecutionId
from sellerwatch.kernel.paging import decode_cursor
from sellerwatch.operations.ports import ServiceTx
from sellerwatch.web.api.authorization import Admin, Viewer
from sellerwatch.web.api.context import Desk, parts_of
from sellerwatch.web.api.cursors import CursorParameter, SellerFilter, cursor_page, known_seller, seller_of
from sellerwatch.web.api.errors import language_of, refusals
from sellerwatch.web.api.models import CursorPage, FailureShown, PageSize, ResponseModel, Stamp, WaitingShown

router = APIRouter(prefix="/executions", tags=["executions"])

LIST = "executions"
MOST_ERRORS = 20
AN_ID = "0198c0de-0000-7000-8002-000000000001"

ExecutionPath = Annotated[str, Path(alias="executionId", max_length=100, examples=[AN_ID])]


class ExecutionShown(ResponseModel):
    """Rates are in percent: of what there is to do, and of what is over.

    A PENDING run waits until the marketplace says how many products there are: `failure` is why the last try did not
    succeed, `nextStartAt` when the next one is made.
    """

    execution_id: str = Field(examples=[AN_ID])
    schedule_id: str
    seller_id: str = Field(examples=["seller_12345"])
    status: ExecutionStatus
    total_tasks_created: int
    completed_tasks: int
    failed_tasks: int
    list_total: int | None = Field(description="Products the marketplace says the seller has.")
    progress_rate: float = Field(examples=[42.5])
    success_rate: float = Field(examples=[99.8])
    created_at: Stamp
    started_at: Stamp | None
    completed_at: Stamp | None
    deadline_at: Stamp | None
    start_tries: int = Field(description="Tries to start it that did not succeed.")
    next_start_at: Stamp | None
    error_message: str | None = Field(description="The failure as a sentence in the caller's language.")
    failure: FailureShown | None

    @classmethod
    def of(cls, run: Execution, language: str) -> ExecutionShown:
        return cls(**_run(run, language))


class ListedExecution(ExecutionShown):
    """A run, and why it makes no progress where it waits."""

    waiting: WaitingShown | None


class ErrorCount(ResponseModel):
    message: str
    count: int


class FailureCount(ResponseModel):
    """A failure, and the number of tasks that ended with it."""

    code: FailureCode
    blame: Blame
    message: str
    count: int


class ChangedField(ResponseModel):
    part: str = Field(examples=["DETAIL"])
    field: str = Field(examples=["prices.selling"])
    products: int


class ExecutionDetail(ListedExecution):
    """A run as it is now. `tasks` counts by type and state; `paused` says why it waits; at `recheckAt` a few of the
    unreadable answers are read again, and it goes on by itself once they are readable."""

    tasks: dict[str, dict[str, int]] = Field(examples=[{"PRODUCT_DETAIL": {"COMPLETED": 40, "WAITING": 2}}])
    errors: list[FailureCount]
    paused: str | None
    recheck_at: Stamp | None = Field(description="When a paused run reads a few unreadable answers again.")
    judged: dict[str, int]
    changed_fields: list[ChangedField]
    unreadable: list[ErrorCount]
    foreign_items: int


class CancelledRun(ExecutionShown):
    cancelled_tasks: int
    tasks_in_flight: int = Field(description="They finish and are still taken in.")


class RetriedRun(ExecutionShown):
    reopened_tasks: int


@router.get("", responses=refusals(404))
async def list_executions(
    request: Request,
    _: Viewer,
    seller_id: SellerFilter = None,
    status: Annotated[ExecutionStatus | None, Query()] = None,
    cursor: CursorParameter = None,
    size: PageSize = 20,
) -> CursorPage[ListedExecution]:
    """Runs, newest first."""
    wanted, position, language = seller_of(seller_id), decode_cursor(LIST, cursor), language_of(request)

    def work(tx: ServiceTx) -> CursorPage[ListedExecution]:
        known_seller(tx, wanted)
        piece = tx.execution_queries.page(seller_id=wanted, status=status, cursor=position, limit=size)
        waiting = causes_of_waiting(tx, piece.content)
        return cursor_page(
            LIST, piece, lambda run: ListedExecution(**_waiting_run(run, waiting.get(run.execution_id), language))
        )

    return await parts_of(request).read(work)


@router.get("/{executionId}", responses=refusals(404))
async def get_execution(execution_id: ExecutionPath, request: Request, _: Viewer) -> ExecutionDetail:
    """One run: how far it is, its tasks by type and state, what it found changed, and its errors by cause."""
    wanted, language = ExecutionId.parse(execution_id), language_of(request)

    def work(tx: ServiceTx) -> ExecutionDetail:
        run = tx.executions.get(wanted)
        if run is None:
            raise ExecutionNotFound(execution_id=wanted)
        tasks: dict[str, dict[str, int]] = {}
        for (task_type, state), number in sorted(tx.run_tasks.tally(wanted).items()):
            tasks.setdefault(task_type, {})[state] = number
        failures = failure_counts_view(tx.run_tasks.failures(wanted, MOST_ERRORS), language)
        notes = tx.run_notes.of(wanted)
        return ExecutionDetail(
            **_waiting_run(run, causes_of_waiting(tx, [run]).get(wanted), language),
            tasks=tasks,
            errors=[FailureCount(**one) for one in failures],
            recheck_at=recheck_at(tx, notes) if run.is_open else None,
            **_notes(run, notes),
        )

    return await parts_of(request).read(work)


@router.post("/{executionId}/cancel", responses=refusals(404, 409))
async def cancel_execution(execution_id: ExecutionPath, request: Request, caller: Admin) -> CancelledRun:
    """End a run. What waits is cancelled; what is in flight finishes and is still taken in."""
    wanted, rules = ExecutionId.parse(execution_id), parts_of(request).service.crawl.rules

    def work(tx: ServiceTx, desk: Desk) -> Cancelled:
        return commands.cancel(tx, wanted, rules, actor=desk.actor, ids=desk.ids, now=desk.now)

    ended = await parts_of(request).change(caller.actor, work)
    shown = _run(ended.execution, language_of(request))
    return CancelledRun(**shown, cancelled_tasks=ended.cancelled, tasks_in_flight=ended.in_flight)


@router.post("/{executionId}/retry", responses=refusals(404, 409))
async def retry_execution(execution_id: ExecutionPath, request: Request, caller: Admin) -> RetriedRun:
    """Do the failed tasks of a run after all. A finished run is running again."""
    wanted, deadline = ExecutionId.parse(execution_id), parts_of(request).service.crawl.deadline

    def work(tx: ServiceTx, desk: Desk) -> tuple[Execution, int]:
        return commands.retry_execution(tx, wanted, deadline, actor=desk.actor, now=desk.now)

    run, number = await parts_of(request).change(caller.actor, work)
    return RetriedRun(**_run(run, language_of(request)), reopened_tasks=number)


def _run(run: Execution, language: str) -> dict[str, Any]:
    rates = {"progress_rate": round(run.progress_rate, 2), "success_rate": round(run.success_rate, 2)}
    return vars(run) | rates | failure_view(run.failure, language)


def _waiting_run(run: Execution, waiting: Failure | None, language: str) -> dict[str, Any]:
    return _run(run, language) | {"waiting": WaitingShown.of(waiting, language)}


def _counted(counts: Sequence[tuple[str, int]]) -> list[ErrorCount]:
    return [ErrorCount(message=message, count=number) for message, number in counts]


def _most(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda each: (-each[1], each[0]))


def _notes(run: Execution, notes: Mapping[NoteKind, Mapping[str, int]]) -> dict[str, Any]:
    """What was noted of a run while it went. One that is over waits for nothing."""
    changed = [(name.partition(" "), number) for name, number in _most(notes[NoteKind.CHANGED])]
    return {
        "paused": next(iter(notes[NoteKind.PAUSED]), None) if run.is_open else None,
        "judged": dict(sorted(notes[NoteKind.JUDGED].items())),
        "changed_fields": [ChangedField(part=part, field=field, products=n) for (part, _, field), n in changed],
        "unreadable": _counted(_most(notes[NoteKind.UNREADABLE])),
        "foreign_items": len(notes[NoteKind.FOREIGN]),
    }
