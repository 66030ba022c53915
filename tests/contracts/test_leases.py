"""One suite for leases: rows of the database, and Redis in front of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import timedelta

import pytest
from tests.builders import NOW, StoppedClock, worker_id
from tests.servers import Redis, running
from tests.world import enter_worker

from sellerwatch.adapters.redis.leases import PREFIX, RedisLeases
from sellerwatch.adapters.redis.server import RedisServer
from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.kernel.leases import EmbeddedLeases, JobLeases

LONG = timedelta(minutes=5)


@pytest.fixture(scope="module")
def redis() -> Iterator[Redis]:
    with running(Redis) as server:
        assert isinstance(server, Redis)
        yield server


class TwoProcesses:
    """Two processes on one database and one clock."""

    def __init__(self, store: SqlStore, server: RedisServer | None) -> None:
        self.clock, self.store, self.server = StoppedClock(NOW), store, server
        self.one, self.two = self._leases(1), self._leases(2)

    def _leases(self, number: int) -> JobLeases:
        rows = EmbeddedLeases(self.store, self.clock, worker_id(number))
        return rows if self.server is None else RedisLeases(self.server, worker_id(number), rows)

    async def passes(self, length: timedelta) -> None:
        """For both clocks: Redis has its own."""
        self.clock.time += length
        if self.server is not None:
            for key in await self.server.ask("KEYS", f"{PREFIX}*"):
                left = await self.server.ask("PTTL", key)
                await self.server.ask("PEXPIRE", key, max(0, left - length // timedelta(milliseconds=1)))


@pytest.fixture(params=["embedded", "redis"])
async def processes(
    request: pytest.FixtureRequest, inline_store: SqlStore, redis: Redis
) -> AsyncIterator[TwoProcesses]:
    server = RedisServer(redis.url)
    await server.ask("FLUSHALL")
    yield TwoProcesses(inline_store, server if request.param == "redis" else None)
    await server.close()


async def test_what_one_has_the_other_cannot_take(processes: TwoProcesses) -> None:
    assert await processes.one.take("job", LONG)
    assert not await processes.two.take("job", LONG)
    assert await processes.two.take("another", LONG)


async def test_whoever_has_it_may_take_it_again(processes: TwoProcesses) -> None:
    assert await processes.one.take("job", LONG)
    assert await processes.one.take("job", LONG)


async def test_finished_it_is_free_and_the_end_is_known(processes: TwoProcesses) -> None:
    await processes.one.take("job", LONG)
    await processes.one.finish("job")
    assert await processes.store.read(lambda tx: tx.leases.last_finished("job")) == NOW
    assert await processes.two.take("job", LONG)


async def test_failed_it_is_free_and_has_not_come_to_its_end(processes: TwoProcesses) -> None:
    await processes.one.take("job", LONG)
    await processes.one.finish("job", "it broke")
    assert await processes.store.read(lambda tx: tx.leases.last_finished("job")) is None
    assert await processes.two.take("job", LONG)


async def test_nobody_finishes_what_is_anothers(processes: TwoProcesses) -> None:
    await processes.one.take("job", LONG)
    await processes.two.finish("job")
    assert not await processes.two.take("job", LONG)


async def test_of_one_that_died_it_lapses(processes: TwoProcesses) -> None:
    await processes.one.take("job", LONG)
    await processes.passes(LONG / 2)
    assert not await processes.two.take("job", LONG)
    await processes.passes(LONG)
    assert await processes.two.take("job", LONG)


async def test_of_one_whose_heart_stopped_it_is_free_as_soon_as_that_is_noticed(processes: TwoProcesses) -> None:
    await processes.store.transact(lambda tx: enter_worker(tx, 1, NOW))
    await processes.one.take("job", LONG)
    await processes.passes(timedelta(seconds=40))
    assert not await processes.two.take("job", LONG)
    noticed = processes.clock.now()
    await processes.store.transact(lambda tx: tx.workers.bury(noticed - timedelta(seconds=30), noticed))
    assert await processes.two.take("job", LONG)


async def test_an_emptied_redis_lets_nobody_in_whom_the_row_keeps_out(processes: TwoProcesses) -> None:
    await processes.one.take("job", LONG)
    if processes.server is not None:
        await processes.server.ask("FLUSHALL")
    assert not await processes.two.take("job", LONG)


async def test_without_redis_the_rows_decide_alone(inline_store: SqlStore) -> None:
    with running(Redis) as server:
        assert isinstance(server, Redis)
        processes = TwoProcesses(inline_store, RedisServer(server.url, patience=2))
        assert await processes.one.take("job", LONG)
        server.freeze()
        assert not await processes.two.take("job", LONG)
        await processes.one.finish("job")
        assert await processes.two.take("job", LONG)
        server.thaw()
        assert processes.server is not None
        await processes.server.close()
