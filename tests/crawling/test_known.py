"""Products as they are known, told and held: what those who look are shown."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.builders import NOW, a_product, worker_id
from tests.crawling.practice import ONE, Practice

from sellerwatch.catalog.ports import RawPart
from sellerwatch.catalog.product import PartType, Product, ProductNotFound, ProductState
from sellerwatch.catalog.quarantine import HeldPart, HeldStatus
from sellerwatch.catalog.queries import Known, LookedAt, found_product, known, look_at, told_data
from sellerwatch.kernel.ids import ItemNo
from sellerwatch.outbox.message import MessageStatus


async def look(practice: Practice, item: ItemNo) -> LookedAt:
    return await practice.store.read(lambda tx: look_at(tx, item, practice.market))


async def product_of(practice: Practice, item: ItemNo) -> Product:
    return await practice.store.read(lambda tx: found_product(tx, item))


async def test_complete_products_are_what_the_world_says(practice: Practice) -> None:
    await practice.crawl()
    products = [await product_of(practice, item) for item in practice.items()]
    found = await practice.store.read(lambda tx: known(tx, products, practice.market))
    assert [each.data for each in found] == [practice.world.truth(item) for item in practice.items()]
    assert {each.problem for each in found} == {None}
    assert await practice.store.read(lambda tx: known(tx, [], practice.market)) == []


async def test_a_product_that_is_not_there_is_refused(practice: Practice) -> None:
    with pytest.raises(ProductNotFound, match="There is no product 7"):
        await look(practice, ItemNo(7))


async def test_an_incomplete_product_is_shown_as_far_as_it_was_read(practice: Practice) -> None:
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
    found = await look(practice, item)
    truth = practice.world.truth(item)
    assert truth is not None
    assert (found.known.product.state, found.known.data) == (ProductState.INCOMPLETE, {"options": truth["options"]})
    assert (found.last, found.held_by, found.held) == (None, None, [])
    assert await practice.store.read(lambda tx: told_data(tx, product)) == {}


async def test_a_body_that_cannot_be_read_falls_back_to_what_was_told(practice: Practice) -> None:
    await practice.crawl()
    item = practice.items()[0]
    product = await product_of(practice, item)
    spoilt = RawPart(product.product_id, PartType.DETAIL, "0" * 32, b'{"moduleList":[]}', NOW)
    await practice.store.transact(lambda tx: tx.bodies.keep_raw([spoilt]))
    found = (await look(practice, item)).known
    assert found == Known(product, practice.world.truth(item) or {}, found.problem)
    assert found.problem is not None


async def test_a_deleted_product_is_what_was_last_told_of_it(practice: Practice) -> None:
    await practice.crawl()
    item = practice.items()[0]
    truth = practice.world.truth(item)
    practice.world.vanish(item)
    await practice.crawl()
    found = await look(practice, item)
    assert (found.known.product.state, found.known.data) == (ProductState.DELETED, truth)


async def test_the_last_event_says_what_holds_it_and_held_parts_are_named(practice: Practice) -> None:
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
    found = await look(practice, item)
    assert found.last is not None
    assert (found.last.event_type, found.last.status) == ("PRODUCT_UPDATED", MessageStatus.WAITING)
    assert found.held_by == first.outbox_id
    assert found.held == [replace(held, body=b"")]
