"""/api/v1/products: lists to the end, one with its facts, bodies, history, differences, and reading again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sellerwatch.adapters.sql import paging
from sellerwatch.catalog.product import PartType
from sellerwatch.catalog.queries import find_product
from sellerwatch.operations.catalog_changes import BATCH

from .api_world import BAD_CURSORS, ONE, ApiWorld

PATH = "/api/v1/products"
AWKWARD = '럭셔리 "코트", [명품] 🧥'


async def test_a_refresh_is_counted_asked_for_and_refused_for_an_unknown_product(world: ApiWorld) -> None:
    await world.crawled(3)
    [product, *_] = (await world.viewer.get("/api/v1/products")).json["content"]
    asked, item = "/api/v1/products/refresh", product["itemNo"]
    before = await world.all_rows()
    counted = (await world.admin.post(asked, {"itemNos": [item]}, dryRun="true")).json
    assert (counted["dryRun"], counted["products"], counted["tasks"]) == (True, 1, 2)
    unknown = await world.admin.post(asked, {"itemNos": [item, 1]})
    assert (unknown.status, unknown.json["errorCode"]) == (404, "PRODUCT_NOT_FOUND")
    assert (await world.admin.post(asked, {"itemNos": []})).status == 400
    assert (await world.viewer.post(asked, {"itemNos": [item]})).status == 403
    assert await world.all_rows() == before
    started = await world.admin.post(asked, {"itemNos": [item, item]})
    assert (started.status, started.json["products"]) == (202, 1)
    run = (await world.viewer.get(f"/api/v1/executions/{started.json['runs'][0]['executionId']}")).json
    assert (run["status"], run["refreshedProducts"], run["totalTasksCreated"]) == ("RUNNING", 1, 2)
    assert [entry.action for entry in await world.api_trail()] == ["product.refresh"]


async def test_products_are_listed_to_the_end_by_seller_and_state(
    world: ApiWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl = await world.crawled(7)
    monkeypatch.setattr(paging, "MAX_ROWS_SCANNED", 3)
    for size in (1, 2, 3, 100):
        for query in ({}, {"sellerId": ONE}, {"state": "COMPLETE"}, {"sellerId": ONE, "state": "COMPLETE"}):
            found = [product["itemNo"] for product in await world.viewer.all_pages(PATH, size, **query)]
            assert sorted(found) == sorted(crawl.items())
        for query in ({"state": "DELETED"}, {"state": "INCOMPLETE"}, {"sellerId": ONE, "state": "DELETED"}):
            assert await world.viewer.all_pages(PATH, size, **query) == []
    first = (await world.viewer.get(PATH, size=1)).json["content"][0]
    assert (first["sellerId"], first["state"], first["version"]) == (ONE, "COMPLETE", 1)
    truth = crawl.world.truth(first["itemNo"])
    assert truth is not None
    assert first["name"] == truth["name"]
    piece = truth["name"][1:-1].upper()
    named = [product["name"] for product in await world.viewer.all_pages(PATH, 2, search=piece)]
    assert truth["name"] in named
    assert all(piece in name.upper() for name in named)
    assert await world.viewer.all_pages(PATH, 2, search="_%") == []


async def test_a_product_shows_its_facts_its_last_event_and_its_bodies(world: ApiWorld) -> None:
    crawl = await world.crawled()
    item = crawl.items()[0]
    shown = (await world.viewer.get(f"{PATH}/{item}")).json
    truth = crawl.world.truth(item)
    assert truth is not None
    assert {name: shown["productData"][name] for name in truth} == truth
    assert (shown["lastEvent"]["eventType"], shown["lastEvent"]["status"]) == ("PRODUCT_CREATED", "COMPLETED")
    assert (shown["problem"], shown["held"]) == (None, [])
    bodies = (await world.viewer.get(f"{PATH}/{item}/raw")).json
    assert [body["part"] for body in bodies["content"]] == ["list", "detail", "options"]
    plain = await world.viewer.get(f"{PATH}/{item}/raw/detail")
    stored = await world.read(lambda tx: tx.bodies.bodies_of(find_product(tx, item).product_id, PartType.DETAIL, 1))
    assert plain.body == stored[0].body
    assert plain.json == bodies["content"][1]["body"]
    assert plain.headers["x-content-type-options"] == "nosniff"
    assert (await world.viewer.get(f"{PATH}/{item}/raw/detail", number=2)).json["errorCode"] == "BODY_NOT_FOUND"


async def test_history_and_differences_tell_how_it_came_to_be_so(world: ApiWorld) -> None:
    crawl = await world.crawled()
    item = crawl.items()[0]
    product = crawl.world.product(item)
    assert product is not None
    crawl.world.put(replace(product, name=AWKWARD))
    await crawl.crawl()
    history = (await world.viewer.get(f"{PATH}/{item}/history")).json["content"]
    assert [(entry["eventType"], entry["version"]) for entry in history] == [
        ("PRODUCT_CREATED", 1),
        ("PRODUCT_UPDATED", 2),
    ]
    last = (await world.viewer.get(f"{PATH}/{item}/diff")).json
    assert (last["fromVersion"], last["toVersion"]) == (1, 2)
    assert {(change["field"], change["after"]) for change in last["changes"]} == {("name", AWKWARD)}
    for query in ({"from": 1}, {"to": 2}, {"from": 1, "to": 2}):
        assert (await world.viewer.get(f"{PATH}/{item}/diff", **query)).json == last
    whole = (await world.viewer.get(f"{PATH}/{item}/diff", **{"from": 0, "to": 1})).json
    assert {change["before"] for change in whole["changes"] if change["field"] == "name"} == {None}
    assert (await world.viewer.get(f"{PATH}/{item}/diff", to=9)).json["errorCode"] == "VERSION_NOT_FOUND"


async def test_reading_again_goes_in_steps_and_finds_nothing_where_nothing_differs(world: ApiWorld) -> None:
    await world.crawled(BATCH + 5)
    before = await world.all_rows()
    first = (await world.admin.post(f"{PATH}/reparse", dryRun="true")).json
    assert (first["read"], first["differing"], first["events"], first["dryRun"]) == (BATCH, 0, 0, True)
    rest = (await world.admin.post(f"{PATH}/reparse", dryRun="true", cursor=first["next"])).json
    assert (rest["read"], rest["next"]) == (5, None)
    assert await world.all_rows() == before
    done = (await world.admin.post(f"{PATH}/reparse", sellerId=ONE)).json
    assert (done["read"], done["events"], done["items"], done["problems"]) == (BATCH, 0, [], [])
    assert await world.api_trail() == []


async def test_a_parameter_that_a_route_does_not_have_is_refused(world: ApiWorld) -> None:
    item = (await world.crawled()).items()[0]
    for path, query in (("", {"sort": "name"}), (f"/{item}", {"part": "detail"}), (f"/{item}/history", {"size": 2})):
        assert (await world.viewer.get(f"{PATH}{path}", **query)).json["errorCode"] == "INVALID_REQUEST"


async def test_what_is_not_there_or_not_allowed_is_refused(world: ApiWorld) -> None:
    item = (await world.crawled()).items()[0]
    before = await world.all_rows()
    for path in ("", "/raw", "/raw/list", "/history", "/diff"):
        assert (await world.viewer.get(f"{PATH}/1{path}")).json["errorCode"] == "PRODUCT_NOT_FOUND"
        for wrong in ("0", "-1", "x", str(2**63), "1e3", "%27"):
            assert (await world.viewer.get(f"{PATH}/{wrong}{path}")).status == 400
    assert (await world.viewer.get(f"{PATH}/{item}/raw/secrets")).status == 400
    assert (await world.viewer.get(f"{PATH}/{item}/raw/../../sellers")).status == 404
    assert (await world.viewer.get(PATH, sellerId="nobody")).status == 404
    assert (await world.viewer.get(PATH, state="LOST")).status == 400
    assert (await world.viewer.post(f"{PATH}/reparse")).status == 403
    assert (await world.admin.post(f"{PATH}/reparse", sellerId="nobody")).status == 404
    for cursor in BAD_CURSORS:
        assert (await world.viewer.get(PATH, cursor=cursor)).status == 400
        assert (await world.admin.post(f"{PATH}/reparse", cursor=cursor)).status == 400
    assert await world.all_rows() == before
