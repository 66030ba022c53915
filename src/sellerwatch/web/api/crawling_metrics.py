"""/api/v1/metrics/crawling: days in numbers."""

from __future__ import annotations

import datetime as dt
from typing import Annotated
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Query, Request

from sellerwatch.kernel.ids import SellerId
from sellerwatch.reports import day_metrics
from sellerwatch.reports.day_metrics import CrawlingMetricsView, DailyMetricsView
from sellerwatch.web.api.authorization import ViewerSession
from sellerwatch.web.api.context import parts_of
from sellerwatch.web.api.errors import refusals
from sellerwatch.web.api.view_route import ViewRoute

router = APIRouter(prefix="/metrics", tags=["metrics"], route_class=ViewRoute)

Seller = Query(alias="sellerId", min_length=1, max_length=SellerId.LONGEST)


@router.get("/crawling", responses=refusals(404))
async def show_crawling_metrics(
    session: ViewerSession,
    request: Request,
    seller_id: Annotated[str, Seller],
    date: Annotated[dt.date | None, Query(description="A day in the setting TIMEZONE; today when left out.")] = None,
) -> CrawlingMetricsView:
    """How a seller's crawls of one day went, as of the end of that day."""
    zone = ZoneInfo(parts_of(request).settings.timezone)
    return await session.ask(day_metrics.crawling_metrics, SellerId.parse(seller_id), date, zone)


@router.get("/crawling/daily", responses=refusals(404))
async def show_daily_metrics(
    session: ViewerSession,
    request: Request,
    seller_id: Annotated[str | None, Seller] = None,
    first: Annotated[dt.date | None, Query(alias="from", description="30 days up to `to` when left out.")] = None,
    last: Annotated[dt.date | None, Query(alias="to", description="The last day; today when left out.")] = None,
) -> DailyMetricsView:
    """Days in numbers, for charts; all sellers together without `sellerId`."""
    zone, seller = ZoneInfo(parts_of(request).settings.timezone), seller_id and SellerId.parse(seller_id)
    return await session.ask(day_metrics.daily_metrics, seller or None, first, last, zone)
