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


async def check_history(world: ServiceWorld) -> None:
    def work(tx: Transaction) -> None:
        for item, (state, version, gone) in replayed(tx).items():
            product = tx.products.of_items([item])[item]
            (newest,) = tx.product_outbox.latest_of(product.product_id, 1)
            assert state == read_event(newest.payload).product_data
            assert (version, gone) == (product.version, product.is_deleted)

    await world.store.read(work)
    told = dict(world.simulator.product_server.catalogue())
    history = await world.store.read(replayed)
    assert told == {item: state for item, (state, _, gone) in history.items() if not gone}


STEP = st.tuples(st.sampled_from([*CHANGES, "vanish", "appear", "bump", "crawl"]), st.integers(0, 1000))


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
@given(steps=st.lists(STEP, min_size=1, max_size=20), seed=st.integers(0, 1000))
@simulated(settings=settings_of(PAGE_SIZE=4), sellers=1, products=9)
async def test_for_any_changes_the_receiver_has_the_truth_and_the_history_replays_to_it(
    world: ServiceWorld, steps: list[tuple[str, int]], seed: int
) -> None:
    sellers, rng, shop = await world.register_all(), Random(seed), world.simulator.world
    async with world.serving() as service:
        await world.crawl(service, sellers)
        for what, which in [*steps, ("crawl", 0)]:
            listed = shop.listing(sellers[0])
            if what == "crawl":
                await world.crawl(service, sellers)
            elif what == "appear":
                shop.appear(str(sellers[0]))
            elif listed and what == "vanish" and len(listed) > 3:
                shop.vanish(listed[which % len(listed)])
            elif listed and what == "bump":
                shop.bump(listed[which % len(listed)])
            elif listed and what in CHANGES:
                _change(world, listed[which % len(listed)], rng, what)
        world.check_world()
        await check_history(world)
    await world.check_books()


def _change(world: ServiceWorld, item: int, rng: Random, how: str) -> None:
    try:
        world.simulator.world.change(item, rng, how)
    except ValueError:
        """It changes nothing about this product."""


@pytest.mark.parametrize("profile", ["calm", "flaky"])
def test_a_shop_that_lives_for_six_runs_is_followed_exactly(migrated_template: Path, profile: str) -> None:
    async def story(world: ServiceWorld) -> None:
        sellers = await world.register_all()
        async with world.serving() as service:
            await world.crawl_all(service, sellers)
            for number in range(6):
                world.simulator.world.mutate(12, Random(number))
                await world.crawl_all(service, sellers)
            world.check_world()
            await check_history(world)

    play(migrated_template, story, sellers=2, products=40, profile=profile)


@simulated(settings=settings_of(PAGE_SIZE=100), sellers=1, products=400, volatile=True)
async def test_a_recrawl_with_everything_volatile_varying_tells_nothing(world: ServiceWorld) -> None:
    sellers = await world.register_all()
    async with world.serving() as service:
        await world.crawl(service, sellers)
        for item in list(world.simulator.world.listing(sellers[0]))[::3]:
            world.simulator.world.bump(item)
        await world.crawl(service, sellers)
        assert len(world.simulator.product_server.events()) == 400
        assert await world.count("SELECT COUNT(*) FROM product_changes") == 400
        world.check_world()


def test_equal_bodies_are_not_read_again_but_a_product_that_returns_is(migrated_template: Path) -> None:
    async def story(world: ServiceWorld) -> None:
        sellers = await world.register_all()
        door = world.transport = Altered(world.transport)
        async with world.serving() as service:
            await world.crawl(service, sellers)
            item = world.simulator.world.listing(sellers[0])[0]

            def gone(_: int, page: Any) -> Any:
                left = [entry for entry in page["items"] if entry["itemNo"] != item]
                return {**page, "count": page["count"] - 1, "items": left}

            door.lists, door.details = gone, lambda d: 404 if str(item) in str(d) else d
            await world.crawl(service, sellers)
            door.stop()
            await world.crawl(service, sellers)
            world.check_world()
            assert await world.count("SELECT COUNT(*) FROM body_hashes") == 12
            await check_history(world)

    play(migrated_template, story, sellers=1, products=12, volatile=False)


@simulated(settings=settings_of(RAW_BODY_DAYS=1), sellers=1, products=4)
async def test_old_bodies_go_once_a_day_but_the_newest_and_those_that_texts_need(
    world: ServiceWorld,
) -> None:
    sellers = await world.register_all()
    async with world.serving() as service:
        await world.crawl(service, sellers)
        for number in range(3):
            for item in list(world.simulator.world.listing(sellers[0])):
                world.simulator.world.change(item, Random(number), "reprice")
            await world.crawl(service, sellers)
        await world.clock.sleep(5)
        assert await world.count("SELECT COUNT(*) FROM product_raw_data") == 4 * 3 + 3 * 4
    await world.clock.sleep(49 * 3600)
    async with world.serving():
        await world.clock.sleep(5)
        # The newest of each part, and the first detail of each product: its history is compressed against it.
        assert await world.count("SELECT COUNT(*) FROM product_raw_data") == 4 * 3 + 4
        world.check_world()
        await check_history(world)
