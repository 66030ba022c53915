"""Replay, discard, pause and resume; the tests of the command line and the API see the rest."""

from __future__ import annotations

from typing import Any

import pytest
from tests.builders import (
    HOUR,
    LATER,
    NOW,
    SELLER,
    StoppedClock,
    a_context,
    a_message,
    outbox_id,
    product_id,
    worker_id,
)
from tests.conftest import ENGINES
from tests.world import StoreWorld, due_messages

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.kernel.ids import SellerId
from sellerwatch.outbox import commands as outbox_commands
from sellerwatch.outbox.channel import NothingToResume, OutboxPaused
from sellerwatch.outbox.commands import MessageAction, MovedMessagesView
from sellerwatch.outbox.message import MessageStatus, OutboxKind
from sellerwatch.outbox.ports import MessageFilter
from sellerwatch.oversight.audit import AuditEntry
from sellerwatch.schedules.schedule import ScheduleStatus
from sellerwatch.sellers import commands as seller_commands
from sellerwatch.sellers.commands import NothingToTell
from sellerwatch.sellers.seller import SellerNotFound


@pytest.fixture(params=ENGINES)
def on(request: pytest.FixtureRequest) -> str:
    return str(request.param)


ME = "cli:민지"
LATE = a_context(LATER, actor=ME)
PRODUCT, SCHEDULER = OutboxKind.PRODUCT, OutboxKind.SCHEDULER
FAILED, WAITING, DISCARDED = MessageStatus.FAILED, MessageStatus.WAITING, MessageStatus.DISCARDED


async def failed(store: SqlStore, number: int) -> None:
    """A number of products, each with an event that failed for good and a postponed one held behind it."""

    def work(tx: Transaction) -> None:
        for n in range(1, number + 1):
            tx.product_outbox.add(a_message(2 * n, subject_id=product_id(n)).send(worker_id()).refuse("no"))
            tx.product_outbox.add(a_message(2 * n + 1, subject_id=product_id(n)))
        assert tx.delivery_queue(OutboxKind.PRODUCT).postpone_held(NOW, NOW + 2 * HOUR, 10_000) == number

    await store.transact(work)


async def move_chosen(store: SqlStore, action: MessageAction, chosen: MessageFilter) -> MovedMessagesView:
    return await store.transact(lambda tx: outbox_commands.move_chosen(tx, LATE, action, PRODUCT, chosen))


async def trail(store: SqlStore) -> list[AuditEntry]:
    """What was done, newest first."""
    return list(await store.read(lambda tx: tx.audit.newest(limit=100, actor=ME)))


async def due(store: SqlStore) -> list[str]:
    return [m.outbox_id for m in await store.read(lambda tx: due_messages(tx, OutboxKind.PRODUCT, LATER, 10_000))]


@pytest.mark.parametrize(
    ("action", "to", "released"),
    [(MessageAction.REPLAY, WAITING, 0), (MessageAction.DISCARD, DISCARDED, 1)],
)
@pytest.mark.parametrize("on", ["sqlite"])
async def test_many_messages_are_moved_in_batches_and_are_one_audit_entry(
    inline_store: SqlStore, action: MessageAction, to: MessageStatus, released: int
) -> None:
    await failed(inline_store, 1201)
    choice = MessageFilter(seller_id=SELLER)
    assert (await move_chosen(inline_store, action, choice)).messages == 1201
    first = await inline_store.read(lambda tx: tx.product_outbox.get(outbox_id(2)))
    assert first is not None
    assert first.status is to
    assert await due(inline_store) == [outbox_id(2 * n + released) for n in range(1, 1202)]
    (entry,) = await trail(inline_store)
    assert (entry.subject_type, entry.subject_id) == ("outbox", "product")
    assert entry.before == {"chosenBy": {"seller_id": SELLER}}
    assert entry.after == {"messages": 1201, "first": outbox_id(2), "last": outbox_id(2402)}
    assert (await move_chosen(inline_store, action, choice)).messages == 0
    assert len(await trail(inline_store)) == 1


async def test_a_filter_by_another_status_still_moves_failed_messages_only(inline_store: SqlStore) -> None:
    await failed(inline_store, 1)
    every = MessageFilter(status=WAITING)
    assert (await move_chosen(inline_store, MessageAction.DISCARD, every)).messages == 1
    assert await due(inline_store) == [outbox_id(3)]


async def test_a_discard_releases_the_messages_held_behind_it(inline_store: SqlStore) -> None:
    await failed(inline_store, 2)
    await inline_store.transact(
        lambda tx: outbox_commands.move_messages(tx, LATE, MessageAction.DISCARD, [outbox_id(2)])
    )
    assert await due(inline_store) == [outbox_id(3)]


async def test_pause_and_resume_are_kept_and_recorded_in_the_audit_trail(inline_store: SqlStore) -> None:
    def pause(tx: Transaction) -> Any:
        return outbox_commands.pause(tx, a_context(actor=ME), PRODUCT, "a move")

    await inline_store.transact(pause)
    with pytest.raises(OutboxPaused):
        await inline_store.transact(pause)
    assert (await inline_store.read(lambda tx: tx.channels.get(PRODUCT))).is_paused
    assert not (await inline_store.read(lambda tx: tx.channels.get(SCHEDULER))).is_paused
    await inline_store.transact(lambda tx: outbox_commands.resume(tx, LATE, PRODUCT))
    with pytest.raises(NothingToResume):
        await inline_store.transact(lambda tx: outbox_commands.resume(tx, LATE, PRODUCT))
    resumed, paused = await trail(inline_store)
    assert (paused.action, paused.note, resumed.action) == ("outbox.pause", "a move", "outbox.resume")
    assert paused.after == {"isPaused": True, "circuit": "CLOSED"}
    assert resumed.after == {"isPaused": False, "circuit": "CLOSED"}


class FailingScheduleWorld(StoreWorld):
    """A seller whose scheduler messages fail for good."""

    def __init__(self, store: SqlStore) -> None:
        super().__init__(store, StoppedClock())

    async def begin(self) -> None:
        await self.register([SELLER])
        await self.transact_with_ids(lambda tx, ids: seller_commands.stop_crawling(tx, SELLER, a_context(NOW, ids)))

        def work(tx: Transaction) -> None:
            (first,) = due_messages(tx, OutboxKind.SCHEDULER, NOW, 10)
            tx.scheduler_outbox.move([first.send(worker_id()).refuse("no such bus")], NOW)
            schedule = tx.schedules.of_seller(SELLER)
            assert schedule is not None
            tx.schedules.save(schedule.fail(NOW))

        await self.transact(work)

    async def retry(self) -> int:
        return (await self.command(seller_commands.retry_schedule, SELLER, actor=ME, now=LATER)).messages

    async def statuses(self) -> list[tuple[str, str]]:
        return [(message.event_type, message.status) for message in await self.schedule_messages(SELLER)]


async def test_what_the_scheduler_would_not_take_is_told_once_more_in_order(inline_store: SqlStore) -> None:
    seller = FailingScheduleWorld(inline_store)
    await seller.begin()
    assert await seller.retry() == 1
    assert await seller.statuses() == [("SCHEDULE_REGISTERED", "WAITING"), ("SCHEDULE_DEACTIVATED", "WAITING")]
    schedule = await inline_store.read(lambda tx: tx.schedules.of_seller(SELLER))
    assert schedule is not None
    assert schedule.status is ScheduleStatus.FAILED, "until the scheduler has taken it"
    (entry,) = await trail(inline_store)
    assert (entry.action, entry.subject_id, entry.note) == ("schedule.retry", SELLER, "1 message(s) replayed")
    with pytest.raises(NothingToTell):
        await seller.retry()


async def test_where_the_messages_were_discarded_a_new_one_tells_how_the_schedule_stands(
    inline_store: SqlStore,
) -> None:
    seller = FailingScheduleWorld(inline_store)
    await seller.begin()

    def give_up(tx: Transaction) -> None:
        outbox_commands.move_chosen(tx, a_context(), MessageAction.DISCARD, SCHEDULER, MessageFilter())
        (second,) = due_messages(tx, OutboxKind.SCHEDULER, NOW, 10)
        tx.scheduler_outbox.move([second.send(worker_id()).refuse("no").discard()], NOW)

    await inline_store.transact(give_up)
    assert await seller.retry() == 1
    assert (await seller.statuses())[-1] == ("SCHEDULE_DEACTIVATED", "WAITING")


async def test_a_seller_that_nobody_knows_has_nothing_to_retry(inline_store: SqlStore) -> None:
    with pytest.raises(SellerNotFound):
        await inline_store.transact(lambda tx: seller_commands.retry_schedule(tx, a_context(), SellerId("nobody")))
