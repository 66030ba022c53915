"""Makes the pictures in the documentation: what really stood on a terminal while the demo worked.

    python scripts/make_pictures.py

Runs `sellerwatch demo` on a pseudo-terminal, reads its screen with a terminal emulator, and writes it as SVG.
"""

from __future__ import annotations

import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable
from fcntl import ioctl
from pathlib import Path
from xml.sax.saxutils import escape

import pyte

ROOT = Path(__file__).resolve().parent.parent
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


def main() -> None:
    demo = [str(Path(sys.executable).parent / "sellerwatch"), "demo", "--products", "1500", "--profile", "flaky"]

    def half_way(lines: list[str]) -> bool:
        delivered = next((line for line in lines if "events delivered" in line), "")
        number = "".join(c for c in delivered.partition("receiver")[0] if c.isdigit())
        return bool(number) and int(number) > 1500

    target = ROOT / "docs" / "pictures" / "demo.svg"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(as_svg(screen_of(demo, half_way), "sellerwatch demo at work"), "utf-8")
    print(f"wrote {target.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
