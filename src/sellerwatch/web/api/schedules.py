"""/api/v1/schedules: when sellers are crawled next."""

from __future__ import annotations

from fastapi import APIRouter

from sellerwatch.kernel.ids import SellerId
from sellerwatch.kernel.views import NumberedPageView
from sellerwatch.schedules import queries as schedule_queries
from sellerwatch.schedules.queries import ScheduleView
from sellerwatch.sellers import commands, queries
from sellerwatch.sellers.commands import ChangedScheduleView, RetriedScheduleView
from sellerwatch.web.api.authorization import DryRunSession, ViewerSession
from sellerwatch.web.api.errors import refusals
from sellerwatch.web.api.models import PageNumber, PageSize
from sellerwatch.web.api.seller_paths import SellerPath
from sellerwatch.web.api.view_route import ViewRoute

router = APIRouter(prefix="/schedules", tags=["schedules"], route_class=ViewRoute)


@router.get("")
async def list_schedules(
    session: ViewerSession, page: PageNumber = 0, size: PageSize = 20
) -> NumberedPageView[ScheduleView]:
    """Schedules with their next starts, by seller."""
    return await session.ask(schedule_queries.list_schedules, page, size)


@router.get("/{sellerId:seller}", responses=refusals(404))
async def show_schedule(seller_id: SellerPath, session: ViewerSession) -> ScheduleView:
    """A seller's schedule and its next five starts."""
    return await session.ask(queries.show_schedule, SellerId.parse(seller_id))


@router.post("/{sellerId:path}/run-now", responses=refusals(404, 409))
async def run_schedule_now(seller_id: SellerPath, session: DryRunSession) -> ChangedScheduleView:
    """Make the next run due at once: the scheduler starts it within seconds, and the runs after it count from now."""
    return await session.run(commands.run_now, SellerId.parse(seller_id))


@router.post("/{sellerId:path}/retry", responses=refusals(404, 409))
async def retry_schedule(seller_id: SellerPath, session: DryRunSession) -> RetriedScheduleView:
    """Send the scheduler once more the messages that it did not take. A FAILED schedule is FAILED until it has them."""
    return await session.run(commands.retry_schedule, SellerId.parse(seller_id))
