"""What every step of a crawl works with, as one argument: no step opens a connection itself."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from sellerwatch.agents.circuit import Circuit
from sellerwatch.agents.lending import EmbeddedLimiter, LendingRules
from sellerwatch.agents.limits import Host, Limits
from sellerwatch.agents.outages import Observed
from sellerwatch.agents.ports import AgentsTx, Limiter, Pause, Permit, Sealer
from sellerwatch.crawling.absorb_batch import CrawlRules
from sellerwatch.crawling.outage_effects import apply_outage
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.crawling.queue import DeadLetters, EmbeddedQueue, Queue
from sellerwatch.kernel.backoff import Backoff
from sellerwatch.kernel.clock import Clock
from sellerwatch.kernel.ids import Ids, SellerId, WorkerId
from sellerwatch.kernel.leases import EmbeddedLeases, JobLeases
from sellerwatch.kernel.notices import Notice
from sellerwatch.kernel.store import Store
from sellerwatch.marketplaces.ports import Marketplace
from sellerwatch.marketplaces.robots import Robots
from sellerwatch.oversight.alerts import AlertQueue, LogAlerts
from sellerwatch.oversight.retention import RetentionRules


@dataclass
class PauseState:
    """Requests that a person has stopped: all of them, or those for some sellers."""

    everything: bool = False
    sellers: frozenset[SellerId] = field(default_factory=frozenset)

    def stops(self, seller_id: SellerId) -> bool:
        return self.everything or seller_id in self.sellers

    def take(self, pauses: Sequence[Pause]) -> bool:
        """Take over what the database says; True where something is paused that was not."""
        was = self.everything, self.sellers
        self.everything = any(pause.seller_id is None for pause in pauses)
        self.sellers = frozenset(pause.seller_id for pause in pauses if pause.seller_id is not None)
        return (self.everything and not was[0]) or bool(self.sellers - was[1])


@dataclass
class Tuning:
    """Settings that an operator may change at run time; every claim reads them again."""

    limits: Limits = field(default_factory=Limits)
    host: Host = field(default_factory=Host)
    concurrency: int = 100

    def take(self, other: Tuning) -> None:
        self.limits, self.host, self.concurrency = other.limits, other.host, other.concurrency


class PermitMarker(Protocol):
    """Remembers the highest permit outside the database."""

    def read(self) -> int: ...

    def write(self, number: int) -> None: ...


class UsageLogPartitions(Protocol):
    """The usage log, where the database partitions it by month."""

    async def keep(self, now: datetime, before: datetime) -> int:
        """Create the next partitions and drop those that ended before `before`; return how many were dropped."""


@dataclass(frozen=True)
class Crawl:
    """What a process needs to crawl. `worker_id` is this process: its heartbeat is the lease of what it holds."""

    store: Store[CrawlTx]
    marketplace: Marketplace
    clock: Clock
    ids: Ids
    rng: random.Random
    sealer: Sealer
    worker_id: WorkerId
    rules: CrawlRules
    tuning: Tuning = field(default_factory=Tuning)
    limiter: Limiter = field(default_factory=EmbeddedLimiter)
    alerts: AlertQueue = field(default_factory=lambda: AlertQueue(LogAlerts()))
    mark: PermitMarker | None = None
    months: UsageLogPartitions | None = None
    circuit: Circuit = field(default_factory=Circuit)
    suspension: timedelta = timedelta(hours=1)
    refresh_every: timedelta = timedelta(hours=1)
    retention: RetentionRules = field(default_factory=RetentionRules)
    timezone: str = "UTC"
    robots: Robots | None = None
    heartbeat: timedelta = timedelta(seconds=10)
    visibility: timedelta = timedelta(seconds=30)
    deadline: timedelta = timedelta(days=1)
    #: None: in the database.
    leased: JobLeases | None = None
    queue: Queue = field(default_factory=EmbeddedQueue)
    dead_letters: DeadLetters | None = None
    retry_pause: Backoff = field(default_factory=lambda: Backoff(first=1.0, longest=60.0))
    pause: PauseState = field(default_factory=PauseState)
    #: How long a process that tries a start keeps the others from trying it.
    start_taken: timedelta = timedelta(seconds=30)
    start_retry: Backoff = field(default_factory=lambda: Backoff(first=30.0, longest=900.0))

    @property
    def limits(self) -> Limits:
        return self.tuning.limits

    @property
    def leases(self) -> JobLeases:
        return self.leased or EmbeddedLeases(self.store, self.clock, self.worker_id)

    @property
    def terms(self) -> LendingRules:
        return LendingRules(
            self.limits, self.tuning.host, self.rules.breaker, self.limiter, self.rules.marketplace_circuit
        )

    @property
    def is_paused(self) -> bool:
        """Whether a person has paused all requests to the marketplace."""
        return self.pause.everything

    def rest(self, asked: timedelta | None = None) -> timedelta:
        """Length of a suspension: AGENT_SUSPENSION_SECONDS, or Retry-After if longer, plus up to 10 % jitter, so that
        not all agents are back in the same second."""
        return max(self.suspension, asked or timedelta(0)) * (1 + 0.1 * self.rng.random())

    def mark_permit(self, permit: Permit) -> None:
        """Remember the highest permit outside the database, before anything of it is sent."""
        if self.mark is not None:
            self.mark.write(permit.number)

    async def transact_answer(self, work: Callable[[AgentsTx], Observed], now: datetime) -> Observed:
        """Run a transaction that writes an answer. What the outage that it began or ended means for tasks and runs is
        done in the same transaction."""

        def whole(tx: CrawlTx) -> Observed:
            observed = work(tx)
            apply_outage(tx, observed, frozenset(), now)
            return observed

        return await self.store.transact(whole)

    def tell(self, notices: Sequence[Notice]) -> None:
        """Alert people; after the transaction."""
        for notice in notices:
            self.alerts.post(notice, self.clock.now())
