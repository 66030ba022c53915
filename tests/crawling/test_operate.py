"""Commands on runs, tasks and messages; the tests of the surfaces cover the rest."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial

import pytest
from tests.builders import (
    DAY,
    HOUR,
    LATER,
    NOW,
    SELLER,
    StoppedClock,
    a_context,
    a_failure,
    a_message,
    a_schedule,
    a_seller,
    a_session,
    a_task,
    a_url,
    an_execution,
    execution_id,
    ids,
    outbox_id,
    seller_id,
    task_id,
    worker_id,
)
from tests.conftest import ENGINES
from tests.simulated_transport import SimulatedTransport

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.crawling import commands
from sellerwatch.crawling.absorb_batch import CrawlRules
from sellerwatch.crawling.commands import ExecutionOver, NothingToRetry
from sellerwatch.crawling.execution import CrawlInProgress, Execution, ExecutionNotFound, ExecutionStatus
from sellerwatch.crawling.task import Task, TaskStatus
from sellerwatch.crawling.views import ExecutionView
from sellerwatch.kernel.failure import FailureCode
from sellerwatch.kernel.ids import ReplayableIds
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.marketplaces.mustit.client import MustitMarketplace
from sellerwatch.operations.sellers import deactivate_seller
from sellerwatch.outbox import commands as outbox_commands
from sellerwatch.outbox.commands import MessageAction
from sellerwatch.schedules.next_run import spread, tick
from sellerwatch.sellers import commands as seller_commands
from sellerwatch.sellers.seller import SellerInactive, SellerNotFound, SellerStatus
from sellerwatch.simulator.simulator import Simulator


@pytest.fixture(params=ENGINES)
def on(request: pytest.FixtureRequest) -> str:
    return str(request.param)


ME = "cli:민지"


@pytest.fixture
def rules() -> CrawlRules:
    transport = SimulatedTransport(Simulator(seed="0", sellers=1, products=1), StoppedClock())
    return CrawlRules(MustitMarketplace(transport, "https://shop.example", a_session))


@pytest.fixture
def draw() -> ReplayableIds:
    return ReplayableIds(ids())


def by_me(now: datetime, draw: ReplayableIds | None = None) -> OperationContext:
    return a_context(now, None if draw is None else draw.replay(), ME)


def failed(number: int) -> Task:
    return a_task(number).publish(NOW).start(worker_id(), NOW).fail(a_failure(), NOW)


def keep(tx: Transaction, run: Execution, *tasks: Task) -> None:
    """A registered seller with a run and its tasks."""
    if tx.sellers.get(run.seller_id) is None:
        tx.sellers.add(a_seller())
        tx.schedules.add(a_schedule())
    tx.executions.add(run)
    tx.tasks.add(tasks)
    tx.tasks.save(tasks, NOW)


def a_run(number: int = 1, *, total: int, completed: int = 0, failed: int = 0) -> Execution:
    return an_execution(number).start(total, NOW).record(NOW, completed=completed, failed=failed)


async def counts_agree(store: SqlStore, number: int = 1) -> Execution:
    """The run, once its counters are seen to be sums over its tasks."""

    def look(tx: Transaction) -> Execution:
        run, tally = tx.executions.get(execution_id(number)), tx.run_tasks.tally(execution_id(number))
        assert run is not None
        assert run.total_tasks_created == sum(tally.values())
        for status, counted in ((TaskStatus.COMPLETED, run.completed_tasks), (TaskStatus.FAILED, run.failed_tasks)):
            assert counted == sum(n for (_, state), n in tally.items() if state == status)
        return run

    return await store.read(look)


async def test_a_cancelled_run_counts_what_was_cancelled_and_the_seller_can_be_crawled_again(
    inline_store: SqlStore, rules: CrawlRules, draw: ReplayableIds
) -> None:
    going = a_task(2).publish(NOW).start(worker_id(), NOW)
    await inline_store.transact(lambda tx: keep(tx, a_run(total=3, failed=1), failed(1), going, a_task(3)))
    would = await inline_store.transact(
        lambda tx: commands.cancel_execution(tx, by_me(LATER, draw), execution_id(), rules, dry_run=True)
    )
    assert (would.status, would.cancelled_tasks, would.tasks_in_flight) == (ExecutionStatus.RUNNING, 1, 1)
    assert (await counts_agree(inline_store)).failed_tasks == 1
    ended = await inline_store.transact(
        lambda tx: commands.cancel_execution(tx, by_me(LATER, draw), execution_id(), rules)
    )
    assert (ended.cancelled_tasks, ended.tasks_in_flight, ended.dry_run) == (1, 1, False)
    run = await counts_agree(inline_store)
    assert (run.status, run.completed_at) == (ExecutionStatus.FAILED, LATER)
    assert run.failure == a_failure(FailureCode.CANCELLED, LATER)
    assert await inline_store.read(lambda tx: tx.executions.open_of(SELLER)) is None


async def test_a_run_that_is_over_or_unknown_is_not_cancelled(
    inline_store: SqlStore, rules: CrawlRules, draw: ReplayableIds
) -> None:
    await inline_store.transact(lambda tx: keep(tx, a_run(total=0)))
    for number, error in ((1, ExecutionOver), (2, ExecutionNotFound)):
        for dry_run in (True, False):
            command = partial(commands.cancel_execution, rules=rules, dry_run=dry_run)
            work = partial(command, context=by_me(LATER, draw), execution_id=execution_id(number))
            with pytest.raises(error):
                await inline_store.transact(work)
    assert await inline_store.read(lambda tx: tx.audit.newest(limit=1)) == []


async def test_deactivating_a_seller_and_ending_its_run_is_all_or_nothing(
    inline_store: SqlStore, rules: CrawlRules
) -> None:
    await inline_store.transact(lambda tx: keep(tx, a_run(total=1), a_task(1)))

    def work(tx: Transaction) -> None:
        with pytest.raises(StopIteration):
            deactivate_seller(tx, a_context(LATER), SELLER, rules)
        raise LookupError

    with pytest.raises(LookupError):
        await inline_store.transact(work)
    seller = await inline_store.read(lambda tx: tx.sellers.get(SELLER))
    assert seller is not None
    assert seller.status is SellerStatus.ACTIVE
    assert (await counts_agree(inline_store)).status is ExecutionStatus.RUNNING


@pytest.mark.parametrize("number", range(1, 6))
async def test_run_now_is_due_at_this_very_moment_and_the_rhythm_goes_on_from_here(
    inline_store: SqlStore, number: int
) -> None:
    def register(tx: Transaction) -> None:
        tx.sellers.add(a_seller(number))
        tx.schedules.add(a_schedule(number))

    await inline_store.transact(register)
    await inline_store.transact(lambda tx: seller_commands.run_now(tx, a_context(LATER), seller_id(number)))
    moved = await inline_store.read(lambda tx: tx.schedules.of_seller(seller_id(number)))
    assert moved is not None
    turn = tick(moved, LATER)
    assert turn is not None
    assert (turn.skipped, turn.next_run_at) == (0, LATER - spread(moved) + DAY)
    assert tick(moved, LATER - timedelta(microseconds=1)) is None


async def test_run_now_is_for_active_sellers_there_are(inline_store: SqlStore) -> None:
    def rest(tx: Transaction) -> None:
        tx.sellers.add(a_seller(status=SellerStatus.INACTIVE))
        tx.schedules.add(a_schedule(next_run_at=None))

    with pytest.raises(SellerNotFound):
        await inline_store.transact(lambda tx: seller_commands.run_now(tx, a_context(LATER), SELLER))
    await inline_store.transact(rest)
    with pytest.raises(SellerInactive):
        await inline_store.transact(lambda tx: seller_commands.run_now(tx, a_context(LATER), SELLER))


async def test_a_retried_run_is_not_past_its_deadline(inline_store: SqlStore) -> None:
    run = a_run(total=2, completed=1, failed=1)
    tasks = (a_task(1).publish(NOW).start(worker_id(), NOW).complete(NOW), failed(2))
    await inline_store.transact(lambda tx: keep(tx, run, *tasks))
    much_later = NOW + 30 * DAY
    again = await inline_store.transact(
        lambda tx: commands.retry_execution(tx, by_me(much_later), execution_id(), HOUR)
    )
    assert again.reopened_tasks == 1
    assert ExecutionView.of(await counts_agree(inline_store), "en") == ExecutionView(
        **{name: getattr(again, name) for name in ExecutionView.__dataclass_fields__}
    )
    assert (again.status, again.deadline_at) == (ExecutionStatus.RUNNING, much_later + HOUR)


async def test_a_run_still_going_keeps_its_deadline_when_tasks_of_it_are_retried(inline_store: SqlStore) -> None:
    run = a_run(total=2, failed=1)
    await inline_store.transact(lambda tx: keep(tx, run, failed(1), a_task(2)))
    handled = await inline_store.transact(lambda tx: commands.retry_tasks(tx, by_me(LATER), [task_id(1)], HOUR))
    assert handled.done == (task_id(1),)
    assert (await counts_agree(inline_store)).deadline_at == run.deadline_at


async def test_what_failed_in_an_old_run_is_not_retried_while_a_newer_one_is_going(inline_store: SqlStore) -> None:
    await inline_store.transact(lambda tx: keep(tx, a_run(1, total=1, failed=1), failed(1)))
    newer = a_task(2, execution_id=execution_id(2))
    await inline_store.transact(lambda tx: keep(tx, a_run(2, total=1), newer))
    with pytest.raises(CrawlInProgress, match=execution_id(2)):
        await inline_store.transact(lambda tx: commands.retry_execution(tx, by_me(LATER), execution_id(1), HOUR))
    handled = await inline_store.transact(lambda tx: commands.retry_tasks(tx, by_me(LATER), [task_id(1)], HOUR))
    assert [refused.error_code for refused in handled.refused] == ["CRAWL_IN_PROGRESS"]
    assert (await counts_agree(inline_store)).status is ExecutionStatus.COMPLETED
    assert await inline_store.read(lambda tx: tx.audit.newest(limit=1)) == []


async def test_nothing_of_an_inactive_seller_is_retried(inline_store: SqlStore) -> None:
    await inline_store.transact(lambda tx: keep(tx, a_run(total=1, failed=1), failed(1)))
    await inline_store.transact(lambda tx: tx.sellers.save(a_seller(status=SellerStatus.INACTIVE)))
    with pytest.raises(SellerInactive):
        await inline_store.transact(lambda tx: commands.retry_execution(tx, by_me(LATER), execution_id(), HOUR))


async def test_a_run_without_a_failed_task_is_left_alone(inline_store: SqlStore) -> None:
    await inline_store.transact(lambda tx: keep(tx, a_run(total=1), a_task(1)))
    with pytest.raises(NothingToRetry):
        await inline_store.transact(lambda tx: commands.retry_execution(tx, by_me(LATER), execution_id(), HOUR))


async def test_a_refused_one_keeps_none_of_the_others_from_being_handled(inline_store: SqlStore) -> None:
    run = a_run(total=3, failed=2)
    tasks = (failed(1), a_task(2, request_url=a_url(page_no=1)), failed(3))
    await inline_store.transact(lambda tx: keep(tx, run, *tasks))
    asked = [task_id(1), task_id(2), task_id(3), task_id(1)]
    handled = await inline_store.transact(lambda tx: commands.retry_tasks(tx, by_me(LATER), asked, HOUR))
    assert handled.done == (task_id(1), task_id(3))
    assert [(refused.id, refused.error_code) for refused in handled.refused] == [(task_id(2), "ILLEGAL_MOVE")]
    assert (await counts_agree(inline_store)).failed_tasks == 0
    trail = await inline_store.read(lambda tx: tx.audit.newest(limit=10))
    assert [(entry.actor, entry.subject_id) for entry in trail] == [(ME, task_id(3)), (ME, task_id(1))]


async def test_a_dry_run_refuses_what_the_command_would_refuse_and_changes_nothing(inline_store: SqlStore) -> None:
    await inline_store.transact(lambda tx: keep(tx, a_run(1, total=1, failed=1), failed(1)))
    old = a_task(2, execution_id=execution_id(2)).publish(NOW).start(worker_id(), NOW).fail(a_failure(), NOW)
    await inline_store.transact(lambda tx: keep(tx, a_run(2, total=1, failed=1), old))
    asked = [task_id(1), task_id(2), task_id(9)]
    before = [await counts_agree(inline_store, number) for number in (1, 2)]
    would = await inline_store.transact(lambda tx: commands.retry_tasks(tx, by_me(LATER), asked, HOUR, dry_run=True))
    assert [await counts_agree(inline_store, number) for number in (1, 2)] == before
    assert await inline_store.read(lambda tx: tx.audit.newest(limit=1)) == []
    handled = await inline_store.transact(lambda tx: commands.retry_tasks(tx, by_me(LATER), asked, HOUR))
    assert (would.done, would.refused) == (handled.done, handled.refused)
    assert [(each.id, each.error_code) for each in would.refused] == [
        (task_id(2), "CRAWL_IN_PROGRESS"),
        (task_id(9), "TASK_NOT_FOUND"),
    ]


async def test_a_message_is_handled_once_however_often_it_is_named(inline_store: SqlStore) -> None:
    gone = a_message(1).send(worker_id()).refuse("no")

    def prepare(tx: Transaction) -> None:
        tx.product_outbox.add(a_message(1))
        tx.product_outbox.move([gone], NOW)

    await inline_store.transact(prepare)
    twice, context = [outbox_id(1), outbox_id(1)], a_context(LATER, actor=ME)
    handled = await inline_store.transact(
        lambda tx: outbox_commands.move_messages(tx, context, MessageAction.DISCARD, twice)
    )
    assert (handled.done, handled.refused) == ((outbox_id(1),), [])
    again = await inline_store.transact(
        lambda tx: outbox_commands.move_messages(tx, context, MessageAction.REPLAY, twice)
    )
    assert again.done == ()
    assert [refused.error_code for refused in again.refused] == ["ILLEGAL_MOVE"]
