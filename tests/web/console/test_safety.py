"""Who may do what, and what pages are safe against: forged forms, foreign names, stolen sessions, a database away."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from fastapi.routing import APIRoute
from sqlalchemy import Engine
from tests.builders import NOW, SELLER, a_context
from tests.web.api_world import ONE, UNKNOWN_ID

from sellerwatch.access.commands import remove_user, set_role
from sellerwatch.access.users import Role
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.outbox.message import OutboxKind
from sellerwatch.web.console.app import ROUTERS
from sellerwatch.web.console.page_request import FLASH
from sellerwatch.web.console.tables import Cell, Table
from sellerwatch.web.sessions import COOKIE

from .conftest import PASSWORD, Console
from .person import Person

FILLED = {"seller_id": "x", "name": "x", "amount": "1", "unit": "DAYS", "reason": "x", "hours": "1"}
SAMPLES = {"seller_id": SELLER, "agent": "1"}
#: Forms of the door, which anybody may send.
OPEN = {"/login", "/password", "/logout", "/preferences"}
#: A viewer may end a log-in of their own; there is none of the id that is filled in.
OWN = f"/log-ins/{UNKNOWN_ID}/end"


def _deeds() -> list[str]:
    """Every path that takes a form, with something in each of its places."""
    routes = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    posts = {route.path for route in routes if "POST" in (route.methods or ())} - OPEN
    return sorted(re.sub(r"\{(\w+)\}", lambda place: SAMPLES.get(place[1], UNKNOWN_ID), path) for path in posts)


DEEDS = _deeds()


async def test_every_form_is_refused_to_a_viewer_and_changes_nothing(console: Console) -> None:
    await console.world.register_seller()
    before = await console.world.all_rows()
    await console.viewer.see("/")
    for path in DEEDS:
        seen = await console.viewer.send(path, **FILLED)
        assert seen.status == (404 if path == OWN else 403), (path, seen.status)
        assert path == OWN or "role" in seen.words
    assert await console.world.all_rows() == before


@pytest.mark.parametrize("cookie", ["bnVsbA==", "WyJvayJd", "WyJvayIsIDEsIDJd", "WyJvayIsIG51bGxd", "e30=", "x", "é"])
async def test_a_toast_that_is_none_is_passed_over(console: Console, cookie: str) -> None:
    console.admin.cookies[FLASH] = cookie
    assert (await console.admin.see("/sellers")).status == 200


@pytest.mark.parametrize("token", ["", "0" * 64, "한"])
async def test_a_form_without_this_log_ins_token_changes_nothing(console: Console, token: str) -> None:
    await console.world.register_seller()
    before = await console.world.all_rows()
    console.admin.token = token
    for path in DEEDS:
        seen = await console.admin.send(path, **FILLED)
        assert seen.status == 403, (path, seen.status)
    assert await console.world.all_rows() == before


async def test_a_form_that_another_site_sent_is_refused_even_with_the_token(console: Console) -> None:
    await console.admin.see("/sellers/new")
    console.admin.site = "cross-site"
    assert (await console.admin.send("/sellers/new", **FILLED)).status == 403
    console.admin.site = "same-origin"
    assert (await console.admin.send("/sellers/new", **FILLED)).status == 200


async def test_a_token_of_another_log_in_is_no_good(console: Console) -> None:
    other = Person(console.world.admin.app)
    await other.log_in("admin", PASSWORD)
    await other.see("/")
    console.admin.token = other.token
    assert (await console.admin.send("/sellers/new", **FILLED)).status == 403


async def test_the_console_takes_forms_and_the_api_does_not(console: Console) -> None:
    form = {"content-type": "application/x-www-form-urlencoded"}
    reply = await console.world.admin.ask("POST", "/api/v1/sellers", raw=b"sellerId=x&name=x", headers=form)
    assert reply.status == 400


async def test_names_are_shown_as_text_whatever_is_in_them(console: Console) -> None:
    wicked = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7*7 }}"
    await console.admin.see("/sellers/new")
    seen = await console.admin.send("/sellers/new", **FILLED | {"name": wicked})
    assert seen.status == 200
    for path in ("/sellers", "/sellers/x", "/", "/schedules", "/audit"):
        page = await console.viewer.see(path)
        assert "<script>alert" not in page.text
        assert "<img" not in page.text
        assert "49" not in page.words.split()
    assert "<script>alert(1)</script>" in (await console.viewer.see("/sellers")).words


async def test_every_page_has_a_policy_without_inline_script_or_style(console: Console) -> None:
    for path in ("/login", "/", "/agents", "/outbox", "/sellers/nobody"):
        seen = await console.viewer.see(path)
        assert seen.headers["content-security-policy"].startswith("default-src 'self';")
        assert "unsafe" not in seen.headers["content-security-policy"]
        assert not re.search(r"<script(?![^>]*\bsrc=)", seen.text)
        assert not re.search(r"<style|\bstyle=|\bon\w+=", seen.text)
        assert "http" not in "".join(re.findall(r'(?:src|href)="(http[^"]*)"', seen.text))


async def test_the_cookie_cannot_be_read_by_a_script_and_is_no_api_token(console: Console) -> None:
    seen = await console.nobody.ask("POST", "/login", {"user": "admin", "password": PASSWORD})
    assert seen.status == 303
    cookie = seen.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    sealed = console.nobody.cookies[COOKIE]
    reply = await console.world.with_token(sealed).get("/api/v1/sellers")
    assert reply.status == 401
    console.nobody.cookies[COOKIE] = console.world.admin.token or ""
    assert 'name="password"' in (await console.nobody.see("/")).text


async def test_the_cookie_is_good_for_the_stream_and_for_no_other_part_of_the_api(console: Console) -> None:
    assert (await console.admin.ask("GET", "/api/v1/events?seconds=0")).status == 200
    assert (await console.admin.ask("GET", "/api/v1/sellers")).status == 401
    assert (await console.nobody.ask("GET", "/api/v1/events?seconds=0")).status == 401


async def test_a_log_in_that_is_not_used_ends_and_use_keeps_it(console: Console) -> None:
    clock, login = console.world.clock, console.world.parts.session_limits.idle
    clock.time += login * 0.6
    assert 'name="password"' not in (await console.admin.see("/")).text
    clock.time += login * 0.6
    assert 'name="password"' not in (await console.admin.see("/")).text
    clock.time += login * 1.1
    assert 'name="password"' in (await console.admin.see("/")).text
    seen = await console.viewer.ask("GET", "/sellers", headers={"hx-request": "true"})
    assert (seen.status, seen.headers["hx-redirect"]) == (401, "/login")


async def test_even_a_log_in_in_use_ends_after_half_a_day(console: Console) -> None:
    clock = console.world.clock
    for _ in range(30):
        clock.time += timedelta(minutes=31)
        if 'name="password"' in (await console.admin.see("/")).text:
            break
    assert timedelta(hours=12) <= clock.time - NOW <= timedelta(hours=13)


async def test_who_is_removed_or_gets_another_role_is_out_at_once(console: Console) -> None:
    def work(tx: Transaction) -> None:
        set_role(tx, a_context(), "admin", Role.VIEWER)
        remove_user(tx, a_context(), "viewer")

    await console.world.transact(work)
    for person in (console.admin, console.viewer):
        assert 'name="password"' in (await person.see("/")).text


async def test_after_logging_out_the_browser_knows_nobody(console: Console) -> None:
    await console.admin.see("/")
    seen = await console.admin.send("/logout")
    assert 'name="password"' in seen.text
    assert COOKIE not in console.admin.cookies


async def test_a_wrong_password_is_told_in_one_sentence_and_slows_down(console: Console) -> None:
    said = set()
    for _ in range(7):
        seen = await console.nobody.ask("POST", "/login", {"user": "admin", "password": "no such horse"})
        said.add((seen.status, "retry-after" in seen.headers))
    assert said == {(401, False), (429, True)}
    unknown = await Person(console.world.admin.app).ask("POST", "/login", {"user": "ghost", "password": "x"})
    assert unknown.status == 401


async def test_a_one_time_password_leads_to_choosing_another(console: Console) -> None:
    def work(tx: Transaction) -> None:
        user = tx.users.get("admin")
        assert user is not None
        tx.users.save(replace(user, must_change=True))

    await console.world.transact(work)
    person = Person(console.world.admin.app)
    seen = await person.log_in("admin", PASSWORD)
    assert 'name="new_password"' in seen.text
    given = {"user": "admin", "password": PASSWORD}
    assert (await person.send("/password", **given, new_password="short")).status == 400
    seen = await person.send("/password", **given, new_password="another horse, another staple")
    assert seen.status == 200
    assert 'id="needs"' in seen.text


async def test_where_nobody_can_log_in_the_door_says_how_to_change_that(console: Console) -> None:
    def work(tx: Transaction) -> None:
        for user in tx.users.everyone():
            remove_user(tx, a_context(), user.name)

    await console.world.transact(work)
    assert "sellerwatch auth user add" in (await console.nobody.see("/")).words


@pytest.mark.parametrize("target", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)"])
async def test_the_log_in_leads_nowhere_else(console: Console, target: str) -> None:
    seen = await console.nobody.ask("POST", "/login", {"user": "admin", "password": PASSWORD, "next": target})
    assert (seen.status, seen.headers["location"]) == (303, "/")


def spoil(path: Path, body: bytes) -> bytes:
    """Put something else in its place; what was there is returned."""
    kept = path.read_bytes()
    for beside in (path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        beside.unlink(missing_ok=True)
    path.write_bytes(body)
    return kept


async def test_with_the_database_away_pages_say_what_is_down(
    console: Console, engine: Engine, database_file: Path
) -> None:
    engine.dispose()
    kept = spoil(database_file, b"no database at all" * 1000)
    for path in ("/", "/sellers", "/agents/1"):
        seen = await console.admin.see(path)
        assert seen.status == 503
        assert "Service unavailable" in seen.words
        assert "Database down" in seen.words
        assert 'http-equiv="refresh"' in seen.text
    # Whoever is not known is told that something is down, and not what.
    stranger = await console.nobody.see("/login")
    assert (stranger.status, "Database" in stranger.words) == (503, False)
    assert (await console.admin.send("/sellers/new", **FILLED)).status == 503
    engine.dispose()
    spoil(database_file, kept)
    assert (await console.admin.see("/")).status == 200


async def test_with_the_product_server_away_the_pages_say_so(console: Console) -> None:
    await console.world.failed_messages(2)

    def work(tx: Transaction) -> None:
        channel = tx.channels.get(OutboxKind.PRODUCT)
        tx.channels.save(replace(channel, state=CircuitState.OPEN, opened_at=NOW, reason="no answer: refused"), NOW)

    await console.world.transact(work)
    seen = await console.viewer.see("/")
    assert "receiver down" in seen.words
    assert "The product server does not take events" in seen.words
    assert "2 events could not be delivered" in seen.words
    assert "no answer: refused" in (await console.viewer.see("/outbox")).words


async def test_an_agent_is_added_and_one_that_exists_is_refused(console: Console) -> None:
    assert "Add agent" in (await console.admin.see("/agents/add")).words
    added = await console.admin.send("/agents/add", user_agent="Opera/9")
    assert "Agent #101 was added." in added.words
    again = await console.admin.send("/agents/add", user_agent="Opera/9", back="/agents")
    assert "There is already an agent with this user-agent string" in again.words


async def test_what_is_done_is_on_the_trail_under_the_persons_name(console: Console) -> None:
    await console.admin.see("/agents/1")
    seen = await console.admin.send("/agents/1/suspend", hours="2", reason="looking into it")
    assert "Agent #1 was suspended." in seen.words
    entry = (await console.world.read(lambda tx: tx.audit.newest(limit=1, subject_type="agent")))[0]
    assert (entry.actor, entry.action) == ("console:admin", "agent.suspend")
    seen = await console.admin.send("/agents/1/suspend", back="/agents/1")
    seen = await console.admin.send("/agents/1/recover", back="/agents/1")
    assert "Agent #1 is available again" in seen.words
    seen = await console.admin.send("/agents/1/unblock", back="/agents/1")
    assert "must be BLOCKED" in seen.words


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\n", "\r", "＝", "＋", "－", "＠"])
def test_no_cell_of_a_table_is_a_formula_in_a_spreadsheet(start: str) -> None:
    text = f'{start}HYPERLINK("http://evil.test")'
    said = Table("x", ["col.name"], [[Cell("text", text)]], "empty").csv(["name"])
    assert list(csv.reader(io.StringIO(said, newline="")))[1] == [f"'{text}"]


async def test_an_image_that_is_no_web_address_is_no_link(console: Console) -> None:
    crawl = await console.world.crawl_world(products=1)
    (item,) = crawl.items(ONE)
    sold = crawl.world.product(item)
    assert sold is not None
    wicked = ("javascript:alert(1)", " javascript:alert(2)", "data:text/html,<script>", "//evil.test/x", "vbscript:x")
    crawl.world.put(replace(sold, detail_images=(*wicked, "https://images.test/fine.jpg")))
    await crawl.crawl(ONE)
    await crawl.deliver_all()
    page = (await console.viewer.see(f"/products/{item}")).text
    assert 'href="https://images.test/fine.jpg" rel="noopener noreferrer"' in page
    assert "javascript:alert(1)" in page
    assert not re.search(r"""(?i)(?:href|src|action)=["']?\s*(?:javascript|data|vbscript|//)""", page)
