"""Twice the workers, twice the crawl: 50 sellers crawled by 1, 2 and 4 worker processes on MariaDB and Redis.

    python -m benchmarks.scale [--workers 1 2 4] [--sellers 50] [--products 8] [--latency-ms 400] [--concurrency 8]

What is bound by the marketplace's latency grows with the workers until something else is full. Limits are raised out of
the way; limiter, leases and crash safety are on; nothing is delivered. The rate is that of the middle, from a fifth to
four fifths of the requests: whoever starts and ends is not at full speed. Beside it the cores that each part used then,
which say what will be full first. Exits with 1 where twice the workers bring less than 1.8 times the rate although all
of this left cores to spare: others that want them are in the way, so measure where there are none.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from benchmarks.contest import say, show
from benchmarks.crawl import RAISED
from tests.conftest import migrated_database
from tests.faults.processes import Program, SimulatorProcess, register_at
from tests.servers import MariaDb, Redis, Server, running

from sellerwatch.cli.running import at_work
from sellerwatch.compose.service import open_service
from sellerwatch.crawling.trigger import trigger
from sellerwatch.kernel.ids import SellerId
from sellerwatch.service.service import ProcessRole
from sellerwatch.settings.load import load

LEAST = 1.8
#: Seconds one measurement may take; far beyond what it needs.
LIMIT = 600
#: Of all the machine has, used by what is measured: with more than this it is full.
FULL = 0.9
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Measured:
    """The middle of one crawl: how fast it was, and how many cores each part used."""

    workers: int
    rate: float
    cores: dict[str, float]
    #: Of all cores there are, by everybody on the machine.
    busy: float

    @property
    def ours(self) -> float:
        return sum(self.cores.values())


class Cpu:
    """CPU seconds of processes and of the machine, since it was made."""

    def __init__(self, parts: dict[str, Sequence[int]]) -> None:
        self._parts = parts
        self._began, self._used, self._machine = time.monotonic(), self._now(), _machine()

    def _now(self) -> dict[str, float]:
        return {name: sum(map(_used, pids)) for name, pids in self._parts.items()}

    def read(self) -> tuple[dict[str, float], float]:
        """Cores used by each part, and the share of the whole machine that was used by anybody."""
        seconds, used, (busy, total) = time.monotonic() - self._began, self._now(), _machine()
        cores = {name: (used[name] - before) / seconds for name, before in self._used.items()}
        return cores, (busy - self._machine[0]) / max(1, total - self._machine[1])


def _used(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _machine() -> tuple[int, int]:
    """Ticks that were used, and all there were."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def _pid(server: Server) -> int:
    assert server._process is not None
    return server._process.pid


async def start_runs(settings: dict[str, object], sellers: Sequence[str]) -> None:
    """As a scheduler starts them, twenty at a time."""
    given = load({f"SELLERWATCH_{name}": str(value) for name, value in settings.items()}).settings
    at_once = asyncio.Semaphore(20)

    async def start(seller: str) -> None:
        async with at_once:
            await trigger(service.crawl, SellerId(seller), "bench")

    async with (
        open_service(given, roles=frozenset({ProcessRole.SCHEDULER}), schedules=False) as service,
        at_work(service),
    ):
        await service.begun.wait()
        await asyncio.gather(*map(start, sellers))


def measure(args: argparse.Namespace, workers: int, mariadb: MariaDb) -> Measured:
    sellers = [f"seller_{number:04}" for number in range(1, args.sellers + 1)]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        redis = stack.enter_context(running(Redis))
        assert isinstance(redis, Redis)
        simulator = stack.enter_context(
            SimulatorProcess(
                folder,
                *("--sellers", str(args.sellers), "--products", str(args.products), "--detail-kb", "4"),
                *("--latency-ms", str(args.latency_ms), "--window-limit", "100000000", "--requests-per-second", "0"),
            )
        )
        settings: dict[str, object] = {
            "DATABASE_URL": migrated_database(mariadb),
            "REDIS_URL": redis.url,
            "MARKETPLACE_URL": simulator.marketplace,
            "TOKEN_KEYS": "1:" + "A" * 43 + "=",
            "JWT_SECRET": "j" * 40,
            "INTERNAL_API_KEYS": "k" * 40,
            "MAX_CONCURRENCY": args.concurrency,
            **RAISED,
        }
        register_at(str(settings["DATABASE_URL"]), *sellers, due=False)
        programs = [stack.enter_context(Program(folder, "worker", **settings)) for _ in range(workers)]
        for program in programs:
            program.until_it_says("serving")
        asyncio.run(start_runs(settings, sellers))
        # The total, the list, then two requests for each product.
        wanted = args.sellers * (2 + 2 * args.products)
        first = _reached(simulator, 0.2 * wanted)
        cpu = Cpu(
            {
                "workers": [program.process.pid for program in programs],
                "MariaDB": [_pid(mariadb)],
                "Redis": [_pid(redis)],
                "simulator": [simulator.process.pid],
            }
        )
        last = _reached(simulator, 0.8 * wanted)
        cores, busy = cpu.read()
    return Measured(workers, (last[1] - first[1]) / (last[0] - first[0]), cores, busy)


def _reached(simulator: SimulatorProcess, number: float) -> tuple[float, int]:
    """When so many requests had come, and how many they were by then."""
    deadline = time.monotonic() + LIMIT
    while (requests := simulator.requests) < number:
        assert time.monotonic() < deadline, f"{requests} requests of {number:.0f} in {LIMIT} s"
        time.sleep(0.05)
    return time.monotonic(), requests


def _row(one: Measured, before: Measured | None) -> list[str]:
    times = "" if before is None else f"{one.rate / before.rate:.2f} x"
    used = [f"{one.cores[name]:.2f}" for name in ("workers", "MariaDB", "Redis", "simulator")]
    return [str(one.workers), f"{one.rate:.1f}", times, *used, f"{one.busy:.0%}"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--sellers", type=int, default=50)
    parser.add_argument("--products", type=int, default=8)
    parser.add_argument("--latency-ms", type=float, default=400)
    parser.add_argument("--concurrency", type=int, default=8)
    args = parser.parse_args()
    found: list[Measured] = []
    with running(MariaDb) as mariadb:
        assert isinstance(mariadb, MariaDb)
        for workers in args.workers:
            say(f"{workers} worker(s), {args.sellers} sellers of {args.products} products ...")
            found.append(measure(args, workers, mariadb))
    ceiling = args.concurrency / args.latency_ms * 1000
    cores = len(os.sched_getaffinity(0))
    title = f"requests/s; {args.concurrency} in flight at {args.latency_ms:g} ms: at most {ceiling:g} a worker"
    columns = ("workers", "requests/s", "", "cores: workers", "MariaDB", "Redis", "simulator", "machine busy")
    rows = [_row(one, before) for one, before in zip(found, [None, *found], strict=False)]
    show(title, columns, rows)
    most = found[-1]
    print(f"{1000 * most.ours / most.rate:.1f} s of CPU for 1,000 requests, with the simulator's:", end=" ")
    print(f"{cores} cores of our own would be full at {cores * most.rate / most.ours:.0f} requests/s")
    steps = [(one, two) for one, two in pairwise(found) if two.workers == 2 * one.workers]
    short = [two for one, two in steps if two.rate < LEAST * one.rate and two.ours < FULL * cores]
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
