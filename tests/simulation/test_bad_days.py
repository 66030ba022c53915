"""Whatever day the marketplace has, the receiver's catalogue becomes the marketplace's."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.simulated_service import settings_of
from tests.simulation.service_world import MOST_RUNS, ServiceWorld, play, simulated

from sellerwatch.simulator.product_server import ServerBehaviour, ServerMode
from sellerwatch.simulator.rng import seeded_rng
from sellerwatch.simulator.world import MutationKind

#: Everything but removals: those are another story.
WITHOUT_REMOVALS = {MutationKind.CHANGED: 80, MutationKind.APPEARED: 12, MutationKind.BUMPED: 8}


@pytest.mark.parametrize("profile", ["calm", "flaky", "hostile"])
def test_within_five_runs_the_catalogue_is_the_truth(migrated_template: Path, profile: str) -> None:
    async def story(world: ServiceWorld) -> None:
        sellers = await world.register_all()
        async with world.serving() as service:
            assert await world.crawl_all(service, sellers) <= MOST_RUNS
            world.check_world()
        await world.check_books()

    play(migrated_template, story, profile=profile, sellers=2, products=50)


@pytest.mark.parametrize(
    "profile", ["storm", "expiring", "shifting", "foreign", "html", "truncated", "drops", "errors", "slow"]
)
def test_a_single_kind_of_trouble_is_lived_with(migrated_template: Path, profile: str) -> None:
    async def story(world: ServiceWorld) -> None:
        sellers = await world.register_all()
        async with world.serving() as service:
            await world.crawl_all(service, sellers)
            world.check_world()
        await world.check_books()

    play(migrated_template, story, settings=settings_of(PAGE_SIZE=10), profile=profile, sellers=2, products=25)


@simulated(sellers=2, products=30)
async def test_a_second_run_with_nothing_changed_delivers_nothing(world: ServiceWorld) -> None:
    sellers = await world.register_all()
    async with world.serving() as service:
        await world.crawl_all(service, sellers)
        told = len(world.simulator.product_server.events())
        await world.crawl_all(service, sellers)
        assert len(world.simulator.product_server.events()) == told == 60
    world.check_world()


@pytest.mark.parametrize("profile", ["calm", "hostile"])
@pytest.mark.parametrize("seed", range(3))
def test_whatever_changes_between_runs_arrives_in_order_and_once(
    migrated_template: Path, seed: int, profile: str
) -> None:
    async def story(world: ServiceWorld) -> None:
        sellers = await world.register_all()
        rng = seeded_rng(seed, "changes")
        async with world.serving() as service:
            await world.crawl_all(service, sellers)
            for _ in range(2):
                world.simulator.world.mutate(12, rng, WITHOUT_REMOVALS)
                await world.crawl_all(service, sellers)
                world.check_world()
        await world.check_books()

    play(migrated_template, story, seed=seed, profile=profile, sellers=2, products=12)


@simulated(settings=settings_of(PAGE_SIZE=10), profile="slow", sellers=1, products=25)
async def test_changes_in_the_middle_of_a_run_arrive_by_the_next_one(world: ServiceWorld) -> None:
    sellers = await world.register_all()
    rng = seeded_rng("changes while reading")
    async with world.serving() as service:
        for _ in range(3):
            for seller_id in sellers:
                await world.start(service, seller_id)
            for _ in range(5):
                await world.clock.sleep(0.3)
                world.simulator.world.mutate(4, rng, WITHOUT_REMOVALS)
            await world.settle(service)
            await world.check_books()
        await world.crawl_all(service, sellers)
        world.check_world()


@pytest.mark.parametrize("mode", [mode for mode in ServerMode if mode is not ServerMode.WELL])
@simulated(settings=settings_of(OUTBOX_RETRIES=30), sellers=1, products=20)
async def test_a_product_server_that_misbehaves_gets_everything_in_the_end_and_in_order(
    world: ServiceWorld, mode: ServerMode
) -> None:
    sellers = await world.register_all()
    rng = seeded_rng(mode.value)
    world.simulator.product_server.behave(ServerBehaviour(mode, probability=0.5, requests=60))
    async with world.serving() as service:
        for _ in range(3):
            await world.crawl_all(service, sellers)
            world.check_world()
            world.simulator.world.mutate(10, rng, WITHOUT_REMOVALS)
        assert await world.count("SELECT COUNT(*) FROM product_outbox WHERE status <> 'COMPLETED'") == 0


@simulated(sellers=1, products=0)
async def test_a_seller_without_products_is_a_run_that_completes_at_once(world: ServiceWorld) -> None:
    sellers = await world.register_all()
    async with world.serving() as service:
        (run,) = await world.crawl(service, sellers)
    assert (run.total_tasks_created, run.all_succeeded) == (0, True)
    await world.check_books()
