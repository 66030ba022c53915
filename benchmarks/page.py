"""docs/performance.md and its picture, from the figures in results.json. What people wrote below the figures stays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any
from xml.sax.saxutils import escape

from benchmarks.contest import Run, rows
from benchmarks.pieces import COLUMNS

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGE, PICTURE = DOCS / "performance.md", DOCS / "pictures" / "performance.svg"
BEGIN, END = "<!-- measured: made by benchmarks/performance.py -->\n", "<!-- end of measured -->\n"

TITLES = {
    "contest": "One seller of 5,000 products, 4 KB details",
    "recrawl": "Again and again, unchanged and with 1 % changed",
    "volatile": "The same with volatile fields varying",
    "large": "Details of 30 KB, the contract's size",
    "latency": "100 ms before every answer, 100 in flight",
    "growth": "Ever larger sellers",
    "pieces": "Limiter, store, outbox, API",
}
COLOURS = {"sellerwatch": "#3fb950", "Scrapy": "#58a6ff", "Crawlee": "#bc8cff", "bare aiohttp loop": "#6e7681"}


def write_page(kept: Mapping[str, Any]) -> None:
    text = PAGE.read_text("utf-8") if PAGE.exists() else f"# Performance\n\n{BEGIN}{END}"
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    parts = [_section(part, kept[part]) for part in TITLES if part in kept]
    PAGE.write_text(f"{before}{BEGIN}\n{''.join(parts)}{END}{after}", "utf-8")
    if "contest" in kept:
        PICTURE.write_text(_picture(_runs(kept["contest"])), "utf-8")


def _runs(part: Mapping[str, Any]) -> dict[str, list[Run]]:
    return {who: [Run(**run) for run in runs] for who, runs in part["runs"].items()}


def _section(name: str, part: Mapping[str, Any]) -> str:
    if name == "pieces":
        head = f"## {TITLES[name]}\n\nOn {part['machine']}; each by its own benchmark, at its full size.\n"
        return f"{head}\n{_table(COLUMNS, part['pieces'])}\n"
    runs = _runs(part)
    how = "all at once on one core" if name == "growth" else "medians, the worst round in brackets"
    lines = [f"## {TITLES[name]}\n", f"On {part['machine']}; {how}.\n"]
    if name == "contest":
        lines.append("![CPU and requests a second, side by side](pictures/performance.svg)\n")
    if name == "growth":
        # Which share of the core each had says nothing about how fast it is.
        shown = [
            (size, f"{of.requests:,}", f"{of.cpu_per_1k:.3f}", f"{of.peak_mb:.0f}") for size, (of,) in runs.items()
        ]
        lines.append(_table(("products", "requests", "CPU s / 1k req", "peak MB"), shown))
    else:
        columns = ("who", "requests", "req/s", "CPU s / 1k req", "peak MB")
        lines.append(_table(columns, [row[:5] for row in rows(runs)]))
    if part["bars"]:
        found = [
            (bar["what"], bar["wanted"], f"{bar['reached']:.2f}", "yes" if bar["is_met"] else "**no**")
            for bar in part["bars"]
        ]
        lines.append(_table(("by the worst round", "wanted", "reached", "met"), found))
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
