"""Delivery, measured: a full outbox drained to a local receiver in another process, on another core.

    python benchmarks/outbox.py [--events 100000] [--body-kb 2] [--concurrency 20] [--rounds 1]

Prints events a second, CPU seconds per 1,000 events (this process and its threads, not the receiver's) and peak memory,
for our delivery as the service runs it (claims, leases, circuit, a row for every try, signatures) and for a bare
aiohttp loop that posts the same bodies to the same receiver and writes nothing down, in the same run. The receiver
checks that every event came exactly once and in the order of its product. Wall times on a shared machine move; trust
CPU and ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

SECRET = "whsec_YmVuY2htYXJrcyBhcmUgbm90IHByb29mcw=="
US, BARE = "sellerwatch", "bare aiohttp loop"


@dataclass(frozen=True)
class Run:
    """One measured run of one contestant."""

    who: str
    events: int
    seconds: float
    cpu: float
    peak_mb: float
    wrong: int

    @property
    def rate(self) -> float:
        return self.events / self.seconds

    @property
    def cpu_per_1k(self) -> float:
        return 1000 * self.cpu / self.events


def pin(core: int) -> None:
    with_cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {with_cores[core % len(with_cores)]})


async def receive() -> None:
    """The receiver: takes every event, remembers the last version of each product, and complains."""
    import orjson

    from sellerwatch.simulator.http import serve
    from sellerwatch.simulator.wire import SimulatedAnswer, SimulatedRequest, json_answer

    versions: dict[int, int] = {}
    counts = {"events": 0, "wrong": 0}

    def answer(request: SimulatedRequest, now: float) -> SimulatedAnswer:
        if request.path == "/stats":
            told = json_answer(200, counts)
            versions.clear()
            counts.update(events=0, wrong=0)
            return told
        event = orjson.loads(request.body)
        counts["events"] += 1
        counts["wrong"] += event["version"] != versions.get(event["itemNo"], 0) + 1
        versions[event["itemNo"]] = event["version"]
        return SimulatedAnswer(200, b"ok")

    async with serve(answer) as server:
        print(server.url, flush=True)
        await asyncio.Event().wait()


@contextmanager
def receiver() -> Iterator[str]:
    """In a process of its own, on the first core."""
    command = [sys.executable, __file__, "--contestant", "receiver"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=lambda: pin(0))
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(timeout=10)


def fill(database: Path, events: int, body_kb: float) -> None:
    """Waiting events, two of each product, as crawls would have left them."""
    from sellerwatch.adapters.sql.engine import make_engine
    from sellerwatch.adapters.sql.migrate import upgrade
    from sellerwatch.kernel.ids import ItemNo, OutboxId, SellerId
    from sellerwatch.outbox.event import data_json, event_body

    now = datetime.now(UTC)
    engine = make_engine(f"sqlite:///{database}")
    upgrade(engine, now)
    engine.dispose()
    stamp = now.replace(tzinfo=None).isoformat(" ", "microseconds")
    text = "<p>울 100% 반팔 티셔츠 🧵</p>"
    html = text * max(1, int(body_kb * 1024 - 250) // len(text.encode()))
    products = (events + 1) // 2

    def rows() -> Iterator[tuple[object, ...]]:
        for number in range(events):
            product, version = number % products, number // products + 1
            outbox_id = OutboxId(f"0198c0de-0000-7000-8005-{number:012x}")
            item_no, seller = ItemNo(900_000_000 + product), SellerId("seller_0001")
            data = {"itemNo": item_no, "sellerId": seller, "name": "반팔 티셔츠", "stock": number, "html": html}
            kind = "PRODUCT_CREATED" if version == 1 else "PRODUCT_UPDATED"
            body = event_body(outbox_id, kind, item_no, seller, version, now, (), data_json(data))
            product_id = f"0198c0de-0000-7000-8004-{product:012x}"
            yield outbox_id, product_id, item_no, seller, kind, version, body, stamp, stamp, stamp

    with closing(sqlite3.connect(database)) as opened, opened:
        opened.executemany(
            "INSERT INTO product_outbox (outbox_id, product_id, item_no, seller_id, event_type, version, payload,"
            " status, next_attempt_at, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, 'WAITING', ?, ?, ?)",
            rows(),
        )


async def ours(url: str, database: Path, events: int, concurrency: int) -> tuple[float, float]:
    """The whole service, with nothing to crawl."""
    from sellerwatch.compose.service import open_service
    from sellerwatch.settings.load import load

    values = {
        "DATABASE_URL": f"sqlite:///{database}",
        "MARKETPLACE_URL": "http://127.0.0.1:9",
        "ROBOTS_CHECK": "off",
        "PRODUCT_SERVER_URL": url,
        "PRODUCT_SERVER_SECRET": SECRET,
        "OUTBOX_CONCURRENCY": concurrency,
    }
    settings = load({f"SELLERWATCH_{name}": str(value) for name, value in values.items()}).settings
    async with open_service(settings, schedules=False) as service:
        delivery = service.deliveries[0]
        began, cpu = time.perf_counter(), time.process_time()
        running = asyncio.create_task(service.run())
        while True:
            if delivery.delivered >= events:
                break
            await asyncio.sleep(0.02)
        measured = time.perf_counter() - began, time.process_time() - cpu
        service.stop.set()
        await running
    return measured


async def bare(url: str, database: Path, concurrency: int) -> tuple[float, float]:
    """A ceiling, not a product: no signature, claim, lease, outcome, retry or order beyond rng."""
    import aiohttp

    with closing(sqlite3.connect(database)) as opened:
        bodies = iter(opened.execute("SELECT payload FROM product_outbox ORDER BY id"))
        headers = {"Content-Type": "application/json; charset=utf-8"}
        began, cpu = time.perf_counter(), time.process_time()
        async with aiohttp.ClientSession() as session:

            async def work() -> None:
                for (body,) in bodies:
                    async with session.post(url, data=body.encode(), headers=headers) as answer:
                        await answer.read()
                        assert answer.status == 200

            await asyncio.gather(*(work() for _ in range(concurrency)))
        return time.perf_counter() - began, time.process_time() - cpu


def contestant(args: argparse.Namespace) -> None:
    """Runs in a child process of its own, on the second core, so that CPU and peak memory are its own."""
    import uvloop

    if args.contestant != "receiver":
        pin(1)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if args.contestant == "receiver":
            runner.run(receive())
            return
        if args.contestant == US:
            measured = runner.run(ours(args.url, args.database, args.events, args.concurrency))
        else:
            measured = runner.run(bare(args.url, args.database, args.concurrency))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps([*measured, peak]))


def measure(args: argparse.Namespace) -> list[Run]:
    runs = []
    with tempfile.TemporaryDirectory() as folder, receiver() as url:
        for number in range(args.rounds):
            for who in (BARE, US):
                database = Path(folder) / "outbox.db"
                if who == BARE:
                    print(f"round {number + 1} of {args.rounds}: filling ...", file=sys.stderr, flush=True)
                    for old in Path(folder).glob("outbox.db*"):
                        old.unlink()
                    fill(database, args.events, args.body_kb)
                print(f"round {number + 1} of {args.rounds}: {who} ...", file=sys.stderr, flush=True)
                command = [sys.executable, __file__, "--contestant", who, "--url", f"{url}/events"]
                command += ["--database", str(database), "--events", str(args.events)]
                command += ["--concurrency", str(args.concurrency)]
                done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
                if done.returncode:
                    raise SystemExit(f"{who} failed:\n{done.stderr[-3000:]}")
                with urllib.request.urlopen(f"{url}/stats", timeout=60) as answer:
                    counts = json.load(answer)
                # The bare loop keeps no order: two of a product may pass each other.
                wrong = abs(counts["events"] - args.events) + (counts["wrong"] if who == US else 0)
                seconds, cpu, peak = json.loads(done.stdout.splitlines()[-1])
                runs.append(Run(who, args.events, seconds, cpu, peak, wrong))
    return runs


def show(runs: list[Run]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="medians of the rounds (worst round in brackets)", title_justify="left")
    for column in ("who", "events", "events/s", "CPU s / 1k events", "peak MB", "lost, doubled, out of order"):
        table.add_column(column, justify="left" if column == "who" else "right")
    for who in (US, BARE):
        of = [run for run in runs if run.who == who]
        table.add_row(
            who,
            f"{of[0].events:,}",
            f"{statistics.median(r.rate for r in of):,.0f} ({min(r.rate for r in of):,.0f})",
            f"{statistics.median(r.cpu_per_1k for r in of):.3f} ({max(r.cpu_per_1k for r in of):.3f})",
            f"{max(r.peak_mb for r in of):.0f}",
            str(max(r.wrong for r in of)),
        )
    Console(width=110).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--body-kb", type=float, default=2)
    parser.add_argument("--concurrency", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--contestant", help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    parser.add_argument("--database", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.contestant:
        contestant(args)
        return
    runs = measure(args)
    if args.json:
        print(json.dumps([asdict(run) for run in runs]))
    else:
        show(runs)
    if any(run.wrong for run in runs):
        raise SystemExit("some events went wrong: the figures above are worth nothing")


if __name__ == "__main__":
    main()
