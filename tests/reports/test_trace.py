"""The trace of a product, a task, a run or an event, and the queries of the overview."""

from __future__ import annotations

import random

import pytest
from tests.builders import DAY, HOUR, a_context, task_id
from tests.crawling.crawl_world import ONE, CrawlWorld

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.agents.answers import Answer, AnswerKind
from sellerwatch.catalog.product import ProductNotFound
from sellerwatch.crawling.task import TaskStatus
from sellerwatch.kernel.failure import Blame
from sellerwatch.kernel.ids import InvalidItemNo, ItemNo
from sellerwatch.outbox.message import MessageStatus
from sellerwatch.reports.trace import InvalidTraceId, TraceKind, TraceNotFound, TraceView, why


async def changed(store: SqlStore) -> tuple[CrawlWorld, ItemNo]:
    """A product that was read and delivered, then changed, read again and delivered again."""
    world = await CrawlWorld(store, products=3).open(agents=12)
    await world.crawl(ONE)
    await world.deliver_all()
    item = ItemNo(world.world.listing(ONE, 0, 1)[0])
    world.world.change(item, random.Random(1), "reprice")
    world.clock.time += HOUR
    await world.crawl(ONE)
    await world.deliver_all()
    return world, item


async def trace(store: SqlStore, given: object, version: int | None = None) -> TraceView:
    return await store.read(lambda tx: why(tx, a_context(), str(given), version))


async def test_a_product_is_traced_from_its_schedule_to_the_receivers_answer(inline_store: SqlStore) -> None:
    _, item = await changed(inline_store)
    found = await trace(inline_store, item)
    assert (found.kind, found.item_no, found.seller_id) == (TraceKind.PRODUCT, item, ONE)
    assert found.seller_name is not None
    assert found.schedule is not None
    assert found.execution is not None
    assert found.started is not None
    assert (found.started.at, found.started.actor) == (found.execution.started_at, "test")
    assert [each.task.status for each in found.tasks] == [TaskStatus.COMPLETED] * 2
    for each in found.tasks:
        assert each.user_agent is not None
        assert each.request is not None
        assert each.request.http_status_code == 200
    (entry,) = found.changes
    assert (entry.version, {change.kind for change in entry.changes}) == (2, {"price"})
    (event,) = found.events
    assert event.status is MessageStatus.COMPLETED


async def test_an_earlier_version_has_its_own_trace(inline_store: SqlStore) -> None:
    _, item = await changed(inline_store)
    first, last = await trace(inline_store, item, 1), await trace(inline_store, item)
    assert first.changes[0].version == 1
    assert first.execution != last.execution
    assert first.events[0].outbox_id == first.changes[0].outbox_id


async def test_the_same_steps_are_found_from_the_event_the_task_and_the_run(inline_store: SqlStore) -> None:
    _, item = await changed(inline_store)
    whole = await trace(inline_store, item)
    assert whole.execution is not None
    event = await trace(inline_store, whole.events[0].outbox_id)
    task = await trace(inline_store, whole.tasks[0].task.task_id)
    run = await trace(inline_store, whole.execution.execution_id)
    assert [found.kind for found in (event, task, run)] == [TraceKind.EVENT, TraceKind.TASK, TraceKind.RUN]
    assert (event.tasks, event.changes, event.events) == (whole.tasks, whole.changes, whole.events)
    assert (task.tasks, task.changes) == (whole.tasks[:1], whole.changes)
    assert (run.execution, list(run.tasks), list(run.changes)) == (whole.execution, [], [])


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (task_id(99), TraceNotFound),
        (900, ProductNotFound),
        (0, InvalidItemNo),
        ("9" * 40, InvalidItemNo),
        ("seller", InvalidTraceId),
        ("٣", InvalidTraceId),
        ("", InvalidTraceId),
    ],
)
async def test_an_id_that_names_nothing_is_refused(
    inline_store: SqlStore, given: object, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await trace(inline_store, given)


async def test_what_failed_is_counted_with_its_sentence(inline_store: SqlStore) -> None:
    world = await CrawlWorld(inline_store, products=3).open(agents=12)
    await world.start(ONE)
    for _ in range(6):
        await world.absorb(
            [world.judged(taken, Answer(AnswerKind.OK, 200, b"<html>busy</html>")) for taken in await world.claim()]
        )
        world.clock.time += HOUR
    since = world.now - DAY
    needs, failures = await inline_store.read(lambda tx: (tx.dashboard.needs(since), tx.dashboard.failures(since, 100)))
    assert sum(failures.values()) > 0
    assert needs.failed_events == needs.open_cases == needs.held_removals == needs.lost_tasks == 0
    assert list(failures) == [Blame.PARSER]
