"""What an outage means for runs, whoever notices that it begins or ends: a task, a single question, the token page."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from msgspec import structs
from tests.builders import HOUR, MINUTE, SECOND, worker_id
from tests.conftest import ENGINES
from tests.crawling.crawl_world import BROKEN, CrawlWorld

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.agents.agent import AgentStatus, Outcome
from sellerwatch.agents.circuit import Circuit
from sellerwatch.agents.limits import Limits
from sellerwatch.agents.marketplace_circuit import Endpoint
from sellerwatch.agents.outages import Observation, observe
from sellerwatch.crawling.claim import Claim
from sellerwatch.crawling.execution import ExecutionStatus
from sellerwatch.crawling.outage_effects import apply_outage
from sellerwatch.crawling.put_back import cancel_execution
from sellerwatch.crawling.task import TaskStatus, TaskType
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.failure import Failure, FailureCode
from sellerwatch.kernel.ids import ReplayableIds


@pytest.fixture(params=ENGINES)
def on(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def seen(endpoint: Endpoint, number: int, at: datetime, *, fails: bool, is_probe: bool = False) -> Observation:
    return Observation(
        endpoint=endpoint,
        permit=number,
        agent_row=number,
        subject=f"subject {number}",
        sent_at=at,
        at=at,
        outcome=Outcome.SERVER_ERROR if fails else Outcome.SUCCESS,
        outage=Failure.of(FailureCode.SERVER_ERROR, at, status=500) if fails else None,
        is_probe=is_probe,
    )


async def see(world: CrawlWorld, *observations: Observation) -> None:
    """As a single question or the token page does it: no task is in hand."""
    now, rules = world.now, world.rules.marketplace_circuit

    def work(tx: Transaction) -> None:
        apply_outage(tx, observe(tx, observations, rules, now), frozenset(), now)

    await world.store.transact(work)


async def go_away(world: CrawlWorld, endpoint: Endpoint, first: int = 100) -> None:
    await see(world, *(seen(endpoint, first + n, world.now, fails=True) for n in range(5)))


async def come_back(world: CrawlWorld, endpoint: Endpoint) -> None:
    def probe(tx: Transaction) -> None:
        circuit = tx.marketplace.hold(endpoint, world.now)
        moved = circuit.probe(worker_id(), world.rules.marketplace_circuit, world.now)
        tx.marketplace.save(moved, world.now)

    await world.store.transact(probe)
    await see(world, seen(endpoint, 1, world.now, fails=False, is_probe=True))


async def test_a_deadline_moves_by_the_time_in_which_any_endpoint_was_away(world: CrawlWorld) -> None:
    run = await world.start()
    deadline = (await world.run(run)).deadline_at
    assert deadline is not None
    steps = ((go_away, Endpoint.DETAIL), (go_away, Endpoint.LIST), (come_back, Endpoint.DETAIL))
    for step, endpoint in steps:
        world.clock.time += MINUTE
        await step(world, endpoint)
        assert (await world.run(run)).deadline_at == deadline, "the list is still away"
    world.clock.time += HOUR
    await come_back(world, Endpoint.LIST)
    assert (await world.run(run)).deadline_at == deadline + 2 * MINUTE + HOUR


async def test_two_outages_are_counted_one_by_one(world: CrawlWorld) -> None:
    run = await world.start()
    deadline = (await world.run(run)).deadline_at
    assert deadline is not None
    for first in (100, 200):
        world.clock.time += HOUR
        await go_away(world, Endpoint.TOKEN, first)
        world.clock.time += MINUTE
        await come_back(world, Endpoint.TOKEN)
    assert (await world.run(run)).deadline_at == deadline + 2 * MINUTE


async def test_a_run_that_began_in_an_outage_gets_the_rest_of_its_time(world: CrawlWorld) -> None:
    await go_away(world, Endpoint.OPTIONS)
    world.clock.time += HOUR
    run = await world.start()
    deadline = (await world.run(run)).deadline_at
    assert deadline is not None
    world.clock.time += MINUTE
    await come_back(world, Endpoint.OPTIONS)
    assert (await world.run(run)).deadline_at == deadline + MINUTE


async def test_a_question_that_opens_a_circuit_gives_back_the_tries_of_tasks(inline_store: SqlStore) -> None:
    world = await CrawlWorld(inline_store).open()
    run = await world.start()
    (page,) = await world.claim()
    await world.answer(page)
    details = [each for each in await world.claim() if each.task.task_type is TaskType.PRODUCT_DETAIL]
    for each in details[:2]:
        world.clock.time += SECOND
        await world.answer(each, BROKEN)
    tried = [task for task in await world.tasks(run) if task.retry_count]
    assert [task.status for task in tried] == [TaskStatus.RETRY] * 2

    world.clock.time += SECOND
    await see(world, *(seen(Endpoint.DETAIL, 50 + n, world.now, fails=True) for n in range(3)))
    assert [task for task in await world.tasks(run) if task.retry_count] == []


async def test_a_claim_names_no_time_that_has_passed_for_an_endpoint_that_no_task_needs(world: CrawlWorld) -> None:
    run = await world.start()
    (page,) = await world.claim()
    await world.answer(page)
    later = world.now + HOUR
    waiting = [task for task in await world.tasks(run) if task.may_start]
    tasks = [structs.replace(task, available_at=later) for task in waiting]
    await world.store.transact(lambda tx: tx.tasks.save(tasks, later))
    await go_away(world, Endpoint.LIST)
    world.clock.time += timedelta(minutes=10)
    claims = await world.claims()
    assert (claims.taken, claims.not_before) == ((), later)


async def test_a_claim_leaves_a_probe_about_a_product_that_failed_before_and_does_not_look_again_at_once(
    world: CrawlWorld,
) -> None:
    run = await world.start()
    (page,) = await world.claim()
    await world.answer(page)
    subjects = [task.subject for task in await world.tasks(run) if task.task_type is TaskType.PRODUCT_DETAIL]

    def fail(tx: Transaction) -> None:
        circuit = tx.marketplace.hold(Endpoint.DETAIL, world.now)
        tx.marketplace.save(circuit.with_failed_subjects(subjects), world.now)

    await go_away(world, Endpoint.DETAIL)
    await world.store.transact(fail)
    world.clock.time += MINUTE
    taken = await world.claim()
    assert {each.task.task_type for each in taken} == {TaskType.PRODUCT_OPTION}
    not_before = (await world.claims()).not_before
    assert not_before is not None
    assert not_before > world.now
    world.clock.time = not_before
    (probe,) = await world.claim()
    assert (probe.task.task_type, probe.is_endpoint_probe) == (TaskType.PRODUCT_DETAIL, True)


async def test_an_outage_does_not_reopen_a_run_that_a_person_cancelled(world: CrawlWorld) -> None:
    run = await world.start()
    (page,) = await world.claim()
    await world.answer(page)
    details = [each for each in await world.claim() if each.task.task_type is TaskType.PRODUCT_DETAIL]
    for each in details[:2]:
        world.clock.time += SECOND
        await world.answer(each, BROKEN)
    reason = Failure.of(FailureCode.CANCELLED, world.now)
    draw = ReplayableIds(world.ids)
    await world.store.transact(lambda tx: cancel_execution(tx, run, reason, world.rules, draw.replay(), world.now))

    world.clock.time += SECOND
    await go_away(world, Endpoint.DETAIL)
    ended = await world.run(run)
    assert (ended.status, ended.failure) == (ExecutionStatus.FAILED, reason)
    cancelled = [await world.task(each.task.task_id) for each in details[:2]]
    assert [task.status for task in cancelled] == [TaskStatus.FAILED] * 2


@pytest.mark.parametrize(("code", "status"), [("SERVER_ERROR", TaskStatus.RETRY), ("WORKER_LOST", TaskStatus.FAILED)])
async def test_an_outage_reopens_a_task_that_failed_for_it_and_no_other(
    inline_store: SqlStore, code: str, status: TaskStatus
) -> None:
    world = await CrawlWorld(inline_store).open()
    await world.start()
    (page,) = await world.claim()
    await world.answer(page)
    detail = next(each for each in await world.claim() if each.task.task_type is TaskType.PRODUCT_DETAIL)
    await world.answer(detail, BROKEN)
    task = await world.task(detail.task.task_id)
    why = Failure.of(FailureCode(code), world.now, status=503, times=3)
    failed = structs.replace(task.publish_and_start(worker_id(), world.now).fail(why, world.now), is_final=True)

    def end(tx: Transaction) -> None:
        tx.tasks.save([failed], world.now)
        execution = tx.executions.get(task.execution_id)
        assert execution is not None
        tx.executions.save(execution.record(world.now, failed=1))

    await world.store.transact(end)
    world.clock.time += SECOND
    await go_away(world, Endpoint.DETAIL)
    assert (await world.task(task.task_id)).status is status


async def test_an_outage_gives_agents_back_their_health_their_freedom_and_their_circuit(inline_store: SqlStore) -> None:
    world = await CrawlWorld(inline_store, products=9, limits=Limits(per_second=1, margin=timedelta(0))).open()
    await world.start()
    (page,) = await world.claim()
    await world.answer(page)
    details: dict[int, Claim] = {}
    while len(details) < 3:
        world.clock.time += SECOND
        for each in await world.claim():
            if each.task.task_type is TaskType.PRODUCT_DETAIL:
                details[each.candidate.row] = each
    ill = structs.replace(await world.agent(1), health_score=35)

    def make_ill(tx: Transaction) -> None:
        tx.agents.save({1: ill})
        circuits = tx.circuits.get_rows([1])
        tx.circuits.save({1: replace(circuits[1], failure_count=2)}, [])

    await world.store.transact(make_ill)
    for row in (1, 2):
        world.clock.time += SECOND
        await world.answer(details[row], BROKEN)
    assert (await world.agent(1)).status is AgentStatus.SUSPENDED
    assert (await circuit_of(world, 1)).state is CircuitState.OPEN
    world.clock.time += SECOND
    await world.answer(details[3], BROKEN)

    agent, circuit = await world.agent(1), await circuit_of(world, 1)
    assert (agent.status, agent.health_score) == (AgentStatus.AVAILABLE, 35)
    assert (circuit.state, circuit.failure_count) == (CircuitState.CLOSED, 2)
    assert [(await world.agent(row)).health_score for row in (2, 3)] == [100, 100]


async def circuit_of(world: CrawlWorld, row: int) -> Circuit:
    return (await world.store.read(lambda tx: tx.circuits.get_rows([row])))[row]
