"""`make bench`: every benchmark, one after the other; BENCH_ARGS="crawl --products 5000" runs one with its options."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BENCHMARKS = {
    "simulator": "the practice marketplace alone: it must not be the bottleneck of the others",
    "pool": "a week of the pool on virtual time; by name also permits a second, a day of the whole service",
    "simulation": "a calm week of the whole service on virtual time: CPU seconds, wake-ups, transactions",
    "limiter": "the limiter in Redis: claims a second in batches, beside the raw rate of EVALSHA",
    "scale": "50 sellers at a slow marketplace crawled by 1, 2 and 4 workers on MariaDB and Redis",
    "store": "products with their bodies and events written in groups, beside sqlite3 itself",
    "crawl": "our whole service beside a bare aiohttp loop, in the same run",
    "instructions": "Python instructions for each request of a crawl: the same number on a busy machine",
    "api": "each list of the API over 1,000,000 tasks and 200,000 products, and 500 readers beside a running crawl",
    "attacks": "a crawl alone and beside floods of its API and of its marketplace's answers, with what health takes",
    "freshness": "what freshness costs over 200,000 products: each minute, overview, /metrics, lists of sellers",
    "retention": "old rows of the usage log found and deleted, 500 at a time, out of 20,000 to 2,000,000",
    "performance": "beside Scrapy and Crawlee, 4 to 100 KB, recrawls, disk, delivery: docs/performance.md",
}
#: Names of parts that may be asked for by themselves.
PARTS = (
    *("contest", "small", "large", "huge"),
    *("recrawl", "volatile", "latency", "growth", "mariadb", "pieces"),
)
#: Run by `performance` too: once is enough where all are asked for.
PIECES = ("limiter", "store", "api", "crawl")
#: What is run of these where all are asked for: the rest is in `pieces`, or takes a quarter of an hour.
IN_ALL = {"pool": ["week"]}


def main() -> int:
    chosen, *options = sys.argv[1:] or ["all"]
    if chosen in PARTS:
        chosen, options = "performance", [chosen, *options]
    if chosen not in (*BENCHMARKS, "all"):
        print(f"There is no benchmark '{chosen}'; there are all, {', '.join((*BENCHMARKS, *PARTS))}.", file=sys.stderr)
        return 2
    failed = 0
    for name, what in BENCHMARKS.items():
        if chosen == name or (chosen == "all" and name not in PIECES):
            print(f"\n== {name}: {what}", flush=True)
            words = IN_ALL.get(name, []) if chosen == "all" else []
            command = [sys.executable, "-m", f"benchmarks.{name}", *words, *options]
            failed += subprocess.run(command, check=False, cwd=ROOT).returncode != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
