"""Removing a seller with its products, and registering many from a file: API, console and the operations behind."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.builders import HOUR, execution_id
from tests.crawling.crawl_world import ONE, CrawlWorld

from sellerwatch.access.users import Role
from sellerwatch.catalog.product import ProductState
from sellerwatch.kernel.ids import ExecutionId, SellerId
from sellerwatch.operations import seller_removal
from sellerwatch.operations.refresh import refresh_products
from sellerwatch.operations.seller_import import import_sellers
from sellerwatch.operations.seller_removal import remove_seller
from sellerwatch.sellers.import_rows import read_rows
from sellerwatch.sellers.seller import SellerStatus

from .api_world import ApiWorld
from .console.person import Person
from .test_log_ins import add, person

CATALOGUE = ("products", "product_raw_data", "product_outbox")
CSV = """sellerId,name,interval,crawlingIntervalDays
a.b-c_1,"하우스, @명품@",6h,
a.b-c_2,가게,,7
한글가게,세 번째,,

a b,빈칸,,
a.b-c_3,,1d,
a.b-c_1,다시,,
x,y,soon,
x,y,1d,1
too,few
""".replace("@", '""')
JSONL = """{"sellerId": "one", "name": "One", "interval": "2h"}
not json
{"sellerId": "two", "name": "Two", "crawlingIntervalDays": 3}
{"sellerId": "three", "name": "Three", "color": "red"}
["four"]
{"sellerId": 5, "name": "Five"}
"""


async def removed_events(world: ApiWorld, crawl: CrawlWorld) -> list[str]:
    kinds = [(await crawl.messages_of(item))[-1].event_type for item in crawl.items(ONE)]
    return [str(kind) for kind in kinds]


@pytest.mark.parametrize("tell", [True, False])
async def test_a_seller_is_archived_with_its_products(world: ApiWorld, tell: bool) -> None:
    crawl = await world.crawled(3)
    path, query = f"/api/v1/sellers/{ONE}", {"tellReceiver": str(tell).lower()}
    before = await world.all_rows()
    would = await world.admin.ask("DELETE", path, query={**query, "dryRun": "true"})
    counts = {"removed": 3, "events": 3 if tell else 0, "left": 0}
    assert would.status == 200, would.body
    assert {name: would.json[name] for name in counts} == counts
    assert (would.json["dryRun"], would.json["status"]) == (True, "ARCHIVED")
    assert await world.all_rows() == before
    assert (await world.viewer.ask("DELETE", path, query=query)).status == 403

    done = (await world.admin.ask("DELETE", path, query=query)).json
    assert {name: done[name] for name in counts} == counts
    shown = (await world.viewer.get(path)).json
    assert (shown["status"], shown["products"]["present"], shown["products"]["deleted"]) == ("ARCHIVED", 0, 3)
    assert (shown["nextRunAt"], shown["freshness"]["state"]) == (None, "off")
    listed = (await world.viewer.get("/api/v1/sellers")).json["content"]
    assert ONE not in [each["sellerId"] for each in listed]
    archived = (await world.viewer.get("/api/v1/sellers", status="ARCHIVED")).json["content"]
    assert [each["sellerId"] for each in archived] == [ONE]
    assert await removed_events(world, crawl) == ["PRODUCT_DELETED" if tell else "PRODUCT_CREATED"] * 3
    entry = (await world.api_trail())[0]
    assert (entry.action, entry.subject_id) == ("seller.remove", ONE)
    again = await world.admin.ask("DELETE", path, query=query)
    assert (again.status, again.json["errorCode"]) == (409, "ILLEGAL_MOVE")
    missing = await world.admin.ask("DELETE", "/api/v1/sellers/nobody")
    assert missing.status == 404


async def test_its_open_run_is_ended(world: ApiWorld) -> None:
    await world.register_seller()
    await world.add_run(done=1, waiting=2)
    seller_id = (await world.viewer.get("/api/v1/sellers")).json["content"][0]["sellerId"]
    done = (await world.admin.ask("DELETE", f"/api/v1/sellers/{seller_id}")).json
    assert (done["endedExecution"]["executionId"], done["endedExecution"]["cancelledTasks"]) == (execution_id(), 2)
    assert (await world.viewer.get(f"/api/v1/executions/{execution_id()}")).json["status"] == "FAILED"


async def test_an_answer_that_was_under_way_brings_nothing_back(world: ApiWorld) -> None:
    crawl = await world.crawled(3)
    await crawl.start(ONE)
    [page] = await crawl.claim()
    await remove_seller(world.parts.session("test", "en"), ONE)
    before = {name: rows for name, rows in (await world.all_rows()).items() if name in CATALOGUE}
    await crawl.answer(page)
    rows = await world.all_rows()
    assert {name: rows[name] for name in CATALOGUE} == before
    found = await world.read(lambda tx: tx.products.of_items(crawl.items(ONE)))
    assert {product.state for product in found.values()} == {ProductState.DELETED}
    assert not await crawl.claim()
    assert await removed_events(world, crawl) == ["PRODUCT_CREATED"] * 3


async def test_a_refresh_of_its_products_is_ended_too(world: ApiWorld) -> None:
    crawl = await world.crawled(2)
    session = world.parts.session("test", "en")
    started = await session.run(refresh_products, crawl.items(ONE), session.rules, HOUR)
    await remove_seller(session, ONE)
    assert (await world.run(ExecutionId(started.runs[0].execution_id or ""))).status == "FAILED"
    assert not await crawl.claim()


async def test_what_an_interruption_left_is_removed_the_next_time(
    world: ApiWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl = await world.crawled(3)
    monkeypatch.setattr(seller_removal, "BATCH", 1)
    session = world.parts.session("test", "en")
    partly = await remove_seller(session, ONE, tell_receiver=True, steps=2)
    assert (partly.removed, partly.events, partly.left) == (2, 2, 1)
    rest = await remove_seller(session, ONE, tell_receiver=True)
    assert (rest.removed, rest.events, rest.left) == (1, 1, 0)
    assert await removed_events(world, crawl) == ["PRODUCT_DELETED"] * 3


async def test_a_seller_that_was_removed_comes_back_with_its_products(world: ApiWorld) -> None:
    """Its products are created again for a receiver, with the next version of each."""
    crawl = await world.crawled(2)
    await remove_seller(world.parts.session("test", "en"), ONE, tell_receiver=True)
    assert (await world.admin.post(f"/api/v1/sellers/{ONE}/activate")).json["status"] == "ACTIVE"
    await crawl.crawl(ONE)
    for item in crawl.items(ONE):
        messages = await crawl.messages_of(item)
        assert [(str(m.event_type), m.version) for m in messages][-1] == ("PRODUCT_CREATED", 3)
    found = await world.read(lambda tx: tx.products.of_items(crawl.items(ONE)))
    assert {product.state for product in found.values()} == {ProductState.COMPLETE}


async def test_a_file_is_imported_row_by_row_and_again_without_effect(world: ApiWorld) -> None:
    session, rows = world.parts.session("test", "en"), read_rows(CSV, is_csv=True)
    before = await world.all_rows()
    would = await import_sellers(session.with_dry_run(True), rows)
    assert await world.all_rows() == before
    done = await import_sellers(session, rows)
    assert replace(would, dry_run=False) == done
    assert (done.added, done.known) == (["a.b-c_1", "a.b-c_2", "한글가게"], ["a.b-c_1"])
    assert [(row.line, row.error_code) for row in done.refused] == [
        (6, "INVALID_SELLER_ID"),
        (7, "UNREADABLE_ROW"),
        (9, "UNREADABLE_INTERVAL"),
        (10, "UNREADABLE_ROW"),
        (11, "UNREADABLE_ROW"),
    ]
    found = await world.read(lambda tx: tx.sellers.get(SellerId("a.b-c_1")))
    assert found is not None
    assert (found.name, found.interval.length, found.status) == ('하우스, "명품"', 6 * HOUR, SellerStatus.ACTIVE)
    again = await import_sellers(session, rows)
    assert (again.added, again.known) == ([], ["a.b-c_1", "a.b-c_2", "한글가게", "a.b-c_1"])


def test_lines_of_json_are_read_one_by_one() -> None:
    rows = read_rows(JSONL, is_csv=False)
    assert [(row.line, row.seller_id, row.error is None) for row in rows] == [
        (1, "one", True),
        (2, "", False),
        (3, "two", True),
        (4, "", False),
        (5, "", False),
        (6, "", False),
    ]


async def test_many_sellers_are_imported_over_the_api(world: ApiWorld) -> None:
    body = {"sellers": [{"sellerId": "a", "name": "A", "interval": "6h"}, {"sellerId": "a b", "name": "B"}]}
    would = await world.admin.post("/api/v1/sellers/import", body, dryRun="true")
    assert (would.json["added"], would.json["dryRun"]) == (["a"], True)
    done = await world.admin.post("/api/v1/sellers/import", body)
    assert (done.status, done.json["added"], done.json["refused"][0]["line"]) == (200, ["a"], 2)
    assert (await world.viewer.post("/api/v1/sellers/import", body)).status == 403
    assert (await world.admin.post("/api/v1/sellers/import", {"sellers": [{"name": "A"}]})).status == 400


async def test_the_console_imports_after_a_look_and_removes_after_the_numbers(world: ApiWorld) -> None:
    crawl = await world.crawled(2)
    boss = await a_boss(world)
    await boss.see("/sellers/import")
    checked = await boss.send("/sellers/import", rows="sellerId,name\nx1,X\na b,Y\n")
    assert "1 seller would be registered" in checked.words
    assert "Line 3:" in checked.words
    assert (await world.viewer.get("/api/v1/sellers/x1")).status == 404
    done = await boss.send("/sellers/import", rows="sellerId,name\nx1,X\n", **{"import": "1"})
    assert "1 seller was registered." in done.words
    asked = await boss.see(f"/sellers/{ONE}/remove")
    assert "2 products are deleted here" in asked.words
    assert "it gets 2 deletions" in asked.words
    gone = await boss.send(f"/sellers/{ONE}/remove", tell_receiver="1")
    assert "2 products deleted, 2 events" in gone.words
    assert "archived" in gone.words
    assert await removed_events(world, crawl) == ["PRODUCT_DELETED"] * 2


async def a_boss(world: ApiWorld) -> Person:
    await add(world, "boss", role=Role.ADMIN)
    return await person(world, "boss")
