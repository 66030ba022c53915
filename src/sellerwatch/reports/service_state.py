"""One look at the whole service, which all checks share: each thing is read when a check first asks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from sellerwatch.agents.agent import AgentStatus
from sellerwatch.agents.agent_status import AgentDetails
from sellerwatch.agents.limits import Limits, PoolRules
from sellerwatch.agents.marketplace_status import MarketplaceStatus, marketplace_status
from sellerwatch.crawling.execution import Execution
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.failure import Failure
from sellerwatch.kernel.ids import SellerId
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.outbox.channel import Channel
from sellerwatch.outbox.message import OutboxKind
from sellerwatch.outbox.seller_circuit import SellerCircuit
from sellerwatch.oversight.backups import LastBackup
from sellerwatch.reports.dashboard import Needs, SellerTimes
from sellerwatch.reports.deploy_checks import Deployment
from sellerwatch.reports.freshness import SellerFreshness, causes_of, freshness_of
from sellerwatch.reports.ports import ReportsTx
from sellerwatch.reports.service_counts import ServiceHealth
from sellerwatch.schedules.forecast import DAY, Budget
from sellerwatch.sellers.seller import SellerStatus

#: Failed runs that are looked at, the newest.
MOST_FAILED_RUNS = 1000


@dataclass(frozen=True)
class CheckContext:
    """What checks go by that is not in the database: settings, and what the process that looks can see."""

    pool: PoolRules
    has_receiver: bool
    page_size: int = 500
    #: Processes without a heartbeat for this long do not count as alive.
    silent_after: timedelta = timedelta(seconds=30)
    #: An event that was due this long ago is stuck.
    longest_lag: timedelta = timedelta(seconds=900)
    #: What the process that looks does itself: its heartbeat is not needed. With EventBridge, runs are started
    #: elsewhere.
    is_worker: bool = False
    is_scheduler: bool = False
    #: Bytes that can still be written; None where that is not known.
    disk_left: int | None = None
    #: Messages in the queue's dead-letter box; None where there is none.
    dead_letters: int | None = None
    #: A last good backup that is older needs attention.
    backup_max_age: timedelta = timedelta(days=8)
    #: What settings and files say to who wants to expose the service; None where nobody asks.
    deployment: Deployment | None = None


class ServiceState:
    """The service at one moment."""

    def __init__(self, tx: ReportsTx, context: OperationContext, check_context: CheckContext) -> None:
        self.tx, self.context, self.check_context = tx, context, check_context

    @property
    def now(self) -> datetime:
        return self.context.now

    @cached_property
    def health(self) -> ServiceHealth:
        return self.tx.counts.service_health(self.now, self.check_context.silent_after)

    @cached_property
    def needs(self) -> Needs:
        return self.tx.dashboard.needs(self.now - DAY)

    @cached_property
    def last_backup(self) -> LastBackup | None:
        return self.tx.backups.last()

    @cached_property
    def marketplace(self) -> MarketplaceStatus:
        return marketplace_status(self.tx)

    @cached_property
    def channel(self) -> Channel:
        """Of the events of products."""
        return self.tx.channels.get(OutboxKind.PRODUCT)

    @cached_property
    def refused_sellers(self) -> Sequence[SellerCircuit]:
        """The sellers whose events the receiver does not accept, while it accepts those of others."""
        circuits = self.tx.seller_circuits.of(OutboxKind.PRODUCT).values()
        return [each for each in circuits if each.state is not CircuitState.CLOSED]

    @cached_property
    def agents(self) -> Sequence[AgentDetails]:
        return self.tx.pool_report.standings(self.context.moment, self._limits)

    @cached_property
    def sellers(self) -> Sequence[SellerTimes]:
        return self.tx.dashboard.freshness()

    @cached_property
    def freshness(self) -> Mapping[SellerId, SellerFreshness]:
        return freshness_of(self.tx, self.now)

    @cached_property
    def causes(self) -> Mapping[SellerId, Failure]:
        """Why sellers are late or incomplete."""
        return causes_of(self.tx, self.freshness.values(), self.now)

    @cached_property
    def pending_runs(self) -> Sequence[Execution]:
        """Runs that are not started yet; with a failure where a start was tried."""
        return self.tx.executions.pending()

    @cached_property
    def failed_runs(self) -> Sequence[Execution]:
        """Runs that failed, the newest."""
        return self.tx.dashboard.failed_runs(MOST_FAILED_RUNS)

    @property
    def requests_per_day(self) -> float:
        """What the schedules ask for in the long run, as `plan` counts it."""
        rhythms = [seller.expected_runs(self.check_context.page_size) for seller in self.sellers]
        return sum(each.requests * (DAY / each.interval) for each in rhythms if each.next_run_at is not None)

    @property
    def requests_allowed(self) -> int:
        """What all agents that are not blocked may ask in a day."""
        able = sum(each.agent.status is not AgentStatus.BLOCKED for each in self.agents)
        return Budget.of_so_many(able, self._limits, self.check_context.pool.host(self.tx.overrides.all())).within(DAY)

    @property
    def has_sellers(self) -> bool:
        return any(seller.status is SellerStatus.ACTIVE for seller in self.sellers)

    @property
    def has_worker(self) -> bool:
        return self.check_context.is_worker or self.health.workers > 0

    @property
    def has_scheduler(self) -> bool:
        return self.check_context.is_scheduler or self.health.schedulers > 0

    @cached_property
    def _limits(self) -> Limits:
        return self.check_context.pool.limits(self.tx.overrides.all())
