"""A contest: the practice marketplace in a process on the first core, one contestant after the other on the second.

A contestant is a process of its own, so that CPU and memory are its own: it gets an address and a place for its
database, and prints what it measured as JSON in its last line. What it stored is compared with the truth afterwards,
outside of what is measured.
"""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson
from benchmarks.others.job import SELLER, pin

ROOT = Path(__file__).resolve().parent.parent
OTHERS = ROOT / ".bench" / "bin" / "python"
#: Seconds a contestant may take; far beyond what it needs.
LIMIT = 1_200

COMMANDS = {
    "sellerwatch": [sys.executable, "-m", "benchmarks.crawl", "--contestant", "sellerwatch"],
    "bare aiohttp loop": [sys.executable, "-m", "benchmarks.crawl", "--contestant", "bare"],
    "Scrapy": [str(OTHERS), "-m", "benchmarks.others.with_scrapy"],
    "Crawlee": [str(OTHERS), "-m", "benchmarks.others.with_crawlee"],
}


@dataclass(frozen=True)
class Run:
    """One measured run of one contestant."""

    who: str
    requests: int
    seconds: float
    cpu: float
    peak_mb: float
    mismatches: int = 0
    #: Of a changed recrawl: its CPU per request beside that of the unchanged ones just before and after it.
    beside: float | None = None

    @property
    def rate(self) -> float:
        return self.requests / self.seconds

    @property
    def cpu_per_1k(self) -> float:
        return 1000 * self.cpu / self.requests


@dataclass
class Market:
    """A marketplace that runs, and a copy of its truth: the same seed makes the same world, and every change that is
    made there is made here."""

    url: str
    products: int
    detail_kb: int
    is_steady: bool
    changes: list[tuple[int, str]] = field(default_factory=list)
    changed: list[set[int]] = field(default_factory=list)

    def truth(self) -> Any:
        from sellerwatch.simulator.rng import seeded_rng
        from sellerwatch.simulator.simulator import Simulator
        from sellerwatch.simulator.world import CHANGES_ONLY

        simulator = Simulator(
            seed="0", sellers=1, products=self.products, detail_kb=self.detail_kb, volatile=not self.is_steady
        )
        done = [simulator.world.mutate(number, seeded_rng(seed), CHANGES_ONLY) for number, seed in self.changes]
        self.changed = [{mutation.item_no for mutation in mutations} for mutations in done]
        return simulator.marketplace


def change_products(url: str, number: int, seed: str) -> None:
    _knock(url, f"mutate?count={number}&seed={seed}&only=changed")


def _knock(url: str, door: str) -> None:
    request = urllib.request.Request(f"{url}/__simulator__/{door}", method="POST")
    with urllib.request.urlopen(request, timeout=LIMIT) as answer:
        answer.read()


@contextmanager
def marketplace(
    products: int, detail_kb: int = 4, latency_ms: float = 0, *, is_steady: bool = False
) -> Iterator[Market]:
    """The marketplace in a process of its own, on the first core, all its products made and rendered once: it has to
    be ahead of whoever is measured. `is_steady`: volatile fields stand still."""
    command = [sys.executable, "-m", "sellerwatch", "simulator", "--port", "0", "--json", "--sellers", "1"]
    command += ["--products", str(products), "--detail-kb", str(detail_kb), "--window-limit", "100000000"]
    command += ["--requests-per-second", "0", "--latency-ms", str(latency_ms), *(["--steady"] if is_steady else [])]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=lambda: pin(0))
    try:
        assert process.stdout is not None
        text = ""
        while not text.rstrip().endswith("}"):
            text += process.stdout.readline()
        url = json.loads(text)["marketplace"]
        say(f"warming a marketplace of {products:,} products up ...")
        _knock(url, "warm")
        yield Market(url, products, detail_kb, is_steady)
    finally:
        process.terminate()
        process.wait(timeout=10)


def compete(who: str, market: Market, *options: str, phases: Sequence[str] = ()) -> list[Run]:
    """One contestant's turn, its products checked. `phases` are crawls one after the other by our own service."""
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "contest.db"
        command = [*COMMANDS[who], "--url", market.url, "--database", str(database), *options]
        if phases:
            each, first = market.products // 100, len(market.changes)
            command += ["--phases", ",".join(phases), "--changed", str(each), str(first)]
            market.changes += [(each, str(seed)) for seed in range(first, first + phases.count("changed"))]
        # As it is installed: nobody compiles its modules anew at every start.
        env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False, cwd=ROOT, env=env)
        if done.returncode or not done.stdout:
            raise SystemExit(f"{who} failed:\n{done.stderr[-3000:]}")
        measured = json.loads(done.stdout.splitlines()[-1])
        is_ours = who == "sellerwatch"
        wrong = wrong_in_ours(database, market, phases) if is_ours else wrong_in_others(database, market)
    names = [who, *(f"{who}, {_PHASES[phase]}" for phase in phases[1:])]
    runs = [Run(name, **one, mismatches=wrong) for name, one in zip(names, measured, strict=True)]
    for at in [at for at, phase in enumerate(phases) if phase == "changed"]:
        around = runs[at - 1].cpu_per_1k + runs[at + 1].cpu_per_1k
        runs[at] = replace(runs[at], beside=2 * runs[at].cpu_per_1k / around)
    return runs


def together(runs: Sequence[Run]) -> Run:
    """Several turns of one contestant as one run."""
    return Run(
        runs[0].who,
        sum(run.requests for run in runs),
        sum(run.seconds for run in runs),
        sum(run.cpu for run in runs),
        max(run.peak_mb for run in runs),
        sum(run.mismatches for run in runs),
    )


def middle(runs: Sequence[Run]) -> Run:
    """The median one of several that took alike: a neighbour's busy second does not count."""
    middling = sorted(runs, key=lambda run: run.cpu_per_1k)[(len(runs) - 1) // 2]
    wrong, peak = sum(run.mismatches for run in runs), max(run.peak_mb for run in runs)
    besides = [run.beside for run in runs if run.beside is not None]
    beside = statistics.median(besides) if besides else None
    return replace(middling, mismatches=wrong, peak_mb=peak, beside=beside)


_PHASES = {"again": "unchanged again", "changed": "1 % changed"}


def wrong_in_others(database: Path, market: Market) -> int:
    """Products that are not in all their tables, or with another body than the marketplace's."""
    with sqlite3.connect(database) as opened:
        tables = ("SELECT item_no FROM products", "SELECT item_no FROM outbox")
        there = [{item for (item,) in opened.execute(select)} for select in tables]
        bodies: dict[int, dict[str, bytes]] = {}
        for item, part, body in opened.execute("SELECT item_no, part, body FROM raw"):
            bodies.setdefault(item, {})[part] = body
    truth = market.truth()
    items = set(truth.world.listing(SELLER))
    whole = there[0] & there[1]
    return len(items ^ whole) + sum(_differ(truth, item, bodies.get(item, {}), market) for item in items)


def wrong_in_ours(database: Path, market: Market, phases: Sequence[str]) -> int:
    """Products whose last event or whose bodies are not the truth."""
    from sellerwatch.adapters.sql.engine import make_engine
    from sellerwatch.adapters.sql.transaction import Transaction
    from sellerwatch.kernel.ids import ItemNo

    truth, told, wrong = market.truth(), dict[int, Any](), 0
    items = truth.world.listing(SELLER)
    changed = set().union(*market.changed[len(market.changed) - phases.count("changed") :])
    engine = make_engine(f"sqlite:///{database}")
    with engine.connect() as connection, connection.begin():
        tx = Transaction(connection)
        for (payload,) in tx.db.rows("SELECT payload FROM product_outbox ORDER BY id"):
            event = orjson.loads(payload)
            told[event["itemNo"]] = event["productData"]
        for at in range(0, len(items), 500):
            for item, product in tx.products.of_items([ItemNo(item) for item in items[at : at + 500]]).items():
                kept = tx.bodies.latest_raws([product.product_id])[product.product_id]
                bodies = {str(part): body for part, body in kept.items()}
                # A body is kept anew when its facts differ, so a changed one may lag in what is none: see the event.
                wrong += told.pop(item, None) != truth.world.truth(item) or (
                    item not in changed and _differ(truth, item, bodies, market)
                )
    engine.dispose()
    return wrong + len(told)


def _differ(truth: Any, item: int, bodies: Mapping[str, bytes], market: Market) -> bool:
    if set(bodies) != {"MINISHOP", "DETAIL", "OPTION"}:
        return True
    if not market.is_steady:
        return False
    product, show = truth.world.product(item), truth.renderer
    entry = orjson.loads(show.list_page(1, [product]))["items"][0]
    same = bodies["DETAIL"] == show.detail(product) and bodies["OPTION"] == show.options(product)
    return not same or orjson.loads(bodies["MINISHOP"]) != entry


def by_name(runs: Iterable[Run]) -> dict[str, list[Run]]:
    named: dict[str, list[Run]] = {}
    for run in runs:
        named.setdefault(run.who, []).append(run)
    return named


def rows(results: Mapping[str, Sequence[Run]]) -> list[tuple[str, ...]]:
    """Medians of the rounds, the worst round in brackets."""
    return [
        (
            who,
            f"{runs[0].requests:,}",
            f"{statistics.median(r.rate for r in runs):,.0f} ({min(r.rate for r in runs):,.0f})",
            f"{statistics.median(r.cpu_per_1k for r in runs):.3f} ({max(r.cpu_per_1k for r in runs):.3f})",
            f"{max(r.peak_mb for r in runs):.0f}",
            str(max(r.mismatches for r in runs)),
        )
        for who, runs in results.items()
    ]


COLUMNS = ("who", "requests", "req/s", "CPU s / 1k req", "peak MB", "wrong products")


def show(title: str, columns: Sequence[str], lines: Iterable[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="left" if column == columns[0] else "right")
    for line in lines:
        table.add_row(*line)
    Console(width=120).print(table)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def machine() -> str:
    """What it ran on, without saying whose it is."""
    models = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    cores = len(os.sched_getaffinity(0))
    return f"{models[0] if models else platform.machine()}, {cores} cores, Python {platform.python_version()}"
