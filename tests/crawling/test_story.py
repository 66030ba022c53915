"""Why? The story from the schedule to the receiver's answer, and the looks that pages are made of."""

from __future__ import annotations

import random

import pytest
from tests.builders import DAY, HOUR, task_id
from tests.crawling.practice import ONE, TWO, Practice

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.agents.answers import Answer, AnswerKind
from sellerwatch.crawling.task import TaskNotFound, TaskStatus
from sellerwatch.kernel.failure import Blame
from sellerwatch.kernel.ids import ItemNo
from sellerwatch.outbox.message import MessageStatus
from sellerwatch.reports.trace import Trace, of_message, of_product, of_run, of_task


async def changed(store: SqlStore) -> tuple[Practice, ItemNo]:
    """A product that was read, told, changed, read again and told again."""
    practice = await Practice(store, products=3).open(agents=12)
    await practice.crawl(ONE)
    await practice.deliver_all()
    item = ItemNo(practice.world.listing(ONE, 0, 1)[0])
    practice.world.change(item, random.Random(1), "reprice")
    practice.clock.time += HOUR
    await practice.crawl(ONE)
    await practice.deliver_all()
    return practice, item


async def test_a_products_story_leads_from_its_schedule_to_the_answer(inline_store: SqlStore) -> None:
    _, item = await changed(inline_store)
    told = await inline_store.read(lambda tx: of_product(tx, item))
    assert told.seller is not None
    assert told.schedule is not None
    assert told.execution is not None
    assert [step.task.status for step in told.steps] == [TaskStatus.COMPLETED] * 2
    assert all(step.agent is not None and step.asked is not None and step.asked.status == 200 for step in told.steps)
    (entry,) = told.changes
    assert (entry.version, {change.kind for change in entry.changes}) == (2, {"price"})
    (telling,) = told.tellings
    assert telling.message.status is MessageStatus.COMPLETED


async def test_an_earlier_version_has_its_own_story(inline_store: SqlStore) -> None:
    _, item = await changed(inline_store)
    first, last = await inline_store.read(lambda tx: (of_product(tx, item, 1), of_product(tx, item)))
    assert first.changes[0].version == 1
    assert first.execution != last.execution
    assert first.tellings[0].message.outbox_id == first.changes[0].outbox_id


async def test_the_same_story_is_told_from_its_event_its_task_and_its_run(inline_store: SqlStore) -> None:
    _, item = await changed(inline_store)

    def work(tx: Transaction) -> tuple[Trace, Trace, Trace, Trace]:
        whole = of_product(tx, item)
        assert whole.execution is not None
        event = of_message(tx, whole.tellings[0].message.outbox_id)
        return whole, event, of_task(tx, whole.steps[0].task.task_id), of_run(tx, whole.execution.execution_id)

    whole, event, task, run = await inline_store.read(work)
    assert event == whole
    assert task.steps == whole.steps[:1]
    assert task.changes == whole.changes
    assert (run.execution, run.steps, run.changes) == (whole.execution, [], [])


async def test_a_task_that_is_not_there_has_no_story(inline_store: SqlStore) -> None:
    with pytest.raises(TaskNotFound):
        await inline_store.read(lambda tx: of_task(tx, task_id(99)))


async def test_a_seller_is_late_when_it_was_not_read_within_its_interval(inline_store: SqlStore) -> None:
    practice, _ = await changed(inline_store)
    one, two = await inline_store.read(lambda tx: tx.dashboard.freshness([ONE, TWO]))
    now = practice.now
    assert (one.is_late(now), two.is_late(now)) == (False, False)
    assert one.fresh_as_of is not None
    assert two.fresh_as_of is None
    assert one.is_late(now + DAY * 1.05) is False
    assert one.is_late(now + DAY * 1.2) is True
    assert two.is_late(now + DAY * 2) is True
    assert len(await inline_store.read(lambda tx: tx.dashboard.freshness())) == 2
    assert list(await inline_store.read(lambda tx: tx.dashboard.freshness([]))) == []


async def test_what_failed_is_counted_with_its_sentence(inline_store: SqlStore) -> None:
    practice = await Practice(inline_store, products=3).open(agents=12)
    await practice.start(ONE)
    for _ in range(6):
        await practice.absorb(
            [
                practice.judged(taken, Answer(AnswerKind.OK, 200, b"<html>busy</html>"))
                for taken in await practice.claim()
            ]
        )
        practice.clock.time += HOUR
    since = practice.now - DAY
    needs, failures = await inline_store.read(lambda tx: (tx.dashboard.needs(since), tx.dashboard.failures(since, 100)))
    assert needs.failed_tasks == sum(failures.values()) > 0
    assert needs.failed_events == needs.open_cases == needs.held_removals == needs.dead_letters == 0
    assert list(failures) == [Blame.PARSER]
