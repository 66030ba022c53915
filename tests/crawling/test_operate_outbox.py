"""What an operator does by hand to messages and channels; the command line's own tests see the rest of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.builders import HOUR, LATER, NOW, SELLER, a_message, ids, outbox_id, product_id, worker_id
from tests.conftest import ENGINES

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.kernel.ids import ReplayableIds, SellerId
from sellerwatch.outbox import commands as outbox_commands
from sellerwatch.outbox.channel import NothingToResume, OutboxPaused
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
PRODUCT, SCHEDULER = OutboxKind.PRODUCT, OutboxKind.SCHEDULER
FAILED, WAITING, DISCARDED = MessageStatus.FAILED, MessageStatus.WAITING, MessageStatus.DISCARDED

Bulk = Callable[..., int]


async def failed(store: SqlStore, number: int) -> None:
    """So many products, each with an event that failed for good and one behind it that was set aside."""

    def work(tx: Transaction) -> None:
        for n in range(1, number + 1):
            tx.product_outbox.add(a_message(2 * n, subject_id=product_id(n)).send(worker_id()).refuse("no"))
            tx.product_outbox.add(a_message(2 * n + 1, subject_id=product_id(n)))
        assert tx.product_outbox.set_aside(NOW, NOW + 2 * HOUR, 10_000) == number

    await store.transact(work)


async def trail(store: SqlStore) -> list[AuditEntry]:
    """What was done, newest first."""
    return list(await store.read(lambda tx: tx.audit.newest(limit=100, actor=ME)))


async def due(store: SqlStore) -> list[str]:
    return [m.outbox_id for m in await store.read(lambda tx: tx.product_outbox.due(LATER, 10_000))]


@pytest.mark.parametrize(
    ("bulk", "to", "freed"),
    [(outbox_commands.replay_chosen, WAITING, 0), (outbox_commands.discard_chosen, DISCARDED, 1)],
)
@pytest.mark.parametrize("on", ["sqlite"])
async def test_many_are_moved_in_pieces_and_are_one_line_of_the_trail(
    inline_store: SqlStore, bulk: Bulk, to: MessageStatus, freed: int
) -> None:
    await failed(inline_store, 1201)
    choice = MessageFilter(seller_id=SELLER)
    assert await inline_store.transact(lambda tx: bulk(tx, PRODUCT, choice, actor=ME, now=LATER)) == 1201
    first = await inline_store.read(lambda tx: tx.product_outbox.get(outbox_id(2)))
    assert first is not None
    assert first.status is to
    assert await due(inline_store) == [outbox_id(2 * n + freed) for n in range(1, 1202)]
    (entry,) = await trail(inline_store)
    assert (entry.subject_type, entry.subject_id) == ("outbox", "product")
    assert entry.before == {"chosenBy": {"seller_id": SELLER}}
    assert entry.after == {"messages": 1201, "first": outbox_id(2), "last": outbox_id(2402)}
    assert await inline_store.transact(lambda tx: bulk(tx, PRODUCT, choice, actor=ME, now=LATER)) == 0
    assert len(await trail(inline_store)) == 1


async def test_a_choice_that_is_not_of_failures_still_moves_failures_only(inline_store: SqlStore) -> None:
    await failed(inline_store, 1)
    every = MessageFilter(status=WAITING)
    moved = await inline_store.transact(
        lambda tx: outbox_commands.discard_chosen(tx, PRODUCT, every, actor=ME, now=LATER)
    )
    assert moved == 1
    assert await due(inline_store) == [outbox_id(3)]


async def test_one_that_is_replayed_frees_what_was_set_aside_behind_it(inline_store: SqlStore) -> None:
    await failed(inline_store, 2)
    await inline_store.transact(lambda tx: outbox_commands.discard(tx, [outbox_id(2)], actor=ME, now=LATER))
    assert await due(inline_store) == [outbox_id(3)]


async def test_a_pause_is_kept_and_on_the_trail_and_so_is_its_end(inline_store: SqlStore) -> None:
    def pause(tx: Transaction) -> Any:
        return outbox_commands.pause(tx, PRODUCT, "a move", actor=ME, now=NOW)

    await inline_store.transact(pause)
    with pytest.raises(OutboxPaused):
        await inline_store.transact(pause)
    assert (await inline_store.read(lambda tx: tx.channels.get(PRODUCT))).is_paused
    assert not (await inline_store.read(lambda tx: tx.channels.get(SCHEDULER))).is_paused
    await inline_store.transact(lambda tx: outbox_commands.resume(tx, PRODUCT, actor=ME, now=LATER))
    with pytest.raises(NothingToResume):
        await inline_store.transact(lambda tx: outbox_commands.resume(tx, PRODUCT, actor=ME, now=LATER))
    resumed, paused = await trail(inline_store)
    assert (paused.action, paused.note, resumed.action) == ("outbox.pause", "a move", "outbox.resume")
    assert paused.after == {"isPaused": True, "circuit": "CLOSED"}
    assert resumed.after == {"isPaused": False, "circuit": "CLOSED"}


class Registered:
    """A seller whose scheduler messages fail for good."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self._draw = ReplayableIds(ids())
        self._more = ReplayableIds(ids(1))

    async def begin(self) -> None:
        def work(tx: Transaction) -> None:
            drawn = self._draw.replay()
            seller_commands.register(tx, SELLER, "상점", None, actor="test", ids=drawn, now=NOW)
            seller_commands.deactivate(tx, SELLER, actor="test", ids=drawn, now=NOW)
            (first,) = tx.scheduler_outbox.due(NOW, 10)
            tx.scheduler_outbox.move([first.send(worker_id()).refuse("no such bus")], NOW)
            schedule = tx.schedules.of_seller(SELLER)
            assert schedule is not None
            tx.schedules.save(schedule.fail(NOW))

        await self._store.transact(work)

    async def retry(self) -> int:
        def work(tx: Transaction) -> int:
            ids = self._more.replay()
            return seller_commands.retry_schedule(tx, SELLER, actor=ME, ids=ids, now=LATER)[1]

        return await self._store.transact(work)

    async def statuses(self) -> list[tuple[str, str]]:
        def look(tx: Transaction) -> list[tuple[str, str]]:
            schedule = tx.schedules.of_seller(SELLER)
            assert schedule is not None
            newest = tx.scheduler_outbox.latest_of(schedule.schedule_id, 10)
            return [(m.event_type, m.status) for m in reversed(newest)]

        return await self._store.read(look)


async def test_what_the_scheduler_would_not_take_is_told_once_more_in_order(inline_store: SqlStore) -> None:
    seller = Registered(inline_store)
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
    seller = Registered(inline_store)
    await seller.begin()

    def give_up(tx: Transaction) -> None:
        outbox_commands.discard_chosen(tx, SCHEDULER, MessageFilter(), actor="test", now=NOW)
        (second,) = tx.scheduler_outbox.due(NOW, 10)
        tx.scheduler_outbox.move([second.send(worker_id()).refuse("no").discard()], NOW)

    await inline_store.transact(give_up)
    assert await seller.retry() == 1
    assert (await seller.statuses())[-1] == ("SCHEDULE_DEACTIVATED", "WAITING")


async def test_a_seller_that_nobody_knows_has_nothing_to_retry(inline_store: SqlStore) -> None:
    with pytest.raises(SellerNotFound):
        await inline_store.transact(
            lambda tx: seller_commands.retry_schedule(tx, SellerId("nobody"), actor=ME, ids=iter(()), now=NOW)
        )
