"""Requests to the marketplace paused by a person: they stop within a second, and nothing is lost."""

from __future__ import annotations

import pytest
from tests.builders import a_context
from tests.simulated_service import settings_of
from tests.simulation.service_world import ServiceWorld, simulated

from sellerwatch.crawling.execution import ExecutionStatus
from sellerwatch.kernel.failure import FailureCode
from sellerwatch.kernel.ids import SellerId
from sellerwatch.operations.marketplace import pause, resume

MINUTE = 60.0
#: A process heeds a pause at most this late.
HEEDED = 1.0
SLOW = {"REQUESTS_PER_SECOND": 1, "MAX_CONCURRENCY": 8}


def asked(world: ServiceWorld, since: float) -> list[str]:
    return [request.endpoint for request in world.simulator.marketplace.requests(since)]


def now(world: ServiceWorld) -> float:
    return world.clock.now().timestamp()


async def pause_all(world: ServiceWorld, seller_id: SellerId | None = None) -> None:
    """As a command does it, or another process: only the database is told."""
    at = world.clock.now()
    await world.store.transact(lambda tx: pause(tx, a_context(at), seller_id))


async def resume_all(world: ServiceWorld, seller_id: SellerId | None = None) -> None:
    at = world.clock.now()
    await world.store.transact(lambda tx: resume(tx, a_context(at), seller_id))


@pytest.mark.parametrize("after", [0.0, 0.5, 3.0, 7.0], ids=["at once", "first tokens", "in the run", "later"])
@simulated(settings=settings_of(**SLOW, HOST_REQUESTS_PER_SECOND=3), sellers=2, products=20, latency_ms=50)
async def test_a_pause_of_everything_stops_all_requests_within_a_second_and_loses_nothing(
    world: ServiceWorld, after: float
) -> None:
    # The host's rate is low, so that token pages, questions and tasks all wait for their turn when the pause comes.
    sellers = await world.register_all()
    async with world.serving() as service:
        await world.start(service, sellers[0])
        service.nudge()
        await world.clock.sleep(after)
        await pause_all(world)
        await world.clock.sleep(HEEDED)
        quiet = now(world)
        if after:
            await world.start(service, sellers[1])
            run = (await world.executions())[-1]
            assert run.failure is not None
            assert (run.status, run.failure.code) == (ExecutionStatus.PENDING, FailureCode.MARKETPLACE_PAUSED)
            assert run.start_tries == 0
        await world.clock.sleep(10 * MINUTE)
        assert asked(world, quiet) == []
        await resume_all(world)
        if not after:
            await world.start(service, sellers[1])
        await world.settle(service)
    assert [run for run in await world.executions() if not run.all_succeeded] == []
    assert await world.count("SELECT COUNT(*) FROM crawler_tasks WHERE retry_count > 0 OR status = 'FAILED'") == 0
    world.check_world()
    await world.check_books()


@simulated(settings=settings_of(**SLOW, HOST_REQUESTS_PER_SECOND=0.25), sellers=1, products=1)
async def test_a_pause_that_comes_while_a_start_waits_for_its_turn_stops_the_question_too(world: ServiceWorld) -> None:
    sellers = await world.register_all()
    async with world.serving() as service:
        # The token page takes the host's only turn in 4 s; the question for the total waits for the next.
        await world.start(service, sellers[0])
        await world.settle(service)
        starting = world.loop.create_task(world.start(service, sellers[0]))
        await world.clock.sleep(0.01)
        await pause_all(world)
        await world.clock.sleep(HEEDED)
        quiet = now(world)
        await starting
        await world.clock.sleep(MINUTE)
        assert asked(world, quiet) == []
        await resume_all(world)
        await world.settle(service)
    assert [run for run in await world.executions() if not run.all_succeeded] == []


@simulated(settings=settings_of(**SLOW), sellers=2, products=20)
async def test_a_paused_seller_waits_and_the_others_are_crawled(world: ServiceWorld) -> None:
    first, second = await world.register_all()
    async with world.serving() as service:
        await world.start(service, first)
        await world.start(service, second)
        service.nudge()
        await world.clock.sleep(2)
        await pause_all(world, first)
        await world.clock.sleep(10 * MINUTE)
        runs = {run.seller_id: run for run in await world.executions()}
        assert (runs[first].status, runs[second].all_succeeded) == (ExecutionStatus.RUNNING, True)
        await resume_all(world, first)
        await world.settle(service)
    assert [run for run in await world.executions() if not run.all_succeeded] == []
    world.check_world()


@simulated(settings=settings_of(**SLOW, HOST_REQUESTS_PER_SECOND=1), sellers=1, products=20)
async def test_a_pause_that_comes_while_agents_wait_for_the_token_page_stops_those_visits_too(
    world: ServiceWorld,
) -> None:
    (seller_id,) = await world.register_all()
    async with world.serving() as service:
        await world.start(service, seller_id)
        service.nudge()
        await world.clock.sleep(15)
        # Every agent needs a new token, and the host lets one request through at a time.
        world.simulator.marketplace.restart(now(world))
        while "session" not in asked(world, now(world) - 1):
            await world.clock.sleep(0.1)
        await pause_all(world)
        await world.clock.sleep(HEEDED)
        quiet = now(world)
        await world.clock.sleep(MINUTE)
        assert asked(world, quiet) == []
        await resume_all(world)
        await world.settle(service)
    assert [run for run in await world.executions() if not run.all_succeeded] == []
