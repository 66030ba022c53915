"""A service with little to do does little: loops sleep until something is due, committed or asked for."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from benchmarks.simulation import calm
from tests.simulated_service import settings_of
from tests.simulation.service_world import ServiceWorld, play, simulated
from tests.world import StoreWorld

from sellerwatch.adapters.sql.store import InlineRunner, SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.kernel.ids import SellerId
from sellerwatch.schedules.interval import CrawlingInterval

DAILY = CrawlingInterval.of_days(1)
HOUR = 3600.0


def test_a_calm_week_of_5_agents_and_60_products_wakes_and_writes_a_few_thousand_times() -> None:
    week = calm(days=7, agents=5, sellers=3, products=20)
    assert (week.tasks, week.stale) == (7 * 3 * 41, 0)
    # 840 tokens are renewed and 861 tasks are done. Loops that look every second would wake 600,000 times.
    assert week.wakes < 3_000
    assert week.transactions < 7_500
    assert week.reads < 6_500


def test_a_process_that_shares_its_database_looks_twice_a_second_and_writes_little() -> None:
    hours = 2.0
    cost = calm(days=hours / 24, agents=5, sellers=0, products=0, shared=True)
    seconds = hours * HOUR
    # The look for news and for a pause, the scheduler and resends every 10 s; limits, resyncs and jobs every 30 s.
    assert 2 * seconds <= cost.reads < 2.5 * seconds
    # Heartbeats and a look for tasks every 10 s, the outboxes, hourly jobs.
    assert cost.transactions < 0.3 * seconds


async def register_elsewhere(world: ServiceWorld, seller_id: SellerId) -> None:
    """As another process does it: through a store that this one knows nothing of. Its run is due by now."""
    other = SqlStore(world.store.engine, world.clock, InlineRunner(), InlineRunner())
    elsewhere = StoreWorld(other, world.clock, world.ids)
    await elsewhere.register([seller_id], every=DAILY, due=world.now - timedelta(minutes=10))


@simulated(settings=settings_of(TENDING_INTERVAL_SECONDS=60), sellers=1, products=5)
async def test_what_another_process_did_is_noticed_within_two_seconds(world: ServiceWorld) -> None:
    shared = SqlStore(world.store.engine, world.clock, InlineRunner(), InlineRunner(), rehearse=True)
    async with world.serving(schedules=True, store=shared) as service:
        await world.clock.sleep(HOUR + 0.3)
        began = world.clock.now()
        await register_elsewhere(world, world.sellers[0])
        await world.clock.sleep(60)
        await world.settle(service)
    (run,) = await world.executions()
    assert run.created_at - began < timedelta(seconds=2)
    assert run.all_succeeded


@simulated(settings=settings_of(TENDING_INTERVAL_SECONDS=60), sellers=1, products=1)
async def test_a_run_that_is_due_in_days_starts_at_its_time_though_nothing_happens_before(world: ServiceWorld) -> None:
    due = world.clock.now() + timedelta(days=3)
    await world.register_all(every=DAILY, due=due)
    async with world.serving(schedules=True) as service:
        await world.clock.sleep(3 * 24 * HOUR + 600)
        await world.settle(service)
    (run,) = await world.executions()
    assert due <= run.created_at <= due + timedelta(minutes=5, seconds=2)


@simulated(settings=settings_of(TENDING_INTERVAL_SECONDS=60), sellers=1, products=0)
async def test_jobs_are_done_at_their_time_by_a_service_that_sleeps(world: ServiceWorld) -> None:
    """An agent's rest ends, the day ends, and an hour's forgetting is done, with nothing else to wake anybody."""
    async with world.serving():
        await world.clock.sleep(10)
        until = world.clock.now() + timedelta(hours=7)

        def suspend(tx: Transaction) -> None:
            tx.db.run(
                "UPDATE user_agent_pool SET status = 'SUSPENDED', suspended_until = :until, requests_per_day = 3"
                " WHERE agent_id = 1",
                {"until": until},
            )

        await world.store.transact(suspend)
        ill = "SELECT COUNT(*) FROM user_agent_pool WHERE status = 'SUSPENDED'"
        await world.clock.sleep(7 * HOUR - 1)
        assert await world.count(ill) == 1
        await world.clock.sleep(62)
        assert await world.count(ill) == 0
        await world.clock.sleep(24 * HOUR)
        assert await world.count("SELECT SUM(requests_per_day) FROM user_agent_pool") == 0
        done = await world.store.read(lambda tx: tx.leases.last_finished("forget"))
        assert done is not None
        assert world.clock.now() - done < timedelta(hours=1, minutes=2)


def test_a_job_that_failed_is_done_again_soon(migrated_template: Path) -> None:
    forbid = """CREATE TRIGGER forbidden BEFORE UPDATE OF requests_per_day ON user_agent_pool
        WHEN NEW.requests_per_day = 0 BEGIN SELECT RAISE(ABORT, 'not now'); END"""
    used = "SELECT SUM(requests_per_day) FROM user_agent_pool"

    async def story(world: ServiceWorld) -> None:
        async with world.serving():
            await world.clock.sleep(10)
            await world.store.transact(lambda tx: tx.db.run("UPDATE user_agent_pool SET requests_per_day = 3"))
            before = await world.count(used)
            await world.store.transact(lambda tx: tx.db.run(forbid))
            await world.clock.sleep(17.5 * HOUR)
            assert await world.count(used) == before
            assert await world.count("SELECT COUNT(*) FROM job_leases WHERE last_error LIKE '%not now%'") == 1
            await world.store.transact(lambda tx: tx.db.run("DROP TRIGGER forbidden"))
            await world.clock.sleep(62)
            assert await world.count(used) == 0

    play(migrated_template, story, settings=settings_of(TENDING_INTERVAL_SECONDS=60), sellers=1, products=0)
