"""What can be seen across features: the progress of runs, and the numbers that monitors read."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Annotated
from zoneinfo import ZoneInfo

from sellerwatch.agents.marketplace_status import MarketplaceStatus, marketplace_status
from sellerwatch.agents.pool_rules import PoolRules
from sellerwatch.crawling.queries import find_execution
from sellerwatch.crawling.task import TaskStatus
from sellerwatch.kernel.activity import Activity
from sellerwatch.kernel.ids import ExecutionId, SellerId
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.views import About, View
from sellerwatch.reports.ports import ReportsTx
from sellerwatch.reports.service_counts import ServiceCounts, ServiceHealth
from sellerwatch.sellers.queries import find_seller

#: Steps of a run that are read for its progress.
MOST_STEPS = 4000


@dataclass(frozen=True)
class ProgressStepView(View):
    """How far a run was at a moment."""

    at: datetime
    completed_tasks: int
    failed_tasks: int
    total_tasks: int

    @property
    def ended_tasks(self) -> int:
        return self.completed_tasks + self.failed_tasks


@dataclass(frozen=True)
class ExecutionProgressView(View):
    """The last steps of a run, in order. They are deleted some days after the run."""

    content: Annotated[Sequence[ProgressStepView], About("Oldest first.")]


@dataclass(frozen=True)
class TaskStatsView(View):
    """Every task of the day; `total` counts those that wait as well."""

    total: int
    completed: int
    failed: int
    in_progress: int


@dataclass(frozen=True)
class CrawlingMetricsView(View):
    """`successRate` is of all tasks of the day, `progressRate` of the products the seller has; both in percent."""

    seller_id: Annotated[str, About(example="seller_12345")]
    date: Annotated[str, About(example="2026-11-15")]
    success_rate: Annotated[float, About(example=97.5)]
    progress_rate: Annotated[float, About(example=100.0)]
    task_stats: TaskStatsView


@dataclass(frozen=True)
class MetricsSnapshot:
    """The numbers of `/metrics` at one moment."""

    counts: ServiceCounts
    breaker: str
    permits_used: int
    permits_left: int
    marketplace: MarketplaceStatus


def read_metrics(tx: ReportsTx, context: OperationContext, pool: PoolRules) -> MetricsSnapshot:
    """Count everything for Prometheus."""
    limits = pool.limits(tx.overrides.all())
    windows = [agent.window for agent in tx.pool_report.standings(context.moment, limits)]
    return MetricsSnapshot(
        counts=tx.counts.service_counts(context.now),
        breaker=tx.circuits.breaker().state,
        permits_used=sum(window.used for window in windows),
        permits_left=sum(window.left for window in windows),
        marketplace=marketplace_status(tx),
    )


def activity_span(tx: ReportsTx, _: OperationContext) -> tuple[int, int]:
    """Return the lowest and the highest number of the activities that are kept; 0 and 0 where there are none."""
    return tx.activity.span()


def activity_after(tx: ReportsTx, _: OperationContext, number: int, limit: int) -> Sequence[tuple[int, Activity]]:
    """Return the next activities after a number, each with its own."""
    return tx.activity.after(number, limit)


def crawling_metrics(
    tx: ReportsTx, context: OperationContext, seller_id: SellerId, date: dt.date | None, zone: ZoneInfo
) -> CrawlingMetricsView:
    """Show how a seller's crawls of one day went; today if no day is given. A day is one in `zone`."""
    seller, _ = find_seller(tx, seller_id)
    day = date or context.now.astimezone(zone).date()
    since, until = (datetime.combine(day + timedelta(days=n), time(), zone) for n in (0, 1))
    tasks, products = tx.task_queries.count_by_status(seller_id, since, until), tx.product_queries.counts(seller_id)
    total, completed = sum(tasks.values()), tasks.get(TaskStatus.COMPLETED, 0)
    listed = seller.total_product_count
    return CrawlingMetricsView(
        seller_id=seller_id,
        date=day.isoformat(),
        success_rate=round(100 * completed / total, 2) if total else 0.0,
        progress_rate=round(min(100.0, 100 * products.complete / listed), 2) if listed else 0.0,
        task_stats=TaskStatsView(
            total=total,
            completed=completed,
            failed=tasks.get(TaskStatus.FAILED, 0),
            in_progress=tasks.get(TaskStatus.IN_PROGRESS, 0),
        ),
    )


def read_service_health(tx: ReportsTx, context: OperationContext, silent_after: timedelta) -> ServiceHealth:
    """Return whether the parts of the service work. Processes silent for `silent_after` do not count as alive."""
    return tx.counts.service_health(context.now, silent_after)


def show_execution_progress(tx: ReportsTx, _: OperationContext, execution_id: ExecutionId) -> ExecutionProgressView:
    """Show how far a run was, step by step."""
    find_execution(tx, execution_id)
    steps = tx.dashboard.progress(execution_id, MOST_STEPS)
    return ExecutionProgressView([ProgressStepView(step.at, step.completed, step.failed, step.total) for step in steps])
