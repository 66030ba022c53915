"""Tasks that come back: their worker vanished or stopped, or their run was ended or reopened from outside."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.builders import MINUTE, SECOND, a_failure, at, execution_id, rng, worker_id
from tests.crawling.crawl_world import BROKEN, GONE, ONE, TWO, CrawlWorld

from sellerwatch.catalog.product import ProductEvent
from sellerwatch.crawling.execution import ExecutionNotFound, ExecutionStatus
from sellerwatch.crawling.put_back import PutBack, put_back_lost, release, reopen_tasks
from sellerwatch.crawling.task import TaskStatus, TaskType
from sellerwatch.kernel.errors import IllegalMove
from sellerwatch.kernel.failure import FailureCode
from sellerwatch.kernel.ids import ExecutionId
from sellerwatch.operations.quarantine import settle_ended

LAPSE = timedelta(seconds=30)
DETAIL, OPTION = TaskType.PRODUCT_DETAIL, TaskType.PRODUCT_OPTION
WAITING, IN_PROGRESS, RETRY = TaskStatus.WAITING, TaskStatus.IN_PROGRESS, TaskStatus.RETRY
COMPLETED, FAILED = TaskStatus.COMPLETED, TaskStatus.FAILED


async def sweep(practice: CrawlWorld) -> PutBack:
    now = practice.now
    return await practice.transact_with_ids(lambda tx, ids: put_back_lost(tx, LAPSE, practice.rules, ids, at(now)))


async def beat(practice: CrawlWorld, number: int = 1) -> None:
    now = practice.now
    await practice.store.transact(lambda tx: tx.workers.beat(worker_id(number), now))


async def leave(practice: CrawlWorld, number: int = 1) -> int:
    now = practice.now
    return await practice.transact_with_ids(
        lambda tx, ids: release(tx, worker_id(number), practice.rules, ids, at(now))
    )


async def reopen(practice: CrawlWorld, run: ExecutionId) -> int:
    now = practice.now
    return await practice.store.transact(lambda tx: reopen_tasks(tx, tx.run_tasks.open_of(run, (FAILED,)), now))


async def listed(practice: CrawlWorld) -> ExecutionId:
    """A run whose list was read: six tasks wait."""
    run = await practice.start()
    [page] = await practice.claim()
    await practice.answer(page)
    practice.clock.time += SECOND
    return run


# Vanished workers.


async def test_what_a_living_worker_holds_is_left_with_it(practice: CrawlWorld) -> None:
    await practice.start()
    [page] = await practice.claim()
    practice.clock.time += LAPSE - SECOND
    assert await sweep(practice) == PutBack(0, 0, 0)
    practice.clock.time += LAPSE
    await beat(practice)
    assert await sweep(practice) == PutBack(0, 0, 0)
    assert await practice.task(page.task.task_id) == page.task


async def test_the_tasks_of_a_silent_worker_come_back_and_another_does_them(practice: CrawlWorld) -> None:
    run = await listed(practice)
    taken = await practice.claim(4)
    practice.clock.time += LAPSE
    assert await sweep(practice) == PutBack(again=4, poison=0, permits=4)
    for each in taken:
        task = await practice.task(each.task.task_id)
        assert (task.status, task.worker_id, task.lost_leases, task.retry_count) == (WAITING, None, 1, 0)
        assert task.available_at == practice.now
    assert {each.task.attempt for each in await practice.claim(6, worker=2)} == {1, 2}
    await practice.recount(run)


async def test_permits_of_the_dead_count_as_used_from_when_that_is_noticed(practice: CrawlWorld) -> None:
    await practice.start()
    [page] = await practice.claim()
    practice.clock.time += 10 * MINUTE
    await sweep(practice)
    answered = "SELECT COUNT(*) FROM permits WHERE id = :id AND answered_at = :now"
    given = {"id": page.permit.number, "now": practice.now}
    assert await practice.store.read(lambda tx: tx.db.value(answered, given)) == 1


async def test_a_second_sweep_finds_nothing_more(practice: CrawlWorld) -> None:
    await listed(practice)
    await practice.claim(4)
    practice.clock.time += LAPSE
    await sweep(practice)
    assert await sweep(practice) == PutBack(0, 0, 0)


async def test_a_worker_nobody_knows_holds_nothing(practice: CrawlWorld) -> None:
    await practice.start()
    await practice.claim(worker=7)
    assert await sweep(practice) == PutBack(again=1, poison=0, permits=1)


async def test_a_worker_given_up_for_dead_that_answers_after_all_changes_nothing(practice: CrawlWorld) -> None:
    run = await practice.start()
    [page] = await practice.claim()
    practice.clock.time += LAPSE
    await sweep(practice)
    await beat(practice)
    assert (await practice.answer(page)).completed == 0
    found = await practice.recount(run)
    assert (found.ended, (await practice.task(page.task.task_id)).status) == (0, WAITING)


async def test_the_third_loss_in_a_row_is_poison_and_counted_as_a_failure(practice: CrawlWorld) -> None:
    run = await practice.start()
    for lost in (1, 2):
        [page] = await practice.claim()
        practice.clock.time += LAPSE
        assert await sweep(practice) == PutBack(again=1, poison=0, permits=1)
        assert (await practice.task(page.task.task_id)).lost_leases == lost
        await beat(practice)
    [page] = await practice.claim()
    practice.clock.time += LAPSE
    assert await sweep(practice) == PutBack(again=0, poison=1, permits=1)
    task = await practice.task(page.task.task_id)
    assert (task.status, task.completed_at) == (FAILED, practice.now)
    assert task.failure is not None
    assert task.failure.code is FailureCode.WORKER_LOST
    assert (await practice.recount(run)).failed_tasks == 1


async def test_a_product_whose_last_task_was_poison_is_told_what_else_changed(practice: CrawlWorld) -> None:
    await practice.crawl()
    await practice.deliver_all()
    item = practice.items()[0]
    practice.world.change(item, rng(1), "reprice")
    run = await practice.start()
    await beat(practice)
    [page] = await practice.claim()
    await practice.answer(page)
    for _ in range(3):
        practice.clock.time += LAPSE
        await beat(practice)
        taken = await practice.claim()
        kept = [each for each in taken if (each.task.task_type, each.task.item_no) != (OPTION, item)]
        await practice.absorb(practice.judged(each) for each in kept)
        practice.clock.time += LAPSE
        await sweep(practice)
    [_, (message, event)] = await practice.events(item)
    assert (message.event_type, message.execution_id) == (ProductEvent.UPDATED, run)
    assert event.product_data == practice.world.truth(item)
    found = await practice.recount(run)
    assert (found.status, found.failed_tasks) == (ExecutionStatus.COMPLETED, 1)


async def test_a_task_lost_after_its_run_was_cancelled_does_not_wait_for_ever(practice: CrawlWorld) -> None:
    run = await listed(practice)
    taken = await practice.claim(2)
    await practice.cancel(run)
    practice.clock.time += LAPSE
    swept = await sweep(practice)
    assert (swept.again, swept.permits) == (0, 2)
    for each in taken:
        assert (await practice.task(each.task.task_id)).status is FAILED
    found = await practice.recount(run)
    assert (found.status, found.failed_tasks) == (ExecutionStatus.FAILED, 6)


# Workers that stop.


async def test_a_worker_that_stops_puts_back_what_it_holds_at_no_cost_and_leaves(practice: CrawlWorld) -> None:
    run = await listed(practice)
    taken = await practice.claim(4)
    assert await leave(practice) == 4
    for each in taken:
        task = await practice.task(each.task.task_id)
        assert (task.status, task.worker_id, task.lost_leases, task.retry_count) == (WAITING, None, 0, 0)
    assert await practice.unanswered() == 0
    stopped = "SELECT COUNT(*) FROM workers WHERE worker_id = :w AND stopped_at IS NOT NULL"
    assert await practice.store.read(lambda tx: tx.db.value(stopped, {"w": worker_id()})) == 1
    await practice.recount(run)
    assert len(await practice.claim(worker=2)) == 6


async def test_a_worker_that_stops_leaves_others_what_is_theirs(practice: CrawlWorld) -> None:
    await listed(practice)
    await practice.claim(2, worker=1)
    theirs = await practice.claim(2, worker=2)
    assert await leave(practice) == 2
    for each in theirs:
        assert (await practice.task(each.task.task_id)).status is IN_PROGRESS
    assert await practice.unanswered() == 2


async def test_a_task_of_a_cancelled_run_ends_with_the_worker_that_stops(practice: CrawlWorld) -> None:
    run = await listed(practice)
    [taken] = await practice.claim(1)
    await practice.cancel(run)
    await leave(practice)
    assert (await practice.task(taken.task.task_id)).status is FAILED, "nobody would ever claim it"
    assert (await practice.recount(run)).ended == 7
    assert await practice.unanswered() == 0


# Ending a run.


async def test_a_cancelled_run_fails_its_waiting_tasks_are_cancelled_and_its_running_ones_finish(
    practice: CrawlWorld,
) -> None:
    run = await listed(practice)
    taken = await practice.claim(2)
    ended = await practice.cancel(run)
    assert (ended.status, ended.failure, ended.completed_at) == (
        ExecutionStatus.FAILED,
        a_failure(FailureCode.CANCELLED),
        practice.now,
    )
    by_status = [task.status for task in await practice.tasks(run)]
    assert (by_status.count(FAILED), by_status.count(IN_PROGRESS), by_status.count(COMPLETED)) == (4, 2, 1)
    cancelled = [task for task in await practice.tasks(run) if task.status is FAILED]
    assert {task.failure for task in cancelled} == {a_failure(FailureCode.CANCELLED)}
    assert await practice.recount(run) == ended
    await practice.absorb(practice.judged(each) for each in taken)
    found = await practice.recount(run)
    assert (found.status, found.completed_tasks) == (ExecutionStatus.FAILED, 3)
    assert await practice.claim() == ()


async def test_a_retry_that_waits_is_cancelled_too(practice: CrawlWorld) -> None:
    run = await practice.start()
    [page] = await practice.claim()
    await practice.answer(page, BROKEN)
    await practice.cancel(run)
    assert (await practice.task(page.task.task_id)).status is FAILED
    await practice.recount(run)


async def test_a_change_that_was_read_before_the_cancel_is_told(practice: CrawlWorld) -> None:
    await practice.crawl()
    await practice.deliver_all()
    item = practice.items()[0]
    practice.world.change(item, rng(1), "reprice")
    run = await listed(practice)
    [detail] = [c for c in await practice.claim() if (c.task.task_type, c.task.item_no) == (DETAIL, item)]
    await practice.answer(detail)
    await leave(practice)
    await practice.cancel(run)
    now = practice.now
    settled, _ = await practice.transact_with_ids(lambda tx, ids: settle_ended(tx, practice.rules, ids, now))
    assert settled == 1
    [_, (message, _)] = await practice.events(item)
    assert message.event_type == ProductEvent.UPDATED


async def test_a_seller_whose_run_was_cancelled_can_be_crawled_again(practice: CrawlWorld) -> None:
    await practice.cancel(await listed(practice))
    run = await practice.crawl()
    assert (await practice.recount(run)).status is ExecutionStatus.COMPLETED


async def test_only_a_run_that_is_going_can_be_cancelled(practice: CrawlWorld) -> None:
    run = await practice.crawl()
    with pytest.raises(IllegalMove):
        await practice.cancel(run)
    with pytest.raises(ExecutionNotFound) as refusal:
        await practice.cancel(execution_id(99))
    assert refusal.value.facts == {"execution_id": execution_id(99)}


# Reopening.


async def test_reopened_tasks_are_done_after_all_and_their_run_is_running_until_then(practice: CrawlWorld) -> None:
    run = await practice.start()
    item = practice.items()[0]
    await practice.go_on({(DETAIL, item): GONE, (OPTION, item): GONE})
    assert await practice.events(item) == []
    assert (await practice.recount(run)).failed_tasks == 2
    assert await reopen(practice, run) == 2
    found = await practice.recount(run)
    assert (found.status, found.failed_tasks, found.completed_at, found.deadline_at) == (
        ExecutionStatus.RUNNING,
        0,
        None,
        None,
    )
    again = [task for task in await practice.tasks(run) if task.status is RETRY]
    assert {(task.retry_count, task.requests_made, task.failure) for task in again} == {(0, 0, None)}
    await practice.go_on()
    assert (await practice.recount(run)).status is ExecutionStatus.COMPLETED
    [(_, event)] = await practice.events(item)
    assert event.product_data == practice.world.truth(item)


async def test_tasks_of_a_cancelled_run_can_be_reopened(practice: CrawlWorld) -> None:
    run = await listed(practice)
    await practice.cancel(run)
    assert await reopen(practice, run) == 6
    await practice.go_on()
    found = await practice.recount(run)
    assert (found.status, found.failure, found.completed_tasks) == (ExecutionStatus.COMPLETED, None, 7)


async def test_tasks_of_several_runs_are_reopened_each_in_its_own(practice: CrawlWorld) -> None:
    runs = [await practice.start(seller) for seller in (ONE, TWO)]
    await practice.go_on({(DETAIL, practice.items(seller)[0]): GONE for seller in (ONE, TWO)})
    now = practice.now
    done = await practice.store.transact(
        lambda tx: reopen_tasks(tx, [task for run in runs for task in tx.run_tasks.open_of(run, (FAILED,))], now)
    )
    assert done == 2
    for run in runs:
        assert (await practice.recount(run)).status is ExecutionStatus.RUNNING


async def test_a_task_that_did_not_fail_cannot_be_reopened_and_nothing_changes(practice: CrawlWorld) -> None:
    run = await practice.crawl()
    tasks, now = await practice.tasks(run), practice.now
    with pytest.raises(IllegalMove):
        await practice.store.transact(lambda tx: reopen_tasks(tx, tasks, now))
    assert await practice.tasks(run) == tasks
