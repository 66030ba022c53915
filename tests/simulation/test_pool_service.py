"""The pool inside the whole service: restored databases, a pool nobody is left in, tokens, and jobs that run once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.simulated_service import settings_of
from tests.simulation.service_world import ServiceWorld, play, simulated

from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.agents.agent import AgentStatus
from sellerwatch.agents.breaker import PoolBreakerOpen
from sellerwatch.agents.sessions import open_session, renew_due
from sellerwatch.crawling.context import Crawl
from sellerwatch.crawling.execution import ExecutionStatus
from sellerwatch.crawling.trigger import trigger
from sellerwatch.kernel.clock import moment
from sellerwatch.marketplaces.ports import Reply
from sellerwatch.service.jobs import run_once
from sellerwatch.service.service import Service

HOUR = timedelta(hours=1)


class Remembered:
    """The mark beside the database, in memory."""

    def __init__(self, number: int) -> None:
        self.number = number

    def read(self) -> int:
        return self.number

    def write(self, number: int) -> None:
        self.number = number


class FrontDoor:
    """A marketplace that gives nobody a session."""

    def __init__(self, status: int) -> None:
        self._status = status

    async def get(self, url: str, headers: Mapping[str, str]) -> Reply:
        return Reply(self._status, (), b"no")


async def first_agent(world: ServiceWorld) -> tuple[int, str, str]:
    return await world.store.read(
        lambda tx: next((one.row, one.agent.user_agent_id, one.agent.user_agent) for one in tx.pool_report.agents())
    )


@simulated(sellers=1, products=5)
async def test_after_a_restored_database_every_window_counts_as_full_for_one_window(world: ServiceWorld) -> None:
    (seller_id,) = await world.register_all()
    mark = Remembered(10_000)
    async with world.service() as made:
        crawl = replace(made.crawl, mark=mark)
        service = Service(made.store, crawl, made.deliveries, made.tune, made.tending_interval, schedules=False)
        running = asyncio.create_task(service.run())
        await world.clock.sleep(1)
        waiting = await trigger(crawl, seller_id, "test")
        assert waiting.task_count is None
        until = await world.store.read(lambda tx: tx.db.value("SELECT MAX(full_until_us) FROM rate_limit_bucket"))
        assert until is not None
        assert until > moment(world.clock).boot_us
        assert mark.number < 10_000, "the next start would count them as full again"
        await world.settle(service)
        (run,) = await world.executions()
        assert (run.execution_id, run.all_succeeded) == (waiting.execution_id, True)
        service.stop.set()
        await running


@simulated(sellers=2, products=20, profile="slow")
async def test_with_every_agent_blocked_crawling_is_refused_nothing_is_lost_and_unblocking_is_enough(
    world: ServiceWorld,
) -> None:
    one, other = await world.register_all()
    async with world.serving() as service:
        await world.start(service, one)
        now = world.clock.now()

        def block(tx: Transaction) -> None:
            tx.agents.save({a.row: a.agent.block(now, "by hand") for a in tx.pool_report.agents()})

        def unblock(tx: Transaction) -> None:
            tx.agents.save({a.row: a.agent.unblock(now) for a in tx.pool_report.agents()})

        await world.store.transact(block)
        with pytest.raises(PoolBreakerOpen, match="0 of 10 agents are available"):
            await trigger(service.crawl, other, "test")
        service.nudge()
        await world.clock.sleep(60)
        assert service.progress.failed == 0
        assert service.progress.completed == 0
        await world.store.transact(unblock)
        await world.start(service, other)
        await world.settle(service)
        world.check_world()
    await world.check_books()


@simulated(sellers=1, products=1)
async def test_a_token_is_renewed_before_it_expires(world: ServiceWorld) -> None:
    row, agent_id, user_agent = await first_agent(world)
    async with world.service() as service:
        assert await open_session(service.crawl, row, agent_id, user_agent)  # type: ignore[arg-type]
        for _ in range(300):
            await world.clock.sleep(60)
            await renew_due(service.crawl)
            now = world.clock.now()
            held = await world.store.read(lambda tx: next(a for a in tx.pool_report.agents() if a.row == row))
            assert held.token_expires_at is not None
            assert held.token_expires_at > now
            assert held.token_issued_at is not None
            assert now - held.token_issued_at <= HOUR + timedelta(minutes=2)


@simulated(sellers=1, products=1, profile="slow")
async def test_one_process_at_a_time_opens_a_session_for_an_agent(world: ServiceWorld) -> None:
    row, agent_id, user_agent = await first_agent(world)
    async with world.service() as one, world.service() as other:
        opened = await asyncio.gather(
            *(open_session(s.crawl, row, agent_id, user_agent) for s in (one, other))  # type: ignore[arg-type]
        )
    assert set(opened) == {True, None}
    assert world.simulator.marketplace.stats()["tokens_issued"] == 1


@simulated(sellers=4, products=1, profile="slow")
async def test_runs_that_four_processes_start_at_once_in_a_cold_pool_wait_for_one_anothers_sessions(
    world: ServiceWorld,
) -> None:
    sellers = await world.register_all()
    async with AsyncExitStack() as stack:
        services = [await stack.enter_async_context(world.service()) for _ in sellers]
        started = zip(services, sellers, strict=True)
        await asyncio.gather(*(trigger(service.crawl, seller_id, "test") for service, seller_id in started))
    assert [run.status for run in await world.executions()] == [ExecutionStatus.RUNNING] * 4


@pytest.mark.parametrize(
    ("status", "standing"), [(403, AgentStatus.BLOCKED), (200, AgentStatus.BLOCKED), (503, AgentStatus.AVAILABLE)]
)
@simulated(sellers=1, products=1)
async def test_three_answered_refusals_block_an_agent_and_an_outage_does_not(
    world: ServiceWorld, status: int, standing: AgentStatus
) -> None:
    row, agent_id, user_agent = await first_agent(world)
    async with world.service(transport=FrontDoor(status)) as service:
        for _ in range(3):
            assert not await open_session(service.crawl, row, agent_id, user_agent)  # type: ignore[arg-type]
    agents = await world.store.read(lambda tx: tx.agents.get_rows([row]))
    assert agents[row].status is standing


def test_a_job_runs_once_where_two_services_share_a_database_and_its_failure_is_kept(migrated_template: Path) -> None:
    async def story(world: ServiceWorld) -> None:
        ran: list[str] = []

        async def job(crawl: Crawl) -> str:
            ran.append(crawl.worker_id)
            await crawl.clock.sleep(1)
            return "done"

        async def broken(crawl: Crawl) -> str:
            raise RuntimeError("it broke")

        async with world.service() as one, world.service() as other:
            said = await asyncio.gather(*(run_once(s.crawl, "sweep", job) for s in (one, other)))
            assert sorted(said, key=str) == [None, "done"]
            assert len(ran) == 1
            assert await run_once(one.crawl, "sweep", broken) is None
            assert await run_once(other.crawl, "sweep", job) == "done"

    play(migrated_template, story, sellers=1, products=1, settings=settings_of())
