"""/api/v1/quarantine and /api/v1/removals: what waits for a person, and deciding it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.builders import NOW
from tests.crawling.crawl_world import CrawlWorld

from sellerwatch.kernel.ids import ItemNo
from sellerwatch.operations.catalog_changes import BATCH

from .api_world import BAD_CURSORS, ONE, UNKNOWN_ID, ApiWorld

CASES, REMOVALS = "/api/v1/quarantine", "/api/v1/removals"
PRODUCTS = 25
GONE = 24


async def renamed(world: ApiWorld, products: int = PRODUCTS) -> str:
    """All products of a seller got another name in one run: held under one case."""
    crawl = await world.crawled(products)
    for item in crawl.items():
        product = crawl.world.product(item)
        assert product is not None
        crawl.world.put(replace(product, name=f"{product.name} [특가] 🎁"))
    await crawl.crawl()
    (case,) = (await world.viewer.get(CASES)).json["content"]
    return str(case["caseId"])


async def gone(world: ApiWorld, products: int = 30, leaving: int = GONE) -> tuple[CrawlWorld, str]:
    """Most products of the seller left its list at once."""
    crawl = await world.crawled(products)
    for item in sorted(crawl.items())[:leaving]:
        crawl.world.vanish(item)
    await crawl.crawl()
    (removal,) = (await world.viewer.get(REMOVALS, status="HELD")).json["content"]
    return crawl, str(removal["removalId"])


async def test_a_case_says_why_with_a_sample_and_how_much_is_held(world: ApiWorld) -> None:
    case_id = await renamed(world)
    (listed,) = await world.viewer.all_pages(CASES, 1, sellerId=ONE, status="OPEN")
    assert (listed["kind"], listed["part"], listed["field"], listed["held"]) == ("SHARE", "DETAIL", "name", PRODUCTS)
    shown = (await world.viewer.get(f"{CASES}/{case_id}")).json
    assert shown["sampleAfter"] == f"{shown['sampleBefore']} [특가] 🎁"
    assert (len(shown["items"]), shown["decidedBy"]) == (20, None)
    item = shown["items"][0]
    assert (await world.viewer.get(f"/api/v1/products/{item}")).json["held"][0]["caseId"] == case_id
    assert await world.viewer.all_pages(CASES, 1, status="DROPPED") == []


async def test_a_case_is_released_in_bounded_steps_that_say_what_is_left(world: ApiWorld) -> None:
    case_id = await renamed(world, BATCH + 10)
    first = (await world.admin.post(f"{CASES}/{case_id}/release", {"steps": 1})).json
    assert (first["taken"], first["held"], first["status"]) == (BATCH, 10, "OPEN")
    assert first["next"] is not None
    rest = (await world.admin.post(f"{CASES}/{case_id}/release", cursor=first["next"])).json
    assert (rest["taken"], rest["held"], rest["status"], rest["next"]) == (10, 0, "RELEASED", None)
    assert rest["decidedBy"] == "token:admin@practice"
    again = await world.admin.post(f"{CASES}/{case_id}/release")
    assert (again.status, again.json["errorCode"]) == (409, "ILLEGAL_MOVE")
    assert "quarantine.release" in {entry.action for entry in await world.api_trail()}


async def test_a_case_is_dropped_and_its_products_stay(world: ApiWorld) -> None:
    case_id = await renamed(world)
    dropped = (await world.admin.post(f"{CASES}/{case_id}/drop")).json
    assert (dropped["dropped"], dropped["held"], dropped["status"]) == (PRODUCTS, 0, "DROPPED")
    assert (await world.admin.post(f"{CASES}/{case_id}/drop")).status == 409
    assert [(e.action, e.subject_id) for e in await world.api_trail()] == [("quarantine.drop", case_id)]


async def test_a_dry_run_says_what_a_decision_would_do_and_changes_nothing(world: ApiWorld) -> None:
    case_id = await renamed(world, BATCH + 10)
    before = await world.all_rows()
    tried = (await world.admin.post(f"{CASES}/{case_id}/release", dryRun="true")).json
    assert (tried["dryRun"], tried["taken"], tried["events"], tried["unreadable"]) == (True, 0, 0, 0)
    assert (tried["held"], tried["status"], tried["next"]) == (BATCH + 10, "OPEN", None)
    first = (await world.admin.post(f"{CASES}/{case_id}/release", {"steps": 1}, dryRun="true")).json
    assert first["next"] is not None
    dropped = (await world.admin.post(f"{CASES}/{case_id}/drop", dryRun="true")).json
    assert (dropped["dryRun"], dropped["dropped"], dropped["held"]) == (True, 0, BATCH + 10)
    assert await world.all_rows() == before
    assert (await world.admin.post(f"{CASES}/{case_id}/drop")).json["dryRun"] is False
    for verb in ("release", "drop"):
        assert (await world.admin.post(f"{CASES}/{case_id}/{verb}", dryRun="true")).status == 409


async def test_the_drift_report_names_unknown_fields(world: ApiWorld) -> None:
    assert (await world.viewer.get(f"{CASES}/drift")).json == {"content": []}
    await world.transact(lambda tx: tx.drift.note("detail", ["새필드.🎈"], ItemNo(7), NOW))
    (field,) = (await world.viewer.get(f"{CASES}/drift")).json["content"]
    assert (field["endpoint"], field["field"], field["answers"], field["firstItemNo"]) == ("detail", "새필드.🎈", 1, 7)


async def test_a_removal_is_confirmed_after_a_look_at_the_numbers(world: ApiWorld) -> None:
    crawl, removal_id = await gone(world)
    shown = (await world.viewer.get(f"{REMOVALS}/{removal_id}")).json
    assert (shown["missing"], shown["told"], shown["stillMissing"]) == (GONE, 30, GONE)
    truth = crawl.world.truth(shown["items"][0]["itemNo"])
    assert truth is None
    assert shown["items"][0]["name"]
    before = await world.all_rows()
    numbers = (await world.admin.post(f"{REMOVALS}/{removal_id}/confirm", dryRun="true")).json
    assert (numbers["dryRun"], numbers["removed"], numbers["stillMissing"]) == (True, 0, GONE)
    assert await world.all_rows() == before
    done = (await world.admin.post(f"{REMOVALS}/{removal_id}/confirm")).json
    assert (done["removed"], done["stillMissing"], done["status"]) == (GONE, 0, "CONFIRMED")
    assert (await world.admin.post(f"{REMOVALS}/{removal_id}/confirm")).status == 409
    assert (await world.admin.post(f"{REMOVALS}/{removal_id}/confirm", dryRun="true")).status == 409
    assert len(await world.viewer.all_pages("/api/v1/products", 10, state="DELETED")) == GONE
    assert "removal.confirm" in {entry.action for entry in await world.api_trail()}


async def test_a_large_removal_goes_in_bounded_steps(world: ApiWorld) -> None:
    _, removal_id = await gone(world, BATCH + 40, BATCH + 20)
    first = (await world.admin.post(f"{REMOVALS}/{removal_id}/confirm", {"steps": 1})).json
    assert (first["removed"], first["stillMissing"], first["status"]) == (BATCH, 20, "HELD")
    rest = (await world.admin.post(f"{REMOVALS}/{removal_id}/confirm", {"steps": 5})).json
    assert (rest["removed"], rest["stillMissing"], rest["status"]) == (20, 0, "CONFIRMED")


async def test_a_removal_is_refused_once(world: ApiWorld) -> None:
    _, removal_id = await gone(world)
    before = await world.all_rows()
    tried = (await world.admin.post(f"{REMOVALS}/{removal_id}/refuse", dryRun="true")).json
    assert (tried["dryRun"], tried["status"]) == (True, "HELD")
    assert await world.all_rows() == before
    refused = (await world.admin.post(f"{REMOVALS}/{removal_id}/refuse")).json
    assert (refused["status"], refused["decidedBy"]) == ("REFUSED", "token:admin@practice")
    assert (await world.admin.post(f"{REMOVALS}/{removal_id}/refuse")).status == 409
    assert await world.viewer.all_pages("/api/v1/products", 10, state="DELETED") == []


@pytest.mark.parametrize("path", [CASES, REMOVALS])
async def test_what_is_not_there_or_cannot_be_read_is_refused(world: ApiWorld, path: str) -> None:
    for status, reply in [
        (404, await world.viewer.get(f"{path}/{UNKNOWN_ID}")),
        (400, await world.viewer.get(f"{path}/no-id")),
        (404, await world.viewer.get(path, sellerId="nobody")),
        (400, await world.viewer.get(path, status="LOST")),
        (401, await world.nobody.get(path)),
        *[(400, await world.viewer.get(path, cursor=cursor)) for cursor in BAD_CURSORS],
    ]:
        assert reply.status == status


@pytest.mark.parametrize(
    "deed", [f"{CASES}/X/release", f"{CASES}/X/drop", f"{REMOVALS}/X/confirm", f"{REMOVALS}/X/refuse"]
)
async def test_a_decision_is_for_those_who_may_and_about_what_is_there(world: ApiWorld, deed: str) -> None:
    before = await world.all_rows()
    assert (await world.viewer.post(deed.replace("X", UNKNOWN_ID))).status == 403
    assert (await world.admin.post(deed.replace("X", UNKNOWN_ID))).status == 404
    assert (await world.admin.post(deed.replace("X", "x"))).status == 400
    if deed.endswith(("release", "confirm")):
        wrong: list[object] = [{"steps": 0}, {"steps": 51}, {"steps": "1"}, {"surprise": 1}, []]
        for body in wrong:
            assert (await world.admin.post(deed.replace("X", UNKNOWN_ID), body)).status == 400
    assert await world.all_rows() == before
