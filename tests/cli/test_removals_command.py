"""`sellerwatch removals`: products gone from a list, many at once; a person confirms or refuses."""

from __future__ import annotations

import pytest
from tests.builders import task_id

from sellerwatch.kernel.ids import ItemNo
from sellerwatch.operations.catalog_changes import BATCH

from .cli_world import ONE, CliWorld, CrawledProducts
from .conftest import refused

PRODUCTS = 30
GONE = 24
#: Any UUID does: there is no such removal.
NOBODYS = task_id(9)


@pytest.fixture
def shop(world: CliWorld) -> CrawledProducts:
    return CrawledProducts(world, PRODUCTS)


@pytest.fixture
def gone(shop: CrawledProducts) -> list[ItemNo]:
    """Most products of the seller left its list at once."""
    shop.crawl()
    leaving = sorted(shop.items)[:GONE]
    for item in leaving:
        shop.crawl_world.world.vanish(item)
    shop.crawl()
    return leaving


def held(shop: CrawledProducts) -> str:
    (removal,) = shop.world.json("removals", "list", "--status", "HELD")["content"]
    return str(removal["removalId"])


def test_with_nothing_held_the_list_says_so(world: CliWorld) -> None:
    assert "No removal is or was held" in world.said("removals", "list")
    assert world.json("removals", "list") == {"content": [], "next": None, "limit": 20}


def test_a_held_removal_says_how_many_and_names_the_first(shop: CrawledProducts, gone: list[ItemNo]) -> None:
    world = shop.world
    (removal,) = world.json("removals", "list", "--seller", ONE)["content"]
    assert (removal["reason"], removal["status"]) == ("MANY", "HELD")
    assert (removal["missing"], removal["told"]) == (GONE, PRODUCTS)
    assert {tuple(shop.events(item)) for item in gone} == {("PRODUCT_CREATED",)}
    shown = world.json("removals", "show", removal["removalId"])
    assert shown["stillMissing"] == GONE
    assert [item["itemNo"] for item in shown["items"]] == gone[:20]
    name = world.json("products", "show", str(gone[0]))["name"]
    assert shown["items"][0]["name"] == name
    said = world.said("removals", "show", removal["removalId"])
    for part in (f"{GONE} of {PRODUCTS}", f"The first 20 of {GONE}", name[:20], "removals confirm", "removals refuse"):
        assert part in said
    assert removal["removalId"] in world.said("removals", "list")
    assert "All of them: sellerwatch removals list" in world.said("removals", "list", "--status", "REFUSED")
    assert "no seller nobody" in refused(world("removals", "list", "--seller", "nobody"), 1)


def test_a_dry_run_changes_nothing(shop: CrawledProducts, gone: list[ItemNo]) -> None:
    world, removal = shop.world, held(shop)
    before = world.everything()
    answer = world.json("removals", "confirm", removal, "--dry-run")
    assert (answer["dryRun"], answer["removed"], answer["stillMissing"]) == (True, 0, GONE)
    assert f"{GONE} products would get a PRODUCT_DELETED event. Nothing was changed." in world.said(
        "removals", "confirm", removal, "--dry-run"
    )
    assert world.everything() == before


def test_confirmed_products_are_told_as_gone_and_it_is_on_the_trail(shop: CrawledProducts, gone: list[ItemNo]) -> None:
    world, removal = shop.world, held(shop)
    answer = world.json("removals", "confirm", removal)
    assert (answer["status"], answer["removed"], answer["stillMissing"]) == ("CONFIRMED", GONE, 0)
    assert {tuple(shop.events(item)) for item in gone} == {("PRODUCT_CREATED", "PRODUCT_DELETED")}
    assert {tuple(shop.events(item)) for item in shop.items} == {("PRODUCT_CREATED",)}
    (entry,) = world.trail()
    assert (entry.action, entry.subject_type, entry.subject_id) == ("removal.confirm", "removal", removal)
    listed = world.json("products", "list", "--state", "DELETED", "--limit", "100")["content"]
    assert sorted(product["itemNo"] for product in listed) == gone
    shown = world.json("products", "show", str(gone[0]))
    assert (shown["state"], shown["productData"]["itemNo"]) == ("DELETED", gone[0])
    assert "PRODUCT_DELETED" in world.said("products", "history", str(gone[0]))
    assert world.json("products", "diff", str(gone[0]))["toVersion"] == 1
    assert "to confirm it must be HELD" in refused(world("removals", "confirm", removal), 1)
    assert "to confirm it must be HELD" in refused(world("removals", "confirm", removal, "--dry-run"), 1)


@pytest.mark.parametrize("number", [BATCH, BATCH + 10])
def test_a_confirmation_goes_on_over_more_than_one_step(world: CliWorld, number: int) -> None:
    shop = CrawledProducts(world, BATCH + 20)
    shop.crawl()
    for item in shop.items[:number]:
        shop.crawl_world.world.vanish(item)
    shop.crawl()
    said = world.said("removals", "confirm", held(shop))
    assert f"{number} products of {ONE} got a PRODUCT_DELETED event; the removal is CONFIRMED" in said


def test_a_dry_run_of_a_refusal_changes_nothing(shop: CrawledProducts, gone: list[ItemNo]) -> None:
    world, removal = shop.world, held(shop)
    before = world.everything()
    assert world.json("removals", "refuse", removal, "--dry-run")["dryRun"] is True
    said = world.said("removals", "refuse", removal, "--dry-run")
    assert f"{len(gone)} products of {ONE} would stay in the catalogue" in said
    assert world.everything() == before


def test_refused_products_stay_and_are_asked_about_again(shop: CrawledProducts, gone: list[ItemNo]) -> None:
    world, removal = shop.world, held(shop)
    assert "no event was written" in world.said("removals", "refuse", removal)
    (entry,) = world.trail()
    assert entry.action == "removal.refuse"
    assert {tuple(shop.events(item)) for item in gone} == {("PRODUCT_CREATED",)}
    assert "to refuse it must be HELD" in refused(world("removals", "refuse", removal), 1)
    shop.crawl()
    assert held(shop) != removal


@pytest.mark.parametrize("command", ["show", "confirm", "refuse"])
def test_an_unknown_removal_is_one_sentence_and_no_uuid_is_bad_usage(world: CliWorld, command: str) -> None:
    assert f"There is no removal {NOBODYS}. " in refused(world("removals", command, NOBODYS), 1)
    assert "UUID" in refused(world("removals", command, "x"), 2)
