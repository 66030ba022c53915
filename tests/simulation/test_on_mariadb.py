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
    async def story(stage: ServiceWorld) -> None:
        sellers = await stage.register_all()
        async with stage.serving() as service:
            assert await stage.crawl_all(service, sellers) == 1
            stage.check_world()
        await stage.check_books()
        assert len(stage.simulator.product_server.events()) == 24

    play(mariadb_url, story, settings=settings_of(PAGE_SIZE=5), sellers=2, products=12)


def test_later_crawls_tell_what_changed_and_what_is_gone(mariadb_url: str) -> None:
    async def story(stage: ServiceWorld) -> None:
        sellers = await stage.register_all()
        world = stage.simulator.world
        async with stage.serving() as service:
            await stage.crawl_all(service, sellers)
            changed = {mutation.item_no for mutation in world.mutate(4, seeded_rng("changes"), CHANGES_ONLY)}
            gone = next(item for item in world.listing(sellers[0]) if item not in changed)
            world.vanish(gone)
            await stage.crawl_all(service, sellers)
            stage.check_world()
        await stage.check_books()
        types = [event.event_type for event in stage.simulator.product_server.events()][12:]
        assert sorted(types) == ["PRODUCT_DELETED", *["PRODUCT_UPDATED"] * 4]

    play(mariadb_url, story, sellers=1, products=12)


def test_a_run_that_unreadable_answers_paused_heals(mariadb_url: str) -> None:
    async def story(stage: ServiceWorld) -> None:
        sellers = await stage.register_all()
        async with stage.serving() as service:
            await pause(stage, service, sellers[0])
            be_well(stage)
            await stage.settle(service)
            assert (await newest(stage)).all_succeeded
            stage.check_world()
        await stage.check_books()

    play(mariadb_url, story, sellers=1, products=14)


@pytest.mark.parametrize("crawled", [False, True], ids=["its first", "one that finds changes"])
def test_killed_at_several_steps_the_next_start_completes_it(
    mariadb: MariaDb, mariadb_template: str, mariadb_url: str, crawled: bool
) -> None:
    async def whole(stage: ServiceWorld) -> int:
        await begin(stage, crawled)
        life = Life()
        await live(stage, life)
        await check(stage, crawled)
        return len(life.steps)

    steps = play(mariadb_url, whole, settings=SETTINGS, sellers=1, products=PRODUCTS)
    for ends_at in range(7, steps, steps // 4):

        async def cut(stage: ServiceWorld, ends_at: int = ends_at) -> None:
            await begin(stage, crawled)
            await live(stage, Life(ends_at))
            await stage.clock.sleep(stage.settings.visibility_seconds + 1)
            await live(stage, Life())
            await check(stage, crawled)

        url = mariadb.copy(mariadb_template)
        play(url, cut, settings=SETTINGS, sellers=1, products=PRODUCTS)
        mariadb.drop(url)


def test_commits_whose_answers_were_lost_are_run_again_and_do_no_harm(mariadb_url: str) -> None:
    async def story(stage: ServiceWorld) -> None:
        number = 0

        def every_fifth() -> bool:
            nonlocal number
            number += 1
            return number % 5 == 0

        sellers = await stage.register_all()
        shaky = ShakyStore(stage.store, stage.clock, lambda: False, too_late=every_fifth)
        async with stage.serving() as calm:
            run = await stage.start(calm, sellers[0])
            assert run is not None
        async with stage.serving(store=shaky) as service:
            await stage.settle(service)
            stage.check_world()
        assert shaky.refused > 3
        await stage.check_books()

    play(mariadb_url, story, settings=settings_of(PAGE_SIZE=5, VISIBILITY_SECONDS=6), sellers=1, products=12)
