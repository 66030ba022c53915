"""Jobs that keep what reports show: days that are over, planned run times, and which sellers are late."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from zoneinfo import ZoneInfo

from sellerwatch.crawling.context import Crawl
from sellerwatch.kernel.clock import moment
from sellerwatch.kernel.store import Store
from sellerwatch.operations.ports import ServiceTx
from sellerwatch.reports.day_metrics import DayMetrics, compute_all, days_to_keep
from sellerwatch.reports.lateness import look_at_sellers, next_look, plan_run_times
from sellerwatch.service.jobs import HOUR, Job, at_midnight


def next_plan(tx: ServiceTx, last: datetime | None, now: datetime) -> datetime | None:
    """Return when run times are planned again: once an hour, if anything has happened since."""
    newest = tx.freshness.newest_activity_at()
    if last is None:
        return now
    return None if newest is None or newest <= last else last + HOUR


def _keep(tx: ServiceTx, days: Sequence[DayMetrics], now: datetime) -> None:
    tx.kept_days.save(days, now)


def report_jobs(store: Store[ServiceTx]) -> Mapping[str, Job]:
    """Return the jobs, on this store."""

    async def plan_runs(crawl: Crawl) -> int:
        """Keep how long a run of each seller is planned to take."""
        at, tuning, page_size = moment(crawl.clock), crawl.tuning, crawl.rules.page_size
        planned = await store.read(lambda tx: plan_run_times(tx, at, tuning.limits, tuning.host, page_size))
        if planned:
            await store.transact(lambda tx: tx.lateness.plan(planned, at.now))
        return 0

    async def watch_freshness(crawl: Crawl) -> int:
        """Notice which sellers became late or fresh again, and tell operators. Return how many did."""
        now = crawl.clock.now()
        found = await store.read(lambda tx: look_at_sellers(tx, now))
        if found.changed:
            await store.transact(lambda tx: tx.lateness.save(found.changed, now))
        crawl.tell(found.notices)
        return len(found.notices)

    async def keep_days(crawl: Crawl) -> int:
        """Keep the days that are over, each in a transaction of its own."""
        now, zone = crawl.clock.now(), ZoneInfo(crawl.timezone)
        days = await store.read(lambda tx: days_to_keep(tx, zone, now))
        for day in days:
            computed = await store.read(partial(compute_all, day=day, zone=zone))
            await store.transact(partial(_keep, days=computed, now=now))
        return 0

    return {
        "keep_days": Job(keep_days, at_midnight),
        "plan_runs": Job(plan_runs, lambda tx, _crawl, last, now: next_plan(tx, last, now)),
        "watch_freshness": Job(watch_freshness, lambda tx, _crawl, last, now: next_look(tx, last, now)),
    }
