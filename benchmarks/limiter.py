"""The limiter in Redis, measured: agents claimed a second in batches, beside the raw rate of EVALSHA on one connection.

    python -m benchmarks.limiter [--agents 100] [--seconds 2]

A claim is all that Redis is asked for one request: its slot set aside, made a permit, and answered. Limits are out of
the way, so that deciding is what is measured. Exits with 1 where the bar is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta

from benchmarks.pool import WORKER
from msgspec import structs
from tests.builders import NOW, a_candidate
from tests.servers import Redis, running

from sellerwatch.adapters.redis.clock import RedisClock
from sellerwatch.adapters.redis.limiter import RedisLimiter
from sellerwatch.adapters.redis.scripts import BEGIN, KEYS, WINDOW
from sellerwatch.adapters.redis.server import RedisServer, Script
from sellerwatch.adapters.sql.engine import make_engine
from sellerwatch.adapters.sql.store import InlineRunner, SqlStore
from sellerwatch.agents.limits import Host, Limits
from sellerwatch.agents.pool import Grant
from sellerwatch.agents.ports import Permit
from sellerwatch.kernel.clock import SystemClock

LEAST_CLAIMS = 1_000
BATCHES = (1, 10, 50, 200)
NOTHING = Script("return 1")


async def rate(seconds: float, each: int, once: Callable[[], Awaitable[int]]) -> float:
    """How many a second, `each` of them by one call at least."""
    done, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        done += await once() * each
    return done / (time.perf_counter() - began)


async def measured(url: str, agents: int, seconds: float) -> dict[str, float]:
    server, clock = RedisServer(url), RedisClock(SystemClock())
    store = SqlStore(make_engine("sqlite://"), clock, InlineRunner(), InlineRunner())
    limits = Limits(1_000_000, timedelta(hours=1), 1_000_000, timedelta(0))
    limiter = RedisLimiter(server, store, clock, WORKER, limits)
    pool = [structs.replace(a_candidate(row), row=row) for row in range(1, agents + 1)]
    host, numbers = Host(concurrency=1_000_000), iter(range(1, 1_000_000_000))
    candidates = {one.row: one for one in pool}

    async def evalsha() -> int:
        await server.run(NOTHING, [], [])
        return 1

    def claiming(batch: int) -> Callable[[], Awaitable[int]]:
        async def claim() -> int:
            ahead = await limiter.reserve(pool, batch, limits, host, NOW)
            grants = [Grant(candidates[one.row], one.depart_us) for one in ahead.reserved]
            permits = [Permit(next(numbers), grant) for grant in grants]
            await limiter.settle(ahead, permits)
            await limiter.answered([(permit.grant.candidate.row, permit.number) for permit in permits])
            return len(permits)

        return claim

    try:
        await limiter.listen()
        found = {"EVALSHA that does nothing": await rate(seconds, 1, evalsha)}
        for batch in BATCHES:
            await server.ask("FLUSHALL")
            await server.run(BEGIN, KEYS, [WINDOW, "bench"])
            found[f"claims in batches of {batch}"] = await rate(seconds, 1, claiming(batch))
    finally:
        store.close()
        await server.close()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--agents", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=2)
    args = parser.parse_args()
    with running(Redis) as server:
        assert isinstance(server, Redis)
        found = asyncio.run(measured(server.url, args.agents, args.seconds))
    print(f"{args.agents} agents, one connection, {args.seconds:g} s each")
    for name, number in found.items():
        print(f"  {name:<28} {number:>10,.0f} /s")
    best = found["claims in batches of 50"]
    print(f"  the bar, in batches of 50    {LEAST_CLAIMS:>10,} /s")
    return 0 if best >= LEAST_CLAIMS else 1


if __name__ == "__main__":
    sys.exit(main())
