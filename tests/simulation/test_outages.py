"""Outages of the marketplace on virtual time: afterwards every product is right and nothing was lost."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from tests.simulation.outages import (
    DAILY,
    HOUR,
    LONGEST_START_WAIT,
    MINUTE,
    OPEN_TASKS,
    REST,
    a_handful,
    begin_runs,
    calm_settings,
    causes,
    check_afterwards,
    check_cost,
    check_health,
    look,
    now,
    plan,
    requests_during,
    schedules,
    until_asked,
    until_over,
)
from tests.simulation.pool_doors import all_available, breaker
from tests.simulation.service_world import AGENTS, ServiceWorld, play, simulated

from sellerwatch.adapters.sql.store import InlineRunner, SqlStore
from sellerwatch.agents.marketplace_circuit import Endpoint
from sellerwatch.crawling.execution import ExecutionStatus
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.failure import Blame, FailureCode
from sellerwatch.kernel.ids import SellerId
from sellerwatch.schedules.interval import CrawlingInterval
from sellerwatch.schedules.next_run import starts_at
from sellerwatch.service.service import Service
from sellerwatch.simulator.chaos import FaultKind
from sellerwatch.simulator.rng import seeded_rng
from sellerwatch.simulator.world import CHANGES_ONLY

# Outages at the moment at which a run is due.


async def warm(world: ServiceWorld, service: Service, sellers: list[SellerId]) -> None:
    """A first run of each seller, so that every identity has a token; then products change."""
    await world.crawl_all(service, sellers)
    world.simulator.world.mutate(4, seeded_rng("outages"), CHANGES_ONLY)


async def until_start(world: ServiceWorld, seconds: float) -> None:
    """Until this long before the first start of a seller."""
    first = min(start for start in map(starts_at, await schedules(world)) if start is not None)
    await world.clock.sleep((first - world.clock.now()).total_seconds() - seconds)


@pytest.mark.parametrize(
    ("has_tokens", "seconds"),
    [(True, 10 * MINUTE), (False, 10 * MINUTE), (True, 5 * HOUR)],
    ids=["10 min", "10 min, no identity has a token", "5 h"],
)
@simulated(settings=calm_settings(), sellers=2, products=8)
async def test_a_run_due_in_an_outage_waits_as_pending_and_starts_when_the_marketplace_is_back(
    world: ServiceWorld, has_tokens: bool, seconds: float
) -> None:
    due = world.clock.now() + timedelta(seconds=300)
    sellers = await world.register_all(every=DAILY, due=due)
    async with world.serving(schedules=True) as service:
        if has_tokens:
            await warm(world, service, sellers)
        before = len(await world.executions())
        await until_start(world, 1)
        outage = plan(world, FaultKind.REFUSED, seconds)
        await world.clock.sleep(seconds - 1)

        seen = await look(world)
        assert [run.status for run in seen.runs[before:]] == [ExecutionStatus.PENDING] * 2
        assert max(run.start_tries for run in seen.runs[before:]) >= 1
        for run in seen.runs[before:]:
            assert run.failure is not None
            assert run.failure.blame is Blame.MARKETPLACE
            assert run.next_start_at is not None
            assert world.clock.now() < run.next_start_at <= world.clock.now() + LONGEST_START_WAIT
        seen.check_cause(Endpoint.LIST if has_tokens else Endpoint.TOKEN)
        shown = await causes(world)
        assert len(shown) == 2
        assert {endpoint for _, endpoint in shown} <= seen.open_endpoints
        seen.check_nothing_is_charged()
        check_cost(world, outage)

        await until_over(world, service, before + 2)
        await check_afterwards(world, before + 2)
        await check_health(world)
    back = datetime.fromtimestamp(outage.end, tz=due.tzinfo)
    for run in (await world.executions())[before:]:
        assert run.started_at is not None
        assert back <= run.started_at <= back + LONGEST_START_WAIT
    assert {schedule.next_run_at for schedule in await schedules(world)} == {due + timedelta(days=1)}
    assert await world.notes("schedule.skip") == []


@pytest.mark.parametrize("has_tokens", [True, False], ids=["with tokens", "without a token"])
@simulated(settings=calm_settings(), sellers=1, products=8)
async def test_connections_refused_for_45_ms_when_a_run_is_due_cost_no_run(
    world: ServiceWorld, has_tokens: bool
) -> None:
    due = world.clock.now() + timedelta(seconds=300)
    sellers = await world.register_all(every=DAILY, due=due)
    async with world.serving(schedules=True) as service:
        if has_tokens:
            await warm(world, service, sellers)
        before = len(await world.executions())
        await until_start(world, 0.5)
        outage = plan(world, FaultKind.REFUSED, HOUR)
        while not requests_during(world, outage):
            await world.clock.sleep(0.001)
        await world.clock.sleep(0.045)
        world.simulator.marketplace.chaos.end_outages()
        back = world.clock.now()
        refused = {request.endpoint for request in requests_during(world, outage) if request.status == 0}
        assert refused == ({"list"} if has_tokens else {"robots", "session"}), "what a start asks was refused"

        await until_over(world, service, before + 1)
        await check_afterwards(world, before + 1)
        await check_health(world)
    run = (await world.executions())[-1]
    assert run.started_at is not None
    assert run.started_at <= back + timedelta(seconds=60)
    (schedule,) = await schedules(world)
    assert schedule.next_run_at == due + timedelta(days=1)


def test_a_run_that_is_still_waiting_at_its_next_due_time_is_overtaken_by_one_new_start(
    migrated_template: Path,
) -> None:
    # Only the next due time of the same seller ends a start that waits: there is always one that will run.
    async def story(world: ServiceWorld) -> None:
        await world.register_all(every=CrawlingInterval.of_hours(1), due=world.clock.now() + timedelta(seconds=60))
        async with world.serving(schedules=True) as service:
            await world.clock.sleep(50)
            plan(world, FaultKind.REFUSED, 2.5 * HOUR)
            await world.clock.sleep(2.4 * HOUR)
            waiting = [run for run in await world.executions() if run.is_open]
            assert [run.status for run in waiting] == [ExecutionStatus.PENDING]
            assert world.clock.now() - waiting[0].created_at < timedelta(hours=1), "the newest due time waits"

            async def has_completed() -> bool:
                return any(run.all_succeeded for run in await world.executions())

            await world.until(has_completed, service)
            await world.settle(service)
        runs = await world.executions()
        assert [run.execution_id for run in runs if run.all_succeeded] == [waiting[0].execution_id]
        world.check_world()

    play(migrated_template, story, settings=calm_settings(), sellers=1, products=4)


@pytest.mark.parametrize("is_away", [False, True], ids=["calm", "in an outage"])
@simulated(settings=calm_settings(), sellers=2, products=8, latency_ms=100)
async def test_two_schedulers_that_see_the_same_due_time_start_each_run_once(
    world: ServiceWorld, is_away: bool
) -> None:
    # What one of them is just starting is no earlier run that could not be started.
    await world.register_all(every=DAILY, due=world.clock.now() + timedelta(seconds=60))
    other = SqlStore(world.store.engine, world.clock, InlineRunner(), InlineRunner())
    async with world.serving(schedules=True) as service, world.serving(schedules=True, store=other):
        if is_away:
            plan(world, FaultKind.REFUSED, 10 * MINUTE)
        await until_over(world, service, 2)
        await check_afterwards(world, 2)
    assert await world.notes("crawl.overtaken") == []
    assert await world.notes("schedule.skip") == []


# Tokens.


@simulated(settings=calm_settings(), sellers=1, products=40)
async def test_a_marketplace_that_voided_all_tokens_costs_each_identity_one_new_token_and_nothing_else(
    world: ServiceWorld,
) -> None:
    sellers = await world.register_all()
    async with world.serving() as service:
        await begin_runs(world, service, sellers, asked=20)
        restarted = now(world)
        world.simulator.marketplace.restart(restarted)
        await until_over(world, service, 1)
        await check_afterwards(world, 1)
        await check_health(world)
        assert sum((await look(world)).tries.values()) == 0
    sessions = Counter(
        request.user_agent
        for request in world.simulator.marketplace.requests(restarted)
        if request.endpoint == "session"
    )
    assert max(sessions.values()) == 1


@simulated(settings=calm_settings(), sellers=1, products=5)
async def test_a_start_whose_tokens_are_all_void_gets_a_new_one_for_the_same_question(world: ServiceWorld) -> None:
    (seller_id,) = await world.register_all()
    async with world.serving() as service:
        await world.crawl_all(service, [seller_id])
        for number in range(2, 7):
            world.simulator.marketplace.restart(now(world))
            asked = now(world)
            assert await world.start(service, seller_id) is not None
            run = (await world.executions())[-1]
            assert (run.status, run.start_tries) == (ExecutionStatus.RUNNING, 0)
            assert run.failure is None
            assert len(world.simulator.marketplace.requests(asked)) <= 2 * AGENTS
            await until_over(world, service, number)
        await check_afterwards(world, 6)
        await check_health(world)


@simulated(settings=calm_settings(WINDOW_LIMIT=2), sellers=1, products=0)
async def test_a_start_that_got_a_new_token_and_finds_no_free_slot_waits_for_one(world: ServiceWorld) -> None:
    # The rejected token was replaced, so it is neither a failed try nor the cause any more.
    await world.leave_agents(1)
    (seller_id,) = await world.register_all()
    async with world.serving() as service:
        await world.start(service, seller_id)
        world.simulator.marketplace.restart(now(world))
        await world.start(service, seller_id)
        waiting = (await world.executions())[-1]
        assert (waiting.status, waiting.start_tries) == (ExecutionStatus.PENDING, 0)
        assert waiting.failure is not None
        assert waiting.failure.code is FailureCode.NO_FREE_AGENT
        assert waiting.next_start_at is not None
        window = timedelta(seconds=world.settings.window_seconds)
        assert world.clock.now() < waiting.next_start_at <= world.clock.now() + window, "when the window has room"
        await world.clock.sleep(2 * window.total_seconds())
        assert (await world.executions())[-1].all_succeeded


@pytest.mark.parametrize(("identities", "products"), [(10, 1), (4, 30)], ids=["rarely used", "often used"])
def test_an_identity_that_is_answered_401_with_fresh_tokens_too_loses_health_and_nobody_else_does(
    migrated_template: Path, identities: int, products: int
) -> None:
    async def story(world: ServiceWorld) -> None:
        await world.leave_agents(identities)
        sellers = await world.register_all()
        banned = (await world.agents())[0].user_agent
        plan(world, FaultKind.UNAUTHORISED, 1000 * HOUR, user_agent=banned)
        async with world.serving() as service:

            async def is_charged() -> bool:
                (one,) = [agent for agent in await world.agents() if agent.user_agent == banned]
                return one.health_score < 100 or one.status.value != "AVAILABLE"

            runs = 0
            while runs < 24 and not await is_charged():
                await world.start(service, sellers[0])
                runs += 1
                service.nudge()
                await until_over(world, service, runs)
                await world.clock.sleep(10 * MINUTE)
            assert await is_charged(), "a banned identity keeps its health for ever"
            seen = await look(world)
            others = [agent for agent in seen.agents if agent.user_agent != banned]
            assert {(agent.health_score, agent.status.value) for agent in others} == {(100, "AVAILABLE")}
            await check_afterwards(world, runs)

    play(migrated_template, story, settings=calm_settings(), sellers=1, products=products)


# Outages in the middle of a run.


@pytest.mark.parametrize("seconds", [20.0, 10 * MINUTE, 3 * HOUR])
@simulated(settings=calm_settings(RUN_DEADLINE_SECONDS=1800), sellers=2, products=40)
async def test_an_outage_in_the_middle_of_a_run_fails_no_task_and_costs_a_handful_of_requests(
    world: ServiceWorld, seconds: float
) -> None:
    sellers = await world.register_all()
    async with world.serving() as service:
        await begin_runs(world, service, sellers, asked=30)
        assert await world.count(OPEN_TASKS) > 20
        outage = plan(world, FaultKind.REFUSED, seconds)
        await world.clock.sleep(seconds - 1)

        seen = await look(world)
        assert seen.run_states == {ExecutionStatus.RUNNING: 2}, "runs wait"
        assert seen.open_endpoints & {Endpoint.DETAIL, Endpoint.OPTIONS}
        for endpoint in seen.open_endpoints:
            seen.check_cause(endpoint)
        for code, away in await causes(world):
            assert (code, away in seen.open_endpoints) == ("CIRCUIT_OPEN", True)
        assert len(await causes(world)) == 2
        seen.check_nothing_is_charged()
        check_cost(world, outage)

        await until_over(world, service, 2)
        await check_afterwards(world, 2)
        await check_health(world)


@simulated(settings=calm_settings(), sellers=1, products=40)
async def test_an_outage_of_the_options_alone_stops_the_options_alone(world: ServiceWorld) -> None:
    sellers = await world.register_all()
    async with world.serving() as service:
        await begin_runs(world, service, sellers, asked=10)
        outage = plan(world, FaultKind.ERROR, HOUR, endpoint="options")
        await world.clock.sleep(HOUR - 1)

        seen = await look(world)
        assert seen.open_endpoints == {Endpoint.OPTIONS}
        seen.check_cause(Endpoint.OPTIONS)
        failure = seen.circuits[Endpoint.OPTIONS].failure
        assert failure is not None
        assert failure.code == "SERVER_ERROR"
        assert await causes(world) == [("CIRCUIT_OPEN", "options")]
        seen.check_nothing_is_charged()
        assert seen.run_states == {ExecutionStatus.RUNNING: 1}
        waiting = await world.count(f"{OPEN_TASKS} AND task_type = 'PRODUCT_DETAIL'")
        assert waiting == 0, "details were read meanwhile"
        answered = [request for request in requests_during(world, outage) if request.endpoint == "options"]
        assert 0 < len(answered) <= a_handful(HOUR)

        await until_over(world, service, 1)
        await check_afterwards(world, 1)
        await check_health(world)


@simulated(settings=calm_settings(), sellers=1, products=40)
async def test_an_outage_of_the_token_page_alone_costs_no_task(world: ServiceWorld) -> None:
    sellers = await world.register_all()
    async with world.serving() as service:
        await begin_runs(world, service, sellers, asked=10)
        world.simulator.marketplace.restart(now(world))
        outage = plan(world, FaultKind.ERROR, HOUR, endpoint="session")
        await world.clock.sleep(HOUR - 1)

        seen = await look(world)
        seen.check_cause(Endpoint.TOKEN)
        assert await causes(world) == [("CIRCUIT_OPEN", "token")]
        seen.check_nothing_is_charged()
        assert seen.run_states == {ExecutionStatus.RUNNING: 1}
        check_cost(world, outage)

        await until_over(world, service, 1)
        await check_afterwards(world, 1)
        await check_health(world)


@pytest.mark.parametrize("products", [1, 2])
def test_the_last_products_of_a_run_do_not_fail_in_an_outage_either(migrated_template: Path, products: int) -> None:
    # Too few to tell an outage from broken products by their number alone.
    async def story(world: ServiceWorld) -> None:
        (seller_id,) = await world.register_all()
        async with world.serving() as service:
            await world.start(service, seller_id)
            service.nudge()
            await until_asked(world, 2, "list")  # the total and the page, which is answered a little later
            outage = plan(world, FaultKind.REFUSED, 10 * MINUTE)
            await world.clock.sleep(10 * MINUTE - 1)

            seen = await look(world)
            assert seen.run_states == {ExecutionStatus.RUNNING: 1}
            assert seen.failed_tasks == 0
            check_cost(world, outage)

            await until_over(world, service, 1)
            await check_afterwards(world, 1)
            await check_health(world)

    play(migrated_template, story, settings=calm_settings(), sellers=1, products=products, latency_ms=100)


def test_one_product_that_is_always_answered_500_fails_after_its_tries_and_opens_no_circuit(
    migrated_template: Path,
) -> None:
    async def story(world: ServiceWorld) -> None:
        (seller_id,) = await world.register_all()
        item_no = world.simulator.world.listing(seller_id)[3]
        outage = plan(world, FaultKind.ERROR, 1000 * HOUR, endpoint="detail", item_no=item_no)
        async with world.serving() as service:
            await world.start(service, seller_id)
            service.nudge()
            opened: set[Endpoint] = set()

            async def is_over() -> bool:
                seen = await look(world)
                opened.update(seen.open_endpoints)
                return not any(run.is_open for run in seen.runs)

            await world.until(is_over, service)
            await world.settle(service)
        (run,) = await world.executions()
        assert (run.status, run.failed_tasks) == (ExecutionStatus.COMPLETED, 1)
        assert opened == set()
        errors = [request for request in requests_during(world, outage) if request.status >= 500]
        assert len(errors) == 1 + world.settings.task_retries
        wrong = {mismatch.item_no for mismatch in world.simulator.compare()}
        assert wrong == {item_no}, "every other product is right"
        await world.check_books()

    play(migrated_template, story, settings=calm_settings(), sellers=1, products=20)


@pytest.mark.parametrize("endpoint", ["detail", "options"])
@simulated(settings=calm_settings(), sellers=1, products=3)
async def test_one_bad_product_that_nobody_else_asks_beside_ends_within_minutes(
    world: ServiceWorld, endpoint: str
) -> None:
    """Its tries are spent when the rest of the run is over: another product is asked to tell it from an outage."""
    (seller_id,) = await world.register_all()
    item_no = world.simulator.world.listing(seller_id)[0]
    plan(world, FaultKind.ERROR, 1000 * HOUR, endpoint=endpoint, item_no=item_no)
    async with world.serving() as service:
        await world.start(service, seller_id)
        service.nudge()
        await world.clock.sleep(5 * MINUTE)
        await world.settle(service)
    (run,) = await world.executions()
    assert (run.status, run.failed_tasks) == (ExecutionStatus.COMPLETED, 1)
    assert (await look(world)).open_endpoints == set()


# Too many requests, says the marketplace, whoever asks.


@simulated(settings=calm_settings(AGENT_SUSPENSION_SECONDS=REST, BREAKER_OPEN_SECONDS=300), sellers=1, products=5)
async def test_429_for_everybody_for_an_hour_opens_the_pool_breaker_and_no_task_fails(world: ServiceWorld) -> None:
    # Ten tasks and ten identities: each task meets far more refusals than it may make requests of its own.
    sellers = await world.register_all()
    async with world.serving() as service:
        await begin_runs(world, service, sellers, asked=2)
        outage = plan(world, FaultKind.STORM, HOUR)
        await world.clock.sleep(REST / 2)
        assert (await breaker(world)).state is not CircuitState.CLOSED, "everybody rests"
        assert await causes(world) == [("POOL_BREAKER_OPEN", None)]
        await world.clock.sleep(HOUR - REST / 2 - 1)

        seen = await look(world)
        assert (seen.failed_tasks, sum(seen.tries.values())) == (0, 0)
        assert seen.run_states == {ExecutionStatus.RUNNING: 1}
        assert seen.open_endpoints == set(), "429 is an answer: the endpoints are not away"
        spent = Counter(request.user_agent for request in requests_during(world, outage) if request.status == 429)
        assert max(spent.values()) <= HOUR / REST + 2, "an identity asks again after its rest, not before"

        await until_over(world, service, 1)
        await check_afterwards(world, 1)
        await world.until(lambda: all_available(world), service)


@simulated(settings=calm_settings(AGENT_SUSPENSION_SECONDS=REST, BREAKER_OPEN_SECONDS=300), sellers=1, products=8)
async def test_a_run_due_while_everybody_is_answered_429_starts_when_that_is_over(world: ServiceWorld) -> None:
    await world.register_all(every=DAILY, due=world.clock.now() + timedelta(seconds=60))
    async with world.serving(schedules=True) as service:
        await world.clock.sleep(50)
        plan(world, FaultKind.STORM, HOUR)
        await world.clock.sleep(HOUR)
        await until_over(world, service, 1)
        await check_afterwards(world, 1)
    assert await world.notes("schedule.skip") == []


# Details that cannot be read.


@simulated(settings=calm_settings(), sellers=1, products=40)
async def test_details_without_their_main_module_for_ten_minutes_end_in_a_run_without_a_failure(
    world: ServiceWorld,
) -> None:
    sellers = await world.register_all()
    async with world.serving() as service:
        await world.crawl_all(service, sellers)
        events = len(world.simulator.product_server.events())
        plan(world, FaultKind.WITHOUT_MODULE, 10 * MINUTE, endpoint="detail")
        await world.start(service, sellers[0])
        service.nudge()
        await world.clock.sleep(10 * MINUTE - 1)
        seen = await look(world)
        assert [run.status for run in seen.runs] == [ExecutionStatus.COMPLETED, ExecutionStatus.RUNNING]
        assert seen.open_endpoints == set(), "it answered"
        assert await causes(world) == [("RUN_PAUSED", None)]

        await until_over(world, service, 2)
        await check_afterwards(world, 2)
        await check_health(world)
    assert len(world.simulator.product_server.events()) == events, "nothing changed, so nothing is announced"
