"""Outages together with something else: broken products, a short deadline, a start that waits, a run that is cancelled.

What it costs us is bounded too: a service that waits for the marketplace commits little, whatever it waits for.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest
from tests.simulation.outages import (
    FAILED_TASKS,
    HOUR,
    MINUTE,
    OPEN_TASKS,
    begin_runs,
    calm_settings,
    causes,
    check_afterwards,
    check_cost,
    check_health,
    look,
    now,
    plan,
    until_over,
)
from tests.simulation.service_world import AGENTS, ServiceWorld, simulated

from sellerwatch.agents.marketplace_circuit import Endpoint
from sellerwatch.crawling.execution import ExecutionStatus
from sellerwatch.service.service import Service
from sellerwatch.simulator.chaos import FaultKind

#: The longest time between two probes, and a moment for the run to go on.
LONGEST_PROBE_WAIT = timedelta(minutes=11)


def break_details(world: ServiceWorld, items: Sequence[int]) -> None:
    """The details of these products are answered 500 for ever."""
    for item_no in items:
        plan(world, FaultKind.ERROR, 1000 * HOUR, endpoint="detail", item_no=item_no)


async def check_only_broken(world: ServiceWorld, items: Sequence[int]) -> None:
    """Each broken product failed for its own sake; everything else is as after a calm day."""
    seen = await look(world)
    assert seen.run_states == {ExecutionStatus.COMPLETED: len(seen.runs)}
    assert seen.failed_tasks == len(items)
    assert seen.open_endpoints == set()
    assert {mismatch.item_no for mismatch in world.simulator.compare()} == set(items)
    await world.check_books()
    await check_health(world)


def commits(world: ServiceWorld) -> int:
    assert world.store.commits is not None
    return world.store.commits.number


async def cancel(world: ServiceWorld, service: Service) -> None:
    """End every run, as an operator does."""
    runs = [run.execution_id for run in await world.executions() if run.is_open]
    await world.cancel(service.crawl.rules, *runs)


@pytest.mark.parametrize("number", [2, 5, 12])
@simulated(settings=calm_settings(), sellers=1, products=30)
async def test_broken_products_that_are_all_that_is_left_fail_and_the_run_ends(
    world: ServiceWorld, number: int
) -> None:
    # Five failures in a row over five products look like an outage: a product that was answered before tells.
    (seller_id,) = await world.register_all()
    broken = world.simulator.world.listing(seller_id)[:number]
    break_details(world, broken)
    async with world.serving() as service:
        await world.start(service, seller_id)
        service.nudge()
        await world.clock.sleep(10 * MINUTE)
        await check_only_broken(world, broken)


@pytest.mark.parametrize("number", [1, 4])
@simulated(settings=calm_settings(), sellers=1, products=20)
async def test_broken_products_and_an_outage_end_in_a_run_with_those_failures_alone(
    world: ServiceWorld, number: int
) -> None:
    (seller_id,) = await world.register_all()
    broken = world.simulator.world.listing(seller_id)[-number:]
    async with world.serving() as service:
        break_details(world, broken)
        await begin_runs(world, service, [seller_id], asked=20)
        outage = plan(world, FaultKind.REFUSED, MINUTE)
        await world.clock.sleep(MINUTE - 1)
        assert await world.count(FAILED_TASKS) == 0
        check_cost(world, outage)
        await world.clock.sleep(10 * MINUTE)
        await check_only_broken(world, broken)


@simulated(settings=calm_settings(RUN_DEADLINE_SECONDS=1800, TENDING_INTERVAL_SECONDS=5), sellers=1, products=60)
async def test_a_token_page_that_is_away_for_longer_than_the_deadline_ends_no_run(world: ServiceWorld) -> None:
    sellers = await world.register_all()
    async with world.serving() as service:
        await begin_runs(world, service, sellers, asked=10)
        world.simulator.marketplace.restart(now(world))
        before = commits(world)
        outage = plan(world, FaultKind.ERROR, 3 * HOUR, endpoint="session")
        await world.clock.sleep(3 * HOUR - 1)
        (run,) = await world.executions()
        assert run.deadline_at is not None
        assert run.deadline_at < world.clock.now(), "its deadline has passed, were the time counted"
        assert await causes(world) == [("CIRCUIT_OPEN", "token")]
        check_cost(world, outage)
        assert commits(world) - before < 3 * HOUR / 2

        await until_over(world, service, 1)
        await check_afterwards(world, 1)
        await check_health(world)


@simulated(
    settings=calm_settings(RUN_DEADLINE_SECONDS=600, TENDING_INTERVAL_SECONDS=5, START_RETRY_SECONDS=1),
    sellers=2,
    products=100,
)
async def test_an_outage_with_a_start_that_waits_keeps_the_deadline_of_the_run_and_starts_the_other(
    world: ServiceWorld,
) -> None:
    # The list's circuit is closed by a question, not by a task; it is the last of all.
    going, other = await world.register_all()
    async with world.serving() as service:
        await begin_runs(world, service, [going], asked=30)
        before, outage = commits(world), plan(world, FaultKind.REFUSED, 1700)
        await world.clock.sleep(5)
        await world.start(service, other)
        service.nudge()
        await world.clock.sleep(1694)
        assert sorted(code for code, _ in await causes(world)) == ["CIRCUIT_OPEN", "CIRCUIT_OPEN"]
        check_cost(world, outage)
        assert commits(world) - before < 1000, "it waits without looking again and again"

        await until_over(world, service, 2)
        await check_afterwards(world, 2)
    waited = (await world.executions())[-1]
    back = world.simulator.marketplace.requests(outage.end)[0].at
    assert waited.started_at is not None
    assert waited.started_at.timestamp() <= back + LONGEST_PROBE_WAIT.total_seconds()


@pytest.mark.parametrize("ailment", ["everything", "token page"])
@simulated(settings=calm_settings(), sellers=1, products=25)
async def test_circuits_close_after_an_outage_in_which_the_only_run_was_cancelled(
    world: ServiceWorld, ailment: str
) -> None:
    sellers = await world.register_all()
    async with world.serving() as service:
        await begin_runs(world, service, sellers, asked=15)
        if ailment == "token page":
            world.simulator.marketplace.restart(now(world))
            plan(world, FaultKind.ERROR, MINUTE, endpoint="session")
        else:
            plan(world, FaultKind.REFUSED, MINUTE)
        await world.clock.sleep(30)
        assert (await look(world)).open_endpoints
        await cancel(world, service)
        await world.clock.sleep(5 * MINUTE)
        assert (await look(world)).open_endpoints == set()
        asked = now(world)
        await world.clock.sleep(HOUR)
        assert len(world.simulator.marketplace.requests(asked)) <= AGENTS, "nothing is asked any more"


@simulated(settings=calm_settings(), sellers=1, products=30)
async def test_an_outage_at_the_end_of_a_run_has_no_effect_on_an_error_a_day_later(world: ServiceWorld) -> None:
    (seller_id,) = await world.register_all()
    broken = world.simulator.world.listing(seller_id)[:1]
    async with world.serving() as service:
        await begin_runs(world, service, [seller_id], asked=1)
        while await world.count(OPEN_TASKS) > 2:
            await world.clock.sleep(0.01)
        plan(world, FaultKind.REFUSED, MINUTE)
        await world.clock.sleep(20 * HOUR)
        break_details(world, broken)
        opened: set[Endpoint] = set()
        await world.start(service, seller_id)
        service.nudge()
        for _ in range(60):
            opened |= (await look(world)).open_endpoints
            await world.clock.sleep(1)
        assert opened == set()
        assert [run.failed_tasks for run in await world.executions()] == [0, 1]
