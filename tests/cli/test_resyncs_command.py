"""`sellerwatch products resync` and `sellerwatch resyncs`: the present state of products, sent again."""

from __future__ import annotations

import pytest
from tests.builders import task_id

from .cli_world import ONE, CliWorld, CrawledProducts
from .conftest import refused

PRODUCTS = 3
NOBODYS = task_id(9)


@pytest.fixture
def crawled(world: CliWorld) -> CrawledProducts:
    shop = CrawledProducts(world, PRODUCTS)
    shop.crawl()
    return shop


def test_without_a_resync_or_a_product_commands_say_so(world: CliWorld) -> None:
    assert "No resync was ever asked for" in world.said("resyncs", "list")
    assert "nothing to send again" in refused(world("products", "resync"), 1)
    assert "no seller nobody" in refused(world("products", "resync", "--seller", "nobody"), 1)
    assert f"There is no resync {NOBODYS}" in refused(world("resyncs", "show", NOBODYS), 1)
    assert "is not a valid" in refused(world("resyncs", "cancel", "x"), 2)


def test_a_dry_run_says_in_numbers_what_would_be_sent_and_changes_nothing(crawled: CrawledProducts) -> None:
    world = crawled.world
    before = world.everything()
    found = world.json("products", "resync", "--dry-run")
    assert (found["dryRun"], found["resyncId"], found["products"], found["deleted"]) == (True, None, PRODUCTS, 0)
    assert (found["leftOut"], found["held"], found["sellerId"], found["since"]) == (0, 0, None, None)
    said = world.said("products", "resync", "--seller", ONE, "--dry-run")
    assert f"{PRODUCTS} snapshots would be sent, 0 of them of deleted products. Nothing was changed." in said
    assert "nothing to send again" in refused(world("products", "resync", "--since", "2099-01-01"), 1)
    assert world.everything() == before


def test_a_resync_is_asked_for_once_shown_and_cancelled(crawled: CrawledProducts) -> None:
    world = crawled.world
    said = world.said("products", "resync", "--seller", ONE)
    (listed,) = world.json("resyncs", "list")["content"]
    resync = listed["resyncId"]
    assert f"sellerwatch resyncs show {resync}" in said
    assert (listed["status"], listed["written"], listed["total"], listed["sellerId"]) == ("RUNNING", 0, PRODUCTS, ONE)
    assert f"Resync {resync} of these products is not finished" in refused(
        world("products", "resync", "--seller", ONE), 1
    )
    shown = world.json("resyncs", "show", resync)
    assert (shown["waiting"], shown["progressRate"], shown["requestedBy"].partition(":")[0]) == (0, 0.0, "cli")
    assert f"0 / {PRODUCTS}" in world.said("resyncs", "show", resync)
    assert "Nothing was changed" in world.said("resyncs", "cancel", resync, "--dry-run")
    assert "The resync is cancelled" in world.said("resyncs", "cancel", resync)
    assert "CANCELLED" in refused(world("resyncs", "cancel", resync), 1)
    assert [entry.action for entry in world.trail()[:2]] == ["resync.cancel", "resync.start"]
    assert resync in world.said("resyncs", "list", "--status", "CANCELLED")
    assert "No resync matches" in world.said("resyncs", "list", "--status", "RUNNING")


def test_products_are_listed_by_their_changes(crawled: CrawledProducts) -> None:
    world = crawled.world
    item = crawled.items[0]
    found = world.json("products", "list", "--updated-since", "2020-01-01")["content"]
    assert sorted(product["itemNo"] for product in found) == sorted(crawled.items)
    assert {product["itemNo"]: product["productData"] for product in found}[item] == crawled.truth(item)
    assert world.json("products", "list", "--updated-since", "2099-01-01")["content"] == []
    assert "is not a time" in refused(world("products", "list", "--updated-since", "soon"), 2)
