"""With too few agents crawling is refused with one sentence; what waits goes on waiting, and resumes by itself."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from tests.simulated_service import settings_of
from tests.simulation.pool_doors import block, breaker, everyone, is_api, meddling, statuses, unblock
from tests.simulation.service_world import ServiceWorld, play, simulated

from sellerwatch.agents.breaker import PoolBreakerOpen
from sellerwatch.crawling.execution import ExecutionStatus
from sellerwatch.crawling.trigger import trigger
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.marketplaces.ports import Reply
from sellerwatch.schedules.interval import CrawlingInterval

SETTINGS = {"BREAKER_OPEN_SECONDS": 20, "AGENT_SUSPENSION_SECONDS": 60, "TENDING_INTERVAL_SECONDS": 5}
SLOW = {"REQUESTS_PER_SECOND": 1}


@simulated(settings=settings_of(**SETTINGS), sellers=1, products=10)
async def test_with_everybody_blocked_a_trigger_is_refused_with_the_rate_and_works_after_unblocking(
    world: ServiceWorld,
) -> None:
    sellers = await world.register_all()
    await block(world)
    async with world.serving() as service:
        with pytest.raises(PoolBreakerOpen) as refusal:
            await trigger(service.crawl, sellers[0], "test")
        assert (refusal.value.available, refusal.value.total, refusal.value.percent) == (0, 10, 0)
        assert refusal.value.retry_after == pytest.approx(20, abs=1)
        assert "0 of 10 agents are available (0.00 %)" in str(refusal.value)
        assert list(await world.executions()) == [], "no run is made that could not run"
        await world.clock.sleep(50)
        with pytest.raises(PoolBreakerOpen):
            await trigger(service.crawl, sellers[0], "test")
        await unblock(world)
        await world.crawl_all(service, sellers)
        world.check_world()
    assert (await breaker(world)).state is CircuitState.CLOSED


@simulated(settings=settings_of(**SETTINGS), sellers=1, products=3)
async def test_with_nobody_configured_it_says_so(world: ServiceWorld) -> None:
    await world.leave_agents(0)
    (seller_id,) = await world.register_all()
    async with world.serving() as service:
        with pytest.raises(PoolBreakerOpen) as refusal:
            await trigger(service.crawl, seller_id, "test")
        assert (refusal.value.available, refusal.value.total) == (0, 0)
        await world.clock.sleep(30)


@simulated(settings=settings_of(**SETTINGS | SLOW), sellers=1, products=40)
async def test_a_run_whose_agents_are_blocked_under_way_waits_and_goes_on(world: ServiceWorld) -> None:
    await world.leave_agents(5)
    (seller_id,) = await world.register_all()
    async with world.serving() as service:
        run = await world.start(service, seller_id)
        assert run is not None
        await world.clock.sleep(5)
        await block(world)
        await world.clock.sleep(1)
        before = await world.store.read(lambda tx: tx.run_tasks.tally(run))
        await world.clock.sleep(90)
        assert await world.store.read(lambda tx: tx.run_tasks.tally(run)) == before, "nothing moved, nothing failed"
        assert {status for _, status in before} == {"COMPLETED", "WAITING"}
        assert (await breaker(world)).state is CircuitState.OPEN
        await unblock(world)
        await world.settle(service)
    (ended,) = await world.executions()
    assert ended.all_succeeded
    assert await world.count("SELECT COUNT(*) FROM crawler_tasks WHERE retry_count > 0") == 0
    world.check_world()
    await world.check_books()


@simulated(settings=settings_of(**SETTINGS), sellers=1, products=30)
async def test_one_agent_of_ten_finds_out_and_carries_on_alone(world: ServiceWorld) -> None:
    # Nine are blocked for ever. Ten minutes of refusing, then one request; its success lets the one work.
    sellers = await world.register_all()
    await block(world, but=1)
    async with world.serving() as service:
        with pytest.raises(PoolBreakerOpen):
            await trigger(service.crawl, sellers[0], "test")
        await world.clock.sleep(19)
        with pytest.raises(PoolBreakerOpen):
            await trigger(service.crawl, sellers[0], "test")
        await world.clock.sleep(2)
        await trigger(service.crawl, sellers[0], "test")
        assert (await breaker(world)).state is CircuitState.CLOSED
        service.nudge()
        await world.settle(service)
    (run,) = await world.executions()
    assert run.all_succeeded
    world.check_world()


@simulated(settings=settings_of(**SETTINGS | SLOW, CIRCUIT_OPEN_SECONDS=10), sellers=1, products=40)
async def test_a_probe_that_fails_keeps_it_shut_and_costs_one_request(world: ServiceWorld) -> None:
    door = meddling(world, lambda path, agent: None)
    (seller_id,) = await world.register_all()
    async with world.serving() as service:
        await world.start(service, seller_id)
        await world.clock.sleep(5)
        await block(world, but=1)
        door.meddle = lambda path, agent: Reply(500, (), b"") if is_api(path) else None
        await world.clock.sleep(5)
        before = len([1 for _, path, _ in door.asked if is_api(path)])
        await world.clock.sleep(85)
        asked = [at for at, path, _ in door.asked if is_api(path)][before:]
        assert 3 <= len(asked) <= 5
        assert min(later - earlier for earlier, later in pairwise(asked)) >= timedelta(seconds=19)
        door.meddle = lambda path, agent: None
        await world.settle(service)
    (run,) = await world.executions()
    assert not run.is_open
    await world.check_books()


@simulated(settings=settings_of(**SETTINGS | SLOW), sellers=1, products=40)
async def test_a_pool_that_was_suspended_to_the_last_one_comes_back_without_a_hand(world: ServiceWorld) -> None:
    await world.leave_agents(5)
    door = meddling(world, lambda path, agent: None)
    (seller_id,) = await world.register_all()
    async with world.serving() as service:
        await world.start(service, seller_id)
        await world.clock.sleep(4)
        door.meddle = lambda path, agent: Reply(429, (), b"") if is_api(path) else None
        await world.clock.sleep(60)
        assert await statuses(world) == {"SUSPENDED": 5}
        assert (await breaker(world)).state is CircuitState.OPEN
        door.meddle = lambda path, agent: None
        await world.settle(service)
        assert await statuses(world) == {"AVAILABLE": 5}
    (run,) = await world.executions()
    assert run.failed_tasks == 0
    world.check_world()


@simulated(settings=settings_of(**SETTINGS), sellers=1, products=5)
async def test_a_due_run_waits_while_the_breaker_is_open(world: ServiceWorld) -> None:
    await world.leave_agents(5)
    await world.register_all(every=CrawlingInterval.of_days(1), due=world.clock.now())
    await block(world)
    async with world.serving(schedules=True) as service:
        await world.clock.sleep(350)
        (waiting,) = await world.executions()
        assert (waiting.status, waiting.start_tries) == (ExecutionStatus.PENDING, 0)
        await unblock(world)
        await world.settle(service)
    (run,) = await world.executions()
    assert run.all_succeeded
    assert await world.notes("schedule.skip") == []
    world.check_world()


def test_every_change_of_the_breaker_is_told_and_kept(
    migrated_template: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(world: ServiceWorld) -> None:
        sellers = await world.register_all()
        await block(world, but=1)
        async with world.serving() as service:
            with pytest.raises(PoolBreakerOpen):
                await trigger(service.crawl, sellers[0], "test")
            await world.clock.sleep(21)
            await trigger(service.crawl, sellers[0], "test")
            await world.clock.sleep(1)
        rows = await world.store.read(
            lambda tx: tx.db.rows("SELECT to_state FROM circuit_breaker_event WHERE agent_id = 0 ORDER BY event_id")
        )
        assert [row[0] for row in rows] == ["OPEN", "HALF_OPEN", "CLOSED"]
        assert len(await everyone(world)) == 10

    play(migrated_template, story, settings=settings_of(**SETTINGS), sellers=1, products=3)
    told = [record.message for record in caplog.records if record.name == "sellerwatch.alerts"]
    assert [text.split(":")[0] for text in told] == [
        "The pool's breaker is open",
        "The pool's breaker is half open",
        "The pool's breaker is closed",
    ]
