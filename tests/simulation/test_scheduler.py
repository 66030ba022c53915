"""The embedded scheduler: every seller at its interval, none forgotten, not all at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from itertools import pairwise

from tests.simulated_service import settings_of
from tests.simulation.doors import ShakyStore
from tests.simulation.service_world import ServiceWorld, simulated

from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.crawling.execution import ExecutionStatus
from sellerwatch.kernel.failure import FailureCode
from sellerwatch.schedules.interval import CrawlingInterval
from sellerwatch.schedules.next_run import spread
from sellerwatch.schedules.schedule import Schedule

HOURLY = CrawlingInterval.of_hours(1)
HOUR = 3600.0
#: No seller starts later than this after its time.
SPREAD = 301.0


async def schedules(world: ServiceWorld) -> list[Schedule]:
    found, _ = await world.store.read(lambda tx: tx.schedules.page(offset=0, limit=100))
    return list(found)


def runs(world: ServiceWorld, number: int) -> Callable[[], Awaitable[bool]]:
    """Whether so many runs are over."""

    async def are_over() -> bool:
        return sum(not run.is_open for run in await world.executions()) >= number

    return are_over


@simulated(sellers=1, products=5)
async def test_the_first_run_comes_one_interval_after_the_registration_and_the_next_ones_in_its_rhythm(
    world: ServiceWorld,
) -> None:
    await world.register_all(every=HOURLY)
    registered = world.clock.now()
    (schedule,) = await schedules(world)
    for number in (1, 2):
        await world.clock.sleep(HOUR - 60)
        async with world.serving(schedules=True) as service:
            assert len(await world.executions()) == number - 1
            await world.until(runs(world, number), service)
            await world.settle(service)
        await world.clock.sleep((registered + number * timedelta(hours=1) - world.clock.now()).total_seconds())
    first, second = [run.created_at for run in await world.executions()]
    due = registered + timedelta(hours=1) + spread(schedule)
    assert due <= first < due + timedelta(seconds=3)
    assert due + timedelta(hours=1) <= second < due + timedelta(hours=1, seconds=3)
    world.check_world()


@simulated(sellers=30, products=0)
async def test_start_times_of_sellers_registered_together_are_spread(world: ServiceWorld) -> None:
    await world.register_all(every=HOURLY)
    times = {s.seller_id: (s.next_run_at, spread(s)) for s in await schedules(world)}
    await world.clock.sleep(HOUR - 1)
    async with world.serving(schedules=True) as service:
        await world.clock.sleep(SPREAD + 2)
        assert await runs(world, 30)()
        assert not service.stop.is_set()
    started = await world.executions()
    for run in started:
        due, own = times[run.seller_id]
        assert due is not None
        assert due + own <= run.created_at < due + own + timedelta(seconds=3)
    seconds = sorted((run.created_at - started[0].created_at).total_seconds() for run in started)
    assert len(started) == 30
    assert seconds[-1] > 200
    assert max(later - earlier for earlier, later in pairwise(seconds)) < 60


@simulated(sellers=1, products=3)
async def test_runs_missed_during_a_stop_are_caught_up_once_and_the_rest_is_noted(world: ServiceWorld) -> None:
    await world.register_all(every=HOURLY)
    registered = world.clock.now()
    await world.clock.sleep(5.5 * HOUR)
    async with world.serving(schedules=True) as service:
        await world.until(runs(world, 1), service)
        await world.clock.sleep(120)
    assert len(await world.executions()) == 1
    assert await world.notes("schedule.missed") == ["4 missed run(s) skipped, one caught up"]
    (schedule,) = await schedules(world)
    assert schedule.next_run_at == registered + timedelta(hours=6), "the rhythm is kept"


@simulated(sellers=1, products=3)
async def test_a_run_longer_than_its_interval_makes_the_next_one_pass_and_that_is_noted(world: ServiceWorld) -> None:
    (seller_id,) = await world.register_all(every=HOURLY)
    async with world.service() as service:
        going = await world.start(service, seller_id)
    await world.clock.sleep(HOUR + SPREAD)
    async with world.serving(schedules=True) as service:
        await world.settle(service)
        await world.clock.sleep(60)
    (run,) = await world.executions()
    assert (run.execution_id, run.all_succeeded) == (going, True)
    (note,) = await world.notes("schedule.skip")
    assert str(going) in note
    (schedule,) = await schedules(world)
    assert schedule.next_run_at is not None
    assert schedule.next_run_at > world.clock.now()


@simulated(sellers=1, products=3)
async def test_without_budget_a_due_run_waits_and_starts_when_there_is_some(world: ServiceWorld) -> None:
    await world.leave_agents(2)
    await world.register_all(due=world.clock.now())
    await world.clock.sleep(SPREAD)
    now = world.clock.now()

    def rest(tx: Transaction) -> None:
        agents = tx.agents.get_rows([one.row for one in tx.pool_report.agents()])
        tx.agents.save({row: agent.suspend(now, timedelta(minutes=2), "a rest") for row, agent in agents.items()})

    await world.store.transact(rest)
    async with world.serving(schedules=True) as service:
        await world.clock.sleep(110)
        (waiting,) = await world.executions()
        assert (waiting.status, waiting.start_tries) == (ExecutionStatus.PENDING, 0)
        assert waiting.failure is not None
        assert waiting.failure.code is FailureCode.POOL_BREAKER_OPEN
        await world.settle(service)
    (run,) = await world.executions()
    assert (run.execution_id, run.all_succeeded) == (waiting.execution_id, True)
    world.check_world()
    assert await world.notes("schedule.skip") == []


@simulated(settings=settings_of(MARKETPLACE_LIST_PATH="/nowhere/search/mini-shop-search"), sellers=1, products=3)
async def test_a_marketplace_that_does_not_say_the_total_is_asked_again_until_the_next_run_is_due(
    world: ServiceWorld,
) -> None:
    await world.register_all(due=world.clock.now())
    await world.clock.sleep(SPREAD)
    async with world.serving(schedules=True):
        await world.clock.sleep(120)
        (run,) = await world.executions()
        assert (run.status, run.start_tries) == (ExecutionStatus.PENDING, 3)
        assert run.failure is not None
        assert run.failure.code is FailureCode.PRODUCT_GONE
        await world.clock.sleep(24 * 3600)
    overtaken, following = await world.executions()
    assert overtaken.execution_id == run.execution_id
    assert overtaken.failure is not None
    assert overtaken.failure.code is FailureCode.OVERTAKEN
    assert following.status is ExecutionStatus.PENDING
    assert await world.notes("schedule.skip") == []
    await world.check_books()


@simulated(sellers=1, products=3)
async def test_a_database_that_fails_while_a_run_is_started_does_not_cost_the_run(world: ServiceWorld) -> None:
    await world.register_all(due=world.clock.now())
    await world.clock.sleep(SPREAD)
    calls = iter(range(1, 1_000_000))
    store = ShakyStore(world.store, world.clock, lambda: 10 <= next(calls) <= 12)
    async with world.serving(schedules=True, store=store) as service:
        await world.until(runs(world, 1), service)
        await world.settle(service)
    world.check_world()
    assert store.refused == 3
