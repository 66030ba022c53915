"""What a calm stretch of the whole service costs on virtual time.

    python -m benchmarks.simulation [--days 7] [--agents 5] [--sellers 3] [--products 20] [--hours 24] [--shared]

Default settings, every seller crawled every `--hours`, the simulator well. The CPU time is that of the simulated days
alone; beside it how often a loop woke, and how many transactions and reads there were. The store rehearses, as that of
the tests does. `--shared` measures the looks of a real process: other processes may write to its database. Exits with 1
where a week of the default size takes more CPU time than it may.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tests.simulated_receiver import SimulatedReceiver
from tests.simulated_transport import SimulatedTransport

from sellerwatch.adapters.sql.engine import make_engine
from sellerwatch.adapters.sql.migrate import upgrade
from sellerwatch.adapters.sql.store import InlineRunner, SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.compose.service import open_service
from sellerwatch.kernel.clock import moment
from sellerwatch.kernel.ids import Ids, ReplayableIds, SellerId
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.store import Commits
from sellerwatch.kernel.virtual_time import VirtualClock, VirtualLoop, run_virtually
from sellerwatch.schedules.interval import CrawlingInterval
from sellerwatch.sellers.commands import register_seller
from sellerwatch.settings.load import load
from sellerwatch.simulator.simulator import Simulator

START = datetime(2026, 1, 5, tzinfo=UTC)
DAY = 86_400.0
#: CPU seconds that a week of 5 agents and 3 sellers with 20 products each may take.
MOST_CPU_OF_A_WEEK = 5.0


@dataclass(frozen=True)
class Cost:
    """What the simulated days took."""

    days: float
    cpu: float
    wakes: int
    transactions: int
    reads: int
    tasks: int
    stale: int

    def __str__(self) -> str:
        return "\n".join(
            (
                f"{self.days:g} calm days of the whole service on virtual time",
                f"  CPU seconds               {self.cpu:>10.2f}",
                f"  times the event loop woke {self.wakes:>10,}",
                f"  transactions              {self.transactions:>10,}   (each rehearsed once)",
                f"  reads                     {self.reads:>10,}",
                f"  tasks completed           {self.tasks:>10,}",
                f"  products not up to date   {self.stale:>10,}",
            )
        )


class CountingStore(SqlStore):
    """Counts what is asked of it."""

    transactions = 0
    reads = 0

    def transact(self, work: Callable[[Transaction], Any]) -> Any:
        self.transactions += 1
        return super().transact(work)

    def read(self, work: Callable[[Transaction], Any]) -> Any:
        self.reads += 1
        return super().read(work)


class CountingLoop(VirtualLoop):
    """Counts how often it had to move the time to go on."""

    wakes = 0

    def _run_once(self) -> None:
        before = self.time()
        super()._run_once()  # type: ignore[misc]
        self.wakes += self.time() > before


async def _enter(store: SqlStore, clock: VirtualClock, simulator: Simulator, agents: int, hours: int) -> None:
    draw, now = ReplayableIds(Ids(clock, random.Random(1))), moment(clock)
    every = CrawlingInterval.of_hours(hours) if hours < 24 else CrawlingInterval.of_days(hours // 24)

    def work(tx: Transaction) -> None:
        context = OperationContext("bench", now, draw.replay())
        for one in tx.pool_report.agents()[agents:]:
            tx.agents.remove(one.row)
        for name in simulator.world.sellers:
            register_seller(tx, context, SellerId(name), name, every)
            schedule = tx.schedules.of_seller(SellerId(name))
            assert schedule is not None
            tx.schedules.save(schedule.ran(now.now, now.now))

    await store.transact(work)


def calm(
    days: float = 7, agents: int = 5, sellers: int = 3, products: int = 20, hours: int = 24, *, shared: bool = False
) -> Cost:
    """`shared`: as a real process, which cannot know whether others write to its database."""
    loop = CountingLoop(START)
    clock = VirtualClock(loop)
    simulator = Simulator(seed=1, sellers=sellers, products=products, detail_kb=1)
    keys = f"bench:{base64.b64encode(bytes(32)).decode()}"
    settings = load({"SELLERWATCH_DATABASE_URL": "sqlite://", "SELLERWATCH_TOKEN_KEYS": keys}).settings
    engine = make_engine("sqlite://")
    upgrade(engine, START)
    store = CountingStore(
        engine, clock, InlineRunner(), InlineRunner(), rehearse=True, commits=None if shared else Commits()
    )

    async def story() -> Cost:
        await _enter(store, clock, simulator, agents, hours)
        transport, receiver = SimulatedTransport(simulator, clock), SimulatedReceiver(simulator, clock)
        async with open_service(
            settings, clock=clock, rng=random.Random(1), store=store, transport=transport, receiver=receiver
        ) as service:
            began, wakes, transactions, reads = time.process_time(), loop.wakes, store.transactions, store.reads
            running = asyncio.create_task(service.run())
            await clock.sleep(days * DAY)
            cost = Cost(
                days=days,
                cpu=time.process_time() - began,
                wakes=loop.wakes - wakes,
                transactions=store.transactions - transactions,
                reads=store.reads - reads,
                tasks=service.progress.completed,
                stale=len(simulator.compare()),
            )
            service.stop.set()
            await running
        store.close()
        return cost

    return run_virtually(story(), loop=loop)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--days", type=float, default=7)
    parser.add_argument("--agents", type=int, default=5)
    parser.add_argument("--sellers", type=int, default=3)
    parser.add_argument("--products", type=int, default=20, help="of each seller")
    parser.add_argument("--hours", type=int, default=24, help="between two runs of a seller")
    parser.add_argument("--shared", action="store_true", help="as where other processes may write to the database")
    args = parser.parse_args()
    cost = calm(args.days, args.agents, args.sellers, args.products, args.hours, shared=args.shared)
    print(cost, flush=True)
    is_small = (
        (args.days, args.agents, args.sellers, args.products) == (7, 5, 3, 20) and args.hours == 24 and not args.shared
    )
    if is_small and cost.cpu > MOST_CPU_OF_A_WEEK:
        print(f"a bar was missed: at most {MOST_CPU_OF_A_WEEK:g} CPU seconds", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
