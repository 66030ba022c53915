"""The store, measured: products with three bodies and an event each, beside sqlite3 itself on the same tables.

    python -m benchmarks.store [--products 10000] [--rounds 3] [--json]

A group of 100 products is one transaction: for each a row, three zstd-compressed bodies (4 KB, 0.7 KB twice) and an
outbox row of 3 KB, with all their indexes. "sqlite3 itself" has the same rows ready as tuples, packs the bodies and
gives them to the driver; ours makes them of the values that a crawl has, on its database thread. What is between the
two is what our repositories and SQLAlchemy's transactions cost. Rows are counted afterwards, and a product's bodies
read back.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import partial
from pathlib import Path

import zstandard
from benchmarks.contest import show
from tests.builders import NOW, a_complete_product, a_message, outbox_id, product_id, rng

from sellerwatch.adapters.sql.engine import make_engine
from sellerwatch.adapters.sql.migrate import upgrade
from sellerwatch.adapters.sql.products import ADD, KEEP_RAW
from sellerwatch.adapters.sql.store import SqlStore, ThreadRunner
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.catalog.ports import RawPart
from sellerwatch.catalog.product import PartType, Product
from sellerwatch.kernel.clock import SystemClock
from sellerwatch.kernel.ids import ItemNo
from sellerwatch.outbox.message import Message

Work = Callable[[], None]

GROUP = 100
TABLES = {"products": 1, "product_raw_data": 3, "product_outbox": 1}
BODIES = {PartType.MINISHOP: 700, PartType.DETAIL: 4_000, PartType.OPTION: 700}
TIME = "2026-01-05 00:00:00.000000"
EVENT = json.dumps({"productData": "상품" * 500}, ensure_ascii=False)

ADD_EVENT = """INSERT INTO product_outbox (outbox_id, product_id, item_no, seller_id, event_type, version, payload,
    status, next_attempt_at, created_at, updated_at)
    VALUES (?, ?, ?, 'seller_1', 'PRODUCT_CREATED', 1, ?, 'WAITING', ?, ?, ?)"""


def body(part: PartType, number: int) -> bytes:
    """Of its size, half of which can be packed."""
    size = BODIES[part]
    return json.dumps({"n": number, "x": rng(number).randbytes(size // 4).hex(), "y": "y" * (size // 2)}).encode()


def groups(products: int) -> Iterable[range]:
    return (range(first, min(first + GROUP, products + 1)) for first in range(1, products + 1, GROUP))


def bare(path: Path, products: int) -> Work:
    known = (1, 0, 1, 0, None, None, None, None, "a" * 32, "b" * 32, "c" * 32)
    rows = []
    for group in groups(products):
        ids = [(n, product_id(n), 900_000_000 + n) for n in group]
        rows.append(
            (
                [(id_, item, "seller_1", TIME, TIME, *known) for _, id_, item in ids],
                [(id_, part.value, "a" * 32, body(part, n), TIME) for n, id_, _ in ids for part in BODIES],
                [(outbox_id(n), id_, item, EVENT, TIME, TIME, TIME) for n, id_, item in ids],
            )
        )

    def work() -> None:
        compress = zstandard.ZstdCompressor(level=-1).compress
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("PRAGMA synchronous=NORMAL")
            for known, bodies, told in rows:
                db.execute("BEGIN IMMEDIATE")
                db.executemany(ADD.sql, known)
                db.executemany(
                    KEEP_RAW, [(id_, part, md5, compress(raw), None, at) for id_, part, md5, raw, at in bodies]
                )
                db.executemany(ADD_EVENT, told)
                db.execute("COMMIT")

    return work


def ours(path: Path, products: int) -> Work:
    values = [
        (
            [a_complete_product(n, item_no=ItemNo(900_000_000 + n)) for n in group],
            [RawPart(product_id(n), part, "a" * 32, body(part, n), NOW) for n in group for part in BODIES],
            [
                a_message(n, subject_id=product_id(n), item_no=ItemNo(900_000_000 + n), payload=EVENT.encode())
                for n in group
            ],
        )
        for group in groups(products)
    ]

    def add(group: tuple[list[Product], list[RawPart], list[Message]], tx: Transaction) -> None:
        known, raws, told = group
        tx.products.add(known)
        tx.bodies.keep_raw(raws)
        tx.product_outbox.add_all(told)

    def work() -> None:
        store = SqlStore(make_engine(f"sqlite:///{path}"), SystemClock(), ThreadRunner(1, "w"), ThreadRunner(1, "r"))

        async def write() -> None:
            for group in values:
                await store.transact(partial(add, group))

        asyncio.run(write())
        store.close()

    return work


WHO: dict[str, Callable[[Path, int], Work]] = {"sqlite3 itself": bare, "our store": ours}


def measured(who: str, products: int) -> dict[str, float | str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        engine = make_engine(f"sqlite:///{path}")
        upgrade(engine, NOW)
        engine.dispose()
        work = WHO[who](path, products)
        began, cpu = time.perf_counter(), time.process_time()
        work()
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        return {"who": who, "products": products, "seconds": seconds, "cpu": cpu, "wrong": wrong(path, products)}


def wrong(path: Path, products: int) -> int:
    """Rows too many or too few, and bodies of the last product that are not what was given."""
    with sqlite3.connect(path) as db:
        counts = {table: db.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0] for table in TABLES}
        kept = dict(
            db.execute("SELECT data_type, raw_json FROM product_raw_data WHERE product_id = ?", [product_id(products)])
        )
    differing = sum(abs(counts[table] - each * products) for table, each in TABLES.items())
    expand = zstandard.ZstdDecompressor().decompress
    return int(differing) + sum(expand(kept[part]) != body(part, products) for part in BODIES)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--products", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    runs = [measured(who, args.products) for _ in range(args.rounds) for who in WHO]
    if args.json:
        print(json.dumps(runs))
    else:
        lines = []
        for who in WHO:
            mine = [run for run in runs if run["who"] == who]
            rate = statistics.median(args.products / float(run["seconds"]) for run in mine)
            cpu = statistics.median(1000 * float(run["cpu"]) / args.products for run in mine)
            lines.append((who, f"{rate:,.0f}", f"{cpu:.3f}"))
        show("medians of the rounds", ("who", "products/s", "CPU s / 1k products"), lines)
    return 1 if any(run["wrong"] for run in runs) else 0


if __name__ == "__main__":
    sys.exit(main())
