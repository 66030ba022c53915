"""A resync whose service is killed again and again: `python -m tests.faults.resync --products 20000`.

The receiver loses its database. After each resync its catalogue is the marketplace's, deleted products included, and of
the versions of each product none is missing and none came twice.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

from sqlalchemy import Engine
from tests import waiting
from tests.builders import a_context
from tests.faults.processes import Program, SimulatorProcess, count, is_settled, register_at
from tests.waiting import wait_until
from tests.world import StoreWorld

from sellerwatch.adapters.sql.engine import make_engine
from sellerwatch.adapters.sql.migrate import upgrade
from sellerwatch.adapters.sql.store import InlineRunner, SqlStore
from sellerwatch.catalog.resync import ResyncChoice
from sellerwatch.kernel.clock import SystemClock
from sellerwatch.kernel.ids import Ids, SellerId
from sellerwatch.operations.resyncs import start_resync
from sellerwatch.sellers.commands import run_now
from sellerwatch.simulator.rng import seeded_rng

#: Seconds that a step of a large resync may take.
LONG = 1800.0
SNAPSHOTS = "SELECT COUNT(*) FROM product_outbox WHERE event_type = 'PRODUCT_SNAPSHOT'"
GONE = "SELECT COUNT(*) FROM products WHERE deleted_at IS NOT NULL"
LEFT = "SELECT COUNT(*) FROM resyncs WHERE status = 'RUNNING'"
#: Twice or more, or a version that is not that of the product.
DOUBLED = (
    "SELECT COUNT(*) FROM (SELECT 1 FROM product_outbox GROUP BY product_id, version HAVING COUNT(*) > 1) AS twice"
)
BEHIND = """SELECT COUNT(*) FROM products p WHERE p.version <> (
    SELECT COUNT(*) FROM product_outbox o WHERE o.product_id = p.product_id)"""


def killed_resync(
    folder: Path, database: Path, shares: Sequence[float], *, sellers: int, products: int, **more: object
) -> tuple[int, list[int], float]:
    """Sellers are crawled until every product was announced and some are gone again. The receiver loses its database
    and gets it back, by a service that is killed at these shares of the way. Returns how many snapshots there were, how
    many were written at each kill, and how many seconds the resync took in all."""
    names = [f"seller_{number:04d}" for number in range(1, sellers + 1)]
    given = ("--sellers", str(sellers), "--products", str(products), "--detail-kb", "1")
    with SimulatorProcess(folder, *given) as simulator:
        settings = simulator.settings(database, **more)
        register_at(f"sqlite:///{database}", *names)
        with Program(folder, "serve", **settings) as service:
            wait_until(lambda: is_settled(database, sellers), "all products are announced")
            simulator.ask(f"mutate?count={3 * sellers}&only=vanished", "POST")
            run_again(database, names)
            wait_until(lambda: is_settled(database, 2 * sellers), "some are gone again")
            simulator.check()
            simulator.ask("lose", "POST")
            before, began, killed_at = count(database, SNAPSHOTS), monotonic(), []
            total = ask_resync(database)
            for share in shares:
                wait_until(lambda share=share: count(database, SNAPSHOTS) - before >= share * total, f"{share} of it")  # type: ignore[misc]
                service.kill()
                killed_at.append(count(database, SNAPSHOTS) - before)
                service = Program(folder, "serve", **settings)  # noqa: PLW2901
            with service:
                wait_until(lambda: count(database, LEFT) == 0 and is_settled(database, 0), "the resync is delivered")
                assert service.end(signal.SIGTERM) == 0
        assert count(database, SNAPSHOTS) - before == total, "each product exactly once"
        assert count(database, GONE) == 3 * sellers
        simulator.check()
        check_history(database, simulator)
        return total, killed_at, monotonic() - began


def run_again(database: Path, names: Sequence[str]) -> None:
    with opened(database) as world:
        now = world.now
        asyncio.run(world.transact(lambda tx: [run_now(tx, a_context(now), SellerId(name)) for name in names]))


def ask_resync(database: Path) -> int:
    """As `products resync` does it; how many products it is about."""
    with opened(database) as world:
        now, ids = world.now, [world.ids.new()]
        context = a_context(now, iter(ids))
        return asyncio.run(world.transact(lambda tx: start_resync(tx, context, ResyncChoice()))).products


@contextmanager
def opened(database: Path) -> Iterator[StoreWorld]:
    clock = SystemClock()
    store = SqlStore(make_engine(f"sqlite:///{database}"), clock, InlineRunner(), InlineRunner())
    try:
        yield StoreWorld(store, clock, Ids(clock, seeded_rng("resync", database)))
    finally:
        store.close()


def check_history(database: Path, simulator: SimulatorProcess) -> None:
    """Each version was made once and arrived once, in order."""
    assert (count(database, DOUBLED), count(database, BEHIND)) == (0, 0)
    versions, after = defaultdict[int, list[int]](list), 0
    while events := simulator.ask(f"events?after={after}"):
        for event in events:
            versions[event["item_no"]].append(event["version"])
        after = events[-1]["sequence"]
    assert all(seen == list(range(seen[0], seen[0] + len(seen))) for seen in versions.values())


def report(sentence: str) -> None:
    sys.stdout.write(f"{sentence}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--products", type=int, default=20_000)
    parser.add_argument("--sellers", type=int, default=4)
    options = parser.parse_args(arguments)
    waiting.PATIENCE = LONG
    with tempfile.TemporaryDirectory() as name:
        folder, database = Path(name), Path(name) / "sellerwatch.db"
        engine: Engine = make_engine(f"sqlite:///{database}")
        upgrade(engine, SystemClock().now())
        engine.dispose()
        total, killed_at, seconds = killed_resync(
            folder, database, (0.2, 0.5, 0.8), sellers=options.sellers, products=options.products // options.sellers
        )
        report(f"{total} snapshots in {seconds:.0f} s, restarts included; killed at {killed_at}")
    report("the receiver's catalogue is the marketplace's; each version once and in order")
    return 0


if __name__ == "__main__":
    sys.exit(main())
