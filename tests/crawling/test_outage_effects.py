"""What an outage means for runs, whoever notices that it begins or ends: a task, a single question, the token page."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
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


async def see(practice: CrawlWorld, *observations: Observation) -> None:
    """As a single question or the token page does it: no task is in hand."""
    now, rules = practice.now, practice.rules.marketplace_circuit

    def work(tx: Transaction) -> None:
        apply_outage(tx, observe(tx, observations, rules, now), frozenset(), now)

    await practice.store.transact(work)


async def go_away(practice: CrawlWorld, endpoint: Endpoint, first: int = 100) -> None:
    await see(practice, *(seen(endpoint, first + n, practice.now, fails=True) for n in range(5)))


async def come_back(practice: CrawlWorld, endpoint: Endpoint) -> None:
    def probe(tx: Transaction) -> None:
        circuit = tx.marketplace.hold(endpoint, practice.now)
        moved = circuit.probe(worker_id(), practice.rules.marketplace_circuit, practice.now)
        tx.marketplace.save(moved, practice.now)

    await practice.store.transact(probe)
    await see(practice, seen(endpoint, 1, practice.now, fails=False, is_probe=True))


async def test_a_deadline_moves_by_the_time_in_which_any_endpoint_was_away(practice: CrawlWorld) -> None:
    run = await practice.start()
    deadline = (await practice.run(run)).deadline_at
    assert deadline is not None
    steps = ((go_away, Endpoint.DETAIL), (go_away, Endpoint.LIST), (come_back, Endpoint.DETAIL))
    for step, endpoint in steps:
        practice.clock.time += MINUTE
        await step(practice, endpoint)
        assert (await practice.run(run)).deadline_at == deadline, "the list is still away"
    practice.clock.time += HOUR
    await come_back(practice, Endpoint.LIST)
    assert (await practice.run(run)).deadline_at == deadline + 2 * MINUTE + HOUR


async def test_two_outages_are_counted_one_by_one(practice: CrawlWorld) -> None:
    run = await practice.start()
    deadline = (await practice.run(run)).deadline_at
    assert deadline is not None
    for first in (100, 200):
        practice.clock.time += HOUR
        await go_away(practice, Endpoint.TOKEN, first)
        practice.clock.time += MINUTE
        await come_back(practice, Endpoint.TOKEN)
    assert (await practice.run(run)).deadline_at == deadline + 2 * MINUTE


async def test_a_run_that_began_in_an_outage_gets_the_rest_of_its_time(practice: CrawlWorld) -> None:
    await go_away(practice, Endpoint.OPTIONS)
    practice.clock.time += HOUR
    run = await practice.start()
    deadline = (await practice.run(run)).deadline_at
    assert deadline is not None
    practice.clock.time += MINUTE
    await come_back(practice, Endpoint.OPTIONS)
    assert (await practice.run(run)).deadline_at == deadline + MINUTE


async def test_a_question_that_opens_a_circuit_gives_back_the_tries_of_tasks(inline_store: SqlStore) -> None:
    practice = await CrawlWorld(inline_store).open()
    run = await practice.start()
    (page,) = await practice.claim()
    await practice.answer(page)
    details = [each for each in await practice.claim() if each.task.task_type is TaskType.PRODUCT_DETAIL]
    for each in details[:2]:
        practice.clock.time += SECOND
        await practice.answer(each, BROKEN)
    tried = [task for task in await practice.tasks(run) if task.retry_count]
    assert [task.status for task in tried] == [TaskStatus.RETRY] * 2

    practice.clock.time += SECOND
    await see(practice, *(seen(Endpoint.DETAIL, 50 + n, practice.now, fails=True) for n in range(3)))
    assert [task for task in await practice.tasks(run) if task.retry_count] == []


async def test_a_claim_names_no_time_that_has_passed_for_an_endpoint_that_no_task_needs(practice: CrawlWorld) -> None:
    run = await practice.start()
    (page,) = await practice.claim()
    await practice.answer(page)
    later = practice.now + HOUR
    waiting = [task for task in await practice.tasks(run) if task.may_start]
    tasks = [replace(task, available_at=later) for task in waiting]
    await practice.store.transact(lambda tx: tx.tasks.save(tasks, later))
    await go_away(practice, Endpoint.LIST)
    practice.clock.time += timedelta(minutes=10)
    claims = await practice.claims()
    assert (claims.taken, claims.not_before) == ((), later)


async def test_a_claim_leaves_a_probe_about_a_product_that_failed_before_and_does_not_look_again_at_once(
    practice: CrawlWorld,
) -> None:
    run = await practice.start()
    (page,) = await practice.claim()
    await practice.answer(page)
    subjects = [task.subject for task in await practice.tasks(run) if task.task_type is TaskType.PRODUCT_DETAIL]

    def fail(tx: Transaction) -> None:
        circuit = tx.marketplace.hold(Endpoint.DETAIL, practice.now)
        tx.marketplace.save(circuit.with_failed_subjects(subjects), practice.now)

    await go_away(practice, Endpoint.DETAIL)
    await practice.store.transact(fail)
    practice.clock.time += MINUTE
    taken = await practice.claim()
    assert {each.task.task_type for each in taken} == {TaskType.PRODUCT_OPTION}
    not_before = (await practice.claims()).not_before
    assert not_before is not None
    assert not_before > practice.now
    practice.clock.time = not_before
    (probe,) = await practice.claim()
    assert (probe.task.task_type, probe.is_endpoint_probe) == (TaskType.PRODUCT_DETAIL, True)


async def test_an_outage_does_not_reopen_a_run_that_a_person_cancelled(practice: CrawlWorld) -> None:
    run = await practice.start()
    (page,) = await practice.claim()
    await practice.answer(page)
    details = [each for each in await practice.claim() if each.task.task_type is TaskType.PRODUCT_DETAIL]
    for each in details[:2]:
        practice.clock.time += SECOND
        await practice.answer(each, BROKEN)
    reason = Failure.of(FailureCode.CANCELLED, practice.now)
    draw = ReplayableIds(practice.ids)
    await practice.store.transact(
        lambda tx: cancel_execution(tx, run, reason, practice.rules, draw.replay(), practice.now)
    )

    practice.clock.time += SECOND
    await go_away(practice, Endpoint.DETAIL)
    ended = await practice.run(run)
    assert (ended.status, ended.failure) == (ExecutionStatus.FAILED, reason)
    cancelled = [await practice.task(each.task.task_id) for each in details[:2]]
    assert [task.status for task in cancelled] == [TaskStatus.FAILED] * 2


@pytest.mark.parametrize(("code", "status"), [("SERVER_ERROR", TaskStatus.RETRY), ("WORKER_LOST", TaskStatus.FAILED)])
async def test_an_outage_reopens_a_task_that_failed_for_it_and_no_other(
    inline_store: SqlStore, code: str, status: TaskStatus
) -> None:
    practice = await CrawlWorld(inline_store).open()
    await practice.start()
    (page,) = await practice.claim()
    await practice.answer(page)
    detail = next(each for each in await practice.claim() if each.task.task_type is TaskType.PRODUCT_DETAIL)
    await practice.answer(detail, BROKEN)
    task = await practice.task(detail.task.task_id)
    why = Failure.of(FailureCode(code), practice.now, status=503, times=3)
    failed = replace(task.publish_and_start(worker_id(), practice.now).fail(why, practice.now), is_final=True)

    def end(tx: Transaction) -> None:
        tx.tasks.save([failed], practice.now)
        execution = tx.executions.get(task.execution_id)
        assert execution is not None
        tx.executions.save(execution.record(practice.now, failed=1))

    await practice.store.transact(end)
    practice.clock.time += SECOND
    await go_away(practice, Endpoint.DETAIL)
    assert (await practice.task(task.task_id)).status is status


async def test_an_outage_gives_agents_back_their_health_their_freedom_and_their_circuit(inline_store: SqlStore) -> None:
    practice = await CrawlWorld(inline_store, products=9, limits=Limits(per_second=1, margin=timedelta(0))).open()
    await practice.start()
    (page,) = await practice.claim()
    await practice.answer(page)
    details: dict[int, Claim] = {}
    while len(details) < 3:
        practice.clock.time += SECOND
        for each in await practice.claim():
            if each.task.task_type is TaskType.PRODUCT_DETAIL:
                details[each.candidate.row] = each
    ill = replace(await practice.agent(1), health_score=35)

    def make_ill(tx: Transaction) -> None:
        tx.agents.save({1: ill})
        circuits = tx.circuits.get_rows([1])
        tx.circuits.save({1: replace(circuits[1], failure_count=2)}, [])

    await practice.store.transact(make_ill)
    for row in (1, 2):
        practice.clock.time += SECOND
        await practice.answer(details[row], BROKEN)
    assert (await practice.agent(1)).status is AgentStatus.SUSPENDED
    assert (await circuit_of(practice, 1)).state is CircuitState.OPEN
    practice.clock.time += SECOND
    await practice.answer(details[3], BROKEN)

    agent, circuit = await practice.agent(1), await circuit_of(practice, 1)
    assert (agent.status, agent.health_score) == (AgentStatus.AVAILABLE, 35)
    assert (circuit.state, circuit.failure_count) == (CircuitState.CLOSED, 2)
    assert [(await practice.agent(row)).health_score for row in (2, 3)] == [100, 100]


async def circuit_of(practice: CrawlWorld, row: int) -> Circuit:
    return (await practice.store.read(lambda tx: tx.circuits.get_rows([row])))[row]
