"""docs/performance.md with its picture, and the headline of README.md, from the figures in results.json. What people
wrote around the figures stays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any
from xml.sax.saxutils import escape

from benchmarks import pieces, scale
from benchmarks.contest import COLUMNS, DELIVERING, US, Run, rows

ROOT = Path(__file__).resolve().parent.parent
README, PAGE = ROOT / "README.md", ROOT / "docs" / "performance.md"
PICTURE = ROOT / "docs" / "pictures" / "performance.svg"
BEGIN, END = "<!-- measured: made by benchmarks/performance.py -->\n", "<!-- end of measured -->\n"

TITLES = {
    "contest": "One seller of {products:,} products, 14 KB details",
    "small": "Details of 4 KB, {products:,} products",
    "earlier": "Details of 4 KB, earlier",
    "large": "Details of 30 KB, {products:,} products",
    "huge": "Details of 100 KB, {products:,} products",
    "recrawl": "Again and again: bytes written and how the file grows, {products:,} products of 14 KB",
    "volatile": "Again, with volatile fields varying",
    "latency": "100 ms before every answer, 100 in flight",
    "growth": "Ever larger sellers, 4 KB details",
    "mariadb": "MariaDB beside SQLite",
    "pieces": "Limiter, store, API",
}
NOTES = {
    "earlier": "Measured before, with descriptions that repeat between products and compress to a sixth.\n",
    "mariadb": (
        "Four sellers crawled at once without latency, 14 KB details; limits and leases in the database, MariaDB with\n"
        "its own defaults for commits. Waits are of row locks, by the server's counters.\n"
    ),
    "pieces": "Each by its own benchmark, at its full size.\n",
}
TABLES = {"mariadb": scale.ENGINE_COLUMNS, "pieces": pieces.COLUMNS}
COLOURS = {"sellerwatch": "#3fb950", "Scrapy": "#58a6ff", "Crawlee": "#bc8cff", "bare aiohttp loop": "#6e7681"}


def write_pages(kept: Mapping[str, Any]) -> None:
    sections = [_section(part, kept[part]) for part in TITLES if part in kept]
    _write_between(PAGE, "".join(sections))
    if "contest" in kept:
        runs = _runs(kept["contest"])
        PICTURE.write_text(_picture(runs), "utf-8")
        _write_between(README, _headline(runs, kept["contest"]["machine"]))


def _write_between(page: Path, made: str) -> None:
    before, begin, rest = page.read_text("utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    page.write_text(f"{before}{begin}\n{made}{end}{after}", "utf-8")


def _headline(runs: Mapping[str, Sequence[Run]], machine: str) -> str:
    shown = {who: runs[who] for who in (US, DELIVERING, "Crawlee", "Scrapy")}
    table = _table(COLUMNS, rows(shown))
    return f"{_title('contest', runs)}, on {machine}:\n\n{table}\n"


def _title(name: str, runs: Mapping[str, Sequence[Run]]) -> str:
    first = next(iter(runs.values()), [])
    return TITLES[name].format(products=first[0].products if first else 0)


def _runs(part: Mapping[str, Any]) -> dict[str, list[Run]]:
    return {who: [Run(**run) for run in runs] for who, runs in part.get("runs", {}).items()}


def _section(name: str, part: Mapping[str, Any]) -> str:
    how = {"growth": "all at once on one core"}.get(name, "medians, the worst round in brackets")
    on = f"On {part['machine']}.\n" if name in TABLES else f"On {part['machine']}; {how}.\n"
    lines = [f"## {_title(name, _runs(part))}\n", on, *([NOTES[name]] if name in NOTES else [])]
    if name in TABLES:
        return "\n".join([*lines, _table(TABLES[name], part["table"])]) + "\n"
    runs = _runs(part)
    if name == "contest":
        lines.append("![CPU and requests a second, side by side](pictures/performance.svg)\n")
    if name == "growth":
        # Which share of the core each had says nothing about how fast it is.
        shown = [
            (size, f"{of.requests:,}", f"{of.cpu_per_1k:.3f}", f"{of.peak_mb:.0f}") for size, (of,) in runs.items()
        ]
        lines.append(_table(("products", "requests", "CPU s / 1k", "peak MB"), shown))
    elif any(run.written for found in runs.values() for run in found):
        lines.append(_table(COLUMNS, rows(runs)))
    else:
        lines.append(_table(COLUMNS[:6], [row[:6] for row in rows(runs)]))
    if part["bars"]:
        found = [
            (bar["what"], bar["wanted"], f"{bar['reached']:.2f}", f"{bar['low']:.2f} to {bar['high']:.2f}", bar["met"])
            for bar in part["bars"]
        ]
        columns = ("by the median of the rounds", "wanted", "reached", "rounds", "met")
        lines.append(_table(columns, [(*bar[:4], f"**{bar[4]}**" if bar[4] == "no" else bar[4]) for bar in found]))
    return "\n".join(lines) + "\n"


def _table(columns: Sequence[str], found: Sequence[Sequence[str]]) -> str:
    marks = ["---", *["---:"] * (len(columns) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (columns, marks, *found)) + "\n"


def _picture(runs: Mapping[str, Sequence[Run]]) -> str:
    """Two groups of bars; a system font, nothing fetched from anywhere."""
    charts = (
        (
            "CPU s per 1,000 requests (less is better)",
            {who: median(r.cpu_per_1k for r in runs[who]) for who in COLOURS},
            "{:.3f}",
        ),
        ("requests a second (more is better)", {who: median(r.rate for r in runs[who]) for who in COLOURS}, "{:,.0f}"),
    )
    width, line, left = 720, 26, 150
    height = sum(line * (len(values) + 2) for _, values, _ in charts) + 16
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        "<title>Sellerwatch beside Scrapy, Crawlee and a bare aiohttp loop</title>",
        f'<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>',
        '<g font-family="system-ui, sans-serif" font-size="14" fill="#d0d7de">',
    ]
    y = 8
    for title, values, form in charts:
        y += line
        parts.append(f'<text x="16" y="{y - 6}" font-weight="bold">{escape(title)}</text>')
        for who, value in values.items():
            length = (width - left - 90) * value / max(values.values())
            parts.append(f'<text x="16" y="{y + 16}">{escape(who)}</text>')
            parts.append(
                f'<rect x="{left}" y="{y + 3}" width="{length:.1f}" height="{line - 8}" rx="3" fill="{COLOURS[who]}"/>'
            )
            parts.append(f'<text x="{left + length + 8:.1f}" y="{y + 16}">{form.format(value)}</text>')
            y += line
        y += line // 2
    return "\n".join([*parts, "</g>", "</svg>", ""])
