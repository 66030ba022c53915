"""A product is told as gone only when that is proved; many at once wait for a person."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.simulated_service import settings_of
from tests.simulation.altered import Altered
from tests.simulation.service_world import ServiceWorld, play, simulated

from sellerwatch.catalog.removal import RemovalReason, RemovalStatus
from sellerwatch.kernel.errors import IllegalMove
from sellerwatch.kernel.ids import ItemNo, RemovalId
from sellerwatch.operations.removals import confirm_removal, refuse_removal
from sellerwatch.outbox.event import read_event
from sellerwatch.outbox.message import OutboxKind
from sellerwatch.outbox.ports import MessageFilter
from sellerwatch.service.service import Service

PAGES = settings_of(PAGE_SIZE=10)


def told(world: ServiceWorld, event_type: str) -> list[int]:
    return [e.item_no for e in world.simulator.product_server.events() if e.event_type == event_type]


def items(world: ServiceWorld) -> list[int]:
    return list(world.simulator.world.listing(world.sellers[0]))


def without(*gone: int, short: bool = True) -> Callable[[int, Any], Any]:
    """A list that lacks these; its total too, unless it is wrong."""

    def change(_: int, page: Any) -> Any:
        count = page["count"] - (len(gone) if short else 0)
        return {**page, "count": count, "items": [e for e in page["items"] if e["itemNo"] not in gone]}

    return change


async def decide(world: ServiceWorld, service: Service, verb: str) -> RemovalId:
    """Confirm or refuse the one removal that is held."""
    page = await world.store.read(
        lambda tx: tx.removals.page(seller_id=None, status=RemovalStatus.HELD, cursor=None, limit=10)
    )
    (removal,) = page.content
    if verb == "refuse":
        await world.session(service).run(refuse_removal, removal.removal_id)
    else:
        await confirm_removal(world.session(service), removal.removal_id)
    await world.settle(service)
    return removal.removal_id


async def removals(world: ServiceWorld) -> list[tuple[RemovalReason, RemovalStatus, int]]:
    page = await world.store.read(lambda tx: tx.removals.page(seller_id=None, status=None, cursor=None, limit=10))
    return [(removal.reason, removal.status, removal.missing) for removal in page.content]


@simulated(settings=PAGES, sellers=1, products=30)
async def test_a_product_that_is_gone_is_proved_by_its_detail_and_told_in_the_same_run(world: ServiceWorld) -> None:
    sellers = await world.register_all()
    async with world.serving() as service:
        await world.crawl(service, sellers)
        gone = items(world)[7]
        last = world.simulator.product_server.product(gone)
        world.simulator.world.vanish(gone)
        await world.crawl(service, sellers)
        (event,) = world.simulator.product_server.events(30)
        assert (event.item_no, event.event_type, event.version) == (gone, "PRODUCT_DELETED", 2)
        (message,) = await world.store.read(
            lambda tx: tx.outbox_queries(OutboxKind.PRODUCT).page(MessageFilter(), None, 1).content
        )
        body = read_event(message.payload)
        assert (body.changes, body.product_data) == ((), last)
        world.check_world()
        await world.crawl(service, sellers)
        assert len(world.simulator.product_server.events()) == 31, "it is told once"
    await world.check_books()


@simulated(sellers=1, products=10)
async def test_a_product_that_comes_back_is_created_again_at_the_next_version(world: ServiceWorld) -> None:
    sellers = await world.register_all()
    door = world.transport = Altered(world.transport)
    async with world.serving() as service:
        await world.crawl(service, sellers)
        item = items(world)[3]
        door.lists, door.details = without(item), lambda d: 404 if str(item) in str(d) else d
        await world.crawl(service, sellers)
        assert told(world, "PRODUCT_DELETED") == [item]
        door.stop()
        await world.crawl(service, sellers)
        event = world.simulator.product_server.events()[-1]
        assert (event.item_no, event.event_type, event.version) == (item, "PRODUCT_CREATED", 3)
        world.check_world()


@simulated(sellers=1, products=10)
async def test_one_that_is_off_the_list_but_still_answers_is_gone_after_two_complete_lists(world: ServiceWorld) -> None:
    sellers = await world.register_all()
    door = world.transport = Altered(world.transport)
    async with world.serving() as service:
        await world.crawl(service, sellers)
        item = items(world)[3]
        door.lists = without(item)
        await world.crawl(service, sellers)
        assert told(world, "PRODUCT_DELETED") == []
        await world.crawl(service, sellers)
        assert told(world, "PRODUCT_DELETED") == [item]
    world.check_manners()


@simulated(sellers=1, products=10)
async def test_one_that_is_seen_in_between_begins_anew(world: ServiceWorld) -> None:
    sellers = await world.register_all()
    door = world.transport = Altered(world.transport)
    async with world.serving() as service:
        await world.crawl(service, sellers)
        item = items(world)[3]
        for lists in (without(item), lambda _, page: page, without(item)):
            door.lists = lists
            await world.crawl(service, sellers)
        assert told(world, "PRODUCT_DELETED") == []
        world.check_world()


def a_page_that_fails(number: int, page: Any) -> Any:
    return 500 if number == 1 else page


def a_page_that_is_cut_short(number: int, page: Any) -> Any:
    return {**page, "items": page["items"][:4]} if number == 1 else page


def a_total_that_is_too_large(_: int, page: Any) -> Any:
    return {**page, "count": page["count"] + 3, "items": page["items"][1:]}


def items_that_come_twice(_: int, page: Any) -> Any:
    return {**page, "items": [*page["items"][1:], *page["items"][1:]]}


def a_page_of_another_shape(number: int, page: Any) -> Any:
    return {"result": page} if number == 1 else page


@pytest.mark.parametrize(
    "lists",
    [
        a_page_that_fails,
        a_page_that_is_cut_short,
        a_total_that_is_too_large,
        items_that_come_twice,
        a_page_of_another_shape,
    ],
)
@simulated(settings=PAGES, sellers=1, products=30)
async def test_a_list_that_was_not_read_whole_removes_nothing(
    world: ServiceWorld, lists: Callable[[int, Any], Any]
) -> None:
    sellers = await world.register_all()
    door = world.transport = Altered(world.transport)
    async with world.serving() as service:
        await world.crawl(service, sellers)
        door.lists = lists
        for _ in range(3):
            await world.crawl(service, sellers)
        assert told(world, "PRODUCT_DELETED") == []
        assert await removals(world) == []
        assert world.simulator.compare() == []
        door.stop()
        await world.crawl(service, sellers)
        world.check_world()


@simulated(settings=PAGES, sellers=1, products=35)
async def test_a_total_that_is_too_small_hides_nothing_as_pages_are_read_until_one_is_not_full(
    world: ServiceWorld,
) -> None:
    sellers = await world.register_all()
    door = world.transport = Altered(world.transport)
    async with world.serving() as service:
        await world.crawl(service, sellers)
        door.lists = lambda _, page: {**page, "count": 12}
        for _ in range(3):
            await world.crawl(service, sellers)
        assert told(world, "PRODUCT_DELETED") == []
        world.check_world()


def test_an_item_that_moves_to_a_page_already_read_is_not_lost_and_not_removed(migrated_template: Path) -> None:
    async def story(world: ServiceWorld) -> None:
        sellers = await world.register_all()
        door = world.transport = Altered(world.transport)
        async with world.serving() as service:
            await world.crawl(service, sellers)
            moves = iter(items(world)[-3:])

            def shifting(number: int, page: Any) -> Any:
                if number == 0 and (item := next(moves, None)) is not None:
                    world.simulator.world.bump(item)
                return page

            door.lists = shifting
            for _ in range(3):
                await world.crawl(service, sellers)
            assert told(world, "PRODUCT_DELETED") == []
            assert len(told(world, "PRODUCT_CREATED")) == 30
            world.check_world()

    play(migrated_template, story, settings=PAGES, sellers=1, products=30)


def test_items_of_other_sellers_on_a_list_are_explained_and_hinder_no_removal(migrated_template: Path) -> None:
    async def story(world: ServiceWorld) -> None:
        sellers = await world.register_all()
        door = world.transport = Altered(world.transport)
        async with world.serving() as service:
            await world.crawl(service, sellers)
            stranger = world.simulator.world.listing(sellers[1])[0]
            entry = {"itemNo": stranger, "name": "남의 것", "imageUrlList": [], "tagList": []}

            def mixed(_: int, page: Any) -> Any:
                mine = {e["itemNo"] for e in page["items"]} & set(items(world))
                return {**page, "count": page["count"] + 1, "items": [*page["items"], entry]} if mine else page

            door.lists = mixed
            gone = items(world)[2]
            world.simulator.world.vanish(gone)
            asked = len(door.asked)
            await world.crawl(service, sellers[:1])
            lists = [path for path in door.asked[asked:] if "mini-shop" in path]
            assert told(world, "PRODUCT_DELETED") == [gone]
            assert len(lists) == 2, "the total and one page: the count is explained, nothing is read again"
            world.check_world()

    play(migrated_template, story, sellers=2, products=8)


@simulated(sellers=1, products=40)
async def test_many_at_once_are_held_until_a_person_confirms_them(world: ServiceWorld) -> None:
    sellers = await world.register_all()
    async with world.serving() as service:
        await world.crawl(service, sellers)
        gone = items(world)[:12]
        for item in gone:
            world.simulator.world.vanish(item)
        for _ in range(2):
            await world.crawl(service, sellers)
        assert told(world, "PRODUCT_DELETED") == []
        assert await removals(world) == [
            (RemovalReason.MANY, RemovalStatus.HELD, 12),
            (RemovalReason.MANY, RemovalStatus.SUPERSEDED, 12),
        ]
        removal_id = await decide(world, service, "confirm")
        assert sorted(told(world, "PRODUCT_DELETED")) == sorted(gone)
        world.check_world()
        with pytest.raises(IllegalMove):
            await world.session(service).run(refuse_removal, removal_id)


@simulated(sellers=1, products=40)
async def test_refused_ones_stay_and_one_that_is_seen_again_drops_out(world: ServiceWorld) -> None:
    sellers = await world.register_all()
    door = world.transport = Altered(world.transport)
    async with world.serving() as service:
        await world.crawl(service, sellers)
        missing = items(world)[:12]
        door.lists = without(*missing)
        await world.crawl(service, sellers)
        await decide(world, service, "refuse")
        assert told(world, "PRODUCT_DELETED") == []
        await world.crawl(service, sellers)
        # Held again; half of them are back before anybody looks.
        door.lists = without(*missing[:6], short=False)
        await world.crawl(service, sellers)
        await decide(world, service, "confirm")
        assert sorted(told(world, "PRODUCT_DELETED")) == sorted(missing[:6])


@pytest.mark.parametrize("products", [3, 40])
def test_an_empty_list_is_held_whatever_the_number(migrated_template: Path, products: int) -> None:
    async def story(world: ServiceWorld) -> None:
        sellers = await world.register_all()
        async with world.serving() as service:
            await world.crawl(service, sellers)
            for item in items(world):
                world.simulator.world.vanish(item)
            (run,) = await world.crawl(service, sellers)
            assert run.total_tasks_created == 0
            assert await removals(world) == [(RemovalReason.EMPTY_LIST, RemovalStatus.HELD, products)]
            assert told(world, "PRODUCT_DELETED") == []
            await decide(world, service, "confirm")
            assert len(told(world, "PRODUCT_DELETED")) == products
            world.check_world()

    play(migrated_template, story, sellers=1, products=products)


@simulated(sellers=1, products=12)
async def test_ten_products_or_a_fifth_may_go_by_themselves(world: ServiceWorld) -> None:
    sellers = await world.register_all()
    async with world.serving() as service:
        await world.crawl(service, sellers)
        for item in items(world)[:10]:
            world.simulator.world.vanish(ItemNo(item))
        await world.crawl(service, sellers)
        assert len(told(world, "PRODUCT_DELETED")) == 10
        world.check_world()
