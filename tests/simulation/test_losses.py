"""A worker that vanishes, a database that is away: the run goes on afterwards, nothing lost, nothing doubled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.simulated_service import settings_of
from tests.simulation.doors import Life, MortalReceiver, MortalStore, MortalTransport, ShakyStore
from tests.simulation.service_world import ServiceWorld, play, simulated

from sellerwatch.kernel.failure import FailureCode
from sellerwatch.simulator.product_server import ServerBehaviour, ServerMode


async def vanish(world: ServiceWorld, seconds: float) -> None:
    """A service that works for so long and is then gone without a word; one beside it loses nothing of its own."""
    life, family = Life(), dict[asyncio.Task[Any], None]()

    def born(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **given: Any) -> asyncio.Task[Any]:
        task = asyncio.Task(coroutine, loop=loop, **given)
        if asyncio.current_task() in family:
            family[task] = None
        return task

    async with world.service(
        store=MortalStore(world.store, world.clock, life),
        transport=MortalTransport(world.transport, life),
        receiver=MortalReceiver(world.receiver, life),
    ) as service:
        working = asyncio.create_task(service.run())
        family[working] = None
        world.loop.set_task_factory(born)  # type: ignore[arg-type]  # the stubs know no keywords
        await world.clock.sleep(seconds)
        world.loop.set_task_factory(None)
        assert not working.done()
        life.kill()
        for task in family:
            task.cancel()
        await asyncio.gather(*family, return_exceptions=True)


@simulated(sellers=2, products=40, latency_ms=9000)
async def test_a_stop_waits_six_seconds_at_most_for_a_marketplace_and_a_receiver_that_do_not_answer(
    world: ServiceWorld,
) -> None:
    sellers = await world.register_all()
    world.simulator.product_server.behave(ServerBehaviour(ServerMode.HANG))
    async with world.serving() as service:
        for seller_id in sellers:
            await world.start(service, seller_id)
        service.nudge()
        await world.clock.sleep(30)
        in_hand = "SELECT COUNT(*) FROM permits WHERE answered_at IS NULL"
        assert await world.count(in_hand) > 0
        asked = world.loop.time()
    assert world.loop.time() - asked <= 6
    assert await world.count(in_hand) == 0


@pytest.mark.parametrize("seconds", [0.3, 1.1, 2.3])
@simulated(settings=settings_of(PAGE_SIZE=10), sellers=2, products=40, latency_ms=900)
async def test_what_a_vanished_worker_held_is_done_by_the_next_one(world: ServiceWorld, seconds: float) -> None:
    sellers = await world.register_all()
    async with world.service() as service:
        for seller_id in sellers:
            await world.start(service, seller_id)
    await vanish(world, seconds)
    assert await world.count("SELECT COUNT(*) FROM crawler_tasks WHERE status = 'IN_PROGRESS'") > 0
    async with world.serving() as service:
        await world.settle(service)
        world.check_world()
    await world.check_books()
    assert len(world.simulator.product_server.events()) == 80


@simulated(settings=settings_of(PAGE_SIZE=10), profile="slow", sellers=2, products=40)
async def test_a_worker_that_lives_takes_over_from_one_that_vanished_beside_it(world: ServiceWorld) -> None:
    sellers = await world.register_all()
    async with world.serving() as service:
        for seller_id in sellers:
            await world.start(service, seller_id)
        await vanish(world, 1.5)
        await world.settle(service)
        world.check_world()
    await world.check_books()


@pytest.mark.parametrize("seconds", [3.0, 50.0])
@pytest.mark.parametrize("begins", [0.4, 1.5, 3.0])
def test_after_an_outage_of_the_database_the_service_goes_on(
    migrated_template: Path, begins: float, seconds: float
) -> None:
    async def story(world: ServiceWorld) -> None:
        sellers = await world.register_all()
        async with world.service() as service:
            for seller_id in sellers:
                await world.start(service, seller_id)
        starts = world.loop.time() + begins

        def away() -> bool:
            return starts <= world.loop.time() < starts + seconds

        store = ShakyStore(world.store, world.clock, away)
        async with world.serving(store=store) as service:
            await world.settle(service)
            await world.clock.sleep(max(0.0, starts + seconds - world.loop.time()))
            world.check_world()
        assert store.refused > 0
        await world.check_books()
        assert len(world.simulator.product_server.events()) == 80

    play(migrated_template, story, settings=settings_of(PAGE_SIZE=10), sellers=2, products=40, latency_ms=900)


@pytest.mark.parametrize("profile", ["slow", "storm", "errors"])
def test_a_run_ended_from_outside_leaves_no_task_open(migrated_template: Path, profile: str) -> None:
    async def story(world: ServiceWorld) -> None:
        (seller_id,) = await world.register_all()
        async with world.serving() as service:
            run = await world.start(service, seller_id)
            assert run is not None
            await world.clock.sleep(2.5)
            await world.cancel(service.crawl.rules, run)
            await world.clock.sleep(60)
            await world.check_books()
            assert await world.crawl_all(service, [seller_id])
            world.check_world()
        await world.check_books()

    settings = settings_of(PAGE_SIZE=10, MAX_CONCURRENCY=10)
    play(migrated_template, story, settings=settings, profile=profile, sellers=1, products=40, latency_ms=400)


@simulated(settings=settings_of(PAGE_SIZE=10, MAX_CONCURRENCY=10), profile="slow", sellers=1, products=40)
async def test_a_run_ended_from_outside_whose_worker_vanishes_leaves_no_task_open(world: ServiceWorld) -> None:
    (seller_id,) = await world.register_all()
    async with world.service() as service:
        run = await world.start(service, seller_id)
        rules = service.crawl.rules
    assert run is not None
    await vanish(world, 1.5)
    await world.cancel(rules, run)
    async with world.serving() as service:
        await world.clock.sleep(60)
        await world.check_books()
        assert not service.stop.is_set()


@simulated(settings=settings_of(WINDOW_LIMIT=3, WINDOW_SECONDS=600, RUN_DEADLINE_SECONDS=20), sellers=1, products=200)
async def test_a_run_past_its_deadline_fails_and_the_next_one_can_start(world: ServiceWorld) -> None:
    (seller_id,) = await world.register_all()
    async with world.serving() as service:
        await world.start(service, seller_id)
        await world.clock.sleep(30)
        (run,) = await world.executions()
        assert not run.is_open
        assert run.failure is not None
        assert run.failure.code is FailureCode.DEADLINE_PASSED
        await world.check_books()
        assert await world.start(service, seller_id) is not None
    await world.store.read(lambda tx: tx.executions.open_of(seller_id))
