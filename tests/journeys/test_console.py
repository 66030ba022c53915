"""People at the console, in a real browser: what they press, and what the eye would check afterwards."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.cli.conftest import clean_environment
from tests.journeys.browser import PASSWORD, PHONE, ConsoleInBrowser, grave_findings, latin_words, opened_console, shot

from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.catalog.product import PartType
from sellerwatch.catalog.quarantine import Case, CaseKind
from sellerwatch.catalog.removal import Removal, RemovalReason
from sellerwatch.kernel.ids import CaseId, RemovalId, SellerId
from sellerwatch.simulator.product_server import ServerBehaviour

FORGET_A_PART = """
UPDATE products SET detail_read_at = NULL WHERE item_no = (
    SELECT MIN(item_no) FROM products WHERE seller_id = :seller_id)
"""
#: Words that are the same in every language, and what sellers are called here.
NAMES = {"seller", "Sellerwatch", "English", "API", "CSV", "JSON", "HTTP", "ID", "UTC"}


@pytest.fixture(scope="module")
def whole_console(migrated_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleInBrowser]:
    with opened_console(migrated_template, tmp_path_factory.mktemp("console")) as made:
        yield made


@pytest.fixture
def console(whole_console: ConsoleInBrowser) -> Iterator[ConsoleInBrowser]:
    """No journey leaves a complaint of the browser behind: no script that failed, nothing the policy kept out."""
    whole_console.wrongs.clear()
    whole_console.simulator.product_server.behave(ServerBehaviour())
    yield whole_console
    assert whole_console.wrongs == []


def crawl(page: Page, seller: str) -> None:
    """Press “Start run” and watch it to its end; the page is never loaded again."""
    page.goto(f"/sellers/{seller}")
    page.get_by_role("button", name="Start run").click()
    expect(page.get_by_role("heading", name=f"Run of {seller}")).to_be_visible()
    page.evaluate("window.stayed = true")
    expect(page.locator("#live .head .pill")).to_have_text("completed")
    assert page.evaluate("window.stayed") is True


def known(console: ConsoleInBrowser, seller: str) -> None:
    """A seller that is registered already."""
    console.wait(console.world.register([SellerId(seller)], "가게"))


def test_the_first_log_in_chooses_a_password_of_its_own(console: ConsoleInBrowser) -> None:
    page = console.page()
    page.goto("/")
    expect(page.get_by_role("heading", name="Sellerwatch")).to_be_visible()
    shot(page, "login")
    page.get_by_label("User").fill("admin")
    page.get_by_label("Password").fill(console.first_password)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Choose a password")).to_be_visible()
    page.get_by_label("Current password").fill(console.first_password)
    page.get_by_label("New password").fill("a horse of my own")
    page.get_by_role("button", name="Save and log in").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    expect(page.locator(".who strong")).to_have_text("admin")
    expect(page.locator(".pulse")).to_have_text("live")
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("Password")).to_be_visible()
    page.goto("/sellers")
    expect(page.get_by_label("Password")).to_be_visible()


def test_a_seller_is_registered_run_and_watched_to_its_end(console: ConsoleInBrowser) -> None:
    page = console.page()
    console.log_in(page)
    page.keyboard.press("g")
    page.keyboard.press("s")
    expect(page.get_by_role("heading", name="Sellers")).to_be_visible()
    page.get_by_role("link", name="Register seller").click()
    page.get_by_label("Seller id").fill("seller_0001")
    page.get_by_label("Name").fill("럭셔리하우스")
    page.get_by_label("Every").fill("6")
    page.get_by_label("Unit").select_option("HOURS")
    page.get_by_role("button", name="Register seller").click()
    expect(page.locator(".toast")).to_contain_text("Registered: 럭셔리하우스.")
    expect(page.get_by_text("every 6 hours")).to_be_visible()
    page.get_by_role("button", name="Start run").click()
    bar = page.locator("#live progress").first
    expect(page.locator("#live .head .pill")).to_have_text("running")
    page.evaluate("window.stayed = true")
    shot(page, "run-going")
    expect(page.locator("#live .head .pill")).to_have_text("completed")
    assert page.evaluate("window.stayed") is True
    expect(page.locator("#progress-numbers")).to_have_text("121 of 121 tasks finished (100.0 %)")
    assert bar.evaluate("bar => bar.value === bar.max")
    shot(page, "run-over")
    page.goto("/products?seller=seller_0001")
    expect(page.locator("#table-products tbody tr")).to_have_count(25)
    page.goto("/outbox")
    expect(page.locator("#state dl")).to_contain_text("completed")


def test_a_products_difference_is_seen_after_a_change_and_its_whole_story_told(console: ConsoleInBrowser) -> None:
    page = console.page()
    console.log_in(page)
    known(console, "seller_0002")
    crawl(page, "seller_0002")
    item = int(console.simulator.world.listing("seller_0002", 0, 1)[0])
    before = (console.simulator.world.truth(item) or {})["prices"]["selling"]
    console.simulator.world.change(item, random.Random(1), "reprice")
    after = (console.simulator.world.truth(item) or {})["prices"]["selling"]
    crawl(page, "seller_0002")
    page.goto("/products")
    page.get_by_label("Item number").fill(str(item))
    page.get_by_role("button", name="Apply").click()
    change = page.locator("table.diff tr", has_text="prices.selling").first
    expect(change.locator("del")).to_have_text(f"{before:,}")
    expect(change.locator("ins")).to_have_text(f"{after:,}")
    colours = [
        change.locator(cell).evaluate("cell => getComputedStyle(cell).backgroundColor") for cell in ("td.was", "td.is")
    ]
    assert len({*colours, "rgba(0, 0, 0, 0)"}) == 3
    shot(page, "difference")
    page.get_by_role("link", name="Why?").first.click()
    steps = [step.get_attribute("data-step") for step in page.locator(".story > li").all()]
    assert steps == ["schedule", "started", "run", "task", "asked", "task", "asked", "changed", "event", "attempt"]
    expect(page.locator("[data-step=started]")).to_contain_text("console:minji")
    expect(page.locator("[data-step=attempt]")).to_contain_text("answered 200")
    shot(page, "why")


def test_an_event_that_failed_is_replayed_after_a_look_at_what_will_happen(console: ConsoleInBrowser) -> None:
    page = console.page()
    console.log_in(page)
    known(console, "seller_0003")
    crawl(page, "seller_0003")
    for item in console.simulator.world.listing("seller_0003", 0, 2):
        console.simulator.world.change(item, random.Random(1), "reprice")
    console.simulator.product_server.check_signatures([f"whsec_{'A' * 32}"])
    crawl(page, "seller_0003")
    page.goto("/")
    need = page.locator("#needs li", has_text="events could not be delivered")
    expect(need).to_contain_text("2 events")
    console.simulator.product_server.check_signatures([])
    shot(page, "needs-you")
    need.get_by_role("link").click()
    expect(page.locator("#table-messages tbody tr")).to_have_count(2)
    page.get_by_role("link", name="Replay 2 failed messages").click()
    dialog = page.locator("#dialog")
    expect(dialog).to_contain_text("2 messages about 2 subjects would be sent again")
    expect(dialog).to_contain_text("From 1 seller.")
    shot(page, "replay-preview")
    dialog.get_by_role("button", name="Replay messages").click()
    expect(page.locator(".toast")).to_contain_text("2 messages are being sent again.")
    expect(page.locator("#state dl")).to_contain_text(re.compile(r"failed\s*0"))
    page.goto("/")
    expect(page.locator("#needs")).not_to_contain_text("could not be delivered")


def test_an_agent_is_suspended_and_recovered(console: ConsoleInBrowser) -> None:
    page = console.page()
    console.log_in(page)
    page.goto("/agents")
    page.locator(".heat a", has_text="#42").click()
    expect(page.get_by_role("heading", name="Agent #42")).to_be_visible()
    page.get_by_role("link", name="Suspend agent").click()
    dialog = page.locator("#dialog")
    expect(dialog).to_contain_text("99 of 100 agents stay available")
    dialog.get_by_label("Hours").fill("2")
    dialog.get_by_label("Reason").fill("looking into a complaint")
    dialog.get_by_role("button", name="Suspend agent").click()
    expect(page.locator(".toast")).to_contain_text("Agent #42 was suspended.")
    expect(page.locator("#live .head .pill")).to_have_text("suspended")
    expect(page.locator(".problem")).to_contain_text("looking into a complaint")
    shot(page, "agent-suspended")
    page.goto("/agents")
    expect(page.locator(".heat a.out")).to_contain_text("#42")
    shot(page, "agents")
    page.goto("/agents/42")
    page.get_by_role("button", name="Recover agent").click()
    expect(page.locator("#live .head .pill")).to_have_text("available")
    expect(page.locator("#table-audit tbody tr").first).to_contain_text("agent recovered")


def test_a_mass_removal_waits_until_it_is_confirmed(console: ConsoleInBrowser) -> None:
    page = console.page()
    console.log_in(page)
    known(console, "seller_0004")
    crawl(page, "seller_0004")
    shop = console.simulator.world
    gone = [int(item) for item in shop.listing("seller_0004", 0, 30)]
    for item in gone:
        shop.vanish(item)
    crawl(page, "seller_0004")
    page.goto("/")
    page.locator("#needs li", has_text="mass removal awaits review").get_by_role("link").click()
    page.locator("#table-removals tbody a").first.click()
    expect(page.get_by_text("30 of 60 products were missing from a complete list.")).to_be_visible()
    shot(page, "removal")
    page.get_by_role("link", name="Confirm removal").click()
    dialog = page.locator("#dialog")
    expect(dialog).to_contain_text("30 of 60 products (50 %) are marked as deleted.")
    dialog.get_by_role("button", name="Confirm removal").click()
    expect(page.locator(".toast")).to_contain_text("30 products were marked as deleted")
    expect(page.locator("#live .head .pill")).to_have_text("confirmed")
    page.goto(f"/products/{gone[0]}")
    expect(page.locator("#live .head .pill")).to_have_text("deleted")


def test_a_viewer_sees_everything_and_may_change_nothing(console: ConsoleInBrowser) -> None:
    page = console.page()
    console.log_in(page, "viewer")
    expect(page.locator(".who")).to_contain_text("viewer")
    for path in ("/agents/7", "/outbox", "/sellers"):
        page.goto(path)
        expect(page.locator("main form[method=post], main .button.danger")).to_have_count(0)
    page.goto("/agents/7/block")
    expect(page.get_by_role("alert")).to_have_text("This requires the role admin.")
    shot(page, "viewer-refused")
    console.wrongs = [said for said in console.wrongs if "403" not in said]


PAGES = (
    "/",
    "/sellers",
    "/sellers/new",
    "/sellers/seller_x",
    "/executions",
    "/tasks",
    "/products",
    "/outbox",
    "/agents",
    "/agents/1",
    "/quarantine",
    "/removals",
    "/schedules",
    "/days",
    "/audit",
    "/settings",
    "/agents/1/suspend",
)


@dataclass(frozen=True)
class Furnished:
    """A console with something of everything, and its pages."""

    console: ConsoleInBrowser
    pages: tuple[str, ...]


@pytest.fixture
def furnished(console: ConsoleInBrowser) -> Furnished:
    """Made once, whoever was here before: a seller that was crawled, a case and a removal. Nothing that failed: the
    journeys count that, and run in any order."""
    seller = SellerId("seller_0005")
    if console.do(lambda tx: tx.sellers.get(seller)) is None:
        known(console, "seller_x")
        known(console, seller)
        page = console.page()
        console.log_in(page)
        crawl(page, seller)
        page.context.close()
    now = console.service.crawl.clock.now()

    def work(tx: Transaction) -> tuple[str, ...]:
        run = tx.execution_queries.newest(seller_id=seller, status=None, limit=1)[0].execution_id
        product = tx.product_queries.page(seller_id=seller, state=None, cursor=None, limit=1).content[0]
        case, removal = CaseId(run), RemovalId(run)
        if tx.quarantine.get(case) is None:
            told = {"sample_item": product.item_no, "sample_before": "가방", "sample_after": "bag"}
            tx.quarantine.add(Case(case, seller, run, PartType.DETAIL, CaseKind.SHARE, "name", now, now, **told))  # type: ignore[arg-type]
            tx.removals.add(Removal(removal, seller, run, RemovalReason.MANY, 60, 30, now, now))
        event = tx.product_outbox.latest_of(product.product_id, 1)[0].outbox_id
        task = tx.task_queries.newest(execution_id=run, seller_id=None, status=None, limit=1)[0].task_id
        return (
            f"/sellers/{seller}",
            f"/executions/{run}",
            f"/products/{product.item_no}",
            f"/why/product/{product.item_no}",
            f"/why/task/{task}",
            f"/outbox/{event}",
            f"/why/event/{event}",
            f"/quarantine/{case}",
            f"/removals/{removal}",
            f"/removals/{removal}/confirm",
        )

    return Furnished(console, (*PAGES, *console.do(work)))


def test_no_page_has_a_serious_fault_for_who_cannot_see_or_point(furnished: Furnished) -> None:
    page = furnished.console.page()
    page.goto("/login")
    found = {"/login": grave_findings(page)}
    furnished.console.log_in(page)
    for path in furnished.pages:
        page.goto(path)
        found[path] = grave_findings(page)
    assert {path: said for path, said in found.items() if said} == {}


def test_in_the_dark_everything_can_be_told_from_what_is_behind_it(furnished: Furnished) -> None:
    page = furnished.console.page(scheme="dark")
    furnished.console.log_in(page)
    found = {}
    for path in furnished.pages:
        page.goto(path)
        found[path] = grave_findings(page, ["color-contrast"])
    shot(page, "dark")
    assert {path: said for path, said in found.items() if said} == {}


def test_in_korean_no_english_is_left_to_be_seen(furnished: Furnished) -> None:
    page = furnished.console.page()
    furnished.console.log_in(page)
    page.get_by_role("button", name="한국어").click()
    expect(page.get_by_role("heading", name="개요")).to_be_visible()
    expect(page.locator(".pulse")).to_have_text("실시간")
    found = {}
    for path in furnished.pages:
        page.goto(path)
        words = latin_words(page) - NAMES
        # What settings mean is said with their own names.
        found[path] = words if path != "/settings" else set()
    shot(page, "korean")
    assert {path: words for path, words in found.items() if words} == {}


def test_on_a_phone_nothing_has_to_be_pushed_sideways(furnished: Furnished) -> None:
    page = furnished.console.page(PHONE)
    furnished.console.log_in(page)
    wide = {}
    for path in furnished.pages:
        page.goto(path)
        wide[path] = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    page.goto("/")
    shot(page, "phone")
    assert {path: width for path, width in wide.items() if width > 0} == {}


def test_freshness_is_the_same_in_console_api_command_line_and_metrics(console: ConsoleInBrowser) -> None:
    seller = "seller_0006"
    known(console, seller)
    page = console.page()
    console.log_in(page)
    crawl(page, seller)
    # One of sixty products has a part that was never read.
    console.do(lambda tx: tx.db.run(FORGET_A_PART, {"seller_id": seller}))
    logged_in = page.request.post("/api/v1/auth/login", data={"user": "minji", "password": PASSWORD}).json()
    bearer = {"authorization": f"Bearer {logged_in['token']}"}
    shown = page.request.get(f"/api/v1/sellers/{seller}", headers=bearer).json()["freshness"]
    assert (shown["state"], shown["freshShare"], shown["undelivered"]) == ("late", 0.9833, 0)
    listed = page.request.get(f"/api/v1/sellers?search={seller}", headers=bearer).json()["content"]
    assert [each["freshness"] for each in listed] == [shown]
    command = [sys.executable, "-m", "sellerwatch", "sellers", "show", seller, "--json"]
    environment = clean_environment(DATABASE_URL=str(console.store.engine.url))
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert json.loads(said)["freshness"] == shown
    lines = page.request.get("/metrics", headers=bearer).text().splitlines()
    assert f'sellerwatch_seller_fresh_share{{seller="{seller}"}} 0.9833' in lines
    assert f'sellerwatch_seller_undelivered{{seller="{seller}"}} 0.0' in lines
    page.goto(f"/sellers?search={seller}")
    row = page.get_by_role("row", name=seller)
    expect(row).to_contain_text("98.33 %")
    expect(row).to_contain_text("late")
    page.goto(f"/sellers/{seller}")
    expect(page.locator("dl.facts").first).to_contain_text("98.33 %")
    expect(page.locator("dl.facts").first).to_contain_text(shown["cause"]["message"])
