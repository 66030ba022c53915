"""Connections to Redis: every call bounded in time, every foreign error mapped to one sentence.

Nothing is retried here. A call that failed may have taken effect, and only its caller knows what that means.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    NoPermissionError,
    NoScriptError,
    RedisError,
    ResponseError,
)
from redis.exceptions import TimeoutError as RedisTimeout

from sellerwatch.kernel.errors import Failed, Unavailable

#: A server that takes longer is not there for anybody who waits for a permit.
PATIENCE = 2.0


@dataclass(eq=False)
class RedisUnavailable(Unavailable):
    """Redis did not answer, or refused; no request leaves without it."""

    where: str
    problem: str


@dataclass(eq=False)
class RedisEvicts(Failed):
    """Redis is configured to evict keys, and ours must never vanish."""

    where: str
    policy: str


class Script:
    """A Lua script; Redis knows it by its digest after the first run."""

    def __init__(self, lua: str) -> None:
        self.lua = lua
        self.sha = hashlib.sha1(lua.encode(), usedforsecurity=False).hexdigest()


class RedisServer:
    """A few connections to one Redis. Its address is shown without user and password."""

    def __init__(self, url: str, *, patience: float = PATIENCE) -> None:
        self.where = shown(url)
        self._redis: Any = Redis.from_url(
            url,
            socket_timeout=patience,
            socket_connect_timeout=patience,
            retry=Retry(NoBackoff(), 0),
            health_check_interval=0,
            decode_responses=True,
        )

    def __repr__(self) -> str:
        return f"Server({self.where})"

    async def run(self, script: Script, keys: Sequence[str], given: Sequence[str | int]) -> Any:
        try:
            try:
                return await self._redis.evalsha(script.sha, len(keys), *keys, *given)
            except NoScriptError:
                return await self._redis.eval(script.lua, len(keys), *keys, *given)
        except (RedisError, OSError, ValueError) as error:
            raise RedisUnavailable(where=self.where, problem=_why(error)) from None

    async def ask(self, *command: str | int) -> Any:
        try:
            return await self._redis.execute_command(*command)
        except (RedisError, OSError, ValueError) as error:
            raise RedisUnavailable(where=self.where, problem=_why(error)) from None

    async def check(self) -> None:
        """Check that Redis answers, permits access, and does not evict keys."""
        await self.ask("PING")
        try:
            found = await self._redis.config_get("maxmemory*")
        except RedisError:
            # Managed servers keep their configuration to themselves.
            return
        policy = str(found.get("maxmemory-policy", ""))
        if policy.startswith("allkeys") and int(found.get("maxmemory") or 0):
            raise RedisEvicts(where=self.where, policy=policy)

    async def close(self) -> None:
        await self._redis.aclose()


def shown(url: str) -> str:
    """Return the address without user, password and query."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{place}{parts.path}"


def _why(error: Exception) -> str:
    """Return the problem and how to fix it. An error may repeat what was sent, so only known errors are quoted."""
    if isinstance(error, AuthenticationError):
        return "it wants the right user and password in SELLERWATCH_REDIS_URL, as redis://user:password@host:6379/0"
    if isinstance(error, NoPermissionError):
        return "its user may not run what the limiter needs: EVAL, EVALSHA, TIME and all on keys sellerwatch:*"
    if isinstance(error, RedisTimeout | TimeoutError):
        return "it does not answer in time; see that it is well and that SELLERWATCH_REDIS_URL is its address"
    if isinstance(error, ResponseError):
        return f"it answered with an error: {str(error)[:200]}"
    return "no server answers there; see that it runs and that SELLERWATCH_REDIS_URL is its address"
