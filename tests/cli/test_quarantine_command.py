"""`sellerwatch quarantine`: what is held and why, taking it in, dropping it, and the drift report."""

from __future__ import annotations

from datetime import datetime

import pytest
from tests.builders import NOW, task_id

from sellerwatch.kernel.ids import ItemNo
from sellerwatch.operations.catalog_changes import BATCH
from sellerwatch.simulator.rendering import Redesign

from .cli_world import ONE, CliWorld, CrawledProducts
from .conftest import refused

PRODUCTS = 25
#: Any UUID does: there is no such case.
NOBODYS = task_id(9)


@pytest.fixture
def renamed(world: CliWorld) -> CrawledProducts:
    """All products of a seller got another name in one run: held."""
    shop = CrawledProducts(world, PRODUCTS)
    shop.crawl()
    for item in shop.items:
        shop.change(item, name=f"{shop.sold(item).name} [특가] 🎁")
    shop.crawl()
    return shop


@pytest.fixture
def redesigned(world: CliWorld) -> CrawledProducts:
    """The marketplace renamed fields: the details of the second run cannot be read, and it pauses."""
    shop = CrawledProducts(world, 60)
    shop.crawl()
    shop.crawl_world.renderer.redesign(Redesign())
    shop.crawl()
    return shop


def case_of(shop: CrawledProducts) -> str:
    (case,) = shop.world.json("quarantine", "list")["content"]
    return str(case["caseId"])


def test_an_empty_quarantine_says_so(world: CliWorld) -> None:
    assert "Nothing is or was in quarantine" in world.said("quarantine", "list")
    assert world.json("quarantine", "list") == {"content": [], "next": None, "limit": 20}
    assert "No unknown field" in world.said("quarantine", "drift")
    assert world.json("quarantine", "drift") == {"content": []}


def test_a_case_says_why_with_a_sample_and_how_much_is_held(renamed: CrawledProducts) -> None:
    world = renamed.world
    (case,) = world.json("quarantine", "list", "--seller", ONE, "--status", "open")["content"]
    assert (case["kind"], case["part"], case["field"], case["status"]) == ("SHARE", "DETAIL", "name", "OPEN")
    assert case["held"] == PRODUCTS
    shown = world.json("quarantine", "show", case["caseId"])
    assert shown["items"] == sorted(renamed.items)[:20]
    assert shown["sampleAfter"] == f"{shown['sampleBefore']} [특가] 🎁"
    assert shown["sampleItemNo"] in renamed.items
    said = world.said("quarantine", "show", case["caseId"])
    for part in ("name changed in too many products", "[특가] 🎁", f"and {PRODUCTS - 20} more", "quarantine release"):
        assert part in said
    assert case["caseId"] in world.said("quarantine", "list")
    assert "All of them: sellerwatch quarantine list" in world.said("quarantine", "list", "--status", "DROPPED")
    assert "no seller nobody" in refused(world("quarantine", "list", "--seller", "nobody"), 1)


def test_products_show_names_the_case_that_holds_a_part(renamed: CrawledProducts) -> None:
    item = str(renamed.items[0])
    (held,) = renamed.world.json("products", "show", item)["held"]
    assert (held["part"], held["status"], held["caseId"]) == ("DETAIL", "HELD", case_of(renamed))
    assert f"sellerwatch quarantine show {case_of(renamed)}" in renamed.world.said("products", "show", item)


def test_a_dry_run_says_what_a_decision_would_do_and_changes_nothing(renamed: CrawledProducts) -> None:
    world, case = renamed.world, case_of(renamed)
    before = world.everything()
    tried = world.json("quarantine", "release", case, "--dry-run")
    assert (tried["dryRun"], tried["taken"], tried["held"], tried["status"]) == (True, 0, PRODUCTS, "OPEN")
    said = world.said("quarantine", "release", case, "--dry-run")
    assert f"{PRODUCTS} parts of {PRODUCTS} would be taken in. Nothing was changed." in said
    assert world.json("quarantine", "drop", case, "--dry-run")["dropped"] == 0
    assert f"{PRODUCTS} held parts would be dropped" in world.said("quarantine", "drop", case, "--dry-run")
    assert world.everything() == before


def test_commands_speak_korean(renamed: CrawledProducts) -> None:
    world, case = renamed.world, case_of(renamed)
    korean = {"LANGUAGE": "ko"}
    for arguments, part in [
        (("quarantine", "list"), "격리 건"),
        (("quarantine", "show", case), "너무 많은 상품의 name 필드가 바뀜"),
        (("quarantine", "release", case, "--dry-run"), f"{PRODUCTS}건을 반영할 수 있습니다"),
        (("products", "show", str(renamed.items[0])), "마지막 이벤트"),
        (("products", "history", str(renamed.items[0])), "변경 이력"),
        (("removals", "list"), "보류된 삭제가 없으며"),
    ]:
        done = world(*arguments, **korean)
        assert done.returncode == 0
        assert part in done.stdout


def test_a_release_takes_everything_in_and_tells_it(renamed: CrawledProducts) -> None:
    world, case = renamed.world, case_of(renamed)
    assert {tuple(renamed.events(item)) for item in renamed.items} == {("PRODUCT_CREATED",)}
    released = world.json("quarantine", "release", case)
    assert (released["status"], released["held"]) == ("RELEASED", 0)
    assert (released["taken"], released["events"], released["unreadable"]) == (PRODUCTS, PRODUCTS, 0)
    for item in renamed.items:
        assert renamed.events(item) == ["PRODUCT_CREATED", "PRODUCT_UPDATED"]
        assert world.json("products", "show", str(item))["productData"] == renamed.truth(item)
    (entry,) = world.trail()
    assert (entry.action, entry.subject_type, entry.subject_id) == ("quarantine.release", "case", case)
    assert [e["action"] for e in world.json("audit", "list", "--subject", f"case:{case}")["content"]] == [
        "quarantine.release"
    ]
    assert "to release it must be OPEN" in refused(world("quarantine", "release", case), 1)


@pytest.mark.parametrize("products", [BATCH, BATCH + 30])
def test_a_release_goes_on_over_more_than_one_step(world: CliWorld, products: int) -> None:
    shop = CrawledProducts(world, products)
    shop.crawl()
    for item in shop.items:
        shop.change(item, name=f"{shop.sold(item).name} 신상")
    shop.crawl()
    said = world.said("quarantine", "release", case_of(shop))
    assert f"{products} parts were taken in, {products} events were written; the case is RELEASED" in said


def test_a_drop_leaves_the_products_and_does_not_hold_the_same_again(renamed: CrawledProducts) -> None:
    world, case = renamed.world, case_of(renamed)
    assert f"{PRODUCTS} held parts were dropped" in world.said("quarantine", "drop", case)
    (entry,) = world.trail()
    assert entry.action == "quarantine.drop"
    assert {tuple(renamed.events(item)) for item in renamed.items} == {("PRODUCT_CREATED",)}
    assert world.json("quarantine", "show", case)["status"] == "DROPPED"
    item = str(renamed.items[0])
    assert "was dropped with the case" in world.said("products", "show", item)
    renamed.crawl()
    assert case_of(renamed) == case
    assert {tuple(renamed.events(item)) for item in renamed.items} == {("PRODUCT_CREATED",)}
    assert "to drop it must be OPEN" in refused(world("quarantine", "drop", case), 1)


def test_what_cannot_be_read_pauses_the_run_which_says_so(redesigned: CrawledProducts) -> None:
    world, case = redesigned.world, case_of(redesigned)
    (run, _) = world.json("executions", "list")["content"]
    shown = world.json("executions", "show", run["executionId"])
    assert (run["status"], shown["foreignItems"]) == ("RUNNING", 0)
    assert "answers that could not be read: " in shown["paused"]
    assert shown["paused"] == shown["waiting"]["message"]
    assert shown["unreadable"][0]["count"] >= 10
    said = world.said("executions", "show", run["executionId"])
    assert "The run is paused; " in said
    due = datetime.fromisoformat(shown["recheckAt"])
    assert f"A few of the answers are read again at {due:%Y-%m-%d %H:%M:%S} UTC" in said
    assert f"sellerwatch quarantine list --seller {ONE}" in said
    assert "cannot be read: ProductInfoModule.itemName: missing" in world.said("quarantine", "show", case)
    korean = [
        world(*what, LANGUAGE="ko").stdout
        for what in (("quarantine", "show", case), ("executions", "show", run["executionId"]))
    ]
    assert all("ProductInfoModule.itemName: 값이 없습니다" in said for said in korean)
    assert not any("missing" in said or "MISSING" in said for said in korean)


def test_a_release_that_still_cannot_be_read_stays_held_with_exit_code_3(redesigned: CrawledProducts) -> None:
    world, case = redesigned.world, case_of(redesigned)
    held = world.json("quarantine", "show", case)["held"]
    released = world.json("quarantine", "release", case, code=3)
    assert (released["status"], released["taken"], released["unreadable"]) == ("OPEN", 0, held)
    done = world("quarantine", "release", case)
    assert done.returncode == 3
    assert f"{held} parts stay held" in done.stdout
    assert world.trail() == []


def test_dropping_lets_a_paused_run_go_on(redesigned: CrawledProducts) -> None:
    world = redesigned.world
    world.said("quarantine", "drop", case_of(redesigned))
    (run, _) = world.json("executions", "list")["content"]
    assert world.json("executions", "show", run["executionId"])["paused"] is None
    redesigned.crawl_world.renderer.redesign(None)
    redesigned.world.wait(redesigned.crawl_world.go_on())
    (run, _) = world.json("executions", "list")["content"]
    assert run["status"] == "COMPLETED"


def test_the_run_shows_what_it_judged_and_which_fields_changed(renamed: CrawledProducts) -> None:
    (run, _) = renamed.world.json("executions", "list")["content"]
    shown = renamed.world.json("executions", "show", run["executionId"])
    assert shown["judged"] == {"DETAIL": PRODUCTS, "MINISHOP": PRODUCTS, "OPTION": PRODUCTS}
    assert shown["changedFields"] == [{"part": "DETAIL", "field": "name", "products": PRODUCTS}]
    assert (shown["paused"], shown["unreadable"]) == (None, [])
    said = renamed.world.said("executions", "show", run["executionId"])
    assert "Changed fields" in said
    assert f"DETAIL {PRODUCTS}" in said


@pytest.mark.parametrize("command", ["show", "release", "drop"])
def test_an_unknown_case_is_one_sentence_and_no_uuid_is_bad_usage(world: CliWorld, command: str) -> None:
    assert f"There is no quarantine case {NOBODYS}. " in refused(world("quarantine", command, NOBODYS), 1)
    assert "UUID" in refused(world("quarantine", command, "x"), 2)


def test_the_drift_report_lists_unknown_fields_with_how_often_they_were_met(world: CliWorld) -> None:
    world.do(lambda tx: tx.drift.note("PRODUCT_DETAIL", ["moduleList[].data.배송예정일"], ItemNo(7), NOW))
    world.do(lambda tx: tx.drift.note("PRODUCT_DETAIL", ["moduleList[].data.배송예정일"], ItemNo(8), NOW))
    (field,) = world.json("quarantine", "drift")["content"]
    assert (field["endpoint"], field["field"]) == ("PRODUCT_DETAIL", "moduleList[].data.배송예정일")
    assert (field["answers"], field["firstItemNo"]) == (2, 7)
    assert "배송예정일" in world.said("quarantine", "drift")
