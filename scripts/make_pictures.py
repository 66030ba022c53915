"""Makes the pictures in the documentation: what really stood on a terminal, and in a browser, while the demo worked.

    PYTHONPATH=. python scripts/make_pictures.py [terminal] [console]

Runs `sellerwatch demo` on a pseudo-terminal, reads its screen with a terminal emulator, and writes it as SVG; then runs
it once more, on a bad day, and looks at its console with Chromium.
"""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable
from fcntl import ioctl
from pathlib import Path
from typing import IO
from xml.sax.saxutils import escape

import pyte
from playwright.sync_api import Page, expect, sync_playwright
from scripts.get_servers import found

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
COLUMNS, LINES = 104, 20
CELL_WIDTH, CELL_HEIGHT, MARGIN = 8.4, 18, 16
COLOURS = {
    "default": "#d0d7de",
    "black": "#484f58",
    "red": "#ff7b72",
    "green": "#3fb950",
    "brown": "#d29922",
    "blue": "#58a6ff",
    "magenta": "#bc8cff",
    "cyan": "#39c5cf",
    "white": "#f0f6fc",
}


def screen_of(command: list[str], is_it: Callable[[list[str]], bool], limit: float = 60) -> pyte.Screen:
    """Run a command on a terminal until its screen is the one wanted, then end it."""
    screen = pyte.Screen(COLUMNS, LINES)
    stream = pyte.ByteStream(screen)
    child, terminal = pty.fork()
    if child == 0:
        os.execvpe(command[0], command, os.environ | {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS)})
    ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    until = time.monotonic() + limit
    try:
        while time.monotonic() < until:
            if select.select([terminal], [], [], 0.2)[0]:
                stream.feed(os.read(terminal, 65536))
            if is_it(screen.display):
                return screen
        raise SystemExit("the screen never came:\n" + "\n".join(screen.display))
    finally:
        # Closed first: a child that writes to a terminal nobody reads any more would never end.
        os.close(terminal)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def as_svg(screen: pyte.Screen, title: str) -> str:
    """The screen's cells as text, run by run; a system font, nothing fetched from anywhere."""
    used = max(number for number, line in enumerate(screen.display) if line.strip()) + 1
    width, height = COLUMNS * CELL_WIDTH + 2 * MARGIN, used * CELL_HEIGHT + 2 * MARGIN + 24
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width:.0f}" height="{height:.0f}" rx="8" fill="#0d1117"/>',
        *(
            f'<circle cx="{20 + 18 * i}" cy="16" r="5" fill="{c}"/>'
            for i, c in enumerate(("#ff5f56", "#ffbd2e", "#27c93f"))
        ),
        '<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="14">',
    ]
    for number in range(used):
        y = MARGIN + 24 + number * CELL_HEIGHT + 13
        column = 0
        while column < COLUMNS:
            style = _style(screen, number, column)
            end = column
            while end < COLUMNS and _style(screen, number, end) == style:
                end += 1
            text = "".join(screen.buffer[number][i].data for i in range(column, end))
            if text.strip():
                x, length = MARGIN + column * CELL_WIDTH, (end - column) * CELL_WIDTH
                look = f'fill="{style[0]}"' + (' font-weight="bold"' if style[1] else "")
                place = f'x="{x:.1f}" y="{y}" textLength="{length:.1f}"'
                parts.append(f"<text {place} {look}>{_kept(text)}</text>")
            column = end
    return "\n".join([*parts, "</g>", "</svg>", ""])


def _kept(text: str) -> str:
    """SVG viewers fold spaces; no-break spaces stay."""
    return escape(text.replace(" ", "\u00a0"))


def _style(screen: pyte.Screen, line: int, column: int) -> tuple[str, bool]:
    cell = screen.buffer[line][column]
    colour = COLOURS.get(cell.fg, f"#{cell.fg}" if len(cell.fg) == 6 else COLOURS["default"])
    return colour, cell.bold


def terminal() -> None:
    demo = [str(Path(sys.executable).parent / "sellerwatch"), "demo", "--products", "1500", "--profile", "flaky"]

    def half_way(lines: list[str]) -> bool:
        delivered = next((line for line in lines if "events delivered" in line), "")
        number = "".join(c for c in delivered.partition("receiver")[0] if c.isdigit())
        return bool(number) and int(number) > 1500

    target = PICTURES / "demo.svg"
    target.write_text(as_svg(screen_of(demo, half_way), "sellerwatch demo at work"), "utf-8")
    print(f"wrote {target.relative_to(ROOT)}")


def console() -> None:
    """A hostile marketplace, so that there is something to see: suspended agents, failed tasks, versions."""
    command = [str(Path(sys.executable).parent / "sellerwatch"), "demo", "--sellers", "5", "--products", "500"]
    command += ["--profile", "hostile", "--changes", "60"]
    with tempfile.TemporaryFile("w+") as said:
        demo = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said, env=os.environ | {"NO_COLOR": "1"})
        try:
            address, password = _doors(said, demo)
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=found("chromium"), args=["--no-sandbox"])
                page = browser.new_page(base_url=address, viewport={"width": 1280, "height": 800})
                page.set_default_timeout(120_000)
                _look(page, password)
                browser.close()
        finally:
            demo.send_signal(signal.SIGINT)
            demo.wait(30)


def _doors(said: IO[str], demo: subprocess.Popen[bytes]) -> tuple[str, str]:
    until = time.monotonic() + 60
    while time.monotonic() < until and demo.poll() is None:
        said.seek(0)
        doors = re.search(r"console: (\S+)/ .*?log in: admin / (\S+)", said.read(), re.DOTALL)
        if doors:
            return doors[1], doors[2]
        time.sleep(0.2)
    raise SystemExit("the demo did not say where its console is")


def _look(page: Page, password: str) -> None:
    page.goto("/login")
    page.get_by_label("User").fill("admin")
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()
    expect(page.locator("#runs .run").first).to_be_visible(timeout=120_000)
    page.wait_for_timeout(3000)
    _keep(page, "overview")
    page.locator("#runs .run a").first.click()
    expect(page.locator("#chart-speed canvas")).to_be_visible(timeout=120_000)
    page.wait_for_timeout(2000)
    _keep(page, "run")
    page.goto("/agents?sort=health")
    _keep(page, "agents")
    _open_changed_product(page)
    _keep(page, "product")
    page.get_by_role("button", name="한국어").click()
    page.get_by_role("button", name="다크").click()
    page.get_by_role("link", name="왜?").first.click()
    expect(page.locator(".pulse")).to_have_text("실시간")
    _keep(page, "why")


def _open_changed_product(page: Page, field: str = "prices.selling", limit: float = 120) -> None:
    """Open the page of a product whose last change is one that anybody understands: its price."""
    until, seen = time.monotonic() + limit, set[str]()
    while time.monotonic() < until:
        page.goto("/outbox?event=PRODUCT_UPDATED")
        links = page.locator("#table-messages tbody a[href^='/products/']")
        addresses = [link.get_attribute("href") or "" for link in links.all()]
        for address in (each for each in dict.fromkeys(addresses) if each not in seen):
            seen.add(address)
            page.goto(address)
            if page.locator("table.diff tr", has_text=field).count():
                return
        page.wait_for_timeout(2000)
    raise SystemExit(f"no product changed its {field}")


def _keep(page: Page, name: str) -> None:
    target = PICTURES / f"{name}.png"
    page.screenshot(path=str(target))
    print(f"wrote {target.relative_to(ROOT)}, {target.stat().st_size // 1000} kB")


def main() -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    makers = {"terminal": terminal, "console": console}
    for name in sys.argv[1:] or makers:
        makers[name]()


if __name__ == "__main__":
    main()
