"""The crawl, measured: our whole service beside a bare aiohttp loop, on the simulator in another process.

    python -m benchmarks.crawl [--products 2000] [--detail-kb 4] [--latency-ms 0] [--rounds 3]

Prints requests a second, CPU seconds per 1,000 requests (all threads, not the simulator's), and peak memory, for our
whole service (limits raised out of the way; limiter, leases and crash safety on) and for a bare loop that fetches the
same addresses, parses the JSON and stores rows in SQLite, in interleaved rounds of the same run. Every product is
checked against the truth. Wall times on a shared machine move; trust CPU and ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Coroutine, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import contest
from benchmarks.others import job

if TYPE_CHECKING:
    from sellerwatch.kernel.ids import ExecutionId
    from sellerwatch.service.service import Service

RAISED = {
    "WINDOW_LIMIT": 1_000_000,
    "WINDOW_SECONDS": 60,
    "REQUESTS_PER_SECOND": 1_000_000,
    "DEPARTURE_MARGIN_SECONDS": 0,
    "HOST_CONCURRENCY": 1_000,
}
#: Seconds for what a service does when it starts.
SETTLING = 1.0


async def ours(url: str, database: Path, phases: Sequence[str], changed: tuple[int, int]) -> list[dict[str, float]]:
    """Our service: registers the seller, crawls it, delivers nothing (the wire of delivery is another benchmark).

    `changed`: how many products change before a phase of that name, and the first seed they are chosen by.
    """
    from sellerwatch.cli.running import at_work
    from sellerwatch.compose.service import open_service
    from sellerwatch.crawling.trigger import trigger
    from sellerwatch.kernel.clock import moment
    from sellerwatch.kernel.ids import ReplayableIds, SellerId
    from sellerwatch.kernel.operations import OperationContext
    from sellerwatch.sellers.commands import register_seller
    from sellerwatch.settings.load import load

    values = {"DATABASE_URL": f"sqlite:///{database}", "MARKETPLACE_URL": url} | RAISED
    settings = load({f"SELLERWATCH_{name}": str(value) for name, value in values.items()}).settings
    measured = []
    async with open_service(settings, schedules=False, make=True) as service, at_work(service):
        crawl = service.crawl
        # What a service does once, when it starts, is no part of a crawl; signing in is.
        await asyncio.sleep(SETTLING)
        draw, now, seller = ReplayableIds(crawl.ids), moment(crawl.clock), SellerId(job.SELLER)
        await crawl.store.transact(
            lambda tx: register_seller(tx, OperationContext("bench", now, draw.replay()), seller, "bench", None)
        )
        each, seed = changed
        for phase in phases:
            if phase == "changed":
                contest.change_products(url, each, str(seed))
                seed += 1
            meter = job.Meter()
            run = (await trigger(crawl, seller, "bench")).execution_id
            service.nudge()
            measured.append(meter.read(await ended(service, run)))
    return measured


async def ended(service: Service, run: ExecutionId) -> int:
    """How many requests it took, once it is over; the database is asked only while nothing comes in: asking costs."""
    seen = -1
    while True:
        if service.progress.completed == seen:
            execution = await service.crawl.store.read(lambda tx: tx.executions.get(run))
            if execution is not None and not execution.is_open:
                return execution.completed_tasks
        seen = service.progress.completed
        await asyncio.sleep(0.02)


async def bare(url: str, database: Path, concurrency: int = 20) -> list[dict[str, float]]:
    """A ceiling for whoever uses aiohttp, not a product."""
    import aiohttp

    shop, headers, items = job.Shop(database), job.sign_in(url), list[int]()
    async with aiohttp.ClientSession(headers=headers) as session:
        meter = job.Meter()

        async def get(path: str) -> bytes:
            async with session.get(url + path) as reply:
                return await reply.read()

        while found := shop.page(await get(job.list_path(shop.requests))):
            items += found
        waiting = iter([(item, part) for item in items for part in ("DETAIL", "OPTION")])

        async def work() -> None:
            for item, part in waiting:
                path = job.detail_path(item) if part == "DETAIL" else job.options_path(item)
                shop.part(item, part, await get(path))

        await asyncio.gather(*(work() for _ in range(concurrency)))
        shop.flush()
        return [meter.read(shop.requests)]


def contestant(args: argparse.Namespace) -> None:
    """Runs in a child process of its own, on the second core."""
    import uvloop

    job.pin(1)
    main: Coroutine[Any, Any, list[dict[str, float]]]
    if args.contestant == "bare":
        main = bare(args.url, args.database)
    else:
        main = ours(args.url, args.database, args.phases.split(","), (args.changed[0], args.changed[1]))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(json.dumps(runner.run(main)))


def measure(args: argparse.Namespace) -> dict[str, list[contest.Run]]:
    runs = []
    with contest.marketplace(args.products, args.detail_kb, args.latency_ms) as market:
        for number in range(args.rounds):
            for who, phases in (("sellerwatch", ("first", "again")), ("bare aiohttp loop", ())):
                contest.say(f"round {number + 1} of {args.rounds}: {who} ...")
                runs += contest.compete(who, market, phases=phases)
    return contest.by_name(runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--products", type=int, default=2000)
    parser.add_argument("--detail-kb", type=int, default=4)
    parser.add_argument("--latency-ms", type=float, default=0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--contestant", help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    parser.add_argument("--database", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--phases", default="first", help=argparse.SUPPRESS)
    parser.add_argument("--changed", nargs=2, type=int, default=(0, 0), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.contestant:
        contestant(args)
        return
    results = measure(args)
    if args.json:
        print(json.dumps({who: [asdict(run) for run in runs] for who, runs in results.items()}))
    else:
        contest.show("medians of the rounds (worst round in brackets)", contest.COLUMNS, contest.rows(results))
    if any(run.mismatches for runs in results.values() for run in runs):
        raise SystemExit("some products are wrong: the figures above are worth nothing")


if __name__ == "__main__":
    main()
