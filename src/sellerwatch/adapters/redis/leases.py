"""Leases in Redis, in front of those in the database.

The database row decides: even an emptied Redis lets no second process in. Redis saves the requests to the database: of
many processes that want the same job at the same moment, one goes on and the others are refused here. Without Redis
each of them asks the database.
"""

from __future__ import annotations

import logging
from datetime import timedelta

from sellerwatch.adapters.redis.server import RedisServer, RedisUnavailable, Script
from sellerwatch.kernel.leases import JobLeases

log = logging.getLogger(__name__)

PREFIX = "sellerwatch:lease:"
#: Redis keeps others away for this long at most; later callers ask the row, which says when its owner vanished.
LONGEST = timedelta(seconds=10)

# Taken when free or ours already. The one key with a TTL: a lease is meant to expire.
TAKE = Script("""
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
""")

# Given up only by whom it belongs to.
FREE = Script("""
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
""")


class RedisLeases:
    def __init__(self, server: RedisServer, owner: str, behind: JobLeases) -> None:
        self._server = server
        self._owner = owner
        self._behind = behind

    async def take(self, job: str, length: timedelta) -> bool:
        kept = min(length, LONGEST) // timedelta(milliseconds=1)
        try:
            taken = await self._server.run(TAKE, [PREFIX + job], [self._owner, kept])
        except RedisUnavailable as refusal:
            log.debug("a lease is asked of the database alone", extra={"job": job, "problem": str(refusal)})
            return await self._behind.take(job, length)
        return bool(taken) and await self._behind.take(job, length)

    async def finish(self, job: str, error: str | None = None) -> None:
        await self._behind.finish(job, error)
        await self.let_go(job)

    async def let_go(self, job: str) -> None:
        try:
            await self._server.run(FREE, [PREFIX + job], [self._owner])
        except RedisUnavailable as refusal:
            log.debug("a lease was left to expire", extra={"job": job, "problem": str(refusal)})
