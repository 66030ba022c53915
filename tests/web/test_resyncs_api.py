"""/api/v1/resyncs and /api/v1/products?updatedSince: sent again, or pulled."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from tests.builders import HOUR, NOW

from sellerwatch.catalog.queries import SETTLED_AFTER
from sellerwatch.kernel.clock import stamp
from sellerwatch.web.api.credentials import Role

from .api_world import BAD_CURSORS, ONE, ApiWorld
from .caller import Api

RESYNCS, PRODUCTS = "/api/v1/resyncs", "/api/v1/products"
ASK = f"{PRODUCTS}/resync"
UNKNOWN = "0198c0de-0000-7000-8009-000000000001"


async def test_a_resync_is_asked_for_followed_and_cancelled(world: ApiWorld) -> None:
    await world.crawled(4)
    before = await world.all_rows()
    preview = (await world.admin.post(ASK, {"sellerId": ONE}, dryRun="true")).json
    assert (preview["dryRun"], preview["resyncId"], preview["products"], preview["leftOut"]) == (True, None, 4, 0)
    assert await world.all_rows() == before
    asked = await world.admin.post(ASK)
    assert (asked.status, asked.json["products"], asked.json["sellerId"]) == (202, 4, None)
    resync_id = asked.json["resyncId"]
    again = await world.admin.post(ASK, {"since": "2020-01-01T00:00:00Z"})
    assert (again.status, again.json["errorCode"]) == (409, "RESYNC_IN_PROGRESS")
    assert again.json["details"] == {"resyncId": resync_id}
    [listed] = await world.viewer.all_pages(RESYNCS, 5, status="RUNNING")
    shown = (await world.viewer.get(f"{RESYNCS}/{resync_id}")).json
    assert shown == listed | {"waiting": 0}
    assert (shown["total"], shown["written"], shown["requestedBy"]) == (4, 0, "token:admin@practice")
    assert (await world.admin.post(f"{RESYNCS}/{resync_id}/cancel", dryRun="true")).json["status"] == "RUNNING"
    assert (await world.admin.post(f"{RESYNCS}/{resync_id}/cancel")).json["status"] == "CANCELLED"
    assert (await world.admin.post(f"{RESYNCS}/{resync_id}/cancel")).status == 409
    assert [entry.action for entry in await world.api_trail()][:2] == ["resync.cancel", "resync.start"]


async def test_what_is_not_there_or_not_allowed_is_refused(world: ApiWorld) -> None:
    await world.crawled()
    before = await world.all_rows()
    assert (await world.viewer.post(ASK)).status == 403
    assert (await world.viewer.post(f"{RESYNCS}/{UNKNOWN}/cancel")).status == 403
    assert (await world.admin.post(ASK, {"sellerId": "nobody"})).status == 404
    assert (await world.viewer.get(RESYNCS, sellerId="nobody")).status == 404
    assert (await world.admin.post(ASK, {"sellerId": ONE, "all": True})).status == 400
    assert (await world.admin.post(ASK, {"since": "2999-01-01T00:00:00Z"})).json["errorCode"] == "NOTHING_TO_RESYNC"
    for method in (world.admin.get, world.admin.post):
        path = f"{RESYNCS}/{UNKNOWN}" + ("/cancel" if method == world.admin.post else "")
        assert (await method(path)).json["errorCode"] == "RESYNC_NOT_FOUND"
    for cursor in BAD_CURSORS:
        assert (await world.viewer.get(RESYNCS, cursor=cursor)).status == 400
        assert (await world.viewer.get(PRODUCTS, cursor=cursor, updatedSince="2020-01-01T00:00:00Z")).status == 400
    assert await world.all_rows() == before


def puller(world: ApiWorld) -> Api:
    """A viewer whose token lasts longer than what is crawled here."""
    return world.with_token(world.credentials.issue("puller@practice", Role.VIEWER, timedelta(days=9), NOW))


async def test_a_reader_that_pulls_gets_every_change_in_its_order_while_changes_happen(world: ApiWorld) -> None:
    crawl = await world.crawled(9)
    since = stamp(crawl.now - HOUR)
    world.clock.time = crawl.now + SETTLED_AFTER
    seen: list[tuple[int, int]] = []
    cursor, number = None, 0
    while True:
        query = {"updatedSince": since, "size": 2} | ({} if cursor is None else {"cursor": cursor})
        page = (await puller(world).get(PRODUCTS, **query)).json
        seen += [(product["itemNo"], product["version"]) for product in page["content"]]
        cursor, number = page["next"], number + 1
        if cursor is None:
            break
        if number <= 2:
            # One that was listed and one that was not change while the pages are read.
            for item in (seen[0][0], crawl.items()[-1]):
                product = crawl.world.product(item)
                assert product is not None
                crawl.world.put(replace(product, name=f"{product.name} {number}"))
            await crawl.crawl()
            world.clock.time = crawl.now + SETTLED_AFTER
    assert len(seen) == len(set(seen)), "no version comes twice"
    assert {item: max(version for each, version in seen if each == item) for item in crawl.items()} == {
        product["itemNo"]: product["version"] for product in await puller(world).all_pages(PRODUCTS, 100)
    }


async def test_a_change_is_listed_when_no_older_one_can_still_be_written(world: ApiWorld) -> None:
    crawl = await world.crawled(3)
    since = {"updatedSince": stamp(crawl.now - HOUR)}
    world.clock.time = crawl.now - HOUR
    assert (await puller(world).get(PRODUCTS, **since)).json == {"content": [], "next": None}
    world.clock.time = crawl.now + SETTLED_AFTER
    for query in (since, since | {"sellerId": ONE}, since | {"state": "COMPLETE"}):
        found = (await puller(world).get(PRODUCTS, **query)).json["content"]
        assert sorted(product["itemNo"] for product in found) == sorted(crawl.items())
        assert [product["updatedAt"] for product in found] == sorted(product["updatedAt"] for product in found)
        assert all(product["productData"] == crawl.world.truth(product["itemNo"]) for product in found)
    assert (await puller(world).get(PRODUCTS, **since | {"state": "DELETED"})).json["content"] == []
    assert (await puller(world).get(PRODUCTS, updatedSince="yesterday")).status == 400
    plain = (await puller(world).get(PRODUCTS, size=1)).json
    assert plain["content"][0]["productData"] is None
    assert (await puller(world).get(PRODUCTS, **since, cursor=plain["next"])).status == 400, "a cursor of another list"


async def test_a_deleted_product_is_pulled_with_its_state(world: ApiWorld) -> None:
    crawl = await world.crawled(3)
    gone = crawl.items()[0]
    crawl.world.vanish(gone)
    await crawl.crawl()
    world.clock.time = crawl.now + SETTLED_AFTER
    found = (await puller(world).get(PRODUCTS, updatedSince="2020-01-01T00:00:00Z")).json["content"]
    assert {product["itemNo"]: product["state"] for product in found}[gone] == "DELETED"
    assert len(found) == 3
