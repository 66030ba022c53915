"""The state of the whole service on one screen: what runs, what is stuck and why, and what needs a person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated

from sellerwatch.agents.marketplace_status import MarketplaceStatusView
from sellerwatch.agents.pool_status import PoolStatusView, pool_status
from sellerwatch.crawling.execution import Execution
from sellerwatch.crawling.queries import causes_of_waiting
from sellerwatch.crawling.views import ListedExecutionView
from sellerwatch.kernel.failure import Blame
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.views import About, View
from sellerwatch.outbox.message import OutboxKind
from sellerwatch.outbox.queries import OutboxView, outbox_status
from sellerwatch.oversight.backups import LastBackupView
from sellerwatch.reports.attention import AttentionView, attention
from sellerwatch.reports.dashboard import SellerTimes
from sellerwatch.reports.freshness import FreshnessState, FreshnessView, SellerFreshness
from sellerwatch.reports.ports import ReportsTx
from sellerwatch.reports.service_state import CheckContext, ServiceState
from sellerwatch.schedules.next_run import starts_at
from sellerwatch.schedules.queries import IntervalView

DAY = timedelta(days=1)
#: Sellers and runs that are listed; all are counted.
MOST_SELLERS, MOST_RUNS = 40, 20
MOST_FAILURES = 1000
#: In the order in which sellers are listed.
STALEST = (
    FreshnessState.LATE,
    FreshnessState.INCOMPLETE,
    FreshnessState.NEVER,
    FreshnessState.FRESH,
    FreshnessState.OFF,
)


@dataclass(frozen=True)
class BlameCountView(View):
    """Failures of the last 24 hours that are one party's fault."""

    blame: Blame
    count: int


@dataclass(frozen=True)
class SellerFreshnessView(View):
    """A seller and how fresh it is."""

    seller_id: str
    name: str
    freshness: FreshnessView
    fresh_as_of: Annotated[datetime | None, About("When the last complete run began.")]
    interval: IntervalView
    next_run_at: datetime | None
    total_product_count: int

    @classmethod
    def of(cls, seller: SellerTimes, freshness: FreshnessView) -> SellerFreshnessView:
        return cls(
            seller_id=seller.seller_id,
            name=seller.name,
            freshness=freshness,
            fresh_as_of=seller.fresh_as_of,
            interval=IntervalView.of(seller.interval),
            next_run_at=starts_at(seller),
            total_product_count=seller.products,
        )


@dataclass(frozen=True)
class SellerTotalsView(View):
    """All sellers, and those that are ACTIVE by how fresh they are."""

    total: int
    active: int
    fresh: int
    never: Annotated[int, About("Not crawled yet, and not overdue.")]
    late: int
    incomplete: int


@dataclass(frozen=True)
class ServiceStatusView(View):
    """The whole service at one moment."""

    at: datetime
    attention: Annotated[Sequence[AttentionView], About("Worst first.")]
    running: Annotated[int, About("Runs in progress.")]
    pending: Annotated[int, About("Runs that could not be started and are tried again.")]
    runs: Annotated[Sequence[ListedExecutionView], About("Runs in progress, the oldest 20.")]
    pending_runs: Annotated[Sequence[ListedExecutionView], About("Runs waiting to start, the oldest 20.")]
    marketplace: MarketplaceStatusView
    pool: PoolStatusView
    outbox: OutboxView
    has_receiver: Annotated[bool, About("Whether PRODUCT_SERVER_URL is set; events of products wait without it.")]
    sellers: SellerTotalsView
    stalest_sellers: Annotated[Sequence[SellerFreshnessView], About("Stalest first, at most 40.")]
    failures: Annotated[Sequence[BlameCountView], About("Of the last 24 hours, the most frequent first.")]
    backup: Annotated[LastBackupView | None, About("Null: `db backup` was never used; backups of others are unknown.")]


def service_status(tx: ReportsTx, context: OperationContext, check_context: CheckContext) -> ServiceStatusView:
    """Show what runs, what is stuck and why, and what needs a person."""
    now, language, look = context.now, context.language, ServiceState(tx, context, check_context)
    has_receiver = check_context.has_receiver
    outboxes = outbox_status(tx, context, has_receiver).content
    running = tx.executions.running()
    waiting_starts = [run for run in look.pending_runs if run.failure is not None]
    return ServiceStatusView(
        at=now,
        attention=attention(look),
        running=len(running),
        pending=len(waiting_starts),
        runs=_runs(tx, running[:MOST_RUNS], context),
        pending_runs=_runs(tx, waiting_starts[:MOST_RUNS], context),
        marketplace=MarketplaceStatusView.of(look.marketplace, language),
        pool=pool_status(tx, context, check_context.pool),
        outbox=next(each for each in outboxes if each.kind is OutboxKind.PRODUCT),
        has_receiver=has_receiver,
        sellers=_totals(look.freshness.values()),
        stalest_sellers=[
            SellerFreshnessView.of(
                seller,
                FreshnessView.of(look.freshness[seller.seller_id], look.causes.get(seller.seller_id), language),
            )
            for seller in _stalest(look)[:MOST_SELLERS]
        ],
        failures=_failures(look),
        backup=LastBackupView.of(look.last_backup, language),
    )


def _totals(sellers: Collection[SellerFreshness]) -> SellerTotalsView:
    counts = Counter(seller.state for seller in sellers)
    return SellerTotalsView(
        total=len(sellers),
        active=len(sellers) - counts[FreshnessState.OFF],
        fresh=counts[FreshnessState.FRESH],
        never=counts[FreshnessState.NEVER],
        late=counts[FreshnessState.LATE],
        incomplete=counts[FreshnessState.INCOMPLETE],
    )


def _runs(tx: ReportsTx, runs: Sequence[Execution], context: OperationContext) -> list[ListedExecutionView]:
    causes = causes_of_waiting(tx, runs, context.now)
    return [ListedExecutionView.of_waiting(run, causes.get(run.execution_id), context.language) for run in runs]


def _stalest(look: ServiceState) -> list[SellerTimes]:
    def staleness(seller: SellerTimes) -> tuple[int, float, str]:
        found = look.freshness[seller.seller_id]
        age = timedelta(0) if found.oldest_at is None else look.now - found.oldest_at
        return STALEST.index(found.state), -(age / seller.length), seller.seller_id

    return sorted(look.sellers, key=staleness)


def _failures(look: ServiceState) -> list[BlameCountView]:
    """Count failed tasks of the last 24 hours, and failed events, by whose fault they are."""
    blames = Counter(look.tx.dashboard.failures(look.now - DAY, MOST_FAILURES))
    if look.needs.failed_events:
        blames[Blame.RECEIVER] += look.needs.failed_events
    return [BlameCountView(blame, count) for blame, count in blames.most_common()]
