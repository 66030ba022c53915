"""A console at work on a thread of its own, and a real Chromium that looks at it."""

from __future__ import annotations

import asyncio
import re
import shutil
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from playwright.sync_api import Browser, Page, expect, sync_playwright
from tests.builders import a_context
from tests.servers import program
from tests.simulated_service import settings_of, simulated_service, simulator_of
from tests.world import StoreWorld

from sellerwatch.access.commands import add_user
from sellerwatch.access.users import Role
from sellerwatch.adapters.passwords import Argon2Passwords
from sellerwatch.adapters.sql.engine import make_engine
from sellerwatch.adapters.sql.store import SqlStore, ThreadRunner
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.cli.running import at_work
from sellerwatch.kernel.clock import SystemClock
from sellerwatch.service.service import Service
from sellerwatch.simulator.simulator import Simulator
from sellerwatch.web.serve import api_of

T = TypeVar("T")

ROOT = Path(__file__).parents[2]
SHOTS = ROOT / ".screenshots"
AXE = ROOT / "tests/journeys/vendor/axe-4.14.0.min.js"
PASSWORD = "correct horse battery"
#: Nobody waits longer for anything here; a machine that is slow is not a fault.
PATIENCE = 600_000
DESKTOP, PHONE = (1280, 800), (390, 844)


@dataclass
class ConsoleInBrowser:
    """The console's address, and what is behind it."""

    address: str
    first_password: str
    service: Service
    simulator: Simulator
    store: SqlStore
    loop: asyncio.AbstractEventLoop
    browser: Browser | None = None
    wrongs: list[str] = field(default_factory=list)

    def wait(self, step: Coroutine[Any, Any, T]) -> T:
        """On the loop that the service lives on."""
        return asyncio.run_coroutine_threadsafe(step, self.loop).result(60)

    def do(self, work: Callable[[Transaction], T]) -> T:
        return self.wait(self.world.transact(work))

    @property
    def world(self) -> StoreWorld:
        return StoreWorld(self.store, self.service.crawl.clock, self.service.crawl.ids)

    def page(self, size: tuple[int, int] = DESKTOP, scheme: str = "light") -> Page:
        """A browser of somebody's own: what it complains about is kept, and a test ends with none of it."""
        assert self.browser is not None
        context = self.browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if scheme == "dark" else "light",
            base_url=self.address,
        )
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.on("console", lambda said: self.wrongs.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: self.wrongs.append(str(error)))
        page.on("dialog", lambda dialog: self.wrongs.append(f"a script ran: {dialog.message}"))
        return page

    def log_in(self, page: Page, user: str = "minji") -> None:
        page.goto("/login")
        page.get_by_label("User").fill(user)
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("heading", name="Overview")).to_be_visible()


@contextmanager
def opened_console(template: Path, folder: Path) -> Iterator[ConsoleInBrowser]:
    """Five sellers of sixty products, asked slowly enough that a run can be watched; a receiver that is asked once."""
    database = Path(shutil.copyfile(template, folder / "console.db"))
    settings = settings_of(
        PORT=0,
        MAX_CONCURRENCY=6,
        OUTBOX_RETRIES=1,
        API_REQUESTS_PER_MINUTE=100_000,
        JWT_SECRET="a secret of thirty-two characters or more",
    )
    began, found, loops = threading.Event(), list[ConsoleInBrowser](), list[asyncio.AbstractEventLoop]()
    ended = asyncio.Event()

    async def serve() -> None:
        loops.append(asyncio.get_running_loop())
        clock = SystemClock()
        simulator = simulator_of(settings, seed=1, sellers=6, products=60, latency_ms=40)
        store = SqlStore(make_engine(f"sqlite:///{database}"), clock, ThreadRunner(1, "write"), ThreadRunner(4, "read"))
        opened = simulated_service(settings, simulator, clock, store=store)
        async with opened as service, api_of(service, settings) as serving, at_work(service):
            hashed = await asyncio.to_thread(Argon2Passwords(memory_kib=64, passes=1).hash, PASSWORD)
            now = clock.now()

            def people(tx: Transaction) -> None:
                add_user(tx, a_context(now), "minji", Role.ADMIN, hashed)
                add_user(tx, a_context(now), "viewer", Role.VIEWER, hashed)

            await store.transact(people)
            found.append(
                ConsoleInBrowser(serving.address, serving.first_password or "", service, simulator, store, loops[0])
            )
            began.set()
            await ended.wait()
        store.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert began.wait(600)
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=program("chromium"), args=["--no-sandbox"])
            found[0].browser = browser
            yield found[0]
            browser.close()
    finally:
        loops[0].call_soon_threadsafe(ended.set)
        thread.join(60)


def shot(page: Page, name: str) -> None:
    """What the eye would see, kept for whoever wants to look."""
    SHOTS.mkdir(exist_ok=True)
    page.screenshot(path=str(SHOTS / f"{name}.png"))


def grave_findings(page: Page, rules: Sequence[str] = ("wcag2a", "wcag2aa", "wcag21aa", "best-practice")) -> list[str]:
    """What axe holds to be serious or worse on this page. It is run beside the page's own policy, which forbids it."""
    page.evaluate(AXE.read_text("utf-8"))
    result: dict[str, Any] = page.evaluate(
        "async (rules) => await axe.run(document, {resultTypes: ['violations'], runOnly: rules})", list(rules)
    )
    return [
        f"{each['id']}: {each['nodes'][0]['html'][:200]}"
        for each in result["violations"]
        if each["impact"] in ("serious", "critical")
    ]


#: Text that can be seen, but for what is marked as a name or as a machine's own words.
SEEN = """() => {
  const left = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const parent = walk.currentNode.parentElement;
    if (parent.closest('[translate=no], [lang=en], code, pre, script, kbd, dialog:not([open])')) continue;
    if (!parent.checkVisibility()) continue;
    left.push(walk.currentNode.textContent);
  }
  return left.join(' ');
}"""


def latin_words(page: Page) -> set[str]:
    return set(re.findall(r"[A-Za-z]{2,}", page.evaluate(SEEN)))
