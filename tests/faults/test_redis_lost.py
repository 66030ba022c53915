"""Redis emptied, frozen, gone: too few requests rather than too many, and it heals by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.builders import worker_id
from tests.pool.lending import LIMITS, Door, Process, a_ground, embedded, with_redis
from tests.servers import Redis, running

from sellerwatch.adapters.redis.scripts import KEYS
from sellerwatch.adapters.redis.server import RedisEvicts, RedisServer, RedisUnavailable
from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.agents.ports import Permit
from sellerwatch.kernel.clock import moment

AGENTS = 3
MOST = AGENTS * LIMITS.window_limit
WINDOW = LIMITS.window.total_seconds()
#: Long enough that nothing comes free while a test looks.
LONG = replace(LIMITS, window=timedelta(hours=1))


@pytest.fixture
def redis() -> Iterator[Redis]:
    with running(Redis) as server:
        assert isinstance(server, Redis)
        yield server


@pytest.fixture
async def server(redis: Redis) -> AsyncIterator[RedisServer]:
    made = RedisServer(redis.url)
    yield made
    await made.close()


@pytest.fixture
def store(database_file: Path) -> Iterator[SqlStore]:
    made = a_ground(database_file, AGENTS)
    yield made
    made.close()


async def lent_in_all(process: Process) -> int:
    found = 0
    for _ in range(5):
        found += len(await process.lent())
        await asyncio.sleep(0.03)
    return found


async def test_an_emptied_redis_is_filled_from_the_database_before_anything_is_lent(
    server: RedisServer, store: SqlStore
) -> None:
    process = await with_redis(server, store, 1, LONG)
    answered, under_way = await process.lent(4), await process.lent(3)
    await process.answer(answered)
    await server.ask("FLUSHALL")
    assert await lent_in_all(process) == MOST - 7
    await process.answer(under_way)
    assert await process.lent() == []


async def test_two_processes_that_fill_it_at_once_fill_it_once(server: RedisServer, store: SqlStore) -> None:
    first, second = await with_redis(server, store, 1, LONG), await with_redis(server, store, 2, LONG)
    lent = len(await first.lent(4)) + len(await second.lent(4))
    await server.ask("FLUSHALL")
    got = await asyncio.gather(*(process.lent(3) for process in (first, second) * 4))
    assert lent + sum(map(len, got)) + await lent_in_all(first) + await lent_in_all(second) == MOST


async def test_a_claim_that_committed_while_redis_was_emptied_is_known_before_it_leaves(
    server: RedisServer, store: SqlStore
) -> None:
    first, second = await with_redis(server, store, 1, LONG), await with_redis(server, store, 2, LONG)
    candidates = await store.read(lambda tx: tx.agents.candidates(moment(first.clock)))
    ahead = await first.limiter.reserve(candidates, 6, LONG, first.host, first.clock.now())
    await server.ask("FLUSHALL")
    # The other fills it from a database that does not know of the claim yet.
    assert len(await second.lent(1)) == 1
    at = moment(first.clock)

    def commit(tx: Transaction) -> Sequence[Permit]:
        grants = first.limiter.lend(tx, ahead, candidates, 6, (LONG, first.host), at).grants
        return tx.permits.reserve(grants, [None] * len(grants), worker_id(1), at)

    await first.limiter.settle(ahead, await store.transact(commit))
    assert await lent_in_all(second) == MOST - 7


async def test_restarted_empty_again_and_again_in_mid_run_it_never_lends_too_many(
    redis: Redis, server: RedisServer, store: SqlStore
) -> None:
    door = Door(LIMITS)
    processes = [await with_redis(server, store, number) for number in (1, 2)]

    async def restart() -> None:
        for _ in range(3):
            await asyncio.sleep(WINDOW / 3)
            await asyncio.to_thread(redis.kill)
            await asyncio.to_thread(redis.start)

    await asyncio.gather(restart(), *(process.work(door, 5 * WINDOW) for process in processes))
    assert door.over == 0
    before = door.made
    await asyncio.gather(*(process.work(door, 2 * WINDOW) for process in processes))
    assert door.over == 0
    assert door.made > before


async def test_while_it_is_frozen_nothing_leaves_and_then_it_goes_on(
    redis: Redis, server: RedisServer, store: SqlStore
) -> None:
    door = Door(LIMITS)
    process = await with_redis(server, store, 1)
    redis.freeze()
    with pytest.raises(RedisUnavailable, match="does not answer"):
        await process.lent()
    redis.thaw()
    await process.work(door, 2 * WINDOW)
    assert door.made > 0
    assert door.over == 0


async def test_an_answer_that_could_not_be_told_is_told_with_the_next(
    redis: Redis, server: RedisServer, store: SqlStore
) -> None:
    process = await with_redis(server, store, 1)
    permits = await process.lent(MOST)
    redis.freeze()
    await process.answer(permits)
    redis.thaw()
    await process.limiter.tend()
    await asyncio.sleep(WINDOW + 0.1)
    assert len(await process.lent(MOST)) == MOST


async def test_there_is_no_falling_back_to_the_embedded_limiter(
    redis: Redis, server: RedisServer, store: SqlStore
) -> None:
    process = await with_redis(server, store, 1)
    redis.kill()
    with pytest.raises(RedisUnavailable, match="no server answers there"):
        await process.lent()


async def test_what_redis_forgot_by_half_the_books_still_know(server: RedisServer, store: SqlStore) -> None:
    """Keys that somebody deleted while the epoch stayed: the claim's transaction looks at the database once more."""
    process = await with_redis(server, store, 1, LONG)
    await process.answer(await process.lent(MOST))
    await server.ask("DEL", *(f"sellerwatch:{{pool}}:window:{row}" for row in range(1, AGENTS + 1)))
    assert await process.lent() == []


async def test_what_was_lent_embedded_meanwhile_is_known_at_the_next_start(
    server: RedisServer, store: SqlStore
) -> None:
    await (await with_redis(server, store, 1, LONG)).lent(2)
    await (await embedded(store, 2, LONG)).lent(5)
    assert await lent_in_all(await with_redis(server, store, 3, LONG)) == MOST - 7


async def test_a_clock_of_redis_that_is_set_forward_opens_no_window(server: RedisServer, store: SqlStore) -> None:
    process = await with_redis(server, store, 1)
    await process.answer(await process.lent(MOST))
    # As if all so far had been said an hour later than it is.
    ahead = str(int(process.clock.monotonic() * 1_000_000) + 3_600_000_000)
    await server.ask("HSET", KEYS[4], "now", ahead)
    await asyncio.sleep(WINDOW)
    with pytest.raises(RedisUnavailable, match="clock was set forward"):
        await process.lent()
    assert await process.lent() == []


async def test_nothing_of_the_limiter_has_a_time_to_live(server: RedisServer, store: SqlStore) -> None:
    process = await with_redis(server, store, 1)
    await process.answer(await process.lent(4))
    keys = await server.ask("KEYS", "*")
    assert len(keys) >= 6
    assert {await server.ask("TTL", key) for key in keys} == {-1}


async def test_a_server_that_may_evict_our_keys_is_refused(server: RedisServer) -> None:
    await server.ask("CONFIG", "SET", "maxmemory", "100mb")
    await server.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    with pytest.raises(RedisEvicts, match="noeviction"):
        await server.check()


@pytest.mark.parametrize("user", ["", ":wr0ng-s3cret@"])
async def test_wrong_credentials_are_one_sentence_without_the_password(
    redis: Redis, server: RedisServer, user: str
) -> None:
    await server.ask("CONFIG", "SET", "requirepass", "right")
    other = RedisServer(redis.url.replace("//", f"//{user}"))
    with pytest.raises(RedisUnavailable, match="wants the right user and password") as refused:
        await other.check()
    assert "wr0ng" not in f"{refused.value}{refused.value!r}{other!r}{refused.value.__cause__!r}"
    await other.close()
