"""Whole crawls on a real MariaDB: what holds on the embedded database holds there, step by step and killed anywhere."""

from __future__ import annotations

import pytest
from tests.faults.test_killed_at_every_step import PRODUCTS, SETTINGS, begin, check, live
from tests.servers import MariaDb
from tests.simulated_service import settings_of
from tests.simulation.doors import Life, ShakyStore
from tests.simulation.service_world import ServiceWorld, play
from tests.simulation.test_recheck import be_well, newest, pause

from sellerwatch.simulator.rng import seeded_rng
from sellerwatch.simulator.world import CHANGES_ONLY


def test_a_first_crawl_tells_every_product_once(mariadb_url: str) -> None:
    async def story(world: ServiceWorld) -> None:
        sellers = await world.register_all()
        async with world.serving() as service:
            assert await world.crawl_all(service, sellers) == 1
            world.check_world()
        await world.check_books()
        assert len(world.simulator.product_server.events()) == 24

    play(mariadb_url, story, settings=settings_of(PAGE_SIZE=5), sellers=2, products=12)


def test_later_crawls_tell_what_changed_and_what_is_gone(mariadb_url: str) -> None:
    async def story(world: ServiceWorld) -> None:
        sellers = await world.register_all()
        shop = world.simulator.world
        async with world.serving() as service:
            await world.crawl_all(service, sellers)
            changed = {mutation.item_no for mutation in shop.mutate(4, seeded_rng("changes"), CHANGES_ONLY)}
            gone = next(item for item in shop.listing(sellers[0]) if item not in changed)
            shop.vanish(gone)
            await world.crawl_all(service, sellers)
            world.check_world()
        await world.check_books()
        types = [event.event_type for event in world.simulator.product_server.events()][12:]
        assert sorted(types) == ["PRODUCT_DELETED", *["PRODUCT_UPDATED"] * 4]

    play(mariadb_url, story, sellers=1, products=12)


def test_a_run_that_unreadable_answers_paused_heals(mariadb_url: str) -> None:
    async def story(world: ServiceWorld) -> None:
        sellers = await world.register_all()
        async with world.serving() as service:
            await pause(world, service, sellers[0])
            be_well(world)
            await world.settle(service)
            assert (await newest(world)).all_succeeded
            world.check_world()
        await world.check_books()

    play(mariadb_url, story, sellers=1, products=14)


@pytest.mark.parametrize("crawled", [False, True], ids=["its first", "one that finds changes"])
def test_killed_at_several_steps_the_next_start_completes_it(
    mariadb: MariaDb, mariadb_template: str, mariadb_url: str, crawled: bool
) -> None:
    async def whole(world: ServiceWorld) -> int:
        await begin(world, crawled)
        life = Life()
        await live(world, life)
        await check(world, crawled)
        return len(life.steps)

    steps = play(mariadb_url, whole, settings=SETTINGS, sellers=1, products=PRODUCTS)
    for ends_at in range(7, steps, steps // 4):

        async def cut(world: ServiceWorld, ends_at: int = ends_at) -> None:
            await begin(world, crawled)
            await live(world, Life(ends_at))
            await world.clock.sleep(world.settings.visibility_seconds + 1)
            await live(world, Life())
            await check(world, crawled)

        url = mariadb.copy(mariadb_template)
        play(url, cut, settings=SETTINGS, sellers=1, products=PRODUCTS)
        mariadb.drop(url)


def test_commits_whose_answers_were_lost_are_run_again_and_do_no_harm(mariadb_url: str) -> None:
    async def story(world: ServiceWorld) -> None:
        number, ends = 0, False

        def every_fifth() -> bool:
            nonlocal number
            number += 1
            return number % 5 == 0 and not ends

        sellers = await world.register_all()
        shaky = ShakyStore(world.store, world.clock, lambda: False, too_late=every_fifth)
        async with world.serving() as calm:
            run = await world.start(calm, sellers[0])
            assert run is not None
        async with world.serving(store=shaky) as service:
            await world.settle(service)
            world.check_world()
            ends = True
        assert shaky.refused > 3
        await world.check_books()

    play(mariadb_url, story, settings=settings_of(PAGE_SIZE=5, VISIBILITY_SECONDS=6), sellers=1, products=12)
