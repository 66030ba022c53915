"""Failures and notes in the tables of tasks and runs: they come back, are grouped by cause and counted by blame."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec import structs
from tests.builders import (
    HOUR,
    LATER,
    MINUTE,
    NOW,
    a_task,
    an_execution,
    execution_id,
    seller_id,
    task_id,
    worker_id,
)
from tests.conftest import ENGINES

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.crawling.execution import Execution, ExecutionStatus
from sellerwatch.crawling.task import Task, TaskNote, TaskStatus
from sellerwatch.kernel.failure import Blame, Failure, FailureCode

UNWELL = Failure.of(FailureCode.SERVER_ERROR, NOW, status=503)
UNREADABLE = Failure.of(FailureCode.UNREADABLE, NOW, endpoint="detail", detail='"상품명" is missing: 50 % 🧥')


@pytest.fixture(params=ENGINES)
def on(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def started(number: int) -> Task:
    return a_task(number, page_no=number).publish(NOW).start(worker_id(), NOW)


async def keep(store: SqlStore, *ended: Task) -> None:
    def work(tx: Transaction) -> None:
        tx.tasks.add([a_task(number + 1, page_no=number + 1) for number in range(len(ended))])
        tx.tasks.save(ended, LATER)

    await store.transact(work)


@pytest.mark.parametrize(
    "failure", [UNWELL, UNREADABLE, Failure.because(UNWELL, FailureCode.REQUEST_LIMIT, NOW, Blame.AGENT, requests=6)]
)
async def test_a_tasks_failure_comes_back_and_goes_when_it_is_reopened(
    inline_store: SqlStore, failure: Failure
) -> None:
    failed = started(1).fail(failure, NOW)
    await keep(inline_store, failed)
    found = await inline_store.read(lambda tx: tx.tasks.get(task_id()))
    # What is stored as failed has failed for good.
    assert found == structs.replace(failed, is_final=True)
    await inline_store.transact(lambda tx: tx.tasks.save([found.reopen(LATER)], LATER))
    again = await inline_store.read(lambda tx: tx.tasks.get(task_id()))
    assert again is not None
    assert (again.status, again.failure) == (TaskStatus.RETRY, None)


async def test_tasks_that_end_together_keep_each_its_own_failure_or_note(inline_store: SqlStore) -> None:
    held = [started(number) for number in (1, 2, 3, 4)]
    await keep(inline_store, *held)
    ended = [
        held[0].fail(UNWELL, LATER),
        held[1].fail(UNREADABLE, LATER),
        structs.replace(held[2].complete(LATER), note=TaskNote.HELD),
        held[3].complete(LATER),
    ]
    await inline_store.transact(lambda tx: tx.tasks.end(ended, LATER))
    found = await inline_store.read(lambda tx: tx.tasks.get_many([task.task_id for task in ended]))
    assert [(found[t.task_id].failure, found[t.task_id].note) for t in ended] == [
        (UNWELL, None),
        (UNREADABLE, None),
        (None, TaskNote.HELD),
        (None, None),
    ]


async def test_failures_of_a_run_are_grouped_by_cause_whenever_they_happened_most_frequent_first(
    inline_store: SqlStore,
) -> None:
    later = Failure.of(FailureCode.SERVER_ERROR, LATER, status=503)
    other = Failure.of(FailureCode.SERVER_ERROR, NOW, status=500)
    failed = [started(n + 1).fail(cause, NOW) for n, cause in enumerate((UNREADABLE, UNWELL, later, other))]
    await keep(inline_store, *failed)
    grouped = await inline_store.read(lambda tx: tx.run_tasks.failures(execution_id(), 10))
    assert grouped == [(later, 2), (other, 1), (UNREADABLE, 1)]
    assert await inline_store.read(lambda tx: tx.run_tasks.failures(execution_id(), 1)) == [(later, 2)]
    assert await inline_store.read(lambda tx: tx.run_tasks.failures(execution_id(2), 10)) == []


async def test_failed_tasks_are_counted_by_blame_and_those_of_lost_workers_apart(
    inline_store: SqlStore,
) -> None:
    lost = Failure.of(FailureCode.WORKER_LOST, NOW, times=3)
    causes = (UNWELL, UNWELL, UNREADABLE, lost, Failure.of(FailureCode.SERVER_ERROR, NOW, Blame.AGENT, status=503))
    await keep(inline_store, *[started(n + 1).fail(cause, NOW) for n, cause in enumerate(causes)])
    counted = await inline_store.read(lambda tx: tx.dashboard.failures(NOW - HOUR, 1000))
    assert counted == Counter({Blame.MARKETPLACE: 2, Blame.PARSER: 1, Blame.OURSELVES: 1, Blame.AGENT: 1})
    needs = await inline_store.read(lambda tx: tx.dashboard.needs(NOW - HOUR))
    assert needs.lost_tasks == 1
    assert await inline_store.read(lambda tx: tx.dashboard.failures(LATER, 1000)) == {}


async def test_a_blame_of_a_newer_version_counts_as_our_own(inline_store: SqlStore) -> None:
    await keep(inline_store, started(1).fail(UNWELL, NOW))
    await inline_store.transact(lambda tx: tx.db.run("UPDATE crawler_tasks SET failure_blame = 'SUN'"))
    counted = await inline_store.read(lambda tx: tx.dashboard.failures(NOW - HOUR, 1000))
    assert counted == {Blame.OURSELVES: 1}


async def test_a_run_that_waits_to_start_comes_back_and_forgets_the_cause_when_it_starts(
    inline_store: SqlStore,
) -> None:
    waiting = an_execution(started_by="console:kim").wait_to_start(UNWELL, NOW + MINUTE)
    started_run = waiting.start(3, LATER)

    async def kept(run: Execution) -> Execution | None:
        await inline_store.transact(lambda tx: tx.executions.save(run))
        return await inline_store.read(lambda tx: tx.executions.get(run.execution_id))

    await inline_store.transact(lambda tx: tx.executions.add(an_execution(started_by="console:kim")))
    assert await kept(waiting) == waiting
    assert await inline_store.read(lambda tx: tx.executions.pending()) == [waiting]
    assert await kept(started_run) == started_run
    assert (started_run.failure, started_run.next_start_at, started_run.start_tries) == (None, None, 1)
    failed = started_run.fail(Failure.of(FailureCode.DEADLINE_PASSED, LATER), LATER)
    assert failed.status is ExecutionStatus.FAILED
    assert await kept(failed) == failed


async def test_runs_of_other_sellers_keep_their_own_failures(inline_store: SqlStore) -> None:
    one = an_execution(1).wait_to_start(UNWELL, LATER)
    two = an_execution(2, seller_id=seller_id(2)).wait_to_start(UNREADABLE, LATER)

    def work(tx: Transaction) -> None:
        tx.executions.add(one)
        tx.executions.add(two)

    await inline_store.transact(work)
    assert await inline_store.read(lambda tx: tx.executions.pending()) == [one, two]
