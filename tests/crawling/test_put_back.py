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


async def sweep(world: CrawlWorld) -> PutBack:
    now = world.now
    return await world.transact_with_ids(lambda tx, ids: put_back_lost(tx, LAPSE, world.rules, ids, at(now)))


async def beat(world: CrawlWorld, number: int = 1) -> None:
    now = world.now
    await world.store.transact(lambda tx: tx.workers.beat(worker_id(number), now))


async def leave(world: CrawlWorld, number: int = 1) -> int:
    now = world.now
    return await world.transact_with_ids(lambda tx, ids: release(tx, worker_id(number), world.rules, ids, at(now)))


async def reopen(world: CrawlWorld, run: ExecutionId) -> int:
    now = world.now
    return await world.store.transact(lambda tx: reopen_tasks(tx, tx.run_tasks.open_of(run, (FAILED,)), now))


async def listed(world: CrawlWorld) -> ExecutionId:
    """A run whose list was read: six tasks wait."""
    run = await world.start()
    [page] = await world.claim()
    await world.answer(page)
    world.clock.time += SECOND
    return run


# Vanished workers.


async def test_what_a_living_worker_holds_is_left_with_it(world: CrawlWorld) -> None:
    await world.start()
    [page] = await world.claim()
    world.clock.time += LAPSE - SECOND
    assert await sweep(world) == PutBack(0, 0, 0)
    world.clock.time += LAPSE
    await beat(world)
    assert await sweep(world) == PutBack(0, 0, 0)
    assert await world.task(page.task.task_id) == page.task


async def test_the_tasks_of_a_silent_worker_come_back_and_another_does_them(world: CrawlWorld) -> None:
    run = await listed(world)
    taken = await world.claim(4)
    world.clock.time += LAPSE
    assert await sweep(world) == PutBack(again=4, poison=0, permits=4)
    for each in taken:
        task = await world.task(each.task.task_id)
        assert (task.status, task.worker_id, task.lost_leases, task.retry_count) == (WAITING, None, 1, 0)
        assert task.available_at == world.now
    assert {each.task.attempt for each in await world.claim(6, worker=2)} == {1, 2}
    await world.recount(run)


async def test_permits_of_the_dead_count_as_used_from_when_that_is_noticed(world: CrawlWorld) -> None:
    await world.start()
    [page] = await world.claim()
    world.clock.time += 10 * MINUTE
    await sweep(world)
    answered = "SELECT COUNT(*) FROM permits WHERE id = :id AND answered_at = :now"
    given = {"id": page.permit.number, "now": world.now}
    assert await world.store.read(lambda tx: tx.db.value(answered, given)) == 1


async def test_a_second_sweep_finds_nothing_more(world: CrawlWorld) -> None:
    await listed(world)
    await world.claim(4)
    world.clock.time += LAPSE
    await sweep(world)
    assert await sweep(world) == PutBack(0, 0, 0)


async def test_a_worker_nobody_knows_holds_nothing(world: CrawlWorld) -> None:
    await world.start()
    await world.claim(worker=7)
    assert await sweep(world) == PutBack(again=1, poison=0, permits=1)


async def test_a_worker_given_up_for_dead_that_answers_after_all_changes_nothing(world: CrawlWorld) -> None:
    run = await world.start()
    [page] = await world.claim()
    world.clock.time += LAPSE
    await sweep(world)
    await beat(world)
    assert (await world.answer(page)).completed == 0
    found = await world.recount(run)
    assert (found.ended, (await world.task(page.task.task_id)).status) == (0, WAITING)


async def test_the_third_loss_in_a_row_is_poison_and_counted_as_a_failure(world: CrawlWorld) -> None:
    run = await world.start()
    for lost in (1, 2):
        [page] = await world.claim()
        world.clock.time += LAPSE
        assert await sweep(world) == PutBack(again=1, poison=0, permits=1)
        assert (await world.task(page.task.task_id)).lost_leases == lost
        await beat(world)
    [page] = await world.claim()
    world.clock.time += LAPSE
    assert await sweep(world) == PutBack(again=0, poison=1, permits=1)
    task = await world.task(page.task.task_id)
    assert (task.status, task.completed_at) == (FAILED, world.now)
    assert task.failure is not None
    assert task.failure.code is FailureCode.WORKER_LOST
    assert (await world.recount(run)).failed_tasks == 1


async def test_a_product_whose_last_task_was_poison_is_told_what_else_changed(world: CrawlWorld) -> None:
    await world.crawl()
    await world.deliver_all()
    item = world.items()[0]
    world.world.change(item, rng(1), "reprice")
    run = await world.start()
    await beat(world)
    [page] = await world.claim()
    await world.answer(page)
    for _ in range(3):
        world.clock.time += LAPSE
        await beat(world)
        taken = await world.claim()
        kept = [each for each in taken if (each.task.task_type, each.task.item_no) != (OPTION, item)]
        await world.absorb(world.judged(each) for each in kept)
        world.clock.time += LAPSE
        await sweep(world)
    [_, (message, event)] = await world.events(item)
    assert (message.event_type, message.execution_id) == (ProductEvent.UPDATED, run)
    assert event.product_data == world.world.truth(item)
    found = await world.recount(run)
    assert (found.status, found.failed_tasks) == (ExecutionStatus.COMPLETED, 1)


async def test_a_task_lost_after_its_run_was_cancelled_does_not_wait_for_ever(world: CrawlWorld) -> None:
    run = await listed(world)
    taken = await world.claim(2)
    await world.cancel(run)
    world.clock.time += LAPSE
    swept = await sweep(world)
    assert (swept.again, swept.permits) == (0, 2)
    for each in taken:
        assert (await world.task(each.task.task_id)).status is FAILED
    found = await world.recount(run)
    assert (found.status, found.failed_tasks) == (ExecutionStatus.FAILED, 6)


# Workers that stop.


async def test_a_worker_that_stops_puts_back_what_it_holds_at_no_cost_and_leaves(world: CrawlWorld) -> None:
    run = await listed(world)
    taken = await world.claim(4)
    assert await leave(world) == 4
    for each in taken:
        task = await world.task(each.task.task_id)
        assert (task.status, task.worker_id, task.lost_leases, task.retry_count) == (WAITING, None, 0, 0)
    assert await world.unanswered() == 0
    stopped = "SELECT COUNT(*) FROM workers WHERE worker_id = :w AND stopped_at IS NOT NULL"
    assert await world.store.read(lambda tx: tx.db.value(stopped, {"w": worker_id()})) == 1
    await world.recount(run)
    assert len(await world.claim(worker=2)) == 6


async def test_a_worker_that_stops_leaves_others_what_is_theirs(world: CrawlWorld) -> None:
    await listed(world)
    await world.claim(2, worker=1)
    theirs = await world.claim(2, worker=2)
    assert await leave(world) == 2
    for each in theirs:
        assert (await world.task(each.task.task_id)).status is IN_PROGRESS
    assert await world.unanswered() == 2


async def test_a_task_of_a_cancelled_run_ends_with_the_worker_that_stops(world: CrawlWorld) -> None:
    run = await listed(world)
    [taken] = await world.claim(1)
    await world.cancel(run)
    await leave(world)
    assert (await world.task(taken.task.task_id)).status is FAILED, "nobody would ever claim it"
    assert (await world.recount(run)).ended == 7
    assert await world.unanswered() == 0


# Ending a run.


async def test_a_cancelled_run_fails_its_waiting_tasks_are_cancelled_and_its_running_ones_finish(
    world: CrawlWorld,
) -> None:
    run = await listed(world)
    taken = await world.claim(2)
    ended = await world.cancel(run)
    assert (ended.status, ended.failure, ended.completed_at) == (
        ExecutionStatus.FAILED,
        a_failure(FailureCode.CANCELLED),
        world.now,
    )
    by_status = [task.status for task in await world.tasks(run)]
    assert (by_status.count(FAILED), by_status.count(IN_PROGRESS), by_status.count(COMPLETED)) == (4, 2, 1)
    cancelled = [task for task in await world.tasks(run) if task.status is FAILED]
    assert {task.failure for task in cancelled} == {a_failure(FailureCode.CANCELLED)}
    assert await world.recount(run) == ended
    await world.absorb(world.judged(each) for each in taken)
    found = await world.recount(run)
    assert (found.status, found.completed_tasks) == (ExecutionStatus.FAILED, 3)
    assert await world.claim() == ()


async def test_a_retry_that_waits_is_cancelled_too(world: CrawlWorld) -> None:
    run = await world.start()
    [page] = await world.claim()
    await world.answer(page, BROKEN)
    await world.cancel(run)
    assert (await world.task(page.task.task_id)).status is FAILED
    await world.recount(run)


async def test_a_change_that_was_read_before_the_cancel_is_told(world: CrawlWorld) -> None:
    await world.crawl()
    await world.deliver_all()
    item = world.items()[0]
    world.world.change(item, rng(1), "reprice")
    run = await listed(world)
    [detail] = [c for c in await world.claim() if (c.task.task_type, c.task.item_no) == (DETAIL, item)]
    await world.answer(detail)
    await leave(world)
    await world.cancel(run)
    now = world.now
    settled, _ = await world.transact_with_ids(lambda tx, ids: settle_ended(tx, world.rules, ids, now))
    assert settled == 1
    [_, (message, _)] = await world.events(item)
    assert message.event_type == ProductEvent.UPDATED


async def test_a_seller_whose_run_was_cancelled_can_be_crawled_again(world: CrawlWorld) -> None:
    await world.cancel(await listed(world))
    run = await world.crawl()
    assert (await world.recount(run)).status is ExecutionStatus.COMPLETED


async def test_only_a_run_that_is_going_can_be_cancelled(world: CrawlWorld) -> None:
    run = await world.crawl()
    with pytest.raises(IllegalMove):
        await world.cancel(run)
    with pytest.raises(ExecutionNotFound) as refusal:
        await world.cancel(execution_id(99))
    assert refusal.value.facts == {"execution_id": execution_id(99)}


# Reopening.


async def test_reopened_tasks_are_done_after_all_and_their_run_is_running_until_then(world: CrawlWorld) -> None:
    run = await world.start()
    item = world.items()[0]
    await world.go_on({(DETAIL, item): GONE, (OPTION, item): GONE})
    assert await world.events(item) == []
    assert (await world.recount(run)).failed_tasks == 2
    assert await reopen(world, run) == 2
    found = await world.recount(run)
    assert (found.status, found.failed_tasks, found.completed_at, found.deadline_at) == (
        ExecutionStatus.RUNNING,
        0,
        None,
        None,
    )
    again = [task for task in await world.tasks(run) if task.status is RETRY]
    assert {(task.retry_count, task.requests_made, task.failure) for task in again} == {(0, 0, None)}
    await world.go_on()
    assert (await world.recount(run)).status is ExecutionStatus.COMPLETED
    [(_, event)] = await world.events(item)
    assert event.product_data == world.world.truth(item)


async def test_tasks_of_a_cancelled_run_can_be_reopened(world: CrawlWorld) -> None:
    run = await listed(world)
    await world.cancel(run)
    assert await reopen(world, run) == 6
    await world.go_on()
    found = await world.recount(run)
    assert (found.status, found.failure, found.completed_tasks) == (ExecutionStatus.COMPLETED, None, 7)


async def test_tasks_of_several_runs_are_reopened_each_in_its_own(world: CrawlWorld) -> None:
    runs = [await world.start(seller) for seller in (ONE, TWO)]
    await world.go_on({(DETAIL, world.items(seller)[0]): GONE for seller in (ONE, TWO)})
    now = world.now
    done = await world.store.transact(
        lambda tx: reopen_tasks(tx, [task for run in runs for task in tx.run_tasks.open_of(run, (FAILED,))], now)
    )
    assert done == 2
    for run in runs:
        assert (await world.recount(run)).status is ExecutionStatus.RUNNING


async def test_a_task_that_did_not_fail_cannot_be_reopened_and_nothing_changes(world: CrawlWorld) -> None:
    run = await world.crawl()
    tasks, now = await world.tasks(run), world.now
    with pytest.raises(IllegalMove):
        await world.store.transact(lambda tx: reopen_tasks(tx, tasks, now))
    assert await world.tasks(run) == tasks
