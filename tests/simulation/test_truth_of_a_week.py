"""A week with faults: what is shown equals what the logs of the marketplace and the receiver say."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from tests.simulation.outages import AGENTS, HOUR, MINUTE, calm_settings, plan
from tests.simulation.service_world import ServiceWorld, play

from sellerwatch.catalog.changes import ChangeFilter
from sellerwatch.compose.check_context import check_context_of
from sellerwatch.reports.attention import AttentionView, list_attention
from sellerwatch.reports.day_metrics import span
from sellerwatch.reports.freshness import FreshnessState, freshness_views
from sellerwatch.schedules.interval import CrawlingInterval, IntervalUnit
from sellerwatch.service.service import Service
from sellerwatch.simulator.chaos import FaultKind
from sellerwatch.simulator.product_server import ServerBehaviour, ServerMode

SIX_HOURLY = CrawlingInterval(6, IntervalUnit.HOURS)
DAY = 24 * HOUR


async def attention(world: ServiceWorld, service: Service) -> list[AttentionView]:
    context = check_context_of(world.settings, has_receiver=True, is_worker=True, is_scheduler=True)
    return list((await world.session(service).ask(list_attention, context)).content)


async def kinds(world: ServiceWorld, service: Service) -> list[str]:
    return [str(each.kind) for each in await attention(world, service)]


def field_changes(events: Iterable[object]) -> Counter[str]:
    """The kinds of changes in what the receiver was told, by the rules of docs/catalogue.md written once more."""
    found: Counter[str] = Counter()
    for event in events:
        kind = event.event_type  # type: ignore[attr-defined]
        if kind == "PRODUCT_CREATED":
            found["new"] += 1
        elif kind == "PRODUCT_DELETED":
            found["gone"] += 1
        for change in event.changes:  # type: ignore[attr-defined]
            field = change["field"]
            inside = field.partition("]")[2] if field.startswith("options[") else None
            if inside == "":
                found["option_added" if change["before"] is None else "option_removed"] += 1
            elif inside is not None:
                found["stock" if inside == ".stock" else "option_changed"] += 1
            elif field == "soldOut":
                found["sold_out" if change["after"] else "back_in_stock"] += 1
            else:
                names = {"prices": "price", "stock": "stock", "images": "image", "tags": "tag", "brand": "brand"}
                names |= {"name": "text", "descriptionHtml": "text", "categories": "category", "shipping": "shipping"}
                found[names.get(field.partition(".")[0], "attribute")] += 1
    return found


async def shown_changes(world: ServiceWorld) -> Counter[str]:
    found: Counter[str] = Counter()
    cursor = None
    while True:
        page = await world.store.read(lambda tx, at=cursor: tx.changes.page(ChangeFilter(), at, 100))  # type: ignore[misc]
        found.update(str(change.kind) for change in page.content)
        cursor = page.next
        if cursor is None:
            return found


@pytest.mark.parametrize("seed", [1, 2])
def test_a_random_week_with_faults_is_shown_as_the_logs_have_it(migrated_template: Path, seed: int) -> None:
    async def story(world: ServiceWorld) -> None:
        rng = random.Random(seed)
        await world.leave_agents(AGENTS)
        sellers = await world.register_all(every=SIX_HOURLY, due=world.clock.now())
        fresh_seen: set[FreshnessState] = set()
        async with world.serving(schedules=True) as service:
            for hour in range(7 * 24):
                if rng.random() < 0.3:
                    world.simulator.mutate(rng.randint(1, 3), seed=f"{seed} {hour}")
                if rng.random() < 0.05:
                    fault = rng.choice([FaultKind.ERROR, FaultKind.REFUSED])
                    plan(world, fault, rng.uniform(0.2, 3) * HOUR, endpoint=rng.choice([None, "detail", "options"]))
                if rng.random() < 0.05:
                    world.simulator.product_server.behave(ServerBehaviour(ServerMode.DOWN))
                elif rng.random() < 0.5:
                    world.simulator.product_server.behave(ServerBehaviour())
                await world.clock.sleep(HOUR)
                fresh_seen |= await check_freshness(world)
            world.simulator.product_server.behave(ServerBehaviour())
            await world.clock.sleep(8 * HOUR)
            assert await kinds(world, service) == []
        events = world.simulator.product_server.events()
        # Every change found was told, one event for each product and run, so both logs have the same changes.
        assert await shown_changes(world) == field_changes(events)
        per_run: dict[str, Counter[str]] = defaultdict(Counter)
        for run in await world.executions():
            if not run.is_open and run.new_products is not None:
                per_run[run.seller_id].update(
                    new=run.new_products, gone=run.gone_products or 0, changed=run.changed_products or 0
                )
        for seller_id in sellers:
            told = Counter(event.event_type for event in events if event.seller_id == seller_id)
            names = {"new": "PRODUCT_CREATED", "gone": "PRODUCT_DELETED", "changed": "PRODUCT_UPDATED"}
            assert {name: per_run[seller_id][name] for name in names} == {n: told[t] for n, t in names.items()}
        assert FreshnessState.FRESH in fresh_seen
        await check_days(world)

    play(migrated_template, story, settings=calm_settings(), sellers=2, products=20, seed=seed)


async def check_days(world: ServiceWorld) -> None:
    """Each day that is kept has the requests that the marketplace and the events that the receiver logged on it."""
    first = dt.date(2000, 1, 1)
    kept = await world.store.read(lambda tx: tx.kept_days.between(None, first, dt.date(2100, 1, 1)))
    dates = sorted({day.day for day in kept})
    assert len(dates) >= 7
    for date in dates:
        since, until = (day.timestamp() for day in span(date, ZoneInfo("UTC")))
        log = world.simulator.marketplace.requests(since, until)
        asked = sum(request.endpoint in ("list", "detail", "options") for request in log)
        arrived = sum(since <= event.received_at < until for event in world.simulator.product_server.events())
        of_day = [day for day in kept if day.day == date]
        assert (sum(day.requests for day in of_day), sum(day.delivered_events for day in of_day)) == (asked, arrived)


async def check_freshness(world: ServiceWorld) -> set[FreshnessState]:
    """A seller with a part that is too old, or with an event that waits, is never shown as fresh."""
    now = world.clock.now()
    views = await world.store.read(lambda tx: freshness_views(tx, now, "en"))
    waiting = await world.store.read(
        lambda tx: tx.db.rows("SELECT seller_id, created_at FROM product_outbox WHERE status <> 'COMPLETED'")
    )
    late_events = Counter(seller for seller, at in waiting if at < now - timedelta(seconds=60))
    for seller_id, view in views.items():
        assert view.undelivered == late_events[seller_id]
        if view.state is FreshnessState.FRESH:
            assert (view.fresh_share, view.undelivered) == (1.0, 0)
            assert view.oldest_part_at is None or view.oldest_part_at >= now - timedelta(hours=6 * 1.1)
    return {view.state for view in views.values()}


def test_trouble_that_makes_sellers_late_stays_one_entry(migrated_template: Path) -> None:
    async def story(world: ServiceWorld) -> None:
        await world.leave_agents(AGENTS)
        await world.register_all(every=CrawlingInterval(1, IntervalUnit.HOURS), due=world.clock.now())
        async with world.serving(schedules=True) as service:
            await world.clock.sleep(30 * MINUTE)
            assert await kinds(world, service) == []
            plan(world, FaultKind.UNAUTHORISED, 2 * HOUR)
            await world.clock.sleep(45 * MINUTE)
            assert await kinds(world, service) == ["failing_starts"]
            await world.clock.sleep(HOUR)
            assert await kinds(world, service) == ["failing_starts"]
            await world.clock.sleep(2 * HOUR)
            assert await kinds(world, service) == []
            world.simulator.mutate(10, seed=7)
            world.simulator.product_server.behave(ServerBehaviour(ServerMode.DOWN))
            await world.clock.sleep(62 * MINUTE)
            assert await kinds(world, service) == ["receiver_away"]
            world.simulator.product_server.behave(ServerBehaviour())
            await world.clock.sleep(20 * MINUTE)
            assert await kinds(world, service) == []

    play(migrated_template, story, settings=calm_settings(), sellers=2, products=20)


def test_a_calm_week_needs_nobody(migrated_template: Path) -> None:
    async def story(world: ServiceWorld) -> None:
        await world.leave_agents(AGENTS)
        await world.register_all(every=SIX_HOURLY, due=world.clock.now())
        async with world.serving(schedules=True) as service:
            for _ in range(28):
                await world.clock.sleep(6 * HOUR)
                assert await kinds(world, service) == []

    play(migrated_template, story, settings=calm_settings(), sellers=2, products=20)
