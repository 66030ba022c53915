"""`sellerwatch products resync` and `sellerwatch resyncs`: the present state of products, sent again."""

from __future__ import annotations

import pytest
from tests.builders import task_id

from .cli_world import ONE, CliWorld, CrawledProducts
from .conftest import refused

PRODUCTS = 3
NOBODYS = task_id(9)


@pytest.fixture
def crawled(office: CliWorld) -> CrawledProducts:
    shop = CrawledProducts(office, PRODUCTS)
    shop.crawl()
    return shop


def test_without_a_resync_or_a_product_commands_say_so(office: CliWorld) -> None:
    assert "No resync was ever asked for" in office.said("resyncs", "list")
    assert "nothing to send again" in refused(office("products", "resync"), 1)
    assert "no seller nobody" in refused(office("products", "resync", "--seller", "nobody"), 1)
    assert f"There is no resync {NOBODYS}" in refused(office("resyncs", "show", NOBODYS), 1)
    assert "is not a valid" in refused(office("resyncs", "cancel", "x"), 2)


def test_a_dry_run_says_in_numbers_what_would_be_sent_and_changes_nothing(crawled: CrawledProducts) -> None:
    office = crawled.office
    before = office.everything()
    found = office.json("products", "resync", "--dry-run")
    assert (found["dryRun"], found["resyncId"], found["products"], found["deleted"]) == (True, None, PRODUCTS, 0)
    assert (found["leftOut"], found["held"], found["sellerId"], found["since"]) == (0, 0, None, None)
    said = office.said("products", "resync", "--seller", ONE, "--dry-run")
    assert f"{PRODUCTS} snapshots would be sent, 0 of them of deleted products. Nothing was changed." in said
    assert "nothing to send again" in refused(office("products", "resync", "--since", "2099-01-01"), 1)
    assert office.everything() == before


def test_a_resync_is_asked_for_once_shown_and_cancelled(crawled: CrawledProducts) -> None:
    office = crawled.office
    said = office.said("products", "resync", "--seller", ONE)
    (listed,) = office.json("resyncs", "list")["content"]
    resync = listed["resyncId"]
    assert f"sellerwatch resyncs show {resync}" in said
    assert (listed["status"], listed["written"], listed["total"], listed["sellerId"]) == ("RUNNING", 0, PRODUCTS, ONE)
    assert f"Resync {resync} of these products is not finished" in refused(
        office("products", "resync", "--seller", ONE), 1
    )
    shown = office.json("resyncs", "show", resync)
    assert (shown["waiting"], shown["progressRate"], shown["requestedBy"].partition(":")[0]) == (0, 0.0, "cli")
    assert f"0 / {PRODUCTS}" in office.said("resyncs", "show", resync)
    assert "Nothing was changed" in office.said("resyncs", "cancel", resync, "--dry-run")
    assert "The resync is cancelled" in office.said("resyncs", "cancel", resync)
    assert "CANCELLED" in refused(office("resyncs", "cancel", resync), 1)
    assert [entry.action for entry in office.trail()[:2]] == ["resync.cancel", "resync.start"]
    assert resync in office.said("resyncs", "list", "--status", "CANCELLED")
    assert "No resync matches" in office.said("resyncs", "list", "--status", "RUNNING")


def test_products_are_listed_by_their_changes(crawled: CrawledProducts) -> None:
    office = crawled.office
    item = crawled.items[0]
    found = office.json("products", "list", "--updated-since", "2020-01-01")["content"]
    assert sorted(product["itemNo"] for product in found) == sorted(crawled.items)
    assert {product["itemNo"]: product["productData"] for product in found}[item] == crawled.truth(item)
    assert office.json("products", "list", "--updated-since", "2099-01-01")["content"] == []
    assert "is not a time" in refused(office("products", "list", "--updated-since", "soon"), 2)
