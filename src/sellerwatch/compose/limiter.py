"""Open the limiter: in the database, or in Redis."""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.agents.lending import EmbeddedLimiter
from sellerwatch.agents.ports import Limiter
from sellerwatch.compose.rules import tuning_in_force
from sellerwatch.kernel.clock import Clock
from sellerwatch.kernel.ids import Ids, WorkerId
from sellerwatch.kernel.leases import EmbeddedLeases, JobLeases
from sellerwatch.settings.model import Settings


@dataclass(frozen=True)
class Limiting:
    """The limiter, its clock, and the servers it needs."""

    clock: Clock
    limiter: Limiter = field(default_factory=EmbeddedLimiter)
    leases: JobLeases | None = None
    outside: Mapping[str, Callable[[], Awaitable[object]]] = field(default_factory=dict)


@asynccontextmanager
async def open_limiter(
    settings: Settings, store: SqlStore, clock: Clock, worker_id: WorkerId
) -> AsyncIterator[Limiting]:
    """Open the limiter in the database or in Redis. Redis must answer when a process starts: nothing leaves without
    it."""
    if settings.redis_url is None:
        yield Limiting(clock)
        return
    from sellerwatch.adapters.redis.clock import RedisClock  # noqa: PLC0415 - with REDIS_URL
    from sellerwatch.adapters.redis.leases import RedisLeases  # noqa: PLC0415 - with REDIS_URL
    from sellerwatch.adapters.redis.limiter import RedisLimiter  # noqa: PLC0415 - with REDIS_URL
    from sellerwatch.adapters.redis.server import RedisServer  # noqa: PLC0415 - with REDIS_URL

    server, shared = RedisServer(settings.redis_url), RedisClock(clock)
    try:
        await server.check()
        limiter = RedisLimiter(server, store, shared, worker_id, tuning_in_force(settings, {}).limits)
        await limiter.listen()
        leases = RedisLeases(server, worker_id, EmbeddedLeases(store, clock, worker_id))
        yield Limiting(shared, limiter, leases, {"redis": partial(server.ask, "PING")})
    finally:
        await server.close()


async def recount_limiter(settings: Settings, store: SqlStore, clock: Clock) -> int:
    """Have the limiter take over what the database counts, where no service runs in this process; return how many of
    its counts were wrong."""
    ids = Ids(clock, random.Random(os.urandom(16)))  # noqa: S311 - an id, no secret
    async with open_limiter(settings, store, clock, WorkerId.generate(ids)) as opened:
        return await opened.limiter.begin()
