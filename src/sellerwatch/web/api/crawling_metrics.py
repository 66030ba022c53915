"""/api/v1/metrics/crawling: one seller's day in numbers."""

from __future__ import annotations

import datetime as dt
from typing import Annotated
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Query, Request

from sellerwatch.kernel.ids import SellerId
from sellerwatch.reports import queries
from sellerwatch.reports.queries import CrawlingMetricsView
from sellerwatch.web.api.authorization import ViewerSession
from sellerwatch.web.api.context import parts_of
from sellerwatch.web.api.errors import refusals
from sellerwatch.web.api.view_route import ViewRoute

router = APIRouter(prefix="/metrics", tags=["metrics"], route_class=ViewRoute)


@router.get("/crawling", responses=refusals(404))
async def crawling_metrics(
    session: ViewerSession,
    request: Request,
    seller_id: Annotated[str, Query(alias="sellerId", min_length=1, max_length=SellerId.LONGEST)],
    date: Annotated[dt.date | None, Query(description="A day in the setting TIMEZONE; today when left out.")] = None,
) -> CrawlingMetricsView:
    """How a seller's crawls of one day went."""
    zone = ZoneInfo(parts_of(request).settings.timezone)
    return await session.ask(queries.crawling_metrics, SellerId.parse(seller_id), date, zone)
