"""What can be seen across features: the progress of runs, and the numbers that monitors read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import nlargest
from typing import Annotated
from zoneinfo import ZoneInfo

from sellerwatch.agents.limits import PoolRules
from sellerwatch.agents.marketplace_status import MarketplaceStatus, marketplace_status
from sellerwatch.crawling.queries import find_execution
from sellerwatch.kernel.activity import Activity
from sellerwatch.kernel.ids import ExecutionId
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.views import About, View
from sellerwatch.oversight.backups import LastBackup, LastBackupView
from sellerwatch.reports.checks import ServicePart, service_parts
from sellerwatch.reports.day_metrics import all_buckets
from sellerwatch.reports.freshness import FreshnessState, freshness_of
from sellerwatch.reports.ports import ReportsTx
from sellerwatch.reports.service_counts import ServiceCounts
from sellerwatch.reports.service_state import CheckContext, ServiceState

#: Steps of a run that are read for its progress.
MOST_STEPS = 4000
#: Sellers with numbers of their own in the metrics: each is a series.
MOST_SELLERS = 1000


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
class MetricsSnapshot:
    """The numbers of `/metrics` at one moment."""

    counts: ServiceCounts
    breaker: str
    permits_used: int
    permits_left: int
    marketplace: MarketplaceStatus
    #: Sellers by how fresh they are; share and undelivered events of the `MOST_SELLERS` worst sellers.
    freshness: Mapping[FreshnessState, int]
    shares: Mapping[str, float]
    undelivered: Mapping[str, float]
    #: Buckets of all days, and of what was not kept yet.
    latency: Mapping[str, int]
    delivery: Mapping[str, int]
    #: When the last good backup was made, and its size; None where none was.
    backup: LastBackup | None


def read_metrics(tx: ReportsTx, context: OperationContext, pool: PoolRules, zone: ZoneInfo) -> MetricsSnapshot:
    """Count everything for Prometheus."""
    limits = pool.limits(tx.overrides.all())
    windows = [agent.window for agent in tx.pool_report.standings(context.moment, limits)]
    sellers = freshness_of(tx, context.now)
    worst = nlargest(MOST_SELLERS, sellers.values(), key=lambda each: (each.undelivered, -each.share))
    latency, delivery = all_buckets(tx, zone, context.now)
    return MetricsSnapshot(
        counts=tx.counts.service_counts(context.now),
        breaker=tx.circuits.breaker().state,
        permits_used=sum(window.used for window in windows),
        permits_left=sum(window.left for window in windows),
        marketplace=marketplace_status(tx),
        freshness={state: sum(each.state is state for each in sellers.values()) for state in FreshnessState},
        shares={each.seller_id: each.share for each in worst},
        undelivered={each.seller_id: float(each.undelivered) for each in worst},
        latency=latency,
        delivery=delivery,
        backup=tx.backups.last(),
    )


def read_service_parts(
    tx: ReportsTx, context: OperationContext, check_context: CheckContext
) -> tuple[str | None, list[ServicePart]]:
    """Return the schema's revision and the parts of the service, up or down."""
    look = ServiceState(tx, context, check_context)
    return look.health.revision, service_parts(look)


def show_last_backup(tx: ReportsTx, context: OperationContext) -> LastBackupView | None:
    """Show the newest backup that `db backup` made; None where it was never used."""
    return LastBackupView.of(tx.backups.last(), context.language)


def activity_span(tx: ReportsTx, _: OperationContext) -> tuple[int, int]:
    """Return the lowest and the highest number of the activities that are kept; 0 and 0 where there are none."""
    return tx.activity.span()


def activity_after(tx: ReportsTx, _: OperationContext, number: int, limit: int) -> Sequence[tuple[int, Activity]]:
    """Return the next activities after a number, each with its own."""
    return tx.activity.after(number, limit)


def show_execution_progress(tx: ReportsTx, _: OperationContext, execution_id: ExecutionId) -> ExecutionProgressView:
    """Show how far a run was, step by step."""
    find_execution(tx, execution_id)
    steps = tx.dashboard.progress(execution_id, MOST_STEPS)
    return ExecutionProgressView([ProgressStepView(step.at, step.completed, step.failed, step.total) for step in steps])
