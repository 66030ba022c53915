"""The coming day of all schedules, hour by hour, and whether the pool's budget has room for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from sellerwatch.agents.limits import PoolRules
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.views import About, View
from sellerwatch.reports.dashboard import SellerTimes
from sellerwatch.reports.ports import ReportsTx
from sellerwatch.schedules.forecast import Budget
from sellerwatch.schedules.next_run import starts_at
from sellerwatch.schedules.outlook import HOUR, HOURS, Hour, coming_day, requests_of
from sellerwatch.schedules.queries import IntervalView
from sellerwatch.schedules.schedule import ScheduleStatus


@dataclass(frozen=True)
class OutlookHourView(View):
    """One hour. `over` are requests that do not fit into it and go on into the next."""

    at: datetime
    sellers: Annotated[Sequence[str], About("Sellers whose runs start in it.")]
    requests: Annotated[int, About("Requests of these runs, and those carried over from the hour before.")]
    room: Annotated[int, About("Requests that the available agents may make in it.")]
    over: int

    @classmethod
    def of(cls, hour: Hour) -> OutlookHourView:
        sellers = [run.seller_id for run in hour.runs]
        return cls(hour.at, sellers, hour.asked + hour.carried, hour.room, hour.over)


@dataclass(frozen=True)
class PlannedSellerView(View):
    """A seller with its next run and what that will ask for."""

    seller_id: str
    name: str
    schedule_status: ScheduleStatus | None
    interval: IntervalView
    next_run_at: datetime | None
    requests: int
    fresh_as_of: datetime | None

    @classmethod
    def of(cls, seller: SellerTimes, page_size: int) -> PlannedSellerView:
        return cls(
            seller_id=seller.seller_id,
            name=seller.name,
            schedule_status=seller.schedule,
            interval=IntervalView.of(seller.interval),
            next_run_at=starts_at(seller),
            requests=requests_of(seller.products, page_size),
            fresh_as_of=seller.fresh_as_of,
        )


@dataclass(frozen=True)
class ScheduleOutlookView(View):
    """The coming day: its hours, and every seller in the order of their next runs."""

    hours: Sequence[OutlookHourView]
    requests: Annotated[int, About("Requests of all runs of the day.")]
    room_per_hour: int
    over: Annotated[int, About("Requests that do not fit into the day.")]
    sellers: Sequence[PlannedSellerView]


def schedule_outlook(tx: ReportsTx, context: OperationContext, pool: PoolRules, page_size: int) -> ScheduleOutlookView:
    """Show what the schedules will ask for in the coming day."""
    overrides = tx.overrides.all()
    limits, host = pool.limits(overrides), pool.host(overrides)
    agents = tx.pool_report.standings(context.moment, limits)
    room, sellers = Budget.of(agents, limits, host).within(HOUR), tx.dashboard.freshness()
    end = context.now + (HOURS + 1) * HOUR
    runs = [run for seller in sellers for run in seller.expected_runs(page_size).starts(context.now, end)]
    hours = coming_day(runs, room, context.now)
    by_start = sorted(sellers, key=lambda seller: (starts_at(seller) is None, starts_at(seller) or context.now))
    return ScheduleOutlookView(
        hours=[OutlookHourView.of(hour) for hour in hours],
        requests=sum(hour.asked for hour in hours),
        room_per_hour=room,
        over=hours[-1].over,
        sellers=[PlannedSellerView.of(seller, page_size) for seller in by_start],
    )
