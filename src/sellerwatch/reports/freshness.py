"""Whether what the receiver has been told of a seller is as recent as the seller's interval asks for.

FRESH: every part of every live product was read within the interval and its slack, and no event has waited for more
than a minute. The slack is a tenth of the interval or, if that is longer, the time that a run is planned to take.

A product that a run in progress found, and has not read yet, does not count before that run has ended.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Protocol

from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.crawling.queries import causes_of_waiting
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.failure import Failure, FailureCode
from sellerwatch.kernel.failure_view import WaitingView
from sellerwatch.kernel.ids import ExecutionId, SellerId
from sellerwatch.kernel.views import About, View
from sellerwatch.outbox.message import OutboxKind
from sellerwatch.schedules.interval import CrawlingInterval
from sellerwatch.schedules.next_run import spread
from sellerwatch.sellers.seller import SellerStatus

#: Part of the interval by which parts may be older than it.
SLACK = 0.1
#: An event may wait for this long.
LONGEST_WAIT = timedelta(seconds=60)


class FreshnessState(StrEnum):
    """Whether what the receiver knows of a seller is as recent as its interval asks for."""

    FRESH = "fresh"
    LATE = "late"
    INCOMPLETE = "incomplete"
    NEVER = "never"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class CompletedRun:
    """The last run of a seller whose tasks all ended."""

    execution_id: ExecutionId
    started_at: datetime
    ended_at: datetime
    failed_tasks: int
    total_tasks: int

    @property
    def minutes(self) -> int:
        return int((self.ended_at - self.started_at) / timedelta(minutes=1))


@dataclass(frozen=True, slots=True)
class SellerTiming:
    """What decides how old a seller's parts may be, and its last and its open run."""

    seller_id: SellerId
    status: SellerStatus
    interval: CrawlingInterval
    next_run_at: datetime | None
    planned: timedelta
    last_run: CompletedRun | None = None
    open_run: ExecutionId | None = None
    open_since: datetime | None = None
    late_since: datetime | None = None
    check_at: datetime | None = None

    @property
    def length(self) -> timedelta:
        """How long its interval is."""
        return self.interval.length

    @property
    def slack(self) -> timedelta:
        """A run planned to take longer than the interval does not excuse more than an interval."""
        return max(self.interval.length * SLACK, min(self.planned, self.interval.length))

    @property
    def longest_age(self) -> timedelta:
        return self.interval.length + self.slack

    @property
    def next_start_at(self) -> datetime | None:
        """When the scheduler starts the next run: the seller's own moment after its time."""
        return None if self.next_run_at is None else self.next_run_at + spread(self)

    @property
    def first_run_due(self) -> datetime | None:
        """When the first run was due: for a seller without a completed run."""
        return self.open_since or self.next_run_at


@dataclass(frozen=True, slots=True)
class PartTimes:
    """The parts of a seller's live products. `unread` are products with a part that was never read."""

    products: int
    unread: int
    oldest_at: datetime | None


@dataclass(frozen=True, slots=True)
class InTime:
    """Of `products` live products, all parts of `in_time` were read since a moment."""

    products: int
    in_time: int


@dataclass(frozen=True, slots=True)
class WaitingEvents:
    """Events of a seller that were not delivered: how many wait for too long, and since when the oldest waits."""

    too_long: int
    oldest_at: datetime


@dataclass(frozen=True, slots=True)
class Lateness:
    """What is kept of a seller from one look to the next: since when it is late, and when it will be if nothing
    happens."""

    seller_id: SellerId
    late_since: datetime | None
    check_at: datetime | None


class FreshnessQueries(Protocol):
    """What freshness is computed from. `seller_ids` None: all sellers."""

    def timings(self, seller_ids: Sequence[SellerId] | None) -> Sequence[SellerTiming]: ...

    def part_times(self, seller_ids: Sequence[SellerId] | None) -> Mapping[SellerId, PartTimes]:
        """Return the parts of the live products of each seller that has any."""
        ...

    def count_in_time(self, seller_id: SellerId, since: datetime, found_since: datetime | None) -> InTime:
        """Count the products whose parts were all read since then. Those found since `found_since` count only when
        all their parts were read."""
        ...

    def waiting_events(
        self, seller_ids: Sequence[SellerId] | None, before: datetime
    ) -> Mapping[SellerId, WaitingEvents]:
        """Return the undelivered events of each seller that has any; those made before that moment wait too long."""
        ...

    def failed_run_since(self, seller_id: SellerId, since: datetime | None) -> Failure | None:
        """Return why the newest run failed, if it is newer than that."""
        ...

    def held_parts(self, seller_id: SellerId) -> int: ...

    def held_removals(self, seller_id: SellerId) -> int:
        """Return how many products are missing from the list and held."""
        ...

    def next_check(self) -> datetime | None:
        """Return the first time at which a seller will be late if nothing happens."""
        ...

    def newest_activity_at(self) -> datetime | None: ...


class LatenessRecords(Protocol):
    """What is kept of sellers from one look to the next."""

    def save(self, records: Iterable[Lateness], now: datetime) -> None: ...

    def plan(self, run_times: Mapping[SellerId, timedelta], now: datetime) -> None:
        """Keep how long a run of each seller is planned to take."""
        ...


class FreshnessTx(CrawlTx, Protocol):
    @property
    def freshness(self) -> FreshnessQueries: ...

    @property
    def lateness(self) -> LatenessRecords: ...


@dataclass(frozen=True, slots=True)
class SellerFreshness:
    """How fresh a seller is. `late_at` is when it will be late if nothing happens."""

    timing: SellerTiming
    state: FreshnessState
    share: float
    oldest_at: datetime | None
    undelivered: int
    late_at: datetime | None = None

    @property
    def seller_id(self) -> SellerId:
        return self.timing.seller_id

    @property
    def has_cause(self) -> bool:
        return self.state in (FreshnessState.LATE, FreshnessState.INCOMPLETE)


@dataclass(frozen=True)
class FreshnessView(View):
    """Whether what the receiver knows of a seller is as recent as its interval asks for."""

    state: FreshnessState
    fresh_share: Annotated[float, About("Share of the products with every part read in time, 0 to 1.", 1.0)]
    oldest_part_at: Annotated[datetime | None, About("When the part was read that was not read for the longest time.")]
    undelivered: Annotated[int, About("Events that wait for more than 60 s.")]
    fresh_as_of: Annotated[datetime | None, About("When the last complete run began.")]
    cause: Annotated[WaitingView | None, About("Why it is late or incomplete.")]

    @property
    def percent_in_time(self) -> str | None:
        """The share in percent, as tables show it; None of sellers that were never or are not crawled."""
        has_share = self.state not in (FreshnessState.NEVER, FreshnessState.OFF)
        return f"{100 * self.fresh_share:.2f} %" if has_share else None

    @classmethod
    def of(cls, freshness: SellerFreshness, cause: Failure | None, language: str) -> FreshnessView:
        return cls(
            state=freshness.state,
            fresh_share=freshness.share,
            oldest_part_at=freshness.oldest_at,
            undelivered=freshness.undelivered,
            fresh_as_of=None if freshness.timing.last_run is None else freshness.timing.last_run.started_at,
            cause=WaitingView.of(cause, language),
        )


def freshness_of(
    tx: FreshnessTx, now: datetime, seller_ids: Sequence[SellerId] | None = None
) -> dict[SellerId, SellerFreshness]:
    """Return how fresh these sellers are, or all."""
    waiting = tx.freshness.waiting_events(seller_ids, now - LONGEST_WAIT)
    parts = tx.freshness.part_times(seller_ids)
    return {
        timing.seller_id: _judge(tx, timing, parts.get(timing.seller_id), waiting.get(timing.seller_id), now)
        for timing in tx.freshness.timings(seller_ids)
    }


def freshness_views(
    tx: FreshnessTx, now: datetime, language: str, seller_ids: Sequence[SellerId] | None = None
) -> dict[SellerId, FreshnessView]:
    """Return how fresh these sellers are, or all, with the cause where one is late or incomplete."""
    found = freshness_of(tx, now, seller_ids)
    causes = causes_of(tx, found.values(), now)
    return {each: FreshnessView.of(found[each], causes.get(each), language) for each in found}


def causes_of(tx: FreshnessTx, sellers: Iterable[SellerFreshness], now: datetime) -> dict[SellerId, Failure]:
    """Return the cause for each of these sellers that is late or incomplete."""
    unfresh = [seller for seller in sellers if seller.has_cause]
    runs = {run.execution_id: run for run in (*tx.executions.pending(), *tx.executions.running())} if unfresh else {}
    waiting = causes_of_waiting(tx, [runs[s.timing.open_run] for s in unfresh if s.timing.open_run in runs], now)
    return {seller.seller_id: _cause(tx, seller, waiting, now) for seller in unfresh}


def _judge(
    tx: FreshnessTx, timing: SellerTiming, parts: PartTimes | None, events: WaitingEvents | None, now: datetime
) -> SellerFreshness:
    since = now - timing.longest_age
    share, oldest = _share(tx, timing, parts, since), None if parts is None else parts.oldest_at
    undelivered = 0 if events is None else events.too_long
    late_at = _late_at(timing, oldest, events, now)

    def found(state: FreshnessState) -> SellerFreshness:
        return SellerFreshness(timing, state, share, oldest, undelivered, late_at)

    if timing.status is not SellerStatus.ACTIVE:
        return SellerFreshness(timing, FreshnessState.OFF, share, oldest, undelivered)
    if timing.last_run is None and not undelivered:
        due = timing.first_run_due
        is_overdue = due is not None and now > due + timing.slack
        return found(FreshnessState.LATE if is_overdue else FreshnessState.NEVER)
    if share == 1 and not undelivered:
        return found(FreshnessState.FRESH)
    run = timing.last_run
    if share < 1 and run is not None and run.started_at >= since and run.failed_tasks:
        return found(FreshnessState.INCOMPLETE)
    return found(FreshnessState.LATE)


def _share(tx: FreshnessTx, timing: SellerTiming, parts: PartTimes | None, since: datetime) -> float:
    """Return the share of products that are in time, never rounded up. An empty shop is as old as its last list."""
    if parts is None or not parts.products:
        return float(timing.last_run is not None and timing.last_run.started_at >= since)
    if not parts.unread and parts.oldest_at is not None and parts.oldest_at >= since:
        return 1.0
    counted = tx.freshness.count_in_time(timing.seller_id, since, timing.open_since)
    return math.floor(10_000 * counted.in_time / counted.products) / 10_000 if counted.products else 1.0


def _late_at(
    timing: SellerTiming, oldest: datetime | None, events: WaitingEvents | None, now: datetime
) -> datetime | None:
    """Return when time alone makes the seller late."""
    if timing.last_run is None:
        due = timing.first_run_due
        times = [] if due is None else [due + timing.slack]
    else:
        times = [(oldest or timing.last_run.started_at) + timing.longest_age]
    if events is not None:
        times.append(events.oldest_at + LONGEST_WAIT)
    return min((time for time in times if time >= now), default=None)


def _cause(tx: FreshnessTx, seller: SellerFreshness, waiting: Mapping[ExecutionId, Failure], now: datetime) -> Failure:
    """Parts come first: an event is late after the parts that it is made of."""
    timing = seller.timing
    if seller.share == 1 and seller.undelivered and timing.last_run is not None:
        return _why_undelivered(tx, seller, now)
    if timing.open_run is not None and timing.open_run in waiting:
        return waiting[timing.open_run]
    for pause in tx.marketplace.pauses():
        if pause.seller_id in (None, timing.seller_id):
            return Failure.of(FailureCode.MARKETPLACE_PAUSED, pause.paused_at)
    run = timing.last_run
    if seller.state is FreshnessState.INCOMPLETE and run is not None:
        for failure, _ in tx.run_tasks.failures(run.execution_id, 1):
            return failure
    held, missing = tx.freshness.held_parts(timing.seller_id), tx.freshness.held_removals(timing.seller_id)
    if held:
        return Failure.of(FailureCode.PARTS_HELD, now, parts=held)
    if missing:
        return Failure.of(FailureCode.REMOVAL_HELD, now, products=missing)
    if timing.open_run is not None:
        since = timing.open_since or now
        return Failure.of(FailureCode.RUN_TAKES_LONG, since, minutes=int((now - since) / timedelta(minutes=1)))
    failed = tx.freshness.failed_run_since(timing.seller_id, None if run is None else run.started_at)
    if failed is not None:
        return failed
    due = timing.next_start_at
    if due is None or due <= now:
        return Failure.of(FailureCode.START_OVERDUE, due or now)
    if run is not None and not run.failed_tasks and run.started_at < now - timing.longest_age:
        return Failure.of(FailureCode.RUN_SKIPPED, run.ended_at, minutes=run.minutes)
    return Failure.of(FailureCode.PARTS_NOT_READ, now)


def _why_undelivered(tx: FreshnessTx, seller: SellerFreshness, now: datetime) -> Failure:
    channel, waiting = tx.channels.get(OutboxKind.PRODUCT), seller.undelivered
    if channel.is_paused:
        return Failure.of(FailureCode.OUTBOX_PAUSED, channel.paused_at or now, events=waiting)
    if channel.state is not CircuitState.CLOSED:
        return Failure.of(
            FailureCode.RECEIVER_AWAY, channel.opened_at or now, events=waiting, detail=channel.reason or ""
        )
    circuit = tx.seller_circuits.of(OutboxKind.PRODUCT).get(seller.timing.seller_id)
    if circuit is not None and circuit.opened_at is not None:
        detail = circuit.reason or ""
        return Failure.of(FailureCode.SELLER_REFUSED, circuit.opened_at, seller=circuit.seller_id, detail=detail)
    return Failure.of(FailureCode.EVENTS_WAIT, now, events=waiting)
