"""Outages together with something else: broken products, a short deadline, a start that waits, a run that is cancelled.

What it costs us is bounded too: a service that waits for the marketplace commits little, whatever it waits for.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest
from tests.simulation.outages import (
    AGENTS,
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
from tests.simulation.service_world import ServiceWorld, simulated

from sellerwatch.agents.marketplace_circuit import Endpoint
from sellerwatch.crawling.execution import ExecutionStatus
from sellerwatch.service.service import Service
from sellerwatch.simulator.chaos import FaultKind

#: The longest time between two probes, and a moment for the run to go on.
LONGEST_PROBE_WAIT = timedelta(minutes=11)


def break_details(stage: ServiceWorld, items: Sequence[int]) -> None:
    """The details of these products are answered 500 for ever."""
    for item_no in items:
        plan(stage, FaultKind.ERROR, 1000 * HOUR, endpoint="detail", item_no=item_no)


async def check_only_broken(stage: ServiceWorld, items: Sequence[int]) -> None:
    """Each broken product failed for its own sake; everything else is as after a calm day."""
    seen = await look(stage)
    assert seen.run_states == {ExecutionStatus.COMPLETED: len(seen.runs)}
    assert seen.failed_tasks == len(items)
    assert seen.open_endpoints == set()
    assert {mismatch.item_no for mismatch in stage.simulator.compare()} == set(items)
    await stage.check_books()
    await check_health(stage)


def commits(stage: ServiceWorld) -> int:
    assert stage.store.commits is not None
    return stage.store.commits.number


async def cancel(stage: ServiceWorld, service: Service) -> None:
    """End every run, as an operator does."""
    runs = [run.execution_id for run in await stage.executions() if run.is_open]
    await stage.cancel(service.crawl.rules, *runs)


@pytest.mark.parametrize("number", [2, 5, 12])
@simulated(settings=calm_settings(), sellers=1, products=30)
async def test_broken_products_that_are_all_that_is_left_fail_and_the_run_ends(
    stage: ServiceWorld, number: int
) -> None:
    # Five failures in a row over five products look like an outage: a product that was answered before tells.
    await stage.leave_agents(AGENTS)
    (seller_id,) = await stage.register_all()
    broken = stage.simulator.world.listing(seller_id)[:number]
    break_details(stage, broken)
    async with stage.serving() as service:
        await stage.start(service, seller_id)
        service.nudge()
        await stage.clock.sleep(10 * MINUTE)
        await check_only_broken(stage, broken)


@pytest.mark.parametrize("number", [1, 4])
@simulated(settings=calm_settings(), sellers=1, products=20)
async def test_broken_products_and_an_outage_end_in_a_run_with_those_failures_alone(
    stage: ServiceWorld, number: int
) -> None:
    await stage.leave_agents(AGENTS)
    (seller_id,) = await stage.register_all()
    broken = stage.simulator.world.listing(seller_id)[-number:]
    async with stage.serving() as service:
        break_details(stage, broken)
        await begin_runs(stage, service, [seller_id], asked=20)
        outage = plan(stage, FaultKind.REFUSED, MINUTE)
        await stage.clock.sleep(MINUTE - 1)
        assert await stage.count(FAILED_TASKS) == 0
        check_cost(stage, outage)
        await stage.clock.sleep(10 * MINUTE)
        await check_only_broken(stage, broken)


@simulated(settings=calm_settings(RUN_DEADLINE_SECONDS=1800, TENDING_INTERVAL_SECONDS=5), sellers=1, products=60)
async def test_a_token_page_that_is_away_for_longer_than_the_deadline_ends_no_run(stage: ServiceWorld) -> None:
    await stage.leave_agents(AGENTS)
    sellers = await stage.register_all()
    async with stage.serving() as service:
        await begin_runs(stage, service, sellers, asked=10)
        stage.simulator.marketplace.restart(now(stage))
        before = commits(stage)
        outage = plan(stage, FaultKind.ERROR, 3 * HOUR, endpoint="session")
        await stage.clock.sleep(3 * HOUR - 1)
        (run,) = await stage.executions()
        assert run.deadline_at is not None
        assert run.deadline_at < stage.clock.now(), "its deadline has passed, were the time counted"
        assert await causes(stage) == [("CIRCUIT_OPEN", "token")]
        check_cost(stage, outage)
        assert commits(stage) - before < 3 * HOUR / 2

        await until_over(stage, service, 1)
        await check_afterwards(stage, 1)
        await check_health(stage)


@simulated(
    settings=calm_settings(RUN_DEADLINE_SECONDS=600, TENDING_INTERVAL_SECONDS=5, START_RETRY_SECONDS=1),
    sellers=2,
    products=100,
)
async def test_an_outage_with_a_start_that_waits_keeps_the_deadline_of_the_run_and_starts_the_other(
    stage: ServiceWorld,
) -> None:
    # The list's circuit is closed by a question, not by a task; it is the last of all.
    await stage.leave_agents(AGENTS)
    going, other = await stage.register_all()
    async with stage.serving() as service:
        await begin_runs(stage, service, [going], asked=30)
        before, outage = commits(stage), plan(stage, FaultKind.REFUSED, 1700)
        await stage.clock.sleep(5)
        await stage.start(service, other)
        service.nudge()
        await stage.clock.sleep(1694)
        assert sorted(code for code, _ in await causes(stage)) == ["CIRCUIT_OPEN", "CIRCUIT_OPEN"]
        check_cost(stage, outage)
        assert commits(stage) - before < 1000, "it waits without looking again and again"

        await until_over(stage, service, 2)
        await check_afterwards(stage, 2)
    waited = (await stage.executions())[-1]
    back = stage.simulator.marketplace.requests(outage.end)[0].at
    assert waited.started_at is not None
    assert waited.started_at.timestamp() <= back + LONGEST_PROBE_WAIT.total_seconds()


@pytest.mark.parametrize("ailment", ["everything", "token page"])
@simulated(settings=calm_settings(), sellers=1, products=25)
async def test_circuits_close_after_an_outage_in_which_the_only_run_was_cancelled(
    stage: ServiceWorld, ailment: str
) -> None:
    await stage.leave_agents(AGENTS)
    sellers = await stage.register_all()
    async with stage.serving() as service:
        await begin_runs(stage, service, sellers, asked=15)
        if ailment == "token page":
            stage.simulator.marketplace.restart(now(stage))
            plan(stage, FaultKind.ERROR, MINUTE, endpoint="session")
        else:
            plan(stage, FaultKind.REFUSED, MINUTE)
        await stage.clock.sleep(30)
        assert (await look(stage)).open_endpoints
        await cancel(stage, service)
        await stage.clock.sleep(5 * MINUTE)
        assert (await look(stage)).open_endpoints == set()
        asked = now(stage)
        await stage.clock.sleep(HOUR)
        assert len(stage.simulator.marketplace.requests(asked)) <= AGENTS, "nothing is asked any more"


@simulated(settings=calm_settings(), sellers=1, products=30)
async def test_an_outage_at_the_end_of_a_run_has_no_effect_on_an_error_a_day_later(stage: ServiceWorld) -> None:
    await stage.leave_agents(AGENTS)
    (seller_id,) = await stage.register_all()
    broken = stage.simulator.world.listing(seller_id)[:1]
    async with stage.serving() as service:
        await begin_runs(stage, service, [seller_id], asked=1)
        while await stage.count(OPEN_TASKS) > 2:
            await stage.clock.sleep(0.01)
        plan(stage, FaultKind.REFUSED, MINUTE)
        await stage.clock.sleep(20 * HOUR)
        break_details(stage, broken)
        opened: set[Endpoint] = set()
        await stage.start(service, seller_id)
        service.nudge()
        for _ in range(60):
            opened |= (await look(stage)).open_endpoints
            await stage.clock.sleep(1)
        assert opened == set()
        assert [run.failed_tasks for run in await stage.executions()] == [0, 1]
