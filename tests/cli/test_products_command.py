"""`sellerwatch products`: what is known, how it came to be so, and what it was read from."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from dataclasses import replace

import orjson
import pytest
from tests.builders import a_product

from sellerwatch.catalog.history import states
from sellerwatch.catalog.ports import RawPart
from sellerwatch.catalog.product import PartType
from sellerwatch.kernel.ids import ItemNo

from .cli_world import AWKWARD, NOW, ONE, TWO, CliWorld, CrawledProducts
from .conftest import clean_environment, refused


@pytest.fixture
def shop(world: CliWorld) -> CrawledProducts:
    return CrawledProducts(world)


@pytest.fixture
def crawled(shop: CrawledProducts) -> CrawledProducts:
    """Three products told; the first of them has an awkward name and changed its price and stock in a second run."""
    first = shop.items[0]
    shop.change(first, name=AWKWARD)
    shop.crawl()
    sold = shop.sold(first)
    shop.change(
        first, stock=sold.stock + 5, sold_out=False, prices=replace(sold.prices, selling=sold.prices.selling - 1000)
    )
    shop.crawl()
    return shop


def test_an_empty_catalogue_says_what_fills_it(world: CliWorld) -> None:
    assert "sellerwatch crawl SELLER_ID" in world.said("products", "list")
    assert world.json("products", "list") == {"content": [], "next": None, "limit": 20, "nextCursor": None}


def test_the_list_goes_page_by_page_and_is_narrowed(crawled: CrawledProducts) -> None:
    world = crawled.world
    first = world.json("products", "list", "--limit", "2")
    rest = world.json("products", "list", "--limit", "2", "--after", str(first["nextCursor"]))
    listed = [product["itemNo"] for product in (*first["content"], *rest["content"])]
    assert sorted(listed) == sorted(crawled.items)
    assert rest["nextCursor"] is None
    assert world.json("products", "list", "--limit", "2", "--after", first["next"]) == rest
    assert "cursor" in refused(world("products", "list", "--after", "x"), 2)
    assert {product["state"] for product in first["content"]} == {"COMPLETE"}
    assert AWKWARD in [product["name"] for product in (*first["content"], *rest["content"])]
    assert f"--after {first['nextCursor']}" in world.said("products", "list", "--limit", "2")
    assert world.json("products", "list", "--seller", TWO)["content"] == []
    assert "All of them: sellerwatch products list" in world.said("products", "list", "--state", "deleted")
    assert "no seller nobody" in refused(world("products", "list", "--seller", "nobody"), 1)


def test_a_product_is_found_by_a_piece_of_its_name(crawled: CrawledProducts) -> None:
    world, first = crawled.world, crawled.items[0]
    for piece in ("[명품]", "럭셔리", AWKWARD):
        found = world.json("products", "list", "--search", piece)["content"]
        assert [product["itemNo"] for product in found] == [first]
    assert world.json("products", "list", "--search", "%")["content"] == []
    assert "No product matches" in world.said("products", "list", "--search", "없는 이름")


def test_show_says_what_is_known_and_what_became_of_the_last_event(crawled: CrawledProducts) -> None:
    item = crawled.items[0]
    shown = crawled.world.json("products", "show", str(item))
    assert shown["productData"] == crawled.truth(item)
    assert (shown["sellerId"], shown["state"], shown["version"], shown["problem"]) == (ONE, "COMPLETE", 2, None)
    assert (shown["lastEvent"]["eventType"], shown["lastEvent"]["status"]) == ("PRODUCT_UPDATED", "COMPLETED")
    assert shown["held"] == []
    said = crawled.world.said("products", "show", str(item))
    truth = crawled.truth(item)
    for part in (
        '럭셔리 "코트", [명품] 🧥',
        truth["brand"]["name"],
        f"selling {truth['prices']['selling']:,}",
        "COMPLETED",
    ):
        assert part in said
    assert shown["detailHash"][:8] in said
    assert shown["detailHash"] not in said
    assert all(str(option["optionNo"]) in said for option in truth["options"])
    assert f"sellerwatch products diff {item}" in said


def test_a_product_of_which_little_is_known_is_shown_as_far_as_it_is(shop: CrawledProducts) -> None:
    lone = a_product()
    shop.world.do(lambda tx: tx.products.add([lone]))
    shown = shop.world.json("products", "show", str(lone.item_no))
    assert (shown["state"], shown["productData"], shown["lastEvent"]) == ("INCOMPLETE", None, None)
    assert "Nothing of it has been read yet" in shop.world.said("products", "show", str(lone.item_no))
    assert "it is INCOMPLETE" in shop.world.said("products", "history", str(lone.item_no))
    assert "it is INCOMPLETE" in shop.world.said("products", "diff", str(lone.item_no))
    assert "no version 1" in refused(shop.world("products", "diff", str(lone.item_no), "--to", "1"), 1)
    assert "no such stored body" in refused(shop.world("products", "raw", str(lone.item_no)), 1)


def test_a_body_that_todays_parser_cannot_read_shows_what_was_told(crawled: CrawledProducts) -> None:
    item = crawled.items[0]
    told = crawled.world.json("products", "show", str(item))["productData"]
    spoil(crawled, item, b'{"moduleList":[]}')
    shown = crawled.world.json("products", "show", str(item))
    assert shown["productData"] == told
    assert "cannot be read" in shown["problem"]
    assert "Shown as in its last event" in crawled.world.said("products", "show", str(item))


@pytest.mark.parametrize("command", ["show", "history", "diff", "raw"])
def test_an_unknown_item_is_one_sentence_and_no_number_is_bad_usage(world: CliWorld, command: str) -> None:
    assert "There is no product 7. `sellerwatch products list`" in refused(world("products", command, "7"), 1)
    for given in ("x", "-0", "0", "1.5", "٣", "9" * 40, str(2**63)):
        assert "positive whole number" in refused(world("products", command, "--", given), 2)


def test_the_history_has_every_state_and_its_run_and_replays_to_now(crawled: CrawledProducts) -> None:
    item = crawled.items[0]
    created, updated = crawled.world.json("products", "history", str(item))["content"]
    assert (created["eventType"], created["version"]) == ("PRODUCT_CREATED", 1)
    assert (updated["eventType"], updated["version"]) == ("PRODUCT_UPDATED", 2)
    assert created["executionId"] != updated["executionId"]
    kinds = {change["field"]: change["kind"] for change in updated["changes"]}
    assert kinds["prices.selling"] == "price"
    assert kinds["stock"] == "stock"
    said = crawled.world.said("products", "history", str(item))
    assert f"all of it ({len(created['changes'])} fields)" in said
    selling = crawled.truth(item)["prices"]["selling"]
    assert f"{selling + 1000} → {selling}" in said
    product_id = crawled.product(item).product_id
    entries = crawled.world.see(lambda tx: tx.history.of_product(product_id))
    assert list(states(entries))[-1][1] == crawled.truth(item)


def test_diff_shows_the_last_change_or_any_two_versions(crawled: CrawledProducts) -> None:
    world, item = crawled.world, str(crawled.items[0])
    last = world.json("products", "diff", item)
    assert (last["fromVersion"], last["toVersion"]) == (1, 2)
    assert "prices.selling" in [change["field"] for change in last["changes"]]
    assert world.json("products", "diff", item, "--from", "1", "--to", "2") == last
    assert world.json("products", "diff", item, "--to", "2") == last
    assert world.json("products", "diff", item, "--from", "1") == last
    back = world.json("products", "diff", item, "--from", "2", "--to", "1")["changes"]
    assert [(c["field"], c["after"], c["before"]) for c in back] == [
        (c["field"], c["before"], c["after"]) for c in last["changes"]
    ]
    whole = world.json("products", "diff", item, "--from", "0", "--to", "1")["changes"]
    assert {"name", "prices", "brand"} <= {change["field"] for change in whole}
    selling = crawled.truth(crawled.items[0])["prices"]["selling"]
    said = world.said("products", "diff", item).splitlines()
    assert said[said.index("prices.selling  price") + 1 :][:2] == [f"  - {selling + 1000}", f"  + {selling}"]
    known = refused(world("products", "diff", item, "--to", "9"), 1)
    assert known == f"Item {item} has no version 9 in its history; it has 1 to 2."


def test_long_texts_and_lists_are_shown_where_they_differ(crawled: CrawledProducts) -> None:
    item = crawled.items[1]
    crawled.change(item, name="x" * 300 + "끝", tags=("신상", "세일"))
    crawled.crawl()
    crawled.change(item, name="x" * 300 + "다른 끝", tags=("세일", "한정 🎁"))
    crawled.crawl()
    said = crawled.world.said("products", "diff", str(item))
    for line in (f"  - …{'x' * 20}끝", f"  + …{'x' * 20}다른 끝", "  - 신상", "  + 한정 🎁"):
        assert line in said.splitlines()
    crawled.change(item, tags=("한정 🎁", "세일"))
    crawled.crawl()
    assert "same values in another order" in crawled.world.said("products", "diff", str(item))


def test_raw_gives_the_bytes_as_they_came(crawled: CrawledProducts) -> None:
    world, item = crawled.world, crawled.items[0]
    product_id = crawled.product(item).product_id
    newest, oldest = world.see(lambda tx: tx.bodies.bodies_of(product_id, PartType.DETAIL, 10))
    given = str(item)
    assert world("products", "raw", given, "--part", "detail").stdout.encode() == newest.body
    assert world("products", "raw", given, "--part", "detail", "--json").stdout.encode() == newest.body
    before = world("products", "raw", given, "--part", "detail", "--version-number", "2")
    assert before.stdout.encode() == oldest.body
    every = world("products", "raw", given, "--part", "detail", "--all").stdout.encode()
    assert every == newest.body + b"\n" + oldest.body + b"\n"
    parts = world.json("products", "raw", given)["content"]
    assert [part["part"] for part in parts] == ["list", "detail", "options"]
    assert parts[1]["body"] == orjson.loads(newest.body)
    gone = refused(world("products", "raw", given, "--part", "detail", "--version-number", "9"), 1)
    assert "there are 2 of detail" in gone


def test_on_a_terminal_raw_is_readable(crawled: CrawledProducts) -> None:
    said = on_a_terminal(crawled.world, "products", "raw", str(crawled.items[0]), "--part", "options")
    assert said.startswith("options, stored ")
    body = json.loads(said.split("UTC", 1)[1])
    assert {option["optionNo"] for option in crawled.truth(crawled.items[0])["options"]} <= {
        number for option in body for number in option.values() if isinstance(number, int)
    }


def test_reading_again_with_the_same_parser_changes_nothing(crawled: CrawledProducts) -> None:
    before = crawled.world.everything()
    found = crawled.world.json("products", "reparse")
    assert (found["read"], found["differing"], found["events"], found["fields"]) == (3, 0, 0, [])
    assert crawled.world.everything() == before
    assert "3 products were read again: 0 differ" in crawled.world.said("products", "reparse", "--seller", ONE)
    assert "no seller nobody" in refused(crawled.world("products", "reparse", "--seller", "nobody"), 1)


def test_what_another_reading_would_change_is_shown_before_it_is_made(crawled: CrawledProducts) -> None:
    world, item = crawled.world, crawled.items[0]
    crawled.change(item, name="다시 읽은 이름")
    spoil(crawled, item, crawled.crawl_world.renderer.detail(crawled.sold(item)))
    before = world.everything()
    found = world.json("products", "reparse", "--dry-run")
    assert (found["dryRun"], found["differing"], found["events"]) == (True, 1, 0)
    (field,) = found["fields"]
    assert (field["field"], field["products"]) == ("name", 1)
    assert (field["sample"]["itemNo"], field["sample"]["before"]) == (item, AWKWARD)
    assert "→ 다시 읽은 이름" in world.said("products", "reparse", "--dry-run")
    assert world.everything() == before
    assert world.json("products", "reparse")["events"] == 1
    assert crawled.events(item) == ["PRODUCT_CREATED", "PRODUCT_UPDATED", "PRODUCT_UPDATED"]
    assert [entry.action for entry in world.trail()] == ["products.reparse"]
    assert world.json("products", "reparse")["differing"] == 0


def test_bodies_that_cannot_be_read_again_are_named_and_the_exit_code_says_so(crawled: CrawledProducts) -> None:
    item = crawled.items[0]
    spoil(crawled, item, b'{"moduleList":[]}')
    found = crawled.world.json("products", "reparse", code=3)
    assert (found["read"], found["unreadable"], found["events"]) == (3, 1, 0)
    assert found["problems"][0]["itemNo"] == item
    done = crawled.world("products", "reparse", "--dry-run")
    assert done.returncode == 3
    assert f"Item {item} cannot be read" in done.stdout


def spoil(shop: CrawledProducts, item: ItemNo, body: bytes) -> None:
    """A detail in the archive that was not absorbed: as if another parser had read it."""
    product_id = shop.product(item).product_id
    shop.world.do(lambda tx: tx.bodies.keep_raw([RawPart(product_id, PartType.DETAIL, "0" * 32, body, NOW)]))


def on_a_terminal(world: CliWorld, *arguments: str) -> str:
    """What a person sees on standard output."""
    ours, theirs = pty.openpty()
    environment = clean_environment(DATABASE_URL=f"sqlite:///{world.file}")
    process = subprocess.Popen(
        [sys.executable, "-m", "sellerwatch", *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.PIPE,
    )
    os.close(theirs)
    said = b""
    with process:
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:
                break
            if not piece:
                break
            said += piece
    os.close(ours)
    assert process.returncode == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", said.decode().replace("\r\n", "\n"))


def test_products_are_read_again_by_a_run_of_their_own_and_an_unknown_one_is_refused(world: CliWorld) -> None:
    shop = CrawledProducts(world, 3)
    shop.crawl()
    before = world.everything()
    first, second, *_ = map(str, shop.items)
    said = world.said("products", "refresh", first, second, "--dry-run")
    assert "2 products would be read again with 4 requests. Nothing was changed." in said
    assert "no product 1" in refused(world("products", "refresh", first, "1"), 1).lower()
    assert "must be a positive whole number" in refused(world("products", "refresh", "one"), 2)
    assert world.everything() == before
    found = world.json("products", "refresh", first)
    [run] = found["runs"]
    assert (found["products"], found["tasks"], run["itemNos"]) == (1, 2, [int(first)])
    assert world.json("executions", "show", run["executionId"])["refreshedProducts"] == 1
    assert "(refresh)" in world.said("executions", "list", "--limit", "1"), "no run of the whole seller"
