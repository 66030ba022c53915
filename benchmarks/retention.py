"""What it costs to delete old rows of the usage log: the reader that finds them, and the transaction that deletes them.

    python -m benchmarks.retention [--rows 20000 200000 2000000] [--steps 20] [--json]

Each step deletes at most 500 rows by their numbers. For logs of several sizes on SQLite: CPU milliseconds of a step,
the median and the worst, and the instructions of SQLite's machine, which are the same on any computer. No crawl can
write while the second one runs.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

from sqlalchemy import Engine

from sellerwatch.adapters.sql.engine import make_engine
from sellerwatch.adapters.sql.migrate import upgrade
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.operations.retention import BATCH
from sellerwatch.oversight.retention import KeptRows

NOW = datetime(2026, 1, 5, 6, tzinfo=UTC)
#: One row of the log for each 0.45 s, as at full budget; every tenth is a failure.
ROWS = """
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < :total)
INSERT INTO token_usage_log (agent_id, token_id, http_status_code, response_time_ms, is_success, is_rate_limited,
    is_429_error, request_timestamp, seller_id)
SELECT 1 + i % 100, 1 + i % 100, 200, 100 + i % 50, i % 10 > 0, 0, 0,
    strftime('%Y-%m-%d %H:%M:%f000', '2026-01-05 06:00:00', printf('-%.3f seconds', (:total - i) * 0.45)),
    printf('seller_%03d', i % 200) FROM n
"""


@dataclass(frozen=True)
class Measured:
    """One step on a log of so many rows."""

    rows: int
    what: str
    median_ms: float
    worst_ms: float
    instructions: int


def filled(database: Path, rows: int) -> Engine:
    engine = make_engine(f"sqlite:///{database}")
    upgrade(engine, NOW)
    with closing(sqlite3.connect(database)) as raw:
        raw.execute(ROWS, {"total": rows})
        raw.commit()
    return engine


def measured(rows: int, steps: int) -> list[Measured]:
    """Delete the oldest rows of a log, so many steps; then one step more, whose instructions are counted."""
    before = NOW - timedelta(seconds=rows / 4 * 0.45)
    times: dict[str, list[float]] = {"find": [], "delete": []}
    with tempfile.TemporaryDirectory() as folder:
        engine = filled(Path(folder) / "log.db", rows)

        def step(note: Callable[[str, Callable[[], Any]], Any]) -> None:
            with engine.connect() as connection:
                with connection.begin():
                    old = Transaction(connection).old_rows
                    found = note("find", lambda: old.find(KeptRows.REQUESTS, before, BATCH))
                with connection.begin():
                    old = Transaction(connection).old_rows
                    gone = note("delete", lambda: old.delete(KeptRows.REQUESTS, found))
                if not gone == len(found) == BATCH:
                    raise SystemExit(f"a step found {len(found)} rows and deleted {gone}")

        def timed(what: str, work: Callable[[], Any]) -> Any:
            began = time.process_time()
            result = work()
            times[what].append((time.process_time() - began) * 1000)
            return result

        for _ in range(steps):
            step(timed)
        counts: dict[str, int] = {}
        with engine.connect() as connection:
            raw: Any = connection.connection.driver_connection

        def counted(what: str, work: Callable[[], Any]) -> Any:
            number = 0

            def tick() -> int:
                nonlocal number
                number += 1
                return 0

            raw.set_progress_handler(tick, 1)
            result = work()
            raw.set_progress_handler(None, 0)
            counts[what] = number
            return result

        step(counted)
        engine.dispose()
    return [
        Measured(rows, what, round(median(spent), 2), round(max(spent), 2), counts[what])
        for what, spent in times.items()
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[20_000, 200_000, 2_000_000])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = [each for rows in given.rows for each in measured(rows, given.steps)]
    if given.json:
        print(json.dumps([asdict(each) for each in found], indent=2))
        return 0
    print("| rows of the log | step | CPU ms, median | worst | instructions of SQLite |")
    print("| ---: | --- | ---: | ---: | ---: |")
    for each in found:
        print(f"| {each.rows:,} | {each.what} | {each.median_ms} | {each.worst_ms} | {each.instructions:,} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
