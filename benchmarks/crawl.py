"""The crawl, measured: one seller of N products on the simulator in another process, on another core.

    python benchmarks/crawl.py [--products 5000] [--detail-kb 4] [--rounds 3]

Prints requests a second, CPU seconds per 1,000 requests (this process and its threads, not the simulator's), and peak
memory, for our whole service (limits raised out of the way; limiter, leases and crash safety on) and for a bare aiohttp
loop that fetches the same addresses, parses the JSON and stores rows in SQLite, in interleaved rounds of the same run.
Every product is checked against the truth. Wall times on a shared machine move; trust CPU and ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

SELLER = "seller_0001"
RAISED = {
    "WINDOW_LIMIT": 1_000_000,
    "WINDOW_SECONDS": 60,
    "REQUESTS_PER_SECOND": 1_000_000,
    "DEPARTURE_MARGIN_SECONDS": 0,
}


@dataclass(frozen=True)
class Run:
    """One measured run of one contestant."""

    who: str
    requests: int
    seconds: float
    cpu: float
    peak_mb: float
    mismatches: int

    @property
    def rate(self) -> float:
        return self.requests / self.seconds

    @property
    def cpu_per_1k(self) -> float:
        return 1000 * self.cpu / self.requests


def pin(core: int) -> None:
    with_cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {with_cores[core % len(with_cores)]})


@contextmanager
def simulator(products: int, detail_kb: int, latency_ms: float) -> Iterator[str]:
    """The marketplace in a process of its own, on the first core."""
    command = [sys.executable, "-m", "sellerwatch", "simulator", "--port", "0", "--json", "--sellers", "1"]
    command += ["--products", str(products), "--detail-kb", str(detail_kb), "--window-limit", "100000000"]
    command += ["--requests-per-second", "0", "--latency-ms", str(latency_ms)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=lambda: pin(0))
    try:
        assert process.stdout is not None
        text = ""
        while not text.rstrip().endswith("}"):
            text += process.stdout.readline()
        yield json.loads(text)["marketplace"]
    finally:
        process.terminate()
        process.wait(timeout=10)


def ask(url: str) -> dict[str, object]:
    with urllib.request.urlopen(url, timeout=120) as answer:
        return dict(json.load(answer))


async def ours(url: str, folder: Path, runs: int) -> list[tuple[int, float, float]]:
    """Our service: registers the seller, crawls it, delivers nothing (the wire of delivery is another benchmark)."""
    from sellerwatch.compose import open_service
    from sellerwatch.crawling.trigger import trigger
    from sellerwatch.kernel.ids import Draw, SellerId
    from sellerwatch.sellers.register import register
    from sellerwatch.settings import load

    values = {"DATABASE_URL": f"sqlite:///{folder}/ours.db", "MARKETPLACE_URL": url} | RAISED
    settings = load({f"SELLERWATCH_{name}": str(value) for name, value in values.items()}).settings
    measured = []
    async with open_service(settings, schedules=False) as service:
        crawl = service.crawl
        running = asyncio.create_task(service.run())
        draw, now, seller = Draw(crawl.ids), crawl.clock.now(), SellerId(SELLER)
        await crawl.store.transact(
            lambda tx: register(tx, seller, "bench", None, actor="bench", ids=draw.replay(), now=now)
        )
        for _ in range(runs):
            before = service.progress.completed
            began, cpu = time.perf_counter(), time.process_time()
            await trigger(crawl, seller, "bench")
            service.nudge()
            while True:
                if await crawl.store.read(lambda tx: tx.executions.open_of(seller)) is None:
                    break
                await asyncio.sleep(0.05)
            measured.append(
                (service.progress.completed - before, time.perf_counter() - began, time.process_time() - cpu)
            )
        service.stop.set()
        await running
    return measured


async def bare(url: str, folder: Path, concurrency: int = 20) -> list[tuple[int, float, float]]:
    """A ceiling, not a product: no limiter, leases, retries, resume or history."""
    import sqlite3

    import aiohttp
    import orjson

    base = f"{url}/mustit-api"
    database = sqlite3.connect(folder / "bare.db", isolation_level=None)
    database.executescript(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
        "CREATE TABLE raw (item_no INTEGER, part TEXT, hash TEXT, body BLOB, PRIMARY KEY (item_no, part))"
    )
    import hashlib

    async with aiohttp.ClientSession() as session:
        async with session.get(url, headers={"User-Agent": "bench"}) as answer:
            jar = {name: morsel.value for name, morsel in answer.cookies.items()}
        cookie = f"nid={jar['nid']}; mustit_uid={jar['mustit_uid']}"
        headers = {"User-Agent": "bench", "Authorization": f"Bearer {jar['token']}", "Cookie": cookie}
        began, cpu = time.perf_counter(), time.process_time()
        requests, rows = 0, []

        async def get(path: str) -> bytes:
            async with session.get(base + path, headers=headers) as reply:
                return await reply.read()

        def keep(item: int, part: str, body: bytes) -> None:
            value = orjson.loads(body)
            digest = hashlib.md5(orjson.dumps(value, option=orjson.OPT_SORT_KEYS), usedforsecurity=False).hexdigest()
            rows.append((item, part, digest, body))
            if len(rows) >= 200:
                flush()

        def flush() -> None:
            database.execute("BEGIN")
            database.executemany("INSERT OR REPLACE INTO raw VALUES (?, ?, ?, ?)", rows)
            database.execute("COMMIT")
            rows.clear()

        items: list[int] = []
        page = 0
        while True:
            body = await get(
                f"/facade-api/v1/searchmini-shop-search?sellerId={SELLER}&pageNo={page}&pageSize=500&order=LATEST"
            )
            requests += 1
            found = [entry["itemNo"] for entry in orjson.loads(body)["items"]]
            if not found:
                break
            items += found
            page += 1
        waiting = iter([(item, part) for item in items for part in ("detail", "options")])

        async def work() -> None:
            nonlocal requests
            for item, part in waiting:
                path = (
                    f"/facade-api/v1/item/{item}/detail/top"
                    if part == "detail"
                    else f"/legacy-api/v1/auction_products/{item}/options"
                )
                keep(item, part, await get(path))
                requests += 1

        await asyncio.gather(*(work() for _ in range(concurrency)))
        flush()
        stored = database.execute("SELECT COUNT(DISTINCT item_no) FROM raw").fetchone()[0]
        assert stored == len(items), "the bare loop lost products"
        return [(requests, time.perf_counter() - began, time.process_time() - cpu)]


def contestant(who: str, url: str, products: int) -> None:
    """Runs in a child process of its own, on the second core, so that CPU and peak memory are its own."""
    import uvloop

    pin(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        main = bare(url, folder) if who == "bare aiohttp loop" else ours(url, folder, 2)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            measured = runner.run(main)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        missing = 0 if who == "bare aiohttp loop" else missing_in(folder / "ours.db", products)
    labels = [who] if len(measured) == 1 else [who, f"{who}, unchanged again"]
    runs = [Run(label, *m, peak, missing) for label, m in zip(labels, measured, strict=True)]
    print(json.dumps([asdict(run) for run in runs]))


def missing_in(database: Path, products: int) -> int:
    """Products that did not become exactly one event with all their parts."""
    import sqlite3

    with sqlite3.connect(database) as opened:
        counted = "SELECT COUNT(*) FROM {}"
        complete, events, others = (
            int(opened.execute(counted.format(what)).fetchone()[0])
            for what in (
                "products WHERE is_complete = 1",
                "product_outbox WHERE event_type = 'PRODUCT_CREATED'",
                "product_outbox WHERE event_type <> 'PRODUCT_CREATED'",
            )
        )
    return abs(products - complete) + abs(products - events) + others


def measure(args: argparse.Namespace) -> dict[str, list[Run]]:
    results: dict[str, list[Run]] = {}
    with simulator(args.products, args.detail_kb, args.latency_ms) as url:
        for number in range(args.rounds):
            for who in ("sellerwatch", "bare aiohttp loop"):
                print(f"round {number + 1} of {args.rounds}: {who} ...", file=sys.stderr, flush=True)
                command = [
                    sys.executable,
                    __file__,
                    "--contestant",
                    who,
                    "--url",
                    url,
                    "--products",
                    str(args.products),
                ]
                done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
                if done.returncode:
                    raise SystemExit(f"{who} failed:\n{done.stderr[-3000:]}")
                for run in json.loads(done.stdout.splitlines()[-1]):
                    results.setdefault(run["who"], []).append(Run(**run))
    return results


def show(results: dict[str, list[Run]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="medians of the rounds (worst round in brackets)", title_justify="left")
    for column in ("who", "requests", "req/s", "CPU s / 1k req", "peak MB", "wrong products"):
        table.add_column(column, justify="left" if column == "who" else "right")
    for who, runs in results.items():
        table.add_row(
            who,
            f"{runs[0].requests:,}",
            f"{statistics.median(r.rate for r in runs):,.0f} ({min(r.rate for r in runs):,.0f})",
            f"{statistics.median(r.cpu_per_1k for r in runs):.3f} ({max(r.cpu_per_1k for r in runs):.3f})",
            f"{max(r.peak_mb for r in runs):.0f}",
            str(max(r.mismatches for r in runs)),
        )
    Console(width=110).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--products", type=int, default=2000)
    parser.add_argument("--detail-kb", type=int, default=4)
    parser.add_argument("--latency-ms", type=float, default=0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--contestant", help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.contestant:
        contestant(args.contestant, args.url, args.products)
        return
    results = measure(args)
    if args.json:
        print(json.dumps({who: [asdict(run) for run in runs] for who, runs in results.items()}))
    else:
        show(results)
    if any(run.mismatches for runs in results.values() for run in runs):
        raise SystemExit("some products are wrong: the figures above are worth nothing")


if __name__ == "__main__":
    main()
