"""/api/v1/plan: whether the sellers fit into what the pool may ask, and when each run would finish."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from sellerwatch.reports import capacity
from sellerwatch.reports.capacity import PlanView
from sellerwatch.web.api.authorization import ViewerSession
from sellerwatch.web.api.models import PageNumber, PageSize
from sellerwatch.web.api.view_route import ViewRoute

router = APIRouter(prefix="/plan", tags=["metrics"], route_class=ViewRoute)


@router.get("")
async def show_plan(
    session: ViewerSession,
    agents: Annotated[
        int | None, Query(ge=1, le=100_000, description="Plan for this number of available and rested agents.")
    ] = None,
    products: Annotated[
        int, Query(ge=0, le=10_000_000, description="Products to assume for a seller that was never crawled.")
    ] = 0,
    page: PageNumber = 0,
    size: PageSize = 20,
) -> PlanView:
    """Show whether the sellers fit into the pool's budget, and when each one's next run would finish."""
    return await session.ask(capacity.show_plan, session.pool, session.rules.page_size, page, size, agents, products)
