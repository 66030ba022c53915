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
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from benchmarks.contest import FOLDER, Market, databases, marketplace, say, show, wrong_in_ours
from benchmarks.crawl import RAISED
from tests.conftest import migrated_database
from tests.faults.processes import Program, register_at
from tests.servers import MariaDb, Redis, Server, running

from sellerwatch.adapters.sql.engine import make_engine
from sellerwatch.adapters.sql.migrate import upgrade
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.cli.running import at_work
from sellerwatch.compose.service import open_service
from sellerwatch.crawling.trigger import trigger
from sellerwatch.kernel.clock import SystemClock
from sellerwatch.kernel.ids import SellerId
from sellerwatch.service.service import ProcessRole
from sellerwatch.settings.load import load

LEAST = 1.8
#: Seconds one measurement may take; far beyond what it needs.
LIMIT = 600
#: Of all the machine has, used by what is measured: with more than this it is full.
FULL = 0.9
#: Counters of the server.
COUNTED = ("Questions", "Com_commit", "Innodb_row_lock_waits", "Innodb_row_lock_time", "Innodb_deadlocks")
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Measured:
    """The middle of one crawl: how fast it was, and how many cores each part used."""

    workers: int
    rate: float
    cores: dict[str, float]
    #: Of all cores there are, by everybody on the machine.
    busy: float
    #: Of the whole crawl, from its start until everything is stored:
    products: int
    requests: int
    seconds: dict[str, float]
    #: What the server counted.
    counts: dict[str, int]
    wrong: int

    @property
    def ours(self) -> float:
        return sum(self.cores.values())


class DurableMariaDb(MariaDb):
    """As a server is installed: every commit is on disk. The socket is beside the data: a long path is refused."""

    def command(self) -> list[str]:
        durable = ["--innodb-flush-log-at-trx-commit=1", "--innodb-doublewrite=1", "--innodb-buffer-pool-size=256M"]
        return [*super().command(), *durable, "--socket=s"]


class Cpu:
    """CPU seconds of processes and of the machine, since it was made."""

    def __init__(self, parts: Mapping[str, Sequence[int]]) -> None:
        self._parts = parts
        self._began, self._used, self._machine = time.monotonic(), self._now(), _machine()

    def _now(self) -> dict[str, float]:
        return {name: sum(map(_used, pids)) for name, pids in self._parts.items()}

    def seconds(self) -> dict[str, float]:
        return {name: used - self._used[name] for name, used in self._now().items()}

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


def measure(
    args: argparse.Namespace, workers: int, mariadb: MariaDb | None, *, with_redis: bool = True, detail_kb: int = 4
) -> Measured:
    """Crawl every seller once. Without MariaDB the database is an SQLite file, on the disk of the checkout."""
    with ExitStack() as stack:
        folder = stack.enter_context(databases())
        market = stack.enter_context(marketplace(args.products, detail_kb, args.latency_ms, sellers=args.sellers))
        url = migrated_database(mariadb) if mariadb else _migrated_file(folder / "scale.db")
        settings: dict[str, object] = {
            "DATABASE_URL": url,
            "MARKETPLACE_URL": market.url,
            "TOKEN_KEYS": "1:" + "A" * 43 + "=",
            "JWT_SECRET": "j" * 40,
            "INTERNAL_API_KEYS": "k" * 40,
            "MAX_CONCURRENCY": args.concurrency,
            **RAISED,
        }
        servers = {"simulator": [market.pid], **({"MariaDB": [_pid(mariadb)]} if mariadb else {})}
        if with_redis:
            redis = stack.enter_context(running(Redis))
            assert isinstance(redis, Redis)
            settings["REDIS_URL"] = redis.url
            servers["Redis"] = [_pid(redis)]
        sellers = [f"seller_{number:04}" for number in range(1, args.sellers + 1)]
        register_at(url, *sellers, due=False)
        programs = [stack.enter_context(Program(folder, "worker", **settings)) for _ in range(workers)]
        for program in programs:
            program.until_it_says("serving")
        parts = {"workers": [program.process.pid for program in programs], **servers}
        whole, counted = Cpu(parts), _counters(mariadb)
        asyncio.run(start_runs(settings, sellers))
        # The total, the list, then two requests for each product.
        wanted = args.sellers * (2 + 2 * args.products)
        first = _reached(market, 0.2 * wanted)
        middle = Cpu(parts)
        last = _reached(market, 0.8 * wanted)
        cores, busy = middle.read()
        _until_over(url, args.sellers)
        counts = {name: number - counted[name] for name, number in _counters(mariadb).items()}
        seconds = whole.seconds()
        wrong = wrong_in_ours(url, market)
    rate = (last[1] - first[1]) / (last[0] - first[0])
    return Measured(workers, rate, cores, busy, args.sellers * args.products, wanted, seconds, counts, wrong)


def _migrated_file(path: Path) -> str:
    engine = make_engine(f"sqlite:///{path}")
    upgrade(engine, SystemClock().now())
    engine.dispose()
    return f"sqlite:///{path}"


def _counters(mariadb: MariaDb | None) -> dict[str, int]:
    if mariadb is None:
        return {}
    with mariadb.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"SHOW GLOBAL STATUS WHERE Variable_name IN ({', '.join(map(repr, COUNTED))})")
        return {name: int(value) for name, value in cursor.fetchall()}


def _until_over(url: str, runs: int) -> None:
    """Wait until all results are stored, asking seldom: each question is a statement too."""
    engine, deadline = make_engine(url), time.monotonic() + LIMIT
    while True:
        with engine.connect() as connection:
            tx = Transaction(connection)
            ((over,),) = tx.db.rows("SELECT COUNT(*) FROM crawling_schedule_executions WHERE status = 'COMPLETED'")
        if over == runs:
            break
        assert time.monotonic() < deadline, f"{over} runs of {runs} in {LIMIT} s"
        time.sleep(0.5)
    engine.dispose()


def _reached(market: Market, number: float) -> tuple[float, int]:
    """When so many requests had come, and how many they were by then."""
    deadline = time.monotonic() + LIMIT
    while (requests := market.requests) < number:
        assert time.monotonic() < deadline, f"{requests} requests of {number:.0f} in {LIMIT} s"
        time.sleep(0.05)
    return time.monotonic(), requests


def engines(args: argparse.Namespace) -> list[tuple[str, ...]]:
    """SQLite beside MariaDB with 1, 2 and 4 workers, all limits and leases in the database: a row each."""
    found = []
    with running(DurableMariaDb, FOLDER) as mariadb:
        assert isinstance(mariadb, MariaDb)
        for server, workers in ((None, 1), (mariadb, 1), (mariadb, 2), (mariadb, 4)):
            name = "MariaDB" if server else "SQLite"
            say(f"{name}, {workers} worker(s), {args.sellers} sellers of {args.products} products ...")
            one = measure(args, workers, server, with_redis=False, detail_kb=14)
            if one.wrong:
                raise SystemExit("some products are wrong: the figures are worth nothing")
            found.append((name, *_engine_row(one)))
    return found


#: The columns of `engines`. Waits and time for 1,000 products.
ENGINE_COLUMNS = (
    *("database", "workers", "CPU s / 1k req: ours", "the server's"),
    *("statements a product", "commits a product", "lock waits / 1k", "waited ms / 1k", "deadlocks"),
)


def _engine_row(one: Measured) -> Iterator[str]:
    yield str(one.workers)
    for part in ("workers", "MariaDB"):
        yield f"{1000 * one.seconds[part] / one.requests:.3f}" if part in one.seconds else ""
    for name, each in zip(COUNTED, (1, 1, 1000, 1000, one.products), strict=True):
        yield f"{each * one.counts[name] / one.products:.{2 if each == 1 else 0}f}" if one.counts else ""


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
    if any(one.wrong for one in found):
        raise SystemExit("some products are wrong: the figures above are worth nothing")
    most = found[-1]
    print(f"{1000 * most.ours / most.rate:.1f} s of CPU for 1,000 requests, with the simulator's:", end=" ")
    print(f"{cores} cores of our own would be full at {cores * most.rate / most.ours:.0f} requests/s")
    steps = [(one, two) for one, two in pairwise(found) if two.workers == 2 * one.workers]
    short = [two for one, two in steps if two.rate < LEAST * one.rate and two.ours < FULL * cores]
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
