"""Whatever happens to the products of a shop, the receiver ends up with the truth and the history replays to it."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.simulated_service import settings_of
from tests.simulation.altered import Altered
from tests.simulation.service_world import ServiceWorld, play, simulated

from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.catalog.differences import replay
from sellerwatch.catalog.facts import BLANK
from sellerwatch.catalog.product import ProductEvent
from sellerwatch.kernel.ids import ItemNo
from sellerwatch.outbox.event import read_event
from sellerwatch.simulator.changes import CHANGES


def replayed(tx: Transaction) -> dict[ItemNo, tuple[dict[str, Any], int, bool]]:
    """Every product as its history alone tells it: state, version, and whether it is gone."""
    states: dict[ItemNo, tuple[dict[str, Any], int, bool]] = {}
    for product in tx.product_queries.page(seller_id=None, state=None, cursor=None, limit=1000).content:
        state: dict[str, Any] = dict(BLANK)
        version, gone = 0, False
        for entry in tx.history.of_product(product.product_id):
            state = replay(BLANK if entry.event is ProductEvent.CREATED else state, entry.changes)
            version, gone = entry.version, entry.event is ProductEvent.DELETED
        states[product.item_no] = (state, version, gone)
    return states


async def check_history(stage: ServiceWorld) -> None:
    def work(tx: Transaction) -> None:
        for item, (state, version, gone) in replayed(tx).items():
            product = tx.products.of_items([item])[item]
            (newest,) = tx.product_outbox.latest_of(product.product_id, 1)
            assert state == read_event(newest.payload).product_data
            assert (version, gone) == (product.version, product.is_deleted)

    await stage.store.read(work)
    told = dict(stage.simulator.product_server.catalogue())
    history = await stage.store.read(replayed)
    assert told == {item: state for item, (state, _, gone) in history.items() if not gone}


STEP = st.tuples(st.sampled_from([*CHANGES, "vanish", "appear", "bump", "crawl"]), st.integers(0, 1000))


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
@given(steps=st.lists(STEP, min_size=1, max_size=20), seed=st.integers(0, 1000))
@simulated(settings=settings_of(PAGE_SIZE=4), sellers=1, products=9)
async def test_for_any_changes_the_receiver_has_the_truth_and_the_history_replays_to_it(
    stage: ServiceWorld, steps: list[tuple[str, int]], seed: int
) -> None:
    sellers, rng, world = await stage.register_all(), Random(seed), stage.simulator.world
    async with stage.serving() as service:
        await stage.crawl(service, sellers)
        for what, which in [*steps, ("crawl", 0)]:
            listed = world.listing(sellers[0])
            if what == "crawl":
                await stage.crawl(service, sellers)
            elif what == "appear":
                world.appear(str(sellers[0]))
            elif listed and what == "vanish" and len(listed) > 3:
                world.vanish(listed[which % len(listed)])
            elif listed and what == "bump":
                world.bump(listed[which % len(listed)])
            elif listed and what in CHANGES:
                _change(stage, listed[which % len(listed)], rng, what)
        stage.check_world()
        await check_history(stage)
    await stage.check_books()


def _change(stage: ServiceWorld, item: int, rng: Random, how: str) -> None:
    try:
        stage.simulator.world.change(item, rng, how)
    except ValueError:
        """It changes nothing about this product."""


@pytest.mark.parametrize("profile", ["calm", "flaky"])
def test_a_shop_that_lives_for_six_runs_is_followed_exactly(migrated_template: Path, profile: str) -> None:
    async def story(stage: ServiceWorld) -> None:
        sellers = await stage.register_all()
        async with stage.serving() as service:
            await stage.crawl_all(service, sellers)
            for number in range(6):
                stage.simulator.world.mutate(12, Random(number))
                await stage.crawl_all(service, sellers)
            stage.check_world()
            await check_history(stage)

    play(migrated_template, story, sellers=2, products=40, profile=profile)


@simulated(settings=settings_of(PAGE_SIZE=100), sellers=1, products=400, volatile=True)
async def test_a_recrawl_with_everything_volatile_varying_tells_nothing(stage: ServiceWorld) -> None:
    sellers = await stage.register_all()
    async with stage.serving() as service:
        await stage.crawl(service, sellers)
        for item in list(stage.simulator.world.listing(sellers[0]))[::3]:
            stage.simulator.world.bump(item)
        await stage.crawl(service, sellers)
        assert len(stage.simulator.product_server.events()) == 400
        assert await stage.count("SELECT COUNT(*) FROM product_changes") == 400
        stage.check_world()


def test_equal_bodies_are_not_read_again_but_a_product_that_returns_is(migrated_template: Path) -> None:
    async def story(stage: ServiceWorld) -> None:
        sellers = await stage.register_all()
        door = stage.transport = Altered(stage.transport)
        async with stage.serving() as service:
            await stage.crawl(service, sellers)
            item = stage.simulator.world.listing(sellers[0])[0]

            def gone(_: int, page: Any) -> Any:
                left = [entry for entry in page["items"] if entry["itemNo"] != item]
                return {**page, "count": page["count"] - 1, "items": left}

            door.lists, door.details = gone, lambda d: 404 if str(item) in str(d) else d
            await stage.crawl(service, sellers)
            door.stop()
            await stage.crawl(service, sellers)
            stage.check_world()
            assert await stage.count("SELECT COUNT(*) FROM body_hashes") == 12
            await check_history(stage)

    play(migrated_template, story, sellers=1, products=12, volatile=False)


@simulated(settings=settings_of(RAW_BODY_DAYS=1), sellers=1, products=4)
async def test_bodies_past_their_time_go_once_a_day_and_the_newest_of_each_part_stays(stage: ServiceWorld) -> None:
    sellers = await stage.register_all()
    async with stage.serving() as service:
        await stage.crawl(service, sellers)
        for number in range(3):
            for item in list(stage.simulator.world.listing(sellers[0])):
                stage.simulator.world.change(item, Random(number), "reprice")
            await stage.crawl(service, sellers)
        await stage.clock.sleep(5)
        assert await stage.count("SELECT COUNT(*) FROM product_raw_data") == 4 * 3 + 3 * 4
    await stage.clock.sleep(49 * 3600)
    async with stage.serving():
        await stage.clock.sleep(5)
        assert await stage.count("SELECT COUNT(*) FROM product_raw_data") == 4 * 3
        stage.check_world()
