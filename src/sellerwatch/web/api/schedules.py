"""/api/v1/schedules: when sellers are crawled next."""

from __future__ import annotations

from fastapi import APIRouter, Request
from pydantic import Field

from sellerwatch.kernel.ids import SellerId
from sellerwatch.operations.ports import ServiceTx
from sellerwatch.schedules.missed import next_starts, starts_at
from sellerwatch.schedules.schedule import Schedule, ScheduleStatus
from sellerwatch.sellers.commands import retry_schedule, run_now
from sellerwatch.sellers.seller import SellerNotFound
from sellerwatch.web.api.authorization import Admin, Viewer
from sellerwatch.web.api.context import Desk, parts_of
from sellerwatch.web.api.errors import refusals
from sellerwatch.web.api.models import NumberedPage, PageNumber, PageSize, ResponseModel, Stamp
from sellerwatch.web.api.sellers import IntervalShown, SellerPath

router = APIRouter(prefix="/schedules", tags=["schedules"])


class ScheduleResponse(ResponseModel):
    """`nextRunAt` is when the next run really starts: spread over sellers, and where one could not be started, when it
    is tried again. `nextStarts` are the next five."""

    schedule_id: str
    seller_id: str = Field(examples=["seller_12345"])
    status: ScheduleStatus
    interval: IntervalShown
    schedule_rule: str
    schedule_expression: str = Field(examples=["rate(1 day)"])
    next_run_at: Stamp | None
    next_starts: list[Stamp]
    created_at: Stamp
    updated_at: Stamp

    @classmethod
    def of(cls, schedule: Schedule) -> ScheduleResponse:
        interval = schedule.interval
        return cls(
            schedule_id=schedule.schedule_id,
            seller_id=schedule.seller_id,
            status=schedule.status,
            interval=IntervalShown(amount=interval.amount, unit=interval.unit),
            schedule_rule=schedule.rule,
            schedule_expression=schedule.expression,
            next_run_at=starts_at(schedule),
            next_starts=next_starts(schedule),
            created_at=schedule.created_at,
            updated_at=schedule.updated_at,
        )


class RetriedSchedule(ScheduleResponse):
    messages: int = Field(description="Messages that wait to be told.")


@router.get("")
async def list_schedules(
    request: Request, _: Viewer, page: PageNumber = 0, size: PageSize = 20
) -> NumberedPage[ScheduleResponse]:
    """Schedules with their next times, by seller."""
    found, total = await parts_of(request).read(lambda tx: tx.schedules.page(offset=page * size, limit=size))
    return NumberedPage[ScheduleResponse].of([ScheduleResponse.of(schedule) for schedule in found], page, size, total)


@router.get("/{sellerId}", responses=refusals(404))
async def get_schedule(seller_id: SellerPath, request: Request, _: Viewer) -> ScheduleResponse:
    """A seller's schedule and its next five times."""
    wanted = SellerId.parse(seller_id)

    def work(tx: ServiceTx) -> ScheduleResponse:
        schedule = tx.schedules.of_seller(wanted)
        if schedule is None:
            raise SellerNotFound(seller_id=wanted)
        return ScheduleResponse.of(schedule)

    return await parts_of(request).read(work)


@router.post("/{sellerId}/run-now", responses=refusals(404, 409))
async def run_schedule_now(seller_id: SellerPath, request: Request, caller: Admin) -> ScheduleResponse:
    """Make the next run due at once: the scheduler starts it at its next turn, and the rhythm goes on from here."""
    wanted = SellerId.parse(seller_id)

    def work(tx: ServiceTx, desk: Desk) -> Schedule:
        return run_now(tx, wanted, actor=desk.actor, now=desk.now)

    return ScheduleResponse.of(await parts_of(request).change(caller.actor, work))


@router.post("/{sellerId}/retry", responses=refusals(404, 409))
async def retry(seller_id: SellerPath, request: Request, caller: Admin) -> RetriedSchedule:
    """Tell the scheduler once more what it would not take; a FAILED schedule is mended when it has."""
    wanted = SellerId.parse(seller_id)

    def work(tx: ServiceTx, desk: Desk) -> tuple[Schedule, int]:
        return retry_schedule(tx, wanted, actor=desk.actor, ids=desk.ids, now=desk.now)

    schedule, messages = await parts_of(request).change(caller.actor, work)
    return RetriedSchedule(**dict(ScheduleResponse.of(schedule)), messages=messages)
