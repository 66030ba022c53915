"""Days in numbers, against what the marketplace and the receiver logged."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from zoneinfo import ZoneInfo

from tests.simulation.outages import HOUR, calm_settings
from tests.simulation.service_world import ServiceWorld, play

from sellerwatch.reports.day_metrics import DayMetrics, compute_all, crawling_metrics, daily_metrics
from sellerwatch.schedules.interval import CrawlingInterval, IntervalUnit

SEOUL = ZoneInfo("Asia/Seoul")
SIX_HOURLY = CrawlingInterval(6, IntervalUnit.HOURS)
DAY = dt.timedelta(days=1)
ENDPOINTS = ("list", "detail", "options")


async def kept(world: ServiceWorld) -> list[DayMetrics]:
    first = dt.date(2000, 1, 1)
    return list(await world.store.read(lambda tx: tx.kept_days.between(None, first, first + 20_000 * DAY)))


def days_before(world: ServiceWorld) -> dt.date:
    """Return a day before any seller was registered."""
    return world.clock.now().date() - 30 * DAY


def test_days_are_kept_in_the_operators_time_zone_and_equal_the_logs(migrated_template: Path) -> None:
    async def story(world: ServiceWorld) -> None:
        sellers = await world.register_all(every=SIX_HOURLY, due=world.clock.now())
        async with world.serving(schedules=True) as service:
            for number in range(8):
                await world.clock.sleep(9 * HOUR)
                world.simulator.mutate(4, seed=number)
            before = days_before(world)
            session = world.session(service)
            found = await session.ask(crawling_metrics, sellers[0], before, SEOUL)
            assert (found.progress_rate, found.success_rate, found.task_stats.total) == (0.0, 0.0, 0)
            whole = await session.ask(daily_metrics, None, before, before, SEOUL)
            assert (whole.content[0].requests, whole.content[0].products.complete) == (0, 0)
        days = await kept(world)
        dates = sorted({day.day for day in days})
        assert len(dates) == 3
        assert len(days) == 3 * len(sellers)
        log = world.simulator.marketplace.requests()
        events = world.simulator.product_server.events()
        for date in dates:
            of_day = [day for day in days if day.day == date]
            since = dt.datetime.combine(date, dt.time(), SEOUL).timestamp()
            until = dt.datetime.combine(date + DAY, dt.time(), SEOUL).timestamp()
            asked = [
                each for each in log if since <= each.at < until and each.endpoint in ("list", "detail", "options")
            ]
            assert sum(day.requests for day in of_day) == len(asked)
            got = [each for each in events if since <= each.received_at < until]
            assert sum(day.delivered_events for day in of_day) == len(got)
            new = sum(each.event_type == "PRODUCT_CREATED" for each in got)
            gone = sum(each.event_type == "PRODUCT_DELETED" for each in got)
            assert (sum(d.new_products for d in of_day), sum(d.removed_products for d in of_day)) == (new, gone)
        # Computed again from the rows, a day is the same.
        again = await world.store.read(lambda tx: [day for date in dates for day in compute_all(tx, date, SEOUL)])
        assert again == sorted(days, key=lambda day: (day.day, day.seller_id))
        # It stays as it is when the rows that it was made of are deleted.
        await world.store.transact(lambda tx: tx.db.run("DELETE FROM crawler_tasks"))
        await world.store.transact(lambda tx: tx.db.run("DELETE FROM token_usage_log"))
        async with world.service() as service:
            shown = await world.session(service).ask(daily_metrics, None, dates[0], dates[-1], SEOUL)
            one = await world.session(service).ask(crawling_metrics, sellers[0], dates[0], SEOUL)
        for day in shown.content:
            of_day = [each for each in days if each.day.isoformat() == day.date]
            assert day.requests == sum(each.requests for each in of_day) > 0
            assert day.task_stats.completed == sum(each.completed_tasks for each in of_day) > 0
            assert sum(day.latency_ms.buckets.values()) == day.requests
        assert one.task_stats.total > 0

    settings = calm_settings(TIMEZONE="Asia/Seoul")
    play(migrated_template, story, settings=settings, sellers=2, products=20)
