"""Starts and outages: what a run that waits to be started waits for, and for how long."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest
from tests.simulation.outages import (
    HOUR,
    MINUTE,
    calm_settings,
    causes,
    check_afterwards,
    look,
    plan,
    until_over,
)
from tests.simulation.service_world import ServiceWorld, play, simulated

from sellerwatch.agents.marketplace_circuit import Endpoint
from sellerwatch.crawling.execution import ExecutionStatus
from sellerwatch.crawling.trigger import start, trigger
from sellerwatch.kernel.failure import FailureCode
from sellerwatch.kernel.ids import SellerId
from sellerwatch.marketplaces.ports import Reply, Transport
from sellerwatch.operations.sellers import deactivate_seller
from sellerwatch.simulator.chaos import PROFILES, FaultKind


class ListBroken:
    """A marketplace that answers 500 whatever page of this seller's list is asked for."""

    def __init__(self, transport: Transport, seller_id: SellerId) -> None:
        self._transport = transport
        self._seller_id = seller_id

    async def get(self, url: str, headers: Mapping[str, str]) -> Reply:
        return Reply(500, (), b"") if self._seller_id in url else await self._transport.get(url, headers)


@simulated(settings=calm_settings(START_RETRY_SECONDS=900), sellers=1, products=5)
async def test_a_start_follows_as_soon_as_the_list_answers_again(world: ServiceWorld) -> None:
    # However long its own back-off is.
    (seller_id,) = await world.register_all()
    async with world.serving() as service:
        await world.crawl_all(service, [seller_id])
        plan(world, FaultKind.REFUSED, 5 * MINUTE)
        await world.start(service, seller_id)
        await world.clock.sleep(4 * MINUTE)
        (waiting,) = [run for run in await world.executions() if run.is_open]
        circuit = (await look(world)).circuits[Endpoint.LIST]
        assert not circuit.is_closed
        assert waiting.start_tries <= 3
        await until_over(world, service, 2)
        await check_afterwards(world, 2)
    run = (await world.executions())[-1]
    closed_at = (await look(world)).circuits[Endpoint.LIST].closed_at
    assert run.started_at is not None
    assert closed_at is not None
    assert timedelta(0) <= run.started_at - closed_at < timedelta(seconds=5)


@simulated(settings=calm_settings(), sellers=1, products=5)
async def test_a_list_that_no_active_seller_needs_is_checked_all_the_same(world: ServiceWorld) -> None:
    (seller_id,) = await world.register_all()
    async with world.serving() as service:
        await world.crawl_all(service, [seller_id])
        plan(world, FaultKind.REFUSED, 5 * MINUTE)
        await world.start(service, seller_id)
        await world.clock.sleep(2 * MINUTE)
        assert (await look(world)).open_endpoints == {Endpoint.LIST}
        await world.command(deactivate_seller, seller_id, service.crawl.rules)
        await world.clock.sleep(15 * MINUTE)
        assert (await look(world)).open_endpoints == set()


@simulated(settings=calm_settings(), sellers=2, products=5)
async def test_a_seller_whose_list_is_always_answered_500_holds_up_no_other_seller_for_long(
    world: ServiceWorld,
) -> None:
    broken, well = await world.register_all()
    world.transport = ListBroken(world.transport, broken)
    async with world.serving() as service:
        await world.start(service, broken)
        await world.start(service, well)
        await world.clock.sleep(10 * MINUTE)
        waiting, done = await world.executions()
        assert (waiting.status, done.all_succeeded) == (ExecutionStatus.PENDING, True)
        assert (await look(world)).open_endpoints == set()
        assert await causes(world) == [("SERVER_ERROR", None)]


@simulated(settings=calm_settings(), sellers=1, products=5)
async def test_a_command_beside_which_no_job_runs_sends_the_probe_itself(world: ServiceWorld) -> None:
    (seller_id,) = await world.register_all()
    async with world.serving() as service:
        await world.crawl_all(service, [seller_id])
    async with world.service() as service:
        plan(world, FaultKind.REFUSED, MINUTE)
        run = await world.start(service, seller_id)
        await start(service.crawl, run, seller_id)
        assert (await look(world)).open_endpoints == {Endpoint.LIST}
        await world.clock.sleep(MINUTE)
        left = await start(service.crawl, run, seller_id)
        assert left.task_count is None, "a probe about this seller is left to the job"
        started = await start(service.crawl, run, seller_id, is_check=True)
        assert started.task_count == 1


@simulated(settings=calm_settings(WINDOW_LIMIT=4), sellers=2, products=1)
async def test_a_start_that_finds_no_free_slot_is_queued_and_is_no_failed_try(world: ServiceWorld) -> None:
    await world.leave_agents(1)
    first, second = await world.register_all()
    async with world.serving() as service:
        await world.crawl_all(service, [first])
        queued = await trigger(service.crawl, second, "test")
        assert queued.task_count is None
        (waiting,) = [run for run in await world.executions() if run.is_open]
        assert (waiting.status, waiting.start_tries) == (ExecutionStatus.PENDING, 0)
        assert waiting.failure is not None
        assert waiting.failure.code is FailureCode.NO_FREE_AGENT
        await until_over(world, service, 2)
        await check_afterwards(world, 2)


def test_the_third_failed_try_of_a_start_alerts_once(migrated_template: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: ServiceWorld) -> None:
        (seller_id,) = await world.register_all()
        world.simulator.marketplace.chaos.become(PROFILES["inflated"])
        async with world.serving() as service:
            await world.start(service, seller_id)
            await world.clock.sleep(HOUR)
            (run,) = await world.executions()
            assert run.start_tries > 3
            assert "could not be started in 3 tries" in "".join(alerts())
            world.simulator.marketplace.chaos.become(PROFILES["calm"])
            await until_over(world, service, 1)

    def alerts() -> list[str]:
        return [record.message for record in caplog.records if record.name == "sellerwatch.alerts"]

    play(migrated_template, story, settings=calm_settings(), sellers=1, products=1)
    assert len(alerts()) == 1
