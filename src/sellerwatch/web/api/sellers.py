"""/api/v1/sellers: whom we keep in step, and how often."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field, StrictBool, StrictInt, StrictStr

from sellerwatch.crawling.commands import deactivate_seller
from sellerwatch.crawling.execution import Execution, ExecutionStatus
from sellerwatch.crawling.trigger import Triggered
from sellerwatch.crawling.waiting import causes_of_waiting
from sellerwatch.kernel.failure import Failure
from sellerwatch.kernel.ids import SellerId
from sellerwatch.operations.ports import ServiceTx
from sellerwatch.schedules.interval import CrawlingInterval, IntervalUnit
from sellerwatch.schedules.missed import starts_at
from sellerwatch.schedules.schedule import Schedule
from sellerwatch.sellers import commands as seller_commands
from sellerwatch.sellers.commands import run_now
from sellerwatch.sellers.seller import Seller, SellerNotFound, SellerStatus
from sellerwatch.web.api.authorization import Admin, Viewer
from sellerwatch.web.api.context import Desk, parts_of
from sellerwatch.web.api.errors import FieldProblem, InvalidRequest, language_of, refusals
from sellerwatch.web.api.models import (
    NumberedPage,
    PageNumber,
    PageSize,
    RequestModel,
    ResponseModel,
    Stamp,
    WaitingShown,
)
from sellerwatch.web.api.run_start import start_run

router = APIRouter(prefix="/sellers", tags=["sellers"])

SellerPath = Annotated[
    str, Path(alias="sellerId", min_length=1, max_length=SellerId.LONGEST, examples=["seller_12345"])
]


class IntervalBody(RequestModel):
    amount: StrictInt = Field(examples=[6])
    unit: StrictStr = Field(examples=["HOURS"], description="DAYS or HOURS, in any case.")


class IntervalShown(ResponseModel):
    amount: int
    unit: IntervalUnit


class RegisterBody(RequestModel):
    seller_id: StrictStr = Field(examples=["seller_12345"])
    name: StrictStr = Field(examples=["럭셔리하우스"])
    crawling_interval_days: StrictInt | None = Field(None, examples=[1])
    interval: IntervalBody | None = None
    crawl_now: StrictBool = False


class ChangeIntervalBody(RequestModel):
    crawling_interval_days: StrictInt | None = Field(None, examples=[7])
    interval: IntervalBody | None = None


class SellerResponse(ResponseModel):
    seller_id: str
    name: str
    status: SellerStatus
    crawling_interval_days: int | None
    interval: IntervalShown
    total_product_count: int
    created_at: Stamp
    updated_at: Stamp

    @classmethod
    def of(cls, seller: Seller) -> SellerResponse:
        return cls(**_seller(seller))


class ScheduleShown(ResponseModel):
    schedule_id: str
    status: str
    expression: str
    next_run_at: Stamp | None


class LastRun(ResponseModel):
    execution_id: str
    status: str
    created_at: Stamp
    completed_at: Stamp | None


class OpenRun(ResponseModel):
    """The run of a seller that is going, or that waits to be started (PENDING)."""

    execution_id: str
    status: ExecutionStatus
    progress_rate: float = Field(examples=[42.5])
    next_start_at: Stamp | None = Field(description="When a PENDING run is tried again.")
    waiting: WaitingShown | None = Field(description="Why it makes no progress.")

    @classmethod
    def of(cls, run: Execution, waiting: Failure | None, language: str) -> OpenRun:
        return cls(
            execution_id=run.execution_id,
            status=run.status,
            progress_rate=round(run.progress_rate, 2),
            next_start_at=run.next_start_at,
            waiting=WaitingShown.of(waiting, language),
        )


class ListedSeller(SellerResponse):
    open_execution: OpenRun | None


class SellerDetail(ListedSeller):
    schedule: ScheduleShown | None
    last_execution: LastRun | None
    products_present: int
    products_complete: int
    products_deleted: int


class Started(ResponseModel):
    """`taskCount` is the number of list pages, and null while the run waits to be started (PENDING)."""

    execution_id: str
    task_count: int | None
    status: ExecutionStatus

    @classmethod
    def of(cls, started: Triggered) -> Started:
        status = ExecutionStatus.PENDING if started.task_count is None else ExecutionStatus.RUNNING
        return cls(execution_id=started.execution_id, task_count=started.task_count, status=status)


@router.post("", status_code=201, responses=refusals(409))
async def register_seller(body: RegisterBody, request: Request, caller: Admin) -> SellerResponse:
    """Register a seller. Its first run is due one interval later, or at once with `crawlNow`."""
    seller_id = SellerId.parse(body.seller_id)
    interval = _interval(body.crawling_interval_days, body.interval) or CrawlingInterval.of_days(1)

    def work(tx: ServiceTx, desk: Desk) -> Seller:
        made = seller_commands.register(
            tx, seller_id, body.name, interval, actor=desk.actor, ids=desk.ids, now=desk.now
        )
        if body.crawl_now:
            run_now(tx, seller_id, actor=desk.actor, now=desk.now)
        return made

    return SellerResponse.of(await parts_of(request).change(caller.actor, work))


@router.get("")
async def list_sellers(
    request: Request,
    _: Viewer,
    status: Annotated[SellerStatus | None, Query()] = None,
    page: PageNumber = 0,
    size: PageSize = 20,
) -> NumberedPage[ListedSeller]:
    """Sellers by their id, each with its open run and what that waits for."""
    language = language_of(request)

    def work(tx: ServiceTx) -> tuple[list[ListedSeller], int]:
        found, total = tx.sellers.page(status=status, offset=page * size, limit=size)
        runs = _open_runs(tx, [seller.seller_id for seller in found], language)
        return [ListedSeller(**_seller(s), open_execution=runs.get(s.seller_id)) for s in found], total

    found, total = await parts_of(request).read(work)
    return NumberedPage[ListedSeller].of(found, page, size, total)


@router.get("/{sellerId}", responses=refusals(404))
async def get_seller(seller_id: SellerPath, request: Request, _: Viewer) -> SellerDetail:
    """One seller, with its schedule, its last run and how many products are known."""
    wanted, language = SellerId.parse(seller_id), language_of(request)

    def work(tx: ServiceTx) -> SellerDetail:
        seller, schedule = tx.sellers.get(wanted), tx.schedules.of_seller(wanted)
        if seller is None:
            raise SellerNotFound(seller_id=wanted)
        runs, counts = (
            tx.execution_queries.newest(seller_id=wanted, status=None, limit=1),
            tx.product_queries.counts(wanted),
        )
        return SellerDetail(
            **_seller(seller),
            open_execution=_open_runs(tx, [wanted], language).get(wanted),
            schedule=None if schedule is None else _schedule(schedule),
            last_execution=_last(runs[0]) if runs else None,
            products_present=counts.present,
            products_complete=counts.complete,
            products_deleted=counts.deleted,
        )

    return await parts_of(request).read(work)


@router.patch("/{sellerId}/interval", responses=refusals(404, 409))
async def change_interval(
    seller_id: SellerPath, body: ChangeIntervalBody, request: Request, caller: Admin
) -> SellerResponse:
    """Change how often a seller is crawled; an INACTIVE one is refused."""
    wanted, interval = SellerId.parse(seller_id), _interval(body.crawling_interval_days, body.interval)
    if interval is None:
        raise _invalid("crawlingIntervalDays", "one of crawlingIntervalDays and interval is needed")

    def work(tx: ServiceTx, desk: Desk) -> Seller:
        return seller_commands.update_interval(tx, wanted, interval, actor=desk.actor, ids=desk.ids, now=desk.now)

    return SellerResponse.of(await parts_of(request).change(caller.actor, work))


@router.post("/{sellerId}/activate", responses=refusals(404, 409))
async def activate_seller(seller_id: SellerPath, request: Request, caller: Admin) -> SellerResponse:
    """Crawl it again."""
    wanted = SellerId.parse(seller_id)

    def work(tx: ServiceTx, desk: Desk) -> Seller:
        return seller_commands.activate(tx, wanted, actor=desk.actor, ids=desk.ids, now=desk.now)

    return SellerResponse.of(await parts_of(request).change(caller.actor, work))


@router.post("/{sellerId}/deactivate", responses=refusals(404, 409))
async def deactivate(seller_id: SellerPath, request: Request, caller: Admin) -> SellerResponse:
    """Not crawled any more; a run that is going is ended with it."""
    wanted, rules = SellerId.parse(seller_id), parts_of(request).service.crawl.rules

    def work(tx: ServiceTx, desk: Desk) -> Seller:
        return deactivate_seller(tx, wanted, rules, actor=desk.actor, ids=desk.ids, now=desk.now)[0]

    return SellerResponse.of(await parts_of(request).change(caller.actor, work))


@router.post("/{sellerId}/crawl", status_code=202, responses=refusals(404, 409))
async def crawl_now(seller_id: SellerPath, request: Request, caller: Admin) -> Started:
    """Start a run now. Answers within 4 seconds: a run that cannot be started yet is answered with `taskCount` null,
    waits and is tried again."""
    return Started.of(await start_run(parts_of(request), SellerId.parse(seller_id), caller.actor))


def _interval(days: int | None, interval: IntervalBody | None) -> CrawlingInterval | None:
    if days is not None and interval is not None:
        raise _invalid("interval", "give crawlingIntervalDays or interval, not both")
    if interval is not None:
        return CrawlingInterval.parse(interval.amount, interval.unit)
    return None if days is None else CrawlingInterval.of_days(days)


def _invalid(field: str, problem: str) -> InvalidRequest:
    return InvalidRequest((FieldProblem(field=field, problem=problem),))


def _seller(seller: Seller) -> dict[str, Any]:
    interval = seller.interval
    return {
        "seller_id": seller.seller_id,
        "name": seller.name,
        "status": seller.status,
        "crawling_interval_days": interval.amount if interval.unit is IntervalUnit.DAYS else None,
        "interval": IntervalShown(amount=interval.amount, unit=interval.unit),
        "total_product_count": seller.total_product_count,
        "created_at": seller.created_at,
        "updated_at": seller.updated_at,
    }


def _open_runs(tx: ServiceTx, sellers: Sequence[SellerId], language: str) -> dict[SellerId, OpenRun]:
    runs = [run for seller_id in sellers if (run := tx.executions.open_of(seller_id)) is not None]
    waiting = causes_of_waiting(tx, runs)
    return {run.seller_id: OpenRun.of(run, waiting.get(run.execution_id), language) for run in runs}


def _schedule(schedule: Schedule) -> ScheduleShown:
    return ScheduleShown(
        schedule_id=schedule.schedule_id,
        status=schedule.status,
        expression=schedule.expression,
        next_run_at=starts_at(schedule),
    )


def _last(run: Execution) -> LastRun:
    return LastRun(
        execution_id=run.execution_id, status=run.status, created_at=run.created_at, completed_at=run.completed_at
    )
