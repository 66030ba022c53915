"""What the product server is told of a product, over the real tables and bodies of the simulator."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

import orjson
import pytest
from msgspec import structs
from tests.builders import MINUTE, StoppedClock, execution_id, worker_id
from tests.crawling.crawl_world import ONE, a_marketplace
from tests.world import StoreWorld

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.catalog.absorb import Part, ProductBatch, absorb_entry, absorb_part
from sellerwatch.catalog.announce import LOOK_BACK, Announcer, LastEventMissing
from sellerwatch.catalog.history import states
from sellerwatch.catalog.policies import NO_POLICIES, parse_policies
from sellerwatch.catalog.product import PartType, Product, ProductEvent
from sellerwatch.kernel.ids import ItemNo, OutboxId, ProductId
from sellerwatch.outbox.event import Event, read_event
from sellerwatch.outbox.message import Message, MessageStatus
from sellerwatch.simulator.rendering import Renderer
from sellerwatch.simulator.world import World

ALL = tuple(PartType)
CREATED, UPDATED, DELETED = ProductEvent.CREATED, ProductEvent.UPDATED, ProductEvent.DELETED
SNAPSHOT = ProductEvent.SNAPSHOT


class ProductWorld(StoreWorld):
    """One product of the simulator's world, read and announced as often as a test wants."""

    clock: StoppedClock

    def __init__(self, store: SqlStore) -> None:
        super().__init__(store, StoppedClock())
        self.world, self.renderer = World(5, 1, 3, 5), Renderer(5)
        self.market = a_marketplace()
        self.item = ItemNo(self.world.listing(ONE)[0])
        self.policies = NO_POLICIES

    def change(self, **fields: Any) -> None:
        product = self.world.product(self.item)
        assert product is not None
        self.world.put(replace(product, **fields))

    def restock(self, stock: int) -> None:
        self.change(stock=stock, sold_out=stock == 0)

    async def told_by_a_run(self, parts: Collection[PartType] = ALL) -> Message | None:
        """A run reads these parts of the product as it is now; says which event is new."""
        self.clock.time += MINUTE
        now, read = self.now, self._read(parts)

        def work(tx: Transaction, drawn: Iterator[str]) -> Message | None:
            product_batch = ProductBatch(tx.products.of_items([self.item]))
            new_id = ProductId(next(drawn))
            for part in read:
                if part.type is PartType.MINISHOP:
                    absorb_entry(product_batch, part, new_id, ONE, execution_id(), now)
                else:
                    absorb_part(product_batch, part, ONE, now)
            product = product_batch.products[self.item]
            announcer = Announcer(
                product_batch, tx.bodies, tx.product_outbox, tx.history, tx.backups, self.market, now, self.policies
            )
            told = announcer.announce(product, OutboxId(next(drawn)), execution_id())
            added, saved, listed = product_batch.take_products()
            tx.products.add(added)
            tx.products.save(saved)
            tx.products.note_listed(listed)
            tx.product_outbox.add_all(product_batch.take_messages())
            tx.bodies.keep_raw(product_batch.raws)
            tx.history.add(product_batch.history)
            return told

        return await self.transact_with_ids(work)

    async def told_again(self) -> Message:
        """A resync comes to the product."""
        self.clock.time += MINUTE
        now = self.now

        def work(tx: Transaction, drawn: Iterator[str]) -> Message:
            product_batch = ProductBatch(tx.products.of_items([self.item]))
            announcer = Announcer(
                product_batch, tx.bodies, tx.product_outbox, tx.history, tx.backups, self.market, now, self.policies
            )
            told = announcer.announce_snapshot(product_batch.products[self.item], OutboxId(next(drawn)))
            tx.products.save(product_batch.take_products()[1])
            tx.product_outbox.add_all(product_batch.take_messages())
            tx.history.add(product_batch.history)
            return told

        return await self.transact_with_ids(work)

    def _read(self, parts: Collection[PartType]) -> list[Part]:
        product = self.world.product(self.item)
        assert product is not None
        listed = self.market.read_list(self.renderer.list_page(1, [product]), "").entries[0]
        detail, options = self.renderer.detail(product), self.renderer.options(product)
        read = {
            PartType.MINISHOP: Part.of(PartType.MINISHOP, self.item, listed.facts, listed.raw),
            PartType.DETAIL: Part.of(PartType.DETAIL, self.item, self.market.read_detail(detail, self.item), detail),
            PartType.OPTION: Part.of(PartType.OPTION, self.item, self.market.read_options(options, self.item), options),
        }
        return [read[part] for part in PartType if part in parts]

    async def product(self) -> Product:
        return (await self.store.read(lambda tx: tx.products.of_items([self.item])))[self.item]

    async def messages(self) -> list[Message]:
        return await self.messages_of(self.item)

    async def events(self) -> list[Event]:
        return [read_event(message.payload) for message in await self.messages()]

    async def end(self, how: MessageStatus) -> None:
        """The newest message is delivered, or fails for good, or is given up by an operator, or was tried once."""
        message, now = (await self.messages())[-1], self.now
        sending = message.send(worker_id())
        moved = {
            MessageStatus.SENDING: lambda: sending,
            MessageStatus.COMPLETED: lambda: sending.complete(now),
            MessageStatus.FAILED: lambda: sending.refuse("410"),
            MessageStatus.DISCARDED: lambda: sending.refuse("410").discard(),
            MessageStatus.WAITING: lambda: sending.fail("503", now, MINUTE).retry(),
        }[how]()
        await self.store.transact(lambda tx: tx.product_outbox.move([moved], now))

    @property
    def truth(self) -> dict[str, Any]:
        found = self.world.truth(self.item)
        assert found is not None
        return found


@pytest.fixture
def shop(inline_store: SqlStore) -> ProductWorld:
    return ProductWorld(inline_store)


def fields(event: Event) -> dict[str, tuple[Any, Any]]:
    return {change.field: (change.before, change.after) for change in event.changes}


async def test_a_product_that_is_not_whole_is_not_told(shop: ProductWorld) -> None:
    assert await shop.told_by_a_run([PartType.MINISHOP, PartType.DETAIL]) is None
    assert await shop.messages() == []


async def test_the_first_completion_is_told_as_a_creation_with_the_whole_truth(shop: ProductWorld) -> None:
    message = await shop.told_by_a_run()
    assert message is not None
    assert (message.event_type, message.version, message.item_no) == (CREATED, 1, shop.item)
    assert (message.execution_id, message.created_at, message.seller_id) == (execution_id(), shop.now, ONE)
    [event] = await shop.events()
    assert (event.event_id, event.version, event.occurred_at) == (message.outbox_id, 1, shop.now)
    assert (event.changes, event.product_data) == ((), shop.truth)
    assert (await shop.product()).version == 1


async def test_parts_that_came_in_different_runs_make_one_creation(shop: ProductWorld) -> None:
    assert await shop.told_by_a_run([PartType.MINISHOP]) is None
    assert await shop.told_by_a_run([PartType.OPTION]) is None
    assert await shop.told_by_a_run([PartType.DETAIL]) is not None
    assert [event.product_data for event in await shop.events()] == [shop.truth]


async def test_where_nothing_changed_nothing_is_told(shop: ProductWorld) -> None:
    await shop.told_by_a_run()
    assert await shop.told_by_a_run() is None
    assert len(await shop.messages()) == 1


async def test_a_change_is_told_with_exactly_what_changed(shop: ProductWorld) -> None:
    await shop.told_by_a_run()
    await shop.end(MessageStatus.COMPLETED)
    before = shop.truth
    shop.change(stock=41, sold_out=False, name="다른 이름")
    message = await shop.told_by_a_run()
    assert message is not None
    assert (message.event_type, message.version) == (UPDATED, 2)
    event = (await shop.events())[-1]
    assert fields(event) == {"stock": (before["stock"], 41), "name": (before["name"], "다른 이름")}
    assert event.product_data == shop.truth


@pytest.mark.parametrize("part", PartType)
async def test_a_change_of_any_part_is_told_though_the_others_were_not_read_again(
    shop: ProductWorld, part: PartType
) -> None:
    await shop.told_by_a_run()
    await shop.end(MessageStatus.COMPLETED)
    before = shop.truth
    changed: dict[PartType, dict[str, Any]] = {
        PartType.MINISHOP: {"tags": ("new",)},
        PartType.DETAIL: {"stock": 77},
        PartType.OPTION: {"options": ()},
    }
    shop.change(**changed[part])
    await shop.told_by_a_run([part])
    event = (await shop.events())[-1]
    assert event.product_data == shop.truth
    named = {field.partition("[")[0] for field in fields(event)}
    assert named == {name for name in before if before[name] != shop.truth[name]}


@pytest.mark.parametrize(
    "seen",
    [MessageStatus.COMPLETED, MessageStatus.SENDING, MessageStatus.FAILED, MessageStatus.WAITING],
    ids=["delivered", "being-sent", "failed-for-good", "tried-once"],
)
async def test_an_event_that_may_have_been_seen_is_never_changed(shop: ProductWorld, seen: MessageStatus) -> None:
    await shop.told_by_a_run()
    await shop.end(seen)
    first = (await shop.messages())[0]
    shop.restock(41)
    assert await shop.told_by_a_run() is not None
    one, two = await shop.messages()
    assert one == first
    assert (two.event_type, two.version) == (UPDATED, 2)


async def test_a_change_of_a_creation_that_nobody_has_seen_stays_a_creation_with_no_changes(shop: ProductWorld) -> None:
    created = await shop.told_by_a_run()
    assert created is not None
    shop.restock(41)
    assert await shop.told_by_a_run() is None
    [message] = await shop.messages()
    [event] = await shop.events()
    assert (message.outbox_id, message.event_type, message.version) == (created.outbox_id, CREATED, 1)
    assert (event.event_id, event.changes, event.product_data) == (created.outbox_id, (), shop.truth)
    assert event.occurred_at == message.created_at == created.created_at
    product = await shop.product()
    assert (product.version, product.is_changed) == (1, False)


async def told_twice(shop: ProductWorld) -> None:
    """A creation that arrived, and a change of it that still waits."""
    await shop.told_by_a_run()
    await shop.end(MessageStatus.COMPLETED)
    shop.restock(41)
    await shop.told_by_a_run()


async def test_several_changes_that_nobody_has_seen_are_merged_into_one_event(shop: ProductWorld) -> None:
    before = shop.truth
    await told_twice(shop)
    waiting = (await shop.messages())[-1]
    shop.change(name="다른 이름")
    assert await shop.told_by_a_run() is None
    _, message = await shop.messages()
    event = read_event(message.payload)
    assert (message.outbox_id, message.version, event.version) == (waiting.outbox_id, 2, 2)
    assert fields(event) == {"stock": (before["stock"], 41), "name": (before["name"], "다른 이름")}
    assert event.product_data == shop.truth
    assert (await shop.product()).version == 2


async def test_a_field_changed_twice_is_one_change_from_what_was_last_told(shop: ProductWorld) -> None:
    before = shop.truth
    await told_twice(shop)
    shop.restock(42)
    await shop.told_by_a_run()
    assert fields((await shop.events())[-1]) == {"stock": (before["stock"], 42)}


async def test_changes_that_cancel_each_other_out_withdraw_the_event_and_give_its_version_back(
    shop: ProductWorld,
) -> None:
    before = shop.truth
    await told_twice(shop)
    assert (await shop.product()).version == 2
    shop.change(stock=before["stock"], sold_out=before["soldOut"])
    assert await shop.told_by_a_run() is None
    assert [message.event_type for message in await shop.messages()] == [CREATED]
    product = await shop.product()
    assert (product.version, product.is_changed, product.due_event()) == (1, False, None)


async def test_the_version_that_was_given_back_is_used_again_so_that_none_is_missing(shop: ProductWorld) -> None:
    before = shop.truth
    await told_twice(shop)
    shop.change(stock=before["stock"], sold_out=before["soldOut"])
    await shop.told_by_a_run()
    shop.restock(43)
    await shop.told_by_a_run()
    assert [event.version for event in await shop.events()] == [1, 2]


async def test_what_was_changed_back_after_it_was_seen_is_a_change_of_its_own(shop: ProductWorld) -> None:
    before = shop.truth
    await told_twice(shop)
    await shop.end(MessageStatus.COMPLETED)
    shop.change(stock=before["stock"], sold_out=before["soldOut"])
    await shop.told_by_a_run()
    assert fields((await shop.events())[-1]) == {"stock": (41, before["stock"])}


async def test_changes_behind_an_event_that_failed_for_good_merge_into_one_that_waits(shop: ProductWorld) -> None:
    await told_twice(shop)
    await shop.end(MessageStatus.FAILED)
    for stock in (42, 43, 44):
        shop.restock(stock)
        await shop.told_by_a_run()
    held = (await shop.events())[2:]
    assert [(event.version, fields(event)) for event in held] == [(3, {"stock": (41, 44)})]


async def test_an_event_that_an_operator_discarded_is_not_what_the_receiver_was_last_told(shop: ProductWorld) -> None:
    before = shop.truth
    await told_twice(shop)
    await shop.end(MessageStatus.DISCARDED)
    shop.restock(42)
    await shop.told_by_a_run()
    event = (await shop.events())[-1]
    assert (event.version, fields(event)) == (3, {"stock": (before["stock"], 42)})


async def test_a_change_back_to_what_was_told_before_the_discarded_event_is_nothing_to_tell(shop: ProductWorld) -> None:
    before = shop.truth
    await told_twice(shop)
    await shop.end(MessageStatus.DISCARDED)
    shop.change(stock=before["stock"], sold_out=before["soldOut"])
    assert await shop.told_by_a_run() is None
    product = await shop.product()
    assert (len(await shop.messages()), product.version, product.is_changed) == (2, 2, False)


async def test_a_product_whose_every_event_was_discarded_is_told_whole_as_a_change_of_nothing(
    shop: ProductWorld,
) -> None:
    # The receiver knows nothing of it. To refuse would stop the run, and every later one, at this product.
    await shop.told_by_a_run()
    await shop.end(MessageStatus.DISCARDED)
    shop.restock(41)
    message = await shop.told_by_a_run()
    assert message is not None
    assert (message.event_type, message.version) == (UPDATED, 2)
    event = (await shop.events())[-1]
    assert event.product_data == shop.truth
    assert {change.before for change in event.changes} == {None}


async def test_what_was_last_told_is_found_behind_many_discarded_events(shop: ProductWorld) -> None:
    before = shop.truth
    await shop.told_by_a_run()
    await shop.end(MessageStatus.COMPLETED)
    for stock in range(50, 50 + LOOK_BACK - 1):
        shop.restock(stock)
        await shop.told_by_a_run()
        await shop.end(MessageStatus.DISCARDED)
    shop.restock(49)
    await shop.told_by_a_run()
    assert fields((await shop.events())[-1]) == {"stock": (before["stock"], 49)}


async def test_an_outbox_that_lost_the_last_event_is_said_loudly(shop: ProductWorld) -> None:
    await told_twice(shop)
    await shop.store.transact(lambda tx: tx.db.run("DELETE FROM product_outbox"))
    shop.restock(42)
    with pytest.raises(LastEventMissing) as refusal:
        await shop.told_by_a_run()
    assert refusal.value.facts == {"item_no": shop.item, "version": 2}
    assert (await shop.product()).is_changed is False, "nothing of that run was kept"


async def deleted(shop: ProductWorld) -> None:
    """Told as gone; how that is proved is not the matter here."""
    product, now = await shop.product(), shop.now
    gone = product.announce(DELETED, now)
    message = structs.replace(
        (await shop.messages())[-1], outbox_id=OutboxId(shop.ids.new()), event_type=DELETED, version=2
    )

    def work(tx: Transaction) -> None:
        tx.products.save([gone])
        tx.product_outbox.add(message)

    await shop.store.transact(work)


async def test_a_product_that_comes_back_is_created_again_and_never_merged_into_its_deletion(
    shop: ProductWorld,
) -> None:
    await shop.told_by_a_run()
    await shop.end(MessageStatus.COMPLETED)
    await deleted(shop)
    assert await shop.told_by_a_run([PartType.MINISHOP]) is None, "it is not whole yet"
    message = await shop.told_by_a_run()
    assert message is not None
    assert [(m.event_type, m.version) for m in await shop.messages()] == [(CREATED, 1), (DELETED, 2), (CREATED, 3)]
    assert (await shop.events())[-1].product_data == shop.truth
    assert not (await shop.product()).is_deleted


async def test_a_change_after_the_return_is_one_of_the_new_creation(shop: ProductWorld) -> None:
    await shop.told_by_a_run()
    await shop.end(MessageStatus.COMPLETED)
    await deleted(shop)
    await shop.told_by_a_run()
    shop.restock(41)
    assert await shop.told_by_a_run() is None
    last = (await shop.events())[-1]
    assert (last.event_type, last.version, last.changes, last.product_data) == (CREATED, 3, (), shop.truth)


async def replayed(shop: ProductWorld) -> dict[str, Any]:
    """The last state of the product's history."""
    product_id = (await shop.product()).product_id
    entries = await shop.store.read(lambda tx: tx.history.of_product(product_id))
    return dict(list(states(entries))[-1][1])


async def test_the_history_goes_on_from_a_state_that_was_found_behind_a_discarded_event(shop: ProductWorld) -> None:
    before = shop.truth
    await told_twice(shop)
    await shop.end(MessageStatus.DISCARDED)
    shop.change(stock=before["stock"], sold_out=before["soldOut"])
    await shop.told_by_a_run()
    assert await replayed(shop) == shop.truth
    # The same stock again as in the discarded event: no difference to that, but one to what was found last.
    shop.change(stock=41, sold_out=False, name="다른 이름")
    await shop.told_by_a_run()
    assert await replayed(shop) == shop.truth
    assert fields((await shop.events())[-1]) == {
        "stock": (before["stock"], 41),
        "name": (before["name"], "다른 이름"),
    }


async def test_the_history_goes_on_from_a_state_that_withdrew_an_event_and_was_inside_a_tolerance(
    shop: ProductWorld,
) -> None:
    shop.policies = parse_policies("stock=2")
    shop.restock(30)
    await shop.told_by_a_run()
    await shop.end(MessageStatus.COMPLETED)
    shop.restock(41)
    await shop.told_by_a_run()
    shop.restock(31)
    assert await shop.told_by_a_run() is None
    assert await replayed(shop) == shop.truth
    shop.change(stock=30, name="다른 이름")
    await shop.told_by_a_run()
    assert await replayed(shop) == shop.truth


async def kinds(shop: ProductWorld) -> list[tuple[str, int]]:
    return [(event.event_type, event.version) for event in await shop.events()]


async def test_a_snapshot_is_one_event_more_with_the_whole_product(shop: ProductWorld) -> None:
    await shop.told_by_a_run()
    await shop.end(MessageStatus.COMPLETED)
    message = await shop.told_again()
    assert (message.event_type, message.version, message.execution_id) == (SNAPSHOT, 2, None)
    body = orjson.loads(message.payload)
    assert (body["changes"], body["deleted"], body["productData"]) == ([], False, shop.truth)
    product = await shop.product()
    assert (product.version, product.updated_at) == (2, shop.now)
    assert await replayed(shop) == shop.truth


async def test_a_change_after_a_snapshot_is_a_change_from_it_and_never_merged_into_it(shop: ProductWorld) -> None:
    await shop.told_by_a_run()
    await shop.told_again()
    before = shop.truth
    shop.restock(41)
    assert await shop.told_by_a_run() is not None, "the snapshot waits and was never sent, and yet it stays as it is"
    shop.restock(42)
    assert await shop.told_by_a_run() is None, "but a change is merged into the change that waits"
    assert await kinds(shop) == [(CREATED, 1), (SNAPSHOT, 2), (UPDATED, 3)]
    created, snapshot, updated = await shop.events()
    assert (created.product_data, snapshot.product_data, updated.product_data) == (before, before, shop.truth)
    assert fields(updated)["stock"] == (before["stock"], 42)
    assert await replayed(shop) == shop.truth


async def test_a_change_that_is_taken_back_behind_a_snapshot_is_withdrawn(shop: ProductWorld) -> None:
    await shop.told_by_a_run()
    stock = shop.truth["stock"]
    await shop.told_again()
    shop.restock(41)
    await shop.told_by_a_run()
    shop.change(stock=stock, sold_out=False)
    await shop.told_by_a_run()
    assert await kinds(shop) == [(CREATED, 1), (SNAPSHOT, 2)]
    assert (await shop.product()).version == 2


async def test_a_snapshot_follows_an_event_that_waits_and_one_that_failed(shop: ProductWorld) -> None:
    await told_twice(shop)
    await shop.told_again()
    assert await kinds(shop) == [(CREATED, 1), (UPDATED, 2), (SNAPSHOT, 3)]
    first = (await shop.messages())[1]
    refused = first.send(worker_id()).refuse("410")
    await shop.store.transact(lambda tx: tx.product_outbox.move([refused], shop.now))
    await shop.told_again()
    shop.restock(43)
    await shop.told_by_a_run()
    assert (await kinds(shop))[2:] == [(SNAPSHOT, 3), (SNAPSHOT, 4), (UPDATED, 5)]
    assert fields((await shop.events())[-1])["stock"] == (41, 43)


async def test_a_snapshot_has_what_was_found_last_also_behind_a_discarded_event(shop: ProductWorld) -> None:
    before = shop.truth
    await told_twice(shop)
    await shop.end(MessageStatus.DISCARDED)
    shop.change(stock=before["stock"], sold_out=before["soldOut"])
    assert await shop.told_by_a_run() is None
    await shop.told_again()
    assert (await shop.events())[-1].product_data == shop.truth == before
    shop.restock(44)
    await shop.told_by_a_run()
    assert fields((await shop.events())[-1])["stock"] == (before["stock"], 44)


async def test_a_snapshot_leaves_out_parts_of_which_the_others_are_still_to_come(shop: ProductWorld) -> None:
    await shop.told_by_a_run()
    before = shop.truth
    shop.restock(41)
    now, product = shop.now, structs.replace(await shop.product(), is_changed=True, detail_hash="0" * 32)
    await shop.store.transact(lambda tx: tx.products.save([product]))
    await shop.told_again()
    assert (await shop.events())[-1].product_data == before
    assert (await shop.product()).is_changed
    assert shop.now > now
    await shop.told_by_a_run()
    assert await kinds(shop) == [(CREATED, 1), (SNAPSHOT, 2), (UPDATED, 3)]


async def test_a_deleted_product_is_sent_again_as_deleted_and_returns_as_created(shop: ProductWorld) -> None:
    await shop.told_by_a_run()
    await shop.end(MessageStatus.COMPLETED)
    last = shop.truth
    await deleted(shop)
    message = await shop.told_again()
    body = orjson.loads(message.payload)
    assert (body["deleted"], body["version"], body["productData"]) == (True, 3, last)
    assert (await shop.product()).is_deleted
    await shop.told_by_a_run()
    found = [(message.event_type, message.version) for message in await shop.messages()]
    assert found == [(CREATED, 1), (DELETED, 2), (SNAPSHOT, 3), (CREATED, 4)]


async def test_a_deletion_behind_a_snapshot_has_its_product_data(shop: ProductWorld) -> None:
    await shop.told_by_a_run()
    await shop.told_again()
    await deleted(shop)
    events = await shop.events()
    assert events[-1].product_data == events[-2].product_data == shop.truth


async def test_a_product_that_never_had_an_event_is_not_sent_again(shop: ProductWorld) -> None:
    await shop.told_by_a_run([PartType.MINISHOP])
    with pytest.raises(LastEventMissing):
        await shop.told_again()
