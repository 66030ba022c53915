"""A contest: the practice marketplace in a process on the first core, one contestant after the other on the second.

A contestant is a process of its own, so that CPU, memory and bytes written are its own: it gets an address and a place
for its database, and prints what it measured as JSON in its last line. What it stored, and what it delivered, is
compared with the truth afterwards, outside of what is measured.
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
from benchmarks.receiver import ask_received, digest, receiver

ROOT = Path(__file__).resolve().parent.parent
OTHERS = ROOT / ".bench" / "bin" / "python"
#: Where databases are while they are measured: on the disk of the checkout, since the system's temporary folder may be
#: in memory, where writing costs nothing.
FOLDER = ROOT / ".bench" / "databases"
#: Seconds a contestant may take; far beyond what it needs.
LIMIT = 1_200
KB = 1024

US, BARE = "sellerwatch", "bare aiohttp loop"
COMMANDS = {
    US: [sys.executable, "-m", "benchmarks.crawl", "--contestant", US],
    BARE: [sys.executable, "-m", "benchmarks.crawl", "--contestant", BARE],
    "Scrapy": [str(OTHERS), "-m", "benchmarks.others.with_scrapy"],
    "Crawlee": [str(OTHERS), "-m", "benchmarks.others.with_crawlee"],
}
#: Of our service with a receiver from the start: requests are measured until their events are delivered too.
DELIVERING = f"{US}, events delivered too"


@dataclass(frozen=True)
class Phase:
    """What our service does in one of several phases, and which share of the products changes before it."""

    label: str
    share: float = 0
    how: str = ""

    def changes(self, products: int) -> int:
        return max(1, round(self.share * products)) if self.share else 0


PHASES = {
    "first": Phase(""),
    "again": Phase("unchanged again"),
    "changed": Phase("1 % changed", 0.01),
    "changed-10": Phase("10 % changed", 0.1),
    "repriced": Phase("every price changed", 1, "reprice"),
    # No crawl: a service that has a receiver delivers what the crawls before left waiting.
    "delivery": Phase("waiting events delivered"),
}


@dataclass(frozen=True)
class Run:
    """One measured run of one contestant. Of a delivery, `requests` are events."""

    who: str
    requests: int
    seconds: float
    cpu: float
    peak_mb: float
    mismatches: int = 0
    #: Of a changed recrawl: its CPU per request beside that of the unchanged ones just before and after it.
    beside: float | None = None
    products: int = 0
    #: Bytes that this process wrote, and by which its database grew, both with all of the write-ahead log in the file.
    written: int = 0
    grown: int = 0

    @property
    def rate(self) -> float:
        return self.requests / self.seconds

    @property
    def cpu_per_1k(self) -> float:
        return 1000 * self.cpu / self.requests

    @property
    def busy(self) -> float:
        """Share of the core that was used."""
        return self.cpu / self.seconds

    @property
    def written_kb(self) -> float:
        return self.written / KB / max(1, self.products)

    @property
    def grown_kb(self) -> float:
        return self.grown / KB / max(1, self.products)


@dataclass
class Market:
    """A marketplace that runs, a receiver beside it, and a copy of its truth: the same seed makes the same world, and
    every change that is made there is made here."""

    url: str
    receiver: str
    pid: int
    products: int
    options: Mapping[str, Any]
    _seed: int = 0
    _truth: Any = None
    _digests: dict[tuple[int, int], str] = field(default_factory=dict)

    @property
    def is_steady(self) -> bool:
        return not self.options.get("volatile", True)

    @property
    def truth(self) -> Any:
        if self._truth is None:
            from sellerwatch.simulator.simulator import Simulator

            self._truth = Simulator(seed="0", products=self.products, **self.options).marketplace
        return self._truth

    @property
    def requests(self) -> int:
        """How many came until now."""
        return sum(json.loads(_ask(self.url, "stats", "GET"))["marketplace"]["requests"].values())

    def digest(self, item: int) -> str:
        """Of the productData that must have been delivered."""
        key = item, self.truth.world.product(item).revision
        if key not in self._digests:
            self._digests[key] = digest(self.truth.world.truth(item))
        return self._digests[key]

    def seed(self) -> int:
        """For the changes of the next run."""
        return self._seed

    def change(self, phases: Sequence[str]) -> set[int]:
        """Change the truth as a run of these phases changed the marketplace; return the items."""
        from sellerwatch.simulator.rng import seeded_rng
        from sellerwatch.simulator.world import CHANGES_ONLY

        changed = set()
        for phase in map(PHASES.__getitem__, phases):
            if phase.share:
                rng, count = seeded_rng(self._seed), phase.changes(self.products)
                mutations = self.truth.world.mutate(count, rng, CHANGES_ONLY, phase.how or None)
                changed |= {mutation.item_no for mutation in mutations}
                self._seed += 1
        return changed


def change_products(url: str, number: int, seed: int, how: str) -> None:
    _ask(url, f"mutate?count={number}&seed={seed}&only=changed{f'&how={how}' if how else ''}", "POST")


def _ask(url: str, door: str, method: str) -> bytes:
    request = urllib.request.Request(f"{url}/__simulator__/{door}", method=method)
    with urllib.request.urlopen(request, timeout=LIMIT) as answer:
        found: bytes = answer.read()
        return found


@contextmanager
def marketplace(
    products: int, detail_kb: int, latency_ms: float = 0, *, sellers: int = 1, is_steady: bool = True
) -> Iterator[Market]:
    """The marketplace in a process of its own, on the first core, all its products made and rendered once: it has to
    be ahead of whoever is measured. Its descriptions do not repeat between products; `is_steady`: volatile fields stand
    still."""
    command = [sys.executable, "-m", "sellerwatch", "simulator", "--port", "0", "--json", "--sellers", str(sellers)]
    command += ["--products", str(products), "--detail-kb", str(detail_kb), "--window-limit", "100000000"]
    command += ["--random-text", "--requests-per-second", "0", "--latency-ms", str(latency_ms)]
    command += ["--steady"] if is_steady else []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=lambda: pin(0)) as process:
        try:
            assert process.stdout is not None
            text = ""
            while not text.rstrip().endswith("}"):
                text += process.stdout.readline()
            url = json.loads(text)["marketplace"]
            say(f"warming a marketplace of {sellers * products:,} products with details of {detail_kb} KB up ...")
            _ask(url, "warm", "POST")
            options = {"sellers": sellers, "detail_kb": detail_kb, "random_text": True, "volatile": not is_steady}
            with receiver() as events:
                yield Market(url, events, process.pid, products, options)
        finally:
            process.terminate()


def compete(
    who: str, market: Market, *options: str, phases: Sequence[str] = ("first",), is_delivering: bool = False
) -> list[Run]:
    """One contestant's turn, its products and events checked. `phases` are done by our own service alone, one after the
    other; `is_delivering`: it delivers from the start, and a phase is over when its events are delivered."""
    is_ours, phases = who == US, tuple(phases) if who == US else ()
    with databases() as folder:
        database = folder / "contest.db"
        command = [*COMMANDS[who], "--url", market.url, "--database", str(database), *options]
        if is_ours:
            command += ["--phases", *phases, "--products", str(market.products), "--seed", str(market.seed())]
            command += ["--receiver", market.receiver, *(["--delivering"] if is_delivering else [])]
        measured = _measured(command)
        if is_ours:
            wrong = wrong_in_ours(f"sqlite:///{database}", market, market.change(phases))
            if is_delivering or "delivery" in phases:
                wrong += wrong_in_received(market)
        else:
            wrong = wrong_in_others(database, market)
        name = DELIVERING if is_delivering else who
        names = [name, *(f"{name}, {PHASES[phase].label}" for phase in phases[1:])]
        if "delivery" in phases:
            command = [*COMMANDS[BARE], "--database", str(database), "--receiver", market.receiver]
            measured += _measured(command)
            names.append(f"{BARE}, the same events")
            wrong += wrong_in_received(market, in_order=False)
    runs, disk = [], 0
    for each, one in zip(names, measured, strict=True):
        before, disk = disk, one.pop("disk")
        runs.append(Run(each, **one, mismatches=wrong, products=market.products, grown=disk - before))
    # A changed one between two unchanged ones is compared with both.
    for at in [at for at in range(1, len(phases) - 1) if phases[at - 1 : at + 2] == ("again", "changed", "again")]:
        around = runs[at - 1].cpu_per_1k + runs[at + 1].cpu_per_1k
        runs[at] = replace(runs[at], beside=2 * runs[at].cpu_per_1k / around)
    return runs


@contextmanager
def databases() -> Iterator[Path]:
    """An empty folder on the disk of the checkout."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        yield Path(folder)


def _measured(command: Sequence[str]) -> list[dict[str, Any]]:
    # As it is installed: nobody compiles its modules anew at every start.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False, cwd=ROOT, env=env)
    if done.returncode or not done.stdout:
        raise SystemExit(f"{' '.join(command[2:5])} failed:\n{done.stderr[-3000:]}")
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def together(runs: Sequence[Run]) -> Run:
    """Several turns of one contestant as one run; what is for each product becomes the mean of the turns."""
    return replace(
        runs[0],
        requests=sum(run.requests for run in runs),
        seconds=sum(run.seconds for run in runs),
        cpu=sum(run.cpu for run in runs),
        peak_mb=max(run.peak_mb for run in runs),
        mismatches=sum(run.mismatches for run in runs),
        products=sum(run.products for run in runs),
        written=sum(run.written for run in runs),
        grown=sum(run.grown for run in runs),
    )


def middle(runs: Sequence[Run]) -> Run:
    """The median one of several that took alike: a neighbour's busy second does not count."""
    middling = sorted(runs, key=lambda run: run.cpu_per_1k)[(len(runs) - 1) // 2]
    besides = [run.beside for run in runs if run.beside is not None]
    return replace(middling, beside=statistics.median(besides) if besides else None)


def wrong_in_others(database: Path, market: Market) -> int:
    """Products that are not in all their tables, or with another body than the marketplace's."""
    with sqlite3.connect(database) as opened:
        tables = ("SELECT item_no FROM products", "SELECT item_no FROM outbox")
        there = [{item for (item,) in opened.execute(select)} for select in tables]
        bodies: dict[int, dict[str, bytes]] = {}
        for item, part, body in opened.execute("SELECT item_no, part, body FROM raw"):
            bodies.setdefault(item, {})[part] = body
    items = set(market.truth.world.listing(SELLER))
    whole = there[0] & there[1]
    return len(items ^ whole) + sum(_differ(item, bodies.get(item, {}), market) for item in items)


def wrong_in_ours(url: str, market: Market, changed: Iterable[int] = ()) -> int:
    """Products whose last event or whose bodies are not the truth."""
    from sellerwatch.adapters.sql.engine import make_engine
    from sellerwatch.adapters.sql.transaction import Transaction
    from sellerwatch.kernel.ids import ItemNo

    world, may_lag = market.truth.world, set(changed)
    items = [item for seller in world.sellers for item in world.listing(seller)]
    engine = make_engine(url)
    with engine.connect() as connection, connection.begin():
        tx = Transaction(connection)
        ((stored,),) = tx.db.rows("SELECT COUNT(*) FROM products")
        wrong = abs(int(stored) - len(items))
        for at in range(0, len(items), 500):
            group = items[at : at + 500]
            found = tx.products.of_items([ItemNo(item) for item in group])
            wrong += len(group) - len(found)
            for item, product in found.items():
                last = tx.product_outbox.latest_of(product.product_id, 1)
                kept = tx.bodies.latest_raws([product.product_id])[product.product_id]
                bodies = {str(part): body for part, body in kept.items()}
                told = [digest(orjson.loads(message.payload)["productData"]) for message in last]
                # A body is kept anew when its facts differ, so a changed one may lag in what is none: see the event.
                wrong += told != [market.digest(item)] or (item not in may_lag and _differ(item, bodies, market))
    engine.dispose()
    return wrong


def wrong_in_received(market: Market, *, in_order: bool = True) -> int:
    """Products whose last event is not the truth, and events that came in the wrong order or again."""
    found = ask_received(market.receiver)
    items = set(market.truth.world.listing(SELLER))
    differ = sum(found.digests.get(item) != market.digest(item) for item in items)
    return differ + len(found.digests.keys() - items) + (found.wrong if in_order else 0)


def _differ(item: int, bodies: Mapping[str, bytes], market: Market) -> bool:
    if set(bodies) != {"MINISHOP", "DETAIL", "OPTION"}:
        return True
    if not market.is_steady:
        return False
    product, show = market.truth.world.product(item), market.truth.renderer
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
            f"{statistics.median(r.busy for r in runs):.0%}",
            f"{max(r.peak_mb for r in runs):.0f}",
            f"{statistics.median(r.grown_kb for r in runs):.1f}",
            f"{statistics.median(r.written_kb for r in runs):.1f}",
        )
        for who, runs in results.items()
    ]


#: The last two for each product of the seller.
COLUMNS = ("who", "requests", "req/s", "CPU s / 1k", "busy", "peak MB", "file grew KB", "written KB")


def show(title: str, columns: Sequence[str], lines: Iterable[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="left" if column == columns[0] else "right")
    for line in lines:
        table.add_row(*line)
    Console(width=140).print(table)


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
    what = f"{models[0] if models else platform.machine()}, {cores} cores, Python {platform.python_version()}"
    return f"{what}, databases on {file_system(FOLDER)}"


def file_system(path: Path) -> str:
    """The kind of the file system that a path is on, such as ext4. Bytes written to a tmpfs are not counted."""
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    around = [(where, kind) for where, kind in mounts if path.is_relative_to(where)]
    return max(around, key=lambda mount: len(mount[0]))[1] if around else "an unknown file system"
