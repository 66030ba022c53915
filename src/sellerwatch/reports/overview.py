"""The state of the whole service on one screen: what runs, what is stuck and why, and what needs a person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated

from sellerwatch.agents.marketplace_status import MarketplaceStatusView, marketplace_status
from sellerwatch.agents.pool_rules import PoolRules
from sellerwatch.agents.pool_status import PoolStatusView, pool_status
from sellerwatch.crawling.execution import Execution
from sellerwatch.crawling.trigger import ALERT_AFTER
from sellerwatch.crawling.views import ListedExecutionView
from sellerwatch.crawling.waiting import causes_of_waiting
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.failure import Blame
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.views import About, View
from sellerwatch.outbox.message import OutboxKind
from sellerwatch.outbox.queries import OutboxView, outbox_status
from sellerwatch.reports.dashboard import Freshness, FreshnessState, Needs
from sellerwatch.reports.ports import ReportsTx
from sellerwatch.schedules.next_run import starts_at
from sellerwatch.schedules.queries import IntervalView
from sellerwatch.sellers.seller import SellerStatus
from sellerwatch.texts import say

DAY = timedelta(days=1)
#: Sellers and runs that are listed; all are counted.
MOST_SELLERS, MOST_RUNS = 40, 20
MOST_FAILURES = 1000


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"


class AttentionKind(StrEnum):
    """What can need a person, worst first."""

    RECEIVER_AWAY = "receiver_away"
    ENDPOINTS_AWAY = "endpoints_away"
    POOL_BREAKER = "pool_breaker"
    FAILED_EVENTS = "failed_events"
    FAILED_SCHEDULES = "failed_schedules"
    LOST_WORKERS = "lost_workers"
    FAILING_STARTS = "failing_starts"
    MARKETPLACE_PAUSED = "marketplace_paused"
    OUTBOX_PAUSED = "outbox_paused"
    SELLERS_PAUSED = "sellers_paused"
    QUARANTINE_CASES = "quarantine_cases"
    HELD_REMOVALS = "held_removals"
    PAUSED_RUNS = "paused_runs"
    FAILED_TASKS = "failed_tasks"
    LATE_SELLERS = "late_sellers"

    @property
    def severity(self) -> Severity:
        return Severity.ERROR if self in _ERRORS else Severity.WARNING


_ERRORS = frozenset(
    {
        AttentionKind.RECEIVER_AWAY,
        AttentionKind.ENDPOINTS_AWAY,
        AttentionKind.POOL_BREAKER,
        AttentionKind.FAILED_EVENTS,
        AttentionKind.FAILED_SCHEDULES,
        AttentionKind.LOST_WORKERS,
        AttentionKind.FAILING_STARTS,
    }
)


@dataclass(frozen=True)
class AttentionView(View):
    """Something that needs a person, and how much of it."""

    kind: AttentionKind
    severity: Severity
    count: int
    sentence: str


@dataclass(frozen=True)
class BlameCountView(View):
    """Failures of the last 24 hours that are one party's fault."""

    blame: Blame
    count: int


@dataclass(frozen=True)
class SellerFreshnessView(View):
    """Whether what we know of a seller is as recent as its interval asks for."""

    seller_id: str
    name: str
    state: FreshnessState
    fresh_as_of: Annotated[datetime | None, About("When the last complete run began.")]
    interval: IntervalView
    next_run_at: datetime | None
    total_product_count: int

    @classmethod
    def of(cls, seller: Freshness, now: datetime) -> SellerFreshnessView:
        return cls(
            seller_id=seller.seller_id,
            name=seller.name,
            state=seller.state(now),
            fresh_as_of=seller.fresh_as_of,
            interval=IntervalView.of(seller.interval),
            next_run_at=starts_at(seller),
            total_product_count=seller.products,
        )


@dataclass(frozen=True)
class SellerTotalsView(View):
    """All sellers, and those that are ACTIVE: a seller that is not late is on time."""

    total: int
    active: int
    on_time: int
    late: int


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


def service_status(
    tx: ReportsTx, context: OperationContext, pool_rules: PoolRules, has_receiver: bool
) -> ServiceStatusView:
    """Show what runs, what is stuck and why, and what needs a person."""
    now, language = context.now, context.language
    needs, sellers = tx.dashboard.needs(now - DAY), tx.dashboard.freshness()
    marketplace, pool = marketplace_status(tx), pool_status(tx, context, pool_rules)
    outboxes = outbox_status(tx, context, has_receiver).content
    outbox = next(each for each in outboxes if each.kind is OutboxKind.PRODUCT)
    running = tx.executions.running()
    pending = [run for run in tx.executions.pending() if run.failure is not None]
    late = sum(seller.is_late(now) for seller in sellers)
    active = sum(seller.status is SellerStatus.ACTIVE for seller in sellers)
    counts = _need_counts(needs) | {
        AttentionKind.RECEIVER_AWAY: int(outbox.circuit.state is not CircuitState.CLOSED),
        AttentionKind.OUTBOX_PAUSED: int(outbox.is_paused),
        AttentionKind.ENDPOINTS_AWAY: len(marketplace.away),
        AttentionKind.MARKETPLACE_PAUSED: int(marketplace.is_paused),
        AttentionKind.SELLERS_PAUSED: len(marketplace.seller_pauses),
        AttentionKind.POOL_BREAKER: int(pool.breaker.state is not CircuitState.CLOSED),
        AttentionKind.FAILING_STARTS: sum(run.start_tries >= ALERT_AFTER for run in pending),
        AttentionKind.LATE_SELLERS: late,
    }
    return ServiceStatusView(
        at=now,
        attention=[
            AttentionView(kind, kind.severity, counts[kind], say("attention", kind, language, n=counts[kind]))
            for kind in AttentionKind
            if counts[kind] > 0
        ],
        running=len(running),
        pending=len(pending),
        runs=_runs(tx, running[:MOST_RUNS], language),
        pending_runs=_runs(tx, pending[:MOST_RUNS], language),
        marketplace=MarketplaceStatusView.of(marketplace, language),
        pool=pool,
        outbox=outbox,
        has_receiver=has_receiver,
        sellers=SellerTotalsView(len(sellers), active, active - late, late),
        stalest_sellers=[SellerFreshnessView.of(seller, now) for seller in _stalest(sellers, now)[:MOST_SELLERS]],
        failures=_failures(tx, needs, now),
    )


def _need_counts(needs: Needs) -> dict[AttentionKind, int]:
    return {
        AttentionKind.FAILED_EVENTS: needs.failed_events,
        AttentionKind.QUARANTINE_CASES: needs.open_cases,
        AttentionKind.HELD_REMOVALS: needs.held_removals,
        AttentionKind.FAILED_SCHEDULES: needs.failed_schedules,
        AttentionKind.LOST_WORKERS: needs.dead_letters,
        AttentionKind.PAUSED_RUNS: needs.paused_runs,
        AttentionKind.FAILED_TASKS: needs.failed_tasks - needs.dead_letters,
    }


def _runs(tx: ReportsTx, runs: Sequence[Execution], language: str) -> list[ListedExecutionView]:
    causes = causes_of_waiting(tx, runs)
    return [ListedExecutionView.of_waiting(run, causes.get(run.execution_id), language) for run in runs]


def _stalest(sellers: Iterable[Freshness], now: datetime) -> list[Freshness]:
    order = (FreshnessState.LATE, FreshnessState.NEVER, FreshnessState.FRESH, FreshnessState.OFF)

    def staleness(seller: Freshness) -> tuple[int, float, str]:
        return order.index(seller.state(now)), -(seller.age(now) or 0), seller.seller_id

    return sorted(sellers, key=staleness)


def _failures(tx: ReportsTx, needs: Needs, now: datetime) -> list[BlameCountView]:
    """Count failed tasks of the last 24 hours, and failed events, by whose fault they are."""
    blames = Counter(tx.dashboard.failures(now - DAY, MOST_FAILURES))
    if needs.failed_events:
        blames[Blame.RECEIVER] += needs.failed_events
    return [BlameCountView(blame, count) for blame, count in blames.most_common()]
