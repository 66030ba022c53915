"""What queries show of products: the current state, the last event, and held parts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.builders import NOW, a_context, a_product, worker_id
from tests.crawling.crawl_world import ONE, CrawlWorld

from sellerwatch.catalog.ports import RawPart
from sellerwatch.catalog.product import PartType, Product, ProductNotFound, ProductState
from sellerwatch.catalog.product_views import HeldPartView, ProductDetailView
from sellerwatch.catalog.quarantine import HeldPart, HeldStatus
from sellerwatch.catalog.queries import (
    CurrentProduct,
    current_products,
    find_product,
    last_event_data,
    show_product,
)
from sellerwatch.kernel.ids import ItemNo
from sellerwatch.outbox.message import MessageStatus


async def show(world: CrawlWorld, item: ItemNo) -> ProductDetailView:
    return await world.store.read(lambda tx: show_product(tx, a_context(), item, world.market))


async def product_of(world: CrawlWorld, item: ItemNo) -> Product:
    return await world.store.read(lambda tx: find_product(tx, item))


async def test_complete_products_are_what_the_world_says(world: CrawlWorld) -> None:
    await world.crawl()
    products = [await product_of(world, item) for item in world.items()]
    found = await world.store.read(lambda tx: current_products(tx, products, world.market))
    assert [each.data for each in found] == [world.world.truth(item) for item in world.items()]
    assert {each.problem for each in found} == {None}
    assert await world.store.read(lambda tx: current_products(tx, [], world.market)) == []


async def test_a_product_that_is_not_there_is_refused(world: CrawlWorld) -> None:
    with pytest.raises(ProductNotFound, match="There is no product 7"):
        await show(world, ItemNo(7))


async def test_an_incomplete_product_is_shown_as_far_as_it_was_read(world: CrawlWorld) -> None:
    item = world.items()[0]
    sold = world.world.product(item)
    assert sold is not None
    options = world.renderer.options(sold)
    product = a_product(item_no=item, seller_id=ONE, option_hash="a" * 32)
    raw = RawPart(product.product_id, PartType.OPTION, "a" * 32, options, NOW)
    # A body of before a removal: its hash is forgotten, so it says nothing of what is known now.
    gone = RawPart(product.product_id, PartType.DETAIL, "b" * 32, b"{}", NOW)
    await world.store.transact(lambda tx: tx.products.add([product]))
    await world.store.transact(lambda tx: tx.bodies.keep_raw([raw, gone]))
    found = await show(world, item)
    truth = world.world.truth(item)
    assert truth is not None
    assert (found.state, found.product_data) == (ProductState.INCOMPLETE, {"options": truth["options"]})
    assert (found.last_event, found.events, found.held) == (None, [], [])
    assert await world.store.read(lambda tx: last_event_data(tx, product)) == {}


async def test_a_body_that_cannot_be_read_falls_back_to_what_was_told(world: CrawlWorld) -> None:
    await world.crawl()
    item = world.items()[0]
    product = await product_of(world, item)
    spoilt = RawPart(product.product_id, PartType.DETAIL, "0" * 32, b'{"moduleList":[]}', NOW)
    await world.store.transact(lambda tx: tx.bodies.keep_raw([spoilt]))
    (current,) = await world.store.read(lambda tx: current_products(tx, [product], world.market))
    assert current == CurrentProduct(product, world.world.truth(item) or {}, current.problem)
    found = await show(world, item)
    assert (found.product_data, found.problem) == (current.data, str(current.problem))
    korean = replace(a_context(), language="ko")
    found = await world.store.read(lambda tx: show_product(tx, korean, item, world.market))
    assert found.problem != str(current.problem)


async def test_a_deleted_product_is_what_was_last_told_of_it(world: CrawlWorld) -> None:
    await world.crawl()
    item = world.items()[0]
    truth = world.world.truth(item)
    world.world.vanish(item)
    await world.crawl()
    found = await show(world, item)
    assert (found.state, found.product_data) == (ProductState.DELETED, truth)


async def test_the_last_event_says_what_holds_it_and_held_parts_are_named(world: CrawlWorld) -> None:
    run = await world.crawl()
    item = world.items()[0]
    ((first, _),) = await world.events(item)
    failed = first.send(worker_id()).refuse("410")
    await world.store.transact(lambda tx: tx.product_outbox.move([failed], world.now))
    sold = world.world.product(item)
    assert sold is not None
    world.world.put(replace(sold, stock=sold.stock + 7, sold_out=False))
    await world.crawl()
    held = HeldPart(item, PartType.OPTION, HeldStatus.PENDING, ONE, run, "0" * 32, world.now, body=b"[]")
    await world.store.transact(lambda tx: tx.held_parts.put([held]))
    found = await show(world, item)
    last, earlier = found.events
    assert (last.event_type, last.status, last.held_by) == ("PRODUCT_UPDATED", MessageStatus.WAITING, first.outbox_id)
    assert (earlier.outbox_id, earlier.held_by) == (first.outbox_id, None)
    assert found.last_event == last
    assert found.held == [HeldPartView.of(held)]
    assert [stored.part for stored in found.stored_parts] == ["list", "detail", "options"]
    assert found.seller_name == f"상점 {ONE}"
