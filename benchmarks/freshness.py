"""What freshness costs over 200,000 products: the look of every minute, the overview, `/metrics` and lists of sellers.

    python -m benchmarks.freshness [--products 200000] [--rounds 5] [--json]

Once with all products of one seller and once with 100 products for each seller. CPU milliseconds of a query on SQLite,
the best and the worst of the rounds; each seller was read whole within its interval, but for one late product.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from sellerwatch.adapters.sql.engine import make_engine
from sellerwatch.adapters.sql.migrate import upgrade
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.compose.check_context import check_context_of
from sellerwatch.compose.rules import pool_rules
from sellerwatch.kernel.clock import Moment
from sellerwatch.kernel.ids import ScheduleId, SellerId
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.operations.sellers import list_sellers, show_seller
from sellerwatch.reports.lateness import look_at_sellers
from sellerwatch.reports.overview import service_status
from sellerwatch.reports.queries import read_metrics
from sellerwatch.schedules.interval import CrawlingInterval
from sellerwatch.schedules.schedule import Schedule
from sellerwatch.sellers.seller import Seller
from sellerwatch.settings.load import load

READ = datetime(2026, 1, 5, 6, tzinfo=UTC)
NOW = READ + timedelta(hours=12)
#: Sellers of the second shape have so many products each.
FEW = 100

NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < :total)"
SELLER_ID = "printf('seller_%05d', i / :each)"
RUNS = f"""{NUMBERS} INSERT INTO crawling_schedule_executions (execution_id, schedule_id, seller_id, created_at, status,
    total_tasks_created, completed_tasks, failed_tasks, progress_rate, success_rate, started_at, completed_at)
SELECT printf('0198c0de-0000-7000-8002-%012x', i), printf('0198c0de-0000-7000-8003-%012x', i),
    printf('seller_%05d', i), :read, 'COMPLETED', 10, 10, 0, 100, 100, :read, :read FROM n"""
PRODUCTS = f"""{NUMBERS} INSERT INTO products (product_id, item_no, seller_id, created_at, updated_at,
    minishop_data_hash, detail_data_hash, option_data_hash, is_complete, is_changed, version, missing_runs,
    last_seen_at, detail_read_at, option_read_at)
SELECT printf('0198c0de-0000-7000-8004-%012x', i), 900000000 + i, {SELLER_ID}, :read, :read, 'a', 'b', 'c', 1, 0, 1, 0,
    :read, CASE WHEN i THEN :read ELSE :long_ago END, :read FROM n"""


@dataclass(frozen=True)
class Measured:
    """CPU milliseconds of one query over one shape."""

    shape: str
    what: str
    best_ms: float
    worst_ms: float


def fill(database: Path, products: int, each: int) -> None:
    engine = make_engine(f"sqlite:///{database}")
    upgrade(engine, READ)
    with engine.connect() as connection, connection.begin():
        tx = Transaction(connection)
        for number in range(products // each):
            seller = Seller.register(SellerId(f"seller_{number:05d}"), "가게", CrawlingInterval.of_days(1), READ)
            made = ScheduleId(f"0198c0de-0000-7000-8003-{number:012x}")
            schedule, _ = Schedule.create(made, seller.seller_id, seller.interval, READ)
            tx.sellers.add(seller)
            tx.schedules.add(schedule)
    engine.dispose()
    given = {"read": f"{READ:%Y-%m-%d %H:%M:%S}.000000", "long_ago": "2025-12-01 00:00:00.000000", "each": each}
    with closing(sqlite3.connect(database, isolation_level=None)) as opened:
        opened.execute("PRAGMA synchronous = OFF")
        opened.execute(RUNS, given | {"total": products // each})
        opened.execute(PRODUCTS, given | {"total": products})


def questions() -> Iterator[tuple[str, Callable[[Transaction], Any]]]:
    """What is asked at every minute, scrape or request."""
    settings = load({"SELLERWATCH_DATABASE_URL": "sqlite://"}).settings
    at = Moment(NOW, 0, "bench")
    context = OperationContext(moment=at, actor="bench", language="en", ids=iter(()))
    looking = replace(check_context_of(settings, has_receiver=True, is_worker=True, is_scheduler=True), disk_left=None)
    yield "the look of every minute", lambda tx: look_at_sellers(tx, NOW)
    yield "the overview, `status`", lambda tx: service_status(tx, context, looking)
    yield "`/metrics`", lambda tx: read_metrics(tx, context, pool_rules(settings), ZoneInfo("UTC"))
    yield "`sellers list`, 20 of them", lambda tx: list_sellers(tx, context, None, 0, 20)
    yield "`sellers show`", lambda tx: show_seller(tx, context, SellerId("seller_00000"), 10)


def measure(shape: str, products: int, each: int, rounds: int) -> list[Measured]:
    found = []
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "freshness.db"
        fill(database, products, each)
        engine = make_engine(f"sqlite:///{database}")
        with engine.connect() as connection, connection.begin():
            for what, ask in questions():
                times = []
                for _ in range(rounds):
                    began = time.process_time()
                    ask(Transaction(connection))
                    times.append(1000 * (time.process_time() - began))
                found.append(Measured(shape, what, round(min(times), 1), round(max(times), 1)))
        engine.dispose()
    return found


def table(found: Sequence[Measured]) -> str:
    lines = ["| sellers | asked | CPU ms, best | worst |", "| --- | --- | ---: | ---: |"]
    return "\n".join([*lines, *(f"| {m.shape} | {m.what} | {m.best_ms:.1f} | {m.worst_ms:.1f} |" for m in found)])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--products", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    total, few = given.products, min(FEW, given.products)
    found = measure(f"1 of {total:,}", total, total, given.rounds)
    found += measure(f"{total // few:,} of {few}", total, few, given.rounds)
    print(json.dumps([asdict(each) for each in found]) if given.json else table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
