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


async def show(practice: CrawlWorld, item: ItemNo) -> ProductDetailView:
    return await practice.store.read(lambda tx: show_product(tx, a_context(), item, practice.market))


async def product_of(practice: CrawlWorld, item: ItemNo) -> Product:
    return await practice.store.read(lambda tx: find_product(tx, item))


async def test_complete_products_are_what_the_world_says(practice: CrawlWorld) -> None:
    await practice.crawl()
    products = [await product_of(practice, item) for item in practice.items()]
    found = await practice.store.read(lambda tx: current_products(tx, products, practice.market))
    assert [each.data for each in found] == [practice.world.truth(item) for item in practice.items()]
    assert {each.problem for each in found} == {None}
    assert await practice.store.read(lambda tx: current_products(tx, [], practice.market)) == []


async def test_a_product_that_is_not_there_is_refused(practice: CrawlWorld) -> None:
    with pytest.raises(ProductNotFound, match="There is no product 7"):
        await show(practice, ItemNo(7))


async def test_an_incomplete_product_is_shown_as_far_as_it_was_read(practice: CrawlWorld) -> None:
    item = practice.items()[0]
    sold = practice.world.product(item)
    assert sold is not None
    options = practice.renderer.options(sold)
    product = a_product(item_no=item, seller_id=ONE, option_hash="a" * 32)
    raw = RawPart(product.product_id, PartType.OPTION, "a" * 32, options, NOW)
    # A body of before a removal: its hash is forgotten, so it says nothing of what is known now.
    gone = RawPart(product.product_id, PartType.DETAIL, "b" * 32, b"{}", NOW)
    await practice.store.transact(lambda tx: tx.products.add([product]))
    await practice.store.transact(lambda tx: tx.bodies.keep_raw([raw, gone]))
    found = await show(practice, item)
    truth = practice.world.truth(item)
    assert truth is not None
    assert (found.state, found.product_data) == (ProductState.INCOMPLETE, {"options": truth["options"]})
    assert (found.last_event, found.events, found.held) == (None, [], [])
    assert await practice.store.read(lambda tx: last_event_data(tx, product)) == {}


async def test_a_body_that_cannot_be_read_falls_back_to_what_was_told(practice: CrawlWorld) -> None:
    await practice.crawl()
    item = practice.items()[0]
    product = await product_of(practice, item)
    spoilt = RawPart(product.product_id, PartType.DETAIL, "0" * 32, b'{"moduleList":[]}', NOW)
    await practice.store.transact(lambda tx: tx.bodies.keep_raw([spoilt]))
    (current,) = await practice.store.read(lambda tx: current_products(tx, [product], practice.market))
    assert current == CurrentProduct(product, practice.world.truth(item) or {}, current.problem)
    found = await show(practice, item)
    assert (found.product_data, found.problem) == (current.data, str(current.problem))
    korean = replace(a_context(), language="ko")
    found = await practice.store.read(lambda tx: show_product(tx, korean, item, practice.market))
    assert found.problem != str(current.problem)


async def test_a_deleted_product_is_what_was_last_told_of_it(practice: CrawlWorld) -> None:
    await practice.crawl()
    item = practice.items()[0]
    truth = practice.world.truth(item)
    practice.world.vanish(item)
    await practice.crawl()
    found = await show(practice, item)
    assert (found.state, found.product_data) == (ProductState.DELETED, truth)


async def test_the_last_event_says_what_holds_it_and_held_parts_are_named(practice: CrawlWorld) -> None:
    run = await practice.crawl()
    item = practice.items()[0]
    ((first, _),) = await practice.events(item)
    failed = first.send(worker_id()).refuse("410")
    await practice.store.transact(lambda tx: tx.product_outbox.move([failed], practice.now))
    sold = practice.world.product(item)
    assert sold is not None
    practice.world.put(replace(sold, stock=sold.stock + 7, sold_out=False))
    await practice.crawl()
    held = HeldPart(item, PartType.OPTION, HeldStatus.PENDING, ONE, run, "0" * 32, practice.now, body=b"[]")
    await practice.store.transact(lambda tx: tx.held_parts.put([held]))
    found = await show(practice, item)
    last, earlier = found.events
    assert (last.event_type, last.status, last.held_by) == ("PRODUCT_UPDATED", MessageStatus.WAITING, first.outbox_id)
    assert (earlier.outbox_id, earlier.held_by) == (first.outbox_id, None)
    assert found.last_event == last
    assert found.held == [HeldPartView.of(held)]
    assert [stored.part for stored in found.stored_parts] == ["list", "detail", "options"]
    assert found.seller_name == f"상점 {ONE}"
