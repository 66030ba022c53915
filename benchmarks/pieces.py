"""Limiter, store and API by themselves: each by its own benchmark, the figures in one table.

Part of `benchmarks.performance`; every benchmark here is also a command of its own, with its options.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks import limiter, pool
from benchmarks.contest import LIMIT, ROOT, say
from tests.servers import Redis, running

#: What, how much, and how much the plainest way to do it reached in the same run.
Piece = tuple[str, str, str]
COLUMNS = ("what", "reached", "beside it")


def pieces() -> list[Piece]:
    return [
        *_permits(),
        *_claims_in_redis(),
        *_store(_measured("store")),
        *_api(_measured("api")),
    ]


def _measured(name: str) -> Any:
    say(f"{name} ...")
    command = [sys.executable, "-m", f"benchmarks.{name}", "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, cwd=ROOT, timeout=LIMIT)
    if done.returncode:
        raise SystemExit(f"benchmarks.{name} failed")
    return json.loads(done.stdout.splitlines()[-1])


def _permits() -> Iterator[Piece]:
    say("limiter, embedded ...")
    speed = pool.permits()
    yield (
        f"limiter in SQLite: permits/s, in claims of {pool.CLAIM}, durable",
        f"{statistics.median(speed.durable):,.0f}",
        f"{statistics.median(speed.in_memory):,.0f} (`limits`, in memory)",
    )


def _claims_in_redis() -> Iterator[Piece]:
    say("limiter, Redis ...")
    with running(Redis) as server:
        assert isinstance(server, Redis)
        found = asyncio.run(limiter.measured(server.url, agents=100, seconds=2))
    ours, bare = found["claims in batches of 50"], found["EVALSHA that does nothing"]
    yield "limiter in Redis: permits/s, in claims of 50", f"{ours:,.0f}", f"{bare:,.0f} (calls of EVALSHA)"


def _store(runs: Sequence[dict[str, Any]]) -> Iterator[Piece]:
    cpu = {
        who: statistics.median(1000 * run["cpu"] / run["products"] for run in runs if run["who"] == who)
        for who in ("our store", "sqlite3 itself")
    }
    yield (
        "store: CPU s for 1,000 products with three bodies and an event each",
        f"{cpu['our store']:.3f}",
        f"{cpu['sqlite3 itself']:.3f} (sqlite3 itself)",
    )


def _api(found: dict[str, Any]) -> Iterator[Piece]:
    for what, one in (("list", "lists"), ("console page", "pages")):
        costs = [row["cpu_ms"] for row in found[one]]
        yield (
            f"API: server CPU ms for the dearest {what} of {len(costs)}",
            f"{max(costs):.1f}",
            f"{statistics.median(costs):.1f} (the median one)",
        )
    alone, beside = (run["tasks"] / run["seconds"] for run in found["readers"])
    readers = found["readers"][1]["readers"]
    yield f"API: tasks/s of a crawl beside {readers} readers", f"{beside:,.0f}", f"{alone:,.0f} (without readers)"
