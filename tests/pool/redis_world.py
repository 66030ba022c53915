"""The pool with its limiter in a real Redis, on the time of a test: the scripts read the time of a `Computer` where
they ask Redis for its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from tests.pool.pool_world import SECOND_US, Computer, PoolWorld, Process

from sellerwatch.adapters.redis.clock import RedisClock
from sellerwatch.adapters.redis.limiter import RedisLimiter
from sellerwatch.adapters.redis.scripts import KEYS
from sellerwatch.adapters.redis.server import RedisServer, RedisUnavailable, Script
from sellerwatch.agents.limits import Limits
from sellerwatch.agents.ports import Limiter, Reservation
from sellerwatch.kernel.clock import SHARED, Moment
from sellerwatch.kernel.ids import WorkerId

T = TypeVar("T")

#: The time of Redis when a life begins.
BEGAN_US = 86_400 * SECOND_US
TIME = "redis.call('TIME')"
TIME_OF_TEST = "{0, tonumber(redis.call('GET', 'time of the test'))}"


@lru_cache
def _on_test_time(lua: str) -> Script:
    assert lua.count(TIME) == 1
    return Script(lua.replace(TIME, TIME_OF_TEST))


class TimedRedis(RedisServer):
    """A Redis on a computer's true time. While it is away nothing reaches it."""

    def __init__(self, url: str, computer: Computer) -> None:
        super().__init__(url)
        self._computer = computer
        self.is_away = False

    @property
    def now_us(self) -> int:
        return BEGAN_US + self._computer.true_us

    async def run(self, script: Script, keys: Sequence[str], given: Sequence[str | int]) -> Any:
        await self.ask("SET", "time of the test", self.now_us)
        return await super().run(_on_test_time(script.lua), keys, given)

    async def ask(self, *command: str | int) -> Any:
        if self.is_away:
            raise RedisUnavailable(where=self.where, problem="it is away")
        return divmod(self.now_us, SECOND_US) if command == ("TIME",) else await super().ask(*command)


@dataclass(frozen=True)
class ComputerClock:
    """A process's own clock."""

    computer: Computer

    @property
    def boot_id(self) -> str:
        return self.computer.boot_id

    def now(self) -> datetime:
        return self.computer.wall

    def monotonic(self) -> float:
        return self.computer.moment().boot_us / SECOND_US

    async def sleep(self, seconds: float) -> None:
        self.computer.passes(seconds)


class RedisPoolWorld(PoolWorld):
    """A pool whose processes ask Redis. It is empty at first."""

    def __init__(self, url: str, template: Path, computer: Computer, *, limits: Limits) -> None:
        super().__init__(template, computer, limits=limits)
        self.redis = TimedRedis(url, computer)
        self._loop = asyncio.Runner()
        self.empty_redis()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run(work)

    def moment(self) -> Moment:
        return Moment(self.computer.wall, self.redis.now_us, SHARED)

    def true_of(self, clock_us: int) -> int:
        return clock_us - BEGAN_US

    def limiter(self, worker_id: WorkerId) -> Limiter:
        return RedisLimiter(self.redis, self.store, RedisClock(ComputerClock(self.computer)), worker_id, self.limits)

    def ahead(self, process: Process, wanted: int = 50) -> Reservation:
        try:
            return super().ahead(process, wanted)
        except RedisUnavailable:
            return Reservation()

    def tend(self, process: Process) -> int:
        try:
            return super().tend(process)
        except RedisUnavailable:
            return 0

    def empty_redis(self) -> None:
        self.run(self.redis.ask("FLUSHALL"))

    def open_slots(self) -> dict[int, int]:
        """Each agent's slots that Redis has lent and not counted as answered, by the slots themselves."""
        counted: dict[int, int] = {}
        for member in self.run(self.redis.ask("ZRANGE", KEYS[1], 0, -1)):
            row = int(str(member).partition("/")[0])
            counted[row] = counted.get(row, 0) + 1
        return counted

    def counted_slots(self) -> dict[int, int]:
        """The same, as Redis has counted them."""
        counted: dict[str, str] = self.run(self.redis.ask("HGETALL", KEYS[2]))
        return {int(row): int(number) for row, number in counted.items() if int(number)}

    def close(self) -> None:
        self._loop.run(self.redis.close())
        self._loop.close()
        super().close()
