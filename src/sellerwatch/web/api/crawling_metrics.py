"""/api/v1/metrics/crawling: one seller's day in numbers."""

from __future__ import annotations

import datetime as dt
from datetime import datetime, time, timedelta
from typing import Annotated
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Query, Request
from pydantic import Field

from sellerwatch.crawling.task import TaskStatus
from sellerwatch.kernel.ids import SellerId
from sellerwatch.operations.ports import ServiceTx
from sellerwatch.sellers.seller import SellerNotFound
from sellerwatch.web.api.authorization import Viewer
from sellerwatch.web.api.context import parts_of
from sellerwatch.web.api.errors import refusals
from sellerwatch.web.api.models import ResponseModel

router = APIRouter(prefix="/metrics", tags=["metrics"])


class TaskStats(ResponseModel):
    """Every task of the day; `total` counts those that wait as well."""

    total: int
    completed: int
    failed: int
    in_progress: int


class CrawlingMetrics(ResponseModel):
    """`successRate` is of all tasks of the day, `progressRate` of the products the seller has; both in percent."""

    seller_id: str
    date: dt.date
    success_rate: float = Field(examples=[97.5])
    progress_rate: float = Field(examples=[100.0])
    task_stats: TaskStats


@router.get("/crawling", responses=refusals(404))
async def crawling_metrics(
    request: Request,
    _: Viewer,
    seller_id: Annotated[str, Query(alias="sellerId", min_length=1, max_length=SellerId.LONGEST)],
    date: Annotated[dt.date | None, Query(description="A day in the setting TIMEZONE; today when left out.")] = None,
) -> CrawlingMetrics:
    """How a seller's crawls of one day went."""
    parts, wanted = parts_of(request), SellerId.parse(seller_id)
    zone = ZoneInfo(parts.settings.timezone)
    day = date or parts.clock.now().astimezone(zone).date()
    since, until = (datetime.combine(day + timedelta(days=n), time(), zone) for n in (0, 1))

    def work(tx: ServiceTx) -> CrawlingMetrics:
        seller = tx.sellers.get(wanted)
        if seller is None:
            raise SellerNotFound(seller_id=wanted)
        tasks, products = tx.task_queries.count_by_status(wanted, since, until), tx.product_queries.counts(wanted)
        total, completed = sum(tasks.values()), tasks.get(TaskStatus.COMPLETED, 0)
        all_products = seller.total_product_count
        return CrawlingMetrics(
            seller_id=wanted,
            date=day,
            success_rate=round(100 * completed / total, 2) if total else 0.0,
            progress_rate=round(min(100.0, 100 * products.complete / all_products), 2) if all_products else 0.0,
            task_stats=TaskStats(
                total=total,
                completed=completed,
                failed=tasks.get(TaskStatus.FAILED, 0),
                in_progress=tasks.get(TaskStatus.IN_PROGRESS, 0),
            ),
        )

    return await parts_of(request).read(work)
