"""The crawl, measured: our whole service beside a bare aiohttp loop, on the simulator in another process.

    python -m benchmarks.crawl [--products 2000] [--detail-kb 14] [--latency-ms 0] [--rounds 3]
                               [--phases first again changed changed-10 repriced delivery] [--delivering]

Prints requests a second, CPU seconds per 1,000 requests (all threads, not the simulator's), how busy that kept the
core, peak memory, and for each product the bytes by which the database grew and that were written; for our whole
service (limits raised out of the way; limiter, leases and crash safety on) and for a bare loop that fetches the same
addresses, parses the JSON and stores rows in SQLite, in interleaved rounds of the same run. Every product and event is
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
from benchmarks.receiver import SECRET

if TYPE_CHECKING:
    from sellerwatch.kernel.ids import ExecutionId
    from sellerwatch.service.service import Service
    from sellerwatch.settings.model import Settings

RAISED = {
    "WINDOW_LIMIT": 1_000_000,
    "WINDOW_SECONDS": 60,
    "REQUESTS_PER_SECOND": 1_000_000,
    "DEPARTURE_MARGIN_SECONDS": 0,
    "HOST_CONCURRENCY": 1_000,
}
#: Seconds for what a service does when it starts.
SETTLING = 1.0


async def ours(
    url: str, database: Path, phases: Sequence[str], *, products: int = 0, seed: int = 0, receiver: str | None = None
) -> list[dict[str, float]]:
    """Our service: registers the seller and crawls it once for each phase.

    Products change before a phase by `seed` and those that follow. With a receiver a phase is over when its events are
    delivered; without one they are left waiting.
    """
    from sellerwatch.cli.running import at_work
    from sellerwatch.compose.service import open_service
    from sellerwatch.crawling.trigger import trigger
    from sellerwatch.kernel.clock import moment
    from sellerwatch.kernel.ids import ReplayableIds, SellerId
    from sellerwatch.kernel.operations import OperationContext
    from sellerwatch.sellers.commands import register_seller

    measured = []
    async with (
        open_service(_settings(url, database, receiver), schedules=False, make=True) as service,
        at_work(service),
    ):
        crawl = service.crawl
        # What a service does once, when it starts, is no part of a crawl; signing in is.
        await asyncio.sleep(SETTLING)
        draw, now, seller = ReplayableIds(crawl.ids), moment(crawl.clock), SellerId(job.SELLER)
        await crawl.store.transact(
            lambda tx: register_seller(tx, OperationContext("bench", now, draw.replay()), seller, "bench", None)
        )
        for phase in map(contest.PHASES.__getitem__, phases):
            if phase.share:
                contest.change_products(url, phase.changes(products), seed, phase.how)
                seed += 1
            meter = job.Meter(database)
            run = (await trigger(crawl, seller, "bench")).execution_id
            service.nudge()
            requests = await ended(service, run)
            if receiver:
                await delivered(service)
            measured.append(meter.read(requests))
    return measured


async def deliver(url: str, database: Path, receiver: str) -> dict[str, float]:
    """Our service with nothing to crawl: delivers what waits. `requests` are the events."""
    from sellerwatch.cli.running import at_work
    from sellerwatch.compose.service import open_service

    async with open_service(_settings(url, database, receiver), schedules=False) as service:
        meter = job.Meter(database)
        async with at_work(service):
            await delivered(service)
            return meter.read(service.deliveries[0].delivered)


def _settings(url: str, database: Path, receiver: str | None) -> Settings:
    from sellerwatch.settings.load import load

    values: dict[str, object] = {"DATABASE_URL": f"sqlite:///{database}", "MARKETPLACE_URL": url, **RAISED}
    if receiver:
        values |= {"PRODUCT_SERVER_URL": f"{receiver}/events", "PRODUCT_SERVER_SECRET": SECRET}
    return load({f"SELLERWATCH_{name}": str(value) for name, value in values.items()}).settings


async def delivered(service: Service) -> None:
    """Wait until no event waits; the database is asked only while none goes out."""
    from sellerwatch.outbox.message import OutboxKind

    seen = -1
    while True:
        is_quiet = service.deliveries[0].delivered == seen
        if is_quiet and not await service.store.read(lambda tx: tx.outbox_queries(OutboxKind.PRODUCT).pending()):
            return
        seen = service.deliveries[0].delivered
        await asyncio.sleep(0.02)


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
        meter = job.Meter(database)

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


async def bare_delivery(database: Path, receiver: str, concurrency: int = 20) -> list[dict[str, float]]:
    """A ceiling for whoever delivers by aiohttp: no signature, claim, lease, outcome or retry. The last event of each
    product is read before the clock runs."""
    import aiohttp

    from sellerwatch.adapters.sql.engine import make_engine
    from sellerwatch.adapters.sql.transaction import Transaction

    engine = make_engine(f"sqlite:///{database}")
    with engine.connect() as connection, connection.begin():
        tx = Transaction(connection)
        products = [product for (product,) in tx.db.rows("SELECT product_id FROM products ORDER BY item_no")]
        bodies = [tx.product_outbox.latest_of(product, 1)[0].payload for product in products]
    engine.dispose()
    waiting, headers = iter(bodies), {"Content-Type": "application/json; charset=utf-8"}
    meter = job.Meter(database)
    async with aiohttp.ClientSession(headers=headers) as session:

        async def work() -> None:
            for body in waiting:
                async with session.post(f"{receiver}/events", data=body) as reply:
                    await reply.read()
                    assert reply.status == 200

        await asyncio.gather(*(work() for _ in range(concurrency)))
    return [meter.read(len(bodies))]


async def phased(args: argparse.Namespace) -> list[dict[str, float]]:
    crawls = [phase for phase in args.phases if phase != "delivery"]
    receiver = args.receiver if args.delivering else None
    found = await ours(args.url, args.database, crawls, products=args.products, seed=args.seed, receiver=receiver)
    return [*found, await deliver(args.url, args.database, args.receiver)] if "delivery" in args.phases else found


def contestant(args: argparse.Namespace) -> None:
    """Runs in a child process of its own, on the second core."""
    import uvloop

    job.pin(1)
    main: Coroutine[Any, Any, list[dict[str, float]]]
    if args.contestant == contest.US:
        main = phased(args)
    elif args.url:
        main = bare(args.url, args.database)
    else:
        main = bare_delivery(args.database, args.receiver)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(json.dumps(runner.run(main)))


def measure(args: argparse.Namespace) -> dict[str, list[contest.Run]]:
    runs = []
    with contest.marketplace(args.products, args.detail_kb, args.latency_ms) as market:
        for number in range(args.rounds):
            for who in (contest.US, contest.BARE):
                contest.say(f"round {number + 1} of {args.rounds}: {who} ...")
                is_delivering = args.delivering and who == contest.US
                runs += contest.compete(who, market, phases=args.phases, is_delivering=is_delivering)
    return contest.by_name(runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--products", type=int, default=2000)
    parser.add_argument("--detail-kb", type=int, default=14)
    parser.add_argument("--latency-ms", type=float, default=0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--phases", nargs="+", choices=list(contest.PHASES), default=["first", "again"])
    parser.add_argument("--delivering", action="store_true", help="events are delivered while it crawls")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--contestant", help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    parser.add_argument("--database", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--receiver", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
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
