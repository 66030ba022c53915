"""Every page answers: for an administrator, for a viewer, for nobody; full and empty; in both languages."""

from __future__ import annotations

import csv
import io
import re
from datetime import timedelta

import pytest
from msgspec import structs
from tests.agents.outages import answer_503
from tests.builders import MINUTE, NOW, SELLER, a_resend, a_resent_event, a_resync, execution_id, outbox_id, task_id
from tests.web.api_world import ONE, TWO, UNKNOWN_ID
from tests.world import task_number

from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.agents.marketplace_circuit import Endpoint
from sellerwatch.crawling.ports import NoteKind
from sellerwatch.crawling.task import TaskNote, TaskStatus
from sellerwatch.kernel.clock import stamp
from sellerwatch.texts import LANGUAGES
from sellerwatch.web.console.texts import TEXTS

from .conftest import Console

LISTS = (
    "/",
    "/sellers",
    "/executions",
    "/tasks",
    "/products",
    "/outbox",
    "/agents",
    "/quarantine",
    "/removals",
    "/resends",
    "/resyncs",
    "/schedules",
    "/days",
    "/changes",
    "/audit",
    "/settings",
)
#: A word of Latin letters. Names of things, ids and what machines said are marked on the page and left out.
LATIN = re.compile(r"[A-Za-z]{2,}")
MARKED = re.compile(r'(?s)<(\w+)[^>]*\b(?:translate="no"|lang="en")[^>]*>.*?</\1>')
#: Names that are the same in every language.
NAMES = {
    "Sellerwatch",
    "English",
    "CSV",
    "JSON",
    "HTTP",
    "ID",
    "admin",
    "UTC",
    "User",
    "Agent",
    "AES",
    "AWS",
    "API",
    "Redis",
    "Retry",
    "After",
    "Slack",
}
#: What the operating system said of a connection.
NAMES |= {"connection", "refused"}
#: The sellers and users of this test, and what settings are called.
NAMES |= {"seller", "Shop", "viewer"}
NAMES |= {word for key, both in TEXTS.items() if key.startswith("setting.") for word in LATIN.findall(both[1])}


@pytest.mark.parametrize("who", ["admin", "viewer"])
async def test_a_page_of_an_empty_service_answers_and_says_what_to_do(console: Console, who: str) -> None:
    for path in LISTS:
        seen = await console.person(who).see(path)
        assert seen.status == 200, seen.words
        assert seen.headers["content-type"].startswith("text/html")
        assert 'aria-current="page"' in seen.text
        if path not in ("/", "/agents", "/audit", "/settings", "/outbox"):
            assert 'class="empty"' in seen.text, path


async def test_nobody_is_led_to_the_log_in_and_back(console: Console) -> None:
    for path in LISTS:
        seen = await console.nobody.see(path)
        assert seen.status == 200
        assert 'name="password"' in seen.text
        assert f'name="next" value="{path}"' in seen.text


async def stocked(console: Console) -> list[str]:
    """Something of everything; the pages of it."""
    crawl = await console.world.crawled(products=3)
    run = await console.world.add_run(7, ONE, done=2, failed=1)
    await console.world.failed_messages(1, first=900)
    await console.world.register_seller()
    await console.world.add_waiting_run(8)

    def work(tx: Transaction) -> tuple[int, str]:
        product = tx.product_queries.page(seller_id=ONE, state=None, cursor=None, limit=1).content[0]
        event = tx.product_outbox.latest_of(product.product_id, 1)[0]
        return product.item_no, event.outbox_id

    item, event = await console.world.transact(work)
    resync = a_resync()
    await console.world.transact(lambda tx: tx.resyncs.add(resync))
    resend, answer = a_resend(), a_resent_event()
    await console.world.transact(lambda tx: tx.resends.add(resend))
    await console.world.transact(lambda tx: tx.resent_events.save([answer]))
    # A list page was read, and nothing else of its products yet.
    await crawl.start(TWO)
    await crawl.absorb([crawl.judged(taken) for taken in await crawl.claim(1)])
    unread = crawl.world.listing(TWO, 0, 1)[0]
    assert crawl.world.count(ONE) == 3
    return [
        *LISTS,
        f"/sellers/{ONE}",
        f"/resyncs/{resync.resync_id}",
        f"/resends/{resend.resend_id}",
        f"/executions/{run.execution_id}",
        f"/executions/{execution_id(8)}",
        f"/why/run/{execution_id(8)}",
        f"/products/{item}",
        f"/products/{unread}",
        f"/why/product/{unread}",
        f"/outbox/{event}",
        f"/outbox/{outbox_id(900)}",
        "/agents/1",
        f"/why/product/{item}",
        f"/why/product/{item}?version=1",
        f"/why/event/{event}",
        f"/why/run/{run.execution_id}",
        "/tasks?status=FAILED",
        "/outbox?status=FAILED",
        "/outbox?kind=scheduler",
        "/sellers?fresh=never",
        "/sellers?search=seller",
        "/agents?sort=health",
        "/agents?sort=429&hours=24&circuit=OPEN",
        "/agents/tokens?sort=renewal",
        "/tasks/ages",
        "/settings/retention",
    ]


#: Questions before something is done; only who may do it is asked.
QUESTIONS = (
    f"/sellers/{ONE}/deactivate",
    f"/sellers/{ONE}/interval",
    "/sellers/new",
    "/tasks/retry",
    "/outbox/replay",
    "/outbox/discard",
    "/outbox/pause",
    "/marketplace/pause",
    f"/marketplace/pause?seller={ONE}",
    "/agents/1/suspend",
    "/agents/1/block",
    "/agents/1/remove",
    f"/products/resync?seller={ONE}",
    f"/resyncs/{a_resync().resync_id}/cancel",
    "/outbox/resend",
    "/products/900000001/refresh",
    f"/resends/{a_resend().resend_id}/cancel",
)


@pytest.mark.parametrize("who", ["admin", "viewer"])
async def test_every_page_of_a_service_at_work_answers(console: Console, who: str) -> None:
    person = console.person(who)
    for path in await stocked(console):
        seen = await person.see(path)
        assert seen.status == 200, (path, seen.words)
        assert "<form" in seen.text
    for path in QUESTIONS:
        seen = await person.see(path)
        assert seen.status == (200 if who == "admin" else 403), (path, seen.words)


async def test_in_korean_nothing_is_left_in_english(console: Console) -> None:
    person = console.admin
    paths = [*await stocked(console), *QUESTIONS]
    await person.send("/preferences", language="ko", back="/")
    found: dict[str, set[str]] = {}
    for path in paths:
        seen = await person.see(path)
        assert '<html lang="ko"' in seen.text
        text = seen.text
        while MARKED.search(text):
            text = MARKED.sub(" ", text)
        shown = re.findall(r'(?:title|aria-label|placeholder|alt)="([^"]*)"', text)
        words = {word for part in (_words(text), *shown) for word in LATIN.findall(part)} - NAMES
        if words:
            found[path] = words
    assert found == {}


def _words(text: str) -> str:
    body = re.sub(r"(?s)<(script|head|pre|code)\b.*?</\1>", " ", text)
    return re.sub(r"<[^>]*>", " ", body)


async def test_every_table_can_be_had_as_csv(console: Console) -> None:
    for path in await stocked(console):
        seen = await console.viewer.see(path)
        for name in set(re.findall(r'id="table-(\w+)"', seen.text)):
            joint = "&" if "?" in path else "?"
            table = await console.viewer.see(f"{path}{joint}csv={name}")
            assert table.headers["content-type"] == "text/csv; charset=utf-8"
            assert f"sellerwatch-{name}.csv" in table.headers["content-disposition"]
            rows = list(csv.reader(io.StringIO(table.text.removeprefix("\ufeff"))))
            assert len(rows) > 1
            assert {len(row) for row in rows} == {len(rows[0])}


async def test_what_is_not_there_is_said_on_a_page(console: Console) -> None:
    for path in (
        "/sellers/nobody",
        f"/executions/{UNKNOWN_ID}",
        "/products/1",
        f"/outbox/{UNKNOWN_ID}",
        "/agents/999",
        f"/quarantine/{UNKNOWN_ID}",
        f"/removals/{UNKNOWN_ID}",
        f"/resyncs/{UNKNOWN_ID}",
        f"/why/task/{task_id(999)}",
    ):
        seen = await console.viewer.see(path)
        assert seen.status == 404, path
        assert seen.headers["content-type"].startswith("text/html")
        assert 'role="alert"' in seen.text
    for path in ("/executions/x", "/products/x", "/tasks?cursor=x", "/agents/한"):
        assert (await console.viewer.see(path)).status == 400, path


async def test_each_person_has_their_language_and_theme(console: Console) -> None:
    for language in LANGUAGES:
        seen = await console.nobody.send("/preferences", language=language, theme="dark", back="/login")
        assert f'<html lang="{language}" data-theme="dark">' in seen.text


@pytest.mark.parametrize(("language", "said"), [("en", "It resumes automatically"), ("ko", "자동으로 재개됩니다")])
async def test_a_paused_run_says_when_it_is_checked_again(console: Console, language: str, said: str) -> None:
    await console.world.register_seller()
    run = await console.world.add_run(waiting=1)
    due = NOW + timedelta(hours=1)

    def pause(tx: Transaction) -> None:
        task, *_ = tx.run_tasks.open_of(run.execution_id, [TaskStatus.WAITING])
        tx.tasks.save([structs.replace(task, available_at=due)], NOW)
        tx.run_notes.add(run.execution_id, {(NoteKind.PAUSED, "why"): 1, (NoteKind.RECHECK, task.task_id): 1})

    await console.world.transact(pause)
    await console.viewer.send("/preferences", language=language, back="/")
    seen = await console.viewer.see(f"/executions/{run.execution_id}")
    assert said in seen.words
    assert f'datetime="{due:%Y-%m-%dT%H:%M:%S}' in seen.text


async def test_a_run_that_waits_to_start_shows_its_tries_its_cause_and_its_next_try(console: Console) -> None:
    await console.world.register_seller()
    await console.world.add_waiting_run()
    for path in ("/", f"/executions/{execution_id()}", f"/why/run/{execution_id()}"):
        seen = await console.viewer.see(path)
        cause = "cannot be reached (connection refused)."
        for part in ("Attempts so far: 2.", "Next attempt:", "the marketplace", cause):
            assert part in seen.words, (path, part)
        assert f'datetime="{stamp(NOW + MINUTE)}"' in seen.text
    listed = (await console.viewer.see("/executions")).words
    assert "The marketplace cannot be reached (connection refused)." in listed
    await console.viewer.send("/preferences", language="ko", back="/")
    korean = (await console.viewer.see(f"/executions/{execution_id()}")).words
    for part in ("지금까지 시도 2회.", "다음 시도:", "마켓플레이스에 연결할 수 없습니다(connection refused)."):
        assert part in korean


async def test_a_run_that_an_outage_stops_says_so_wherever_it_is_shown(console: Console) -> None:
    await console.world.register_seller()
    await console.world.add_run(done=1, waiting=1)
    sentence = "The marketplace's detail endpoint does not answer"
    pages = ("/", "/sellers", f"/sellers/{SELLER}", "/executions", f"/executions/{execution_id()}")
    for path in pages:
        assert sentence not in (await console.viewer.see(path)).words, path
    await console.world.transact(lambda tx: answer_503(tx, Endpoint.DETAIL, NOW))
    for path in pages:
        assert sentence in (await console.viewer.see(path)).words, path


async def test_why_tasks_failed_is_said_with_whose_fault_it_was(console: Console) -> None:
    await console.world.register_seller()
    await console.world.add_run(done=1, failed=2)
    noted, failed = task_id(task_number()), task_id(task_number() + 1)

    def work(tx: Transaction) -> None:
        task = tx.tasks.get(noted)
        assert task is not None
        tx.tasks.save([structs.replace(task, note=TaskNote.FOREIGN)], NOW)

    await console.world.transact(work)
    sentence = "The marketplace answered 503: an error on its side."
    for path in (f"/executions/{execution_id()}", f"/why/task/{failed}"):
        seen = await console.viewer.see(path)
        assert f"the marketplace {sentence}" in seen.words, path
    assert "the marketplace 2" in (await console.viewer.see("/")).words
    tasks = (await console.viewer.see("/tasks")).words
    note = "The item belongs to another seller; it is not changed."
    assert sentence in tasks
    assert note in tasks
    assert note in (await console.viewer.see(f"/why/task/{noted}")).words
