"""A day in numbers, per seller: as of its end, and kept for ever.

Days go from 00:00 to 24:00 in TIMEZONE. What ended after the day was not over on it: a day that is computed again from
the rows it was made of gives the same numbers. A day that has not been kept yet is computed when somebody asks.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from typing import Annotated, Protocol
from zoneinfo import ZoneInfo

from sellerwatch.catalog.differences import ChangeKind
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.kernel.errors import Invalid
from sellerwatch.kernel.ids import SellerId
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.views import About, View
from sellerwatch.sellers.seller import SellerNotFound

DAY = timedelta(days=1)
#: Days of one answer.
MOST_DAYS = 400
#: Days before today that are computed where none was kept yet: as far back as tasks may be there.
FIRST_DAYS = 31
#: Upper bounds of the buckets: milliseconds from a request to its answer, seconds from a change to its delivery. They
#: never change, so that the buckets of all days can be added.
LATENCY_BOUNDS = (5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000)
DELIVERY_BOUNDS = (1, 2, 5, 10, 30, 60, 300, 900, 3_600, 21_600, 86_400)
INFINITE = "inf"


@dataclass(eq=False)
class InvalidDays(Invalid):
    """A range of days that ends before it begins, or is too long."""

    first: str
    last: str
    most: int


def bucket_of(value: float, bounds: Sequence[int]) -> str:
    """Return the name of the bucket of a value: its upper bound."""
    return next((str(bound) for bound in bounds if value <= bound), INFINITE)


def percentile(buckets: Mapping[str, int], bounds: Sequence[int], share: float) -> int | None:
    """Return the upper bound of the bucket in which this share of the values ends; None without values, or where it
    ends above all bounds."""
    total, passed = sum(buckets.values()), 0
    for bound in bounds:
        passed += buckets.get(str(bound), 0)
        if total and passed >= share * total:
            return bound
    return None


@dataclass(frozen=True)
class DayMetrics:
    """One seller's day. `complete` and `total` products are those at its end."""

    seller_id: SellerId
    day: dt.date
    waiting_tasks: int = 0
    in_progress_tasks: int = 0
    completed_tasks: int = 0
    failed_tasks: int = 0
    seen_products: int = 0
    new_products: int = 0
    changed_products: int = 0
    removed_products: int = 0
    complete_products: int = 0
    total_products: int = 0
    delivered_events: int = 0
    requests: int = 0
    changes: Mapping[str, int] = field(default_factory=dict)
    latency: Mapping[str, int] = field(default_factory=dict)
    delivery: Mapping[str, int] = field(default_factory=dict)

    @property
    def total_tasks(self) -> int:
        return self.waiting_tasks + self.in_progress_tasks + self.completed_tasks + self.failed_tasks

    @property
    def success_rate(self) -> float:
        """Completed tasks in percent of all; 0 without any."""
        return round(100 * self.completed_tasks / self.total_tasks, 2) if self.total_tasks else 0.0

    @property
    def progress_rate(self) -> float:
        """Complete products in percent of those on the marketplace; 0 without any."""
        if not self.total_products:
            return 0.0
        return round(min(100.0, 100 * self.complete_products / self.total_products), 2)


@dataclass(frozen=True, slots=True)
class TasksOfDay:
    waiting: int
    in_progress: int
    completed: int
    failed: int
    products: int


class DayRows(Protocol):
    """The rows that a day is made of. A span of time begins at `since` and ends before `until`."""

    def sellers(self) -> Sequence[tuple[SellerId, datetime]]:
        """Return every seller, and since when there is one."""
        ...

    def tasks(self, seller_id: SellerId, since: datetime, until: datetime) -> TasksOfDay:
        """Count the tasks made in this time by what had become of them at its end, and the products they are about."""
        ...

    def changed_products(self, seller_id: SellerId, since: datetime, until: datetime) -> int: ...

    def complete_products(self, seller_id: SellerId, until: datetime) -> int:
        """Count the products that were complete and not gone at a time."""
        ...

    def listed_products(self, seller_id: SellerId, until: datetime) -> int:
        """Return how many products the seller's last list before a time stated."""
        ...

    def delivery_buckets(self, seller_id: SellerId | None, since: datetime, until: datetime) -> Mapping[str, int]:
        """Count the events delivered in this time, by the time since their change."""
        ...

    def latency_buckets(
        self, seller_id: SellerId | None, since: datetime, until: datetime
    ) -> Mapping[SellerId, Mapping[str, int]]:
        """Count the requests of this time by seller and by how long the answer took."""
        ...


class KeptDays(Protocol):
    """The days that are kept."""

    def last(self) -> dt.date | None: ...

    def between(self, seller_id: SellerId | None, first: dt.date, last: dt.date) -> Sequence[DayMetrics]: ...

    def save(self, days: Iterable[DayMetrics], now: datetime) -> None:
        """Keep days; each replaces what was kept of it."""
        ...

    def total_buckets(self, kind: str) -> Mapping[str, int]:
        """Add the buckets of all days and sellers."""
        ...


class DaysTx(CrawlTx, Protocol):
    @property
    def day_rows(self) -> DayRows: ...

    @property
    def kept_days(self) -> KeptDays: ...


@dataclass(frozen=True)
class TaskStatsView(View):
    """Every task of the day; `total` counts those that wait as well."""

    total: int
    completed: int
    failed: int
    in_progress: int

    @classmethod
    def of(cls, day: DayMetrics) -> TaskStatsView:
        return cls(day.total_tasks, day.completed_tasks, day.failed_tasks, day.in_progress_tasks)


@dataclass(frozen=True)
class CrawlingMetricsView(View):
    """`successRate` is of all tasks of the day, `progressRate` of the products the seller has; both in percent, as of
    the end of the day. All is zero before the seller was registered."""

    seller_id: Annotated[str, About(example="seller_12345")]
    date: Annotated[str, About(example="2026-11-15")]
    success_rate: Annotated[float, About(example=97.5)]
    progress_rate: Annotated[float, About(example=100.0)]
    task_stats: TaskStatsView


@dataclass(frozen=True)
class HistogramView(View):
    """Values by upper bound of their bucket, in the order of the bounds. A percentile is the bound of the bucket it is
    in; null above all bounds, and without values."""

    buckets: Annotated[Mapping[str, int], About(example={"50": 120, "100": 3})]
    p50: int | None
    p95: int | None
    p99: int | None

    @classmethod
    def of(cls, buckets: Mapping[str, int], bounds: Sequence[int]) -> HistogramView:
        ordered = {name: buckets[name] for name in (*map(str, bounds), INFINITE) if buckets.get(name)}
        return cls(ordered, *(percentile(buckets, bounds, share) for share in (0.5, 0.95, 0.99)))


@dataclass(frozen=True)
class DayProductsView(View):
    """Products of a day. `complete` and `total` are those at its end."""

    seen: int
    new: int
    changed: int
    removed: int
    complete: int
    total: int


@dataclass(frozen=True)
class DayMetricsView(CrawlingMetricsView):
    """Everything about a seller's day; without a seller, of all sellers together."""

    seller_id: str | None  # type: ignore[assignment]
    products: DayProductsView
    changes: Annotated[Mapping[str, int], About("By kind of change.", {"price": 12, "sold_out": 1})]
    delivered_events: int
    requests: int
    latency_ms: HistogramView
    change_to_delivery_seconds: HistogramView

    @classmethod
    def of_day(cls, day: DayMetrics, seller_id: SellerId | None) -> DayMetricsView:
        return cls(
            seller_id=seller_id,
            date=day.day.isoformat(),
            success_rate=day.success_rate,
            progress_rate=day.progress_rate,
            task_stats=TaskStatsView.of(day),
            products=DayProductsView(
                seen=day.seen_products,
                new=day.new_products,
                changed=day.changed_products,
                removed=day.removed_products,
                complete=day.complete_products,
                total=day.total_products,
            ),
            changes=dict(sorted(day.changes.items())),
            delivered_events=day.delivered_events,
            requests=day.requests,
            latency_ms=HistogramView.of(day.latency, LATENCY_BOUNDS),
            change_to_delivery_seconds=HistogramView.of(day.delivery, DELIVERY_BOUNDS),
        )


@dataclass(frozen=True)
class DailyMetricsView(View):
    """Days in order, those without anything included."""

    content: Sequence[DayMetricsView]


def crawling_metrics(
    tx: DaysTx, context: OperationContext, seller_id: SellerId, date: dt.date | None, zone: ZoneInfo
) -> CrawlingMetricsView:
    """Show how a seller's crawls of one day went; today if no day is given. A day is one in `zone`."""
    day = date or context.now.astimezone(zone).date()
    (found,) = _days(tx, context.now, _known(tx, seller_id), day, day, zone)
    return CrawlingMetricsView(
        seller_id, day.isoformat(), found.success_rate, found.progress_rate, TaskStatsView.of(found)
    )


def daily_metrics(
    tx: DaysTx,
    context: OperationContext,
    seller_id: SellerId | None,
    first: dt.date | None,
    last: dt.date | None,
    zone: ZoneInfo,
) -> DailyMetricsView:
    """Show the days from `first` to `last`; the last 30 if none are given. Without a seller, all sellers together."""
    last = last or context.now.astimezone(zone).date()
    first = first or last - 29 * DAY
    if not 0 <= (last - first).days < MOST_DAYS:
        raise InvalidDays(first=first.isoformat(), last=last.isoformat(), most=MOST_DAYS)
    sellers = tx.day_rows.sellers() if seller_id is None else [_known(tx, seller_id)]
    by_day: dict[dt.date, list[DayMetrics]] = {first + n * DAY: [] for n in range((last - first).days + 1)}
    for seller in sellers:
        for day in _days(tx, context.now, seller, first, last, zone):
            by_day[day.day].append(day)
    return DailyMetricsView([DayMetricsView.of_day(_added(day, all_), seller_id) for day, all_ in by_day.items()])


def compute_day(tx: DaysTx, seller_id: SellerId, day: dt.date, zone: ZoneInfo) -> DayMetrics:
    """Compute a seller's day from the rows it is made of; a day that is not over, as it is now."""
    since, until = span(day, zone)
    rows, tasks = tx.day_rows, tx.day_rows.tasks(seller_id, since, until)
    changes = tx.changes.count_by_kind(seller_id, since, until)
    delivery = rows.delivery_buckets(seller_id, since, until)
    latency = rows.latency_buckets(seller_id, since, until).get(seller_id, {})
    return DayMetrics(
        seller_id=seller_id,
        day=day,
        waiting_tasks=tasks.waiting,
        in_progress_tasks=tasks.in_progress,
        completed_tasks=tasks.completed,
        failed_tasks=tasks.failed,
        seen_products=tasks.products,
        new_products=changes.get(ChangeKind.NEW, 0),
        changed_products=rows.changed_products(seller_id, since, until),
        removed_products=changes.get(ChangeKind.GONE, 0),
        complete_products=rows.complete_products(seller_id, until),
        total_products=rows.listed_products(seller_id, until),
        delivered_events=sum(delivery.values()),
        requests=sum(latency.values()),
        changes={str(kind): number for kind, number in changes.items()},
        latency=latency,
        delivery=delivery,
    )


def days_to_keep(tx: DaysTx, zone: ZoneInfo, now: datetime) -> list[dt.date]:
    """Return the days that are over and not kept yet."""
    today, sellers = now.astimezone(zone).date(), tx.day_rows.sellers()
    if not sellers:
        return []
    oldest = min(at for _, at in sellers).astimezone(zone).date()
    last = tx.kept_days.last()
    first = max(oldest, today - FIRST_DAYS * DAY) if last is None else last + DAY
    return [first + n * DAY for n in range((today - first).days)]


def compute_all(tx: DaysTx, day: dt.date, zone: ZoneInfo) -> list[DayMetrics]:
    """Compute a day of every seller that there was on it."""
    _, until = span(day, zone)
    return [compute_day(tx, seller_id, day, zone) for seller_id, at in tx.day_rows.sellers() if at < until]


def all_buckets(tx: DaysTx, zone: ZoneInfo, now: datetime) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """Return latencies and times to delivery since the first day that is known, all sellers together: the days that
    are kept, and everything since."""
    last = tx.kept_days.last()
    since = span(last + DAY, zone)[0] if last is not None else now - FIRST_DAYS * DAY
    latency, delivery = Counter(tx.kept_days.total_buckets("latency")), Counter(tx.kept_days.total_buckets("delivery"))
    for buckets in tx.day_rows.latency_buckets(None, since, now + DAY).values():
        latency.update(buckets)
    delivery.update(tx.day_rows.delivery_buckets(None, since, now + DAY))
    return latency, delivery


def span(day: dt.date, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """Return the beginning and the end of a day, which may be an hour longer or shorter than others."""
    since, until = (datetime.combine(day + n * DAY, time(), zone).astimezone(dt.UTC) for n in (0, 1))
    return since, until


def _known(tx: DaysTx, seller_id: SellerId) -> tuple[SellerId, datetime]:
    seller = tx.sellers.get(seller_id)
    if seller is None:
        raise SellerNotFound(seller_id=seller_id)
    return seller_id, seller.created_at


def _days(
    tx: DaysTx, now: datetime, seller: tuple[SellerId, datetime], first: dt.date, last: dt.date, zone: ZoneInfo
) -> list[DayMetrics]:
    """Return a seller's days: as they are kept, else computed; zeros before the seller was registered, and for days to
    come."""
    seller_id, since = seller
    kept = {day.day: day for day in tx.kept_days.between(seller_id, first, last)}
    registered, today = since.astimezone(zone).date(), now.astimezone(zone).date()
    found = []
    for day in (first + n * DAY for n in range((last - first).days + 1)):
        if day in kept:
            found.append(kept[day])
        elif registered <= day <= today:
            found.append(compute_day(tx, seller_id, day, zone))
        else:
            found.append(DayMetrics(seller_id, day))
    return found


_COUNTS = tuple(
    name
    for name in DayMetrics.__dataclass_fields__
    if name not in ("seller_id", "day", "changes", "latency", "delivery")
)


def _added(day: dt.date, days: Sequence[DayMetrics]) -> DayMetrics:
    """Return days of several sellers as one."""
    if len(days) == 1:
        return days[0]
    counts = {name: sum(getattr(each, name) for each in days) for name in _COUNTS}
    changes, latency, delivery = Counter[str](), Counter[str](), Counter[str]()
    for each in days:
        changes.update(each.changes)
        latency.update(each.latency)
        delivery.update(each.delivery)
    return DayMetrics(SellerId(""), day, **counts, changes=changes, latency=latency, delivery=delivery)
