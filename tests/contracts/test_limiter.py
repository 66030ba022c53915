"""One suite for every limiter: embedded in the claim's transaction, and in Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec import structs
from tests.builders import worker_id
from tests.pool.lending import LIMITS, SLOW, Door, Process, a_ground, by_row, embedded, with_redis
from tests.servers import Redis, running

from sellerwatch.adapters.redis.server import RedisServer
from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.agents.limits import Host, Limits
from sellerwatch.agents.ports import Permit
from sellerwatch.kernel.clock import moment

WINDOW = LIMITS.window.total_seconds()
AGENTS = 3
MOST = AGENTS * LIMITS.window_limit


@pytest.fixture(scope="module")
def redis() -> Iterator[Redis]:
    with running(Redis) as server:
        assert isinstance(server, Redis)
        yield server


@dataclass
class Kind:
    """A kind of limiter on a database of its own."""

    name: str
    store: SqlStore
    start: Callable[[int, Limits, Host], Awaitable[Process]]

    async def process(self, number: int = 1, limits: Limits = LIMITS, host: Host = SLOW) -> Process:
        return await self.start(number, limits, host)


@pytest.fixture(params=["embedded", "redis"])
async def kind(request: pytest.FixtureRequest, database_file: Path, redis: Redis) -> AsyncIterator[Kind]:
    store = a_ground(database_file, AGENTS)
    server = RedisServer(redis.url)
    await server.ask("FLUSHALL")
    starts: dict[str, Callable[[int, Limits, Host], Awaitable[Process]]] = {
        "embedded": lambda number, limits, host: embedded(store, number, limits, host),
        "redis": lambda number, limits, host: with_redis(server, store, number, limits, host),
    }
    yield Kind(request.param, store, starts[request.param])
    await server.close()
    store.close()


async def drained(process: Process) -> int:
    """How many are lent until no more are."""
    found = 0
    while permits := await process.lent():
        found += len(permits)
        await asyncio.sleep(0.03)
    return found


async def lent_in_time(process: Process) -> list[Permit]:
    """As many as there are slots, as soon as they are free."""
    found: list[Permit] = []
    while len(found) < MOST:
        found += await process.lent(MOST - len(found))
        await asyncio.sleep(0.03)
    return found


async def test_counts_that_redis_has_wrong_are_repaired_when_it_is_recounted(kind: Kind, redis: Redis) -> None:
    """A number that is too high kept an agent out for good, and one too low let it go over its limit."""
    process = await kind.process()
    permits = await process.lent(1)
    row = permits[0].grant.candidate.row
    assert await process.limiter.begin() == 0
    if kind.name == "embedded":
        return
    server = RedisServer(redis.url)
    await server.ask("HSET", "sellerwatch:{pool}:lent", str(row), "5")
    other = row % AGENTS + 1
    await server.ask("HSET", "sellerwatch:{pool}:lent", str(other), "-2")
    assert await process.limiter.begin() == 2
    assert await process.limiter.begin() == 0
    assert await drained(process) == MOST - 1
    await server.close()


async def test_no_more_are_lent_than_fit_into_the_windows(kind: Kind) -> None:
    assert await drained(await kind.process()) == MOST


async def test_asked_for_one_at_a_time_agents_that_are_under_way_are_lent_again(kind: Kind) -> None:
    process, found = await kind.process(), 0
    while permits := await process.lent(1):
        found += len(permits)
        await asyncio.sleep(0.03)
    assert found == MOST


async def test_two_processes_share_one_budget(kind: Kind) -> None:
    first, second = await kind.process(1), await kind.process(2)
    lent = await asyncio.gather(*(one.lent(4) for one in (first, second) * 6))
    assert sum(map(len, lent)) + await drained(first) + await drained(second) == MOST


async def test_a_slot_is_free_one_window_after_its_answer_and_not_before(kind: Kind) -> None:
    process = await kind.process()
    permits = await process.lent(MOST)
    assert len(permits) == MOST
    await asyncio.sleep(WINDOW)
    assert await process.lent() == []
    answered_us = process.clock.monotonic() * 1_000_000
    await process.answer(permits)
    again = await lent_in_time(process)
    assert all(permit.grant.depart_us >= answered_us + LIMITS.window_us for permit in again)


async def test_a_refusal_says_when_the_next_slot_is_free(kind: Kind) -> None:
    long = replace(LIMITS, window=timedelta(hours=1))
    process = await kind.process(limits=long)
    await process.answer(await process.lent(MOST))
    refused = await process.claim()
    assert refused.taken == ()
    assert refused.not_before is not None
    assert refused.not_before - process.clock.now() <= long.window + timedelta(seconds=1)


async def test_departures_of_one_agent_keep_their_distance(kind: Kind) -> None:
    limits = replace(LIMITS, per_second=200, margin=timedelta(milliseconds=1))
    process = await kind.process(limits=limits)
    permits = []
    for _ in range(20):
        permits += await process.lent()
        await asyncio.sleep(0.005)
    for departures in by_row(permits).values():
        assert all(later - sooner >= limits.spacing_us for sooner, later in pairwise(departures))


async def test_agents_of_equal_health_take_turns(kind: Kind) -> None:
    permits = await (await kind.process()).lent(2 * AGENTS)
    assert [permit.grant.candidate.row for permit in permits] == [1, 2, 3, 1, 2, 3]


async def test_the_healthiest_is_asked_first(kind: Kind) -> None:
    process = await kind.process()

    def make_ill(tx: Transaction) -> None:
        agents = tx.agents.get_rows([1, 3])
        tx.agents.save({1: structs.replace(agents[1], health_score=50), 3: structs.replace(agents[3], health_score=80)})

    await kind.store.transact(make_ill)
    permits = await process.lent(8)
    assert [permit.grant.candidate.row for permit in permits] == [2] * 5 + [3] * 3


async def test_the_hosts_own_limits_hold_over_all_processes(kind: Kind) -> None:
    # Tasks leave one of the host's slots to single questions.
    narrow = Host(concurrency=5)
    first, second = await kind.process(1, host=narrow), await kind.process(2, host=narrow)
    permits = await first.lent(3)
    assert (len(permits), len(await second.lent(3))) == (3, 1)
    await first.answer(permits)
    assert len(await second.lent(9)) == 3


async def test_visits_to_the_token_page_count_in_the_hosts_concurrency(kind: Kind) -> None:
    narrow = Host(concurrency=3)
    first, second = await kind.process(1, host=narrow), await kind.process(2, host=narrow)
    visits = await first.visit() + await second.visit()
    assert len(visits) == 2
    assert await first.lent(9) == [], "tasks leave the last slot to single questions"
    assert len(await second.visit()) == 1
    assert await first.visit() == []
    await first.answer(visits)
    assert len(await second.lent(9)) == 1


async def test_visits_to_the_token_page_count_in_the_hosts_rate(kind: Kind) -> None:
    process = await kind.process(host=Host(concurrency=100, per_second=50))
    permits = []
    for _ in range(5):
        permits += await process.visit() + await process.lent(1)
        await asyncio.sleep(0.02)
    rows = {permit.grant.candidate.row for permit in permits}
    assert len(rows) >= 2, "visits and requests"
    departures = sorted(permit.grant.depart_us for permit in permits)
    assert all(later - sooner >= 20_000 for sooner, later in pairwise(departures))


async def test_a_visit_takes_nothing_from_the_windows_of_the_agents(kind: Kind) -> None:
    process = await kind.process()
    await process.answer(await process.visit())
    assert await drained(process) == MOST


async def test_the_hosts_rate_spaces_all_departures(kind: Kind) -> None:
    process = await kind.process(host=Host(concurrency=100, per_second=250))
    permits = []
    for _ in range(10):
        permits += await process.lent()
        await asyncio.sleep(0.004)
    departures = sorted(permit.grant.depart_us for permit in permits)
    assert all(later - sooner >= 4000 for sooner, later in pairwise(departures))


async def test_what_was_not_used_is_free_again(kind: Kind) -> None:
    process = await kind.process()
    taken = await process.claim(MOST, tasks=2)
    assert len(taken.taken) == 2
    await asyncio.sleep(0.03)
    assert await drained(process) == MOST - 2


async def test_what_a_killed_process_was_lent_counts_until_one_window_after_that_was_noticed(kind: Kind) -> None:
    killed, other = await kind.process(1), await kind.process(2)
    await killed.lent(MOST)
    await asyncio.sleep(WINDOW)
    assert await other.lent() == []
    at = moment(other.clock)
    await kind.store.transact(lambda tx: tx.workers.leave(worker_id(1), at.now))
    await kind.store.transact(lambda tx: tx.permits.answer_lapsed(at.now - timedelta(seconds=30), at))
    await other.limiter.tend()
    assert all(permit.grant.depart_us >= at.boot_us + LIMITS.window_us for permit in await other.lent())


async def test_another_process_begins_with_what_was_lent_before_it(kind: Kind) -> None:
    assert len(await (await kind.process(1)).lent(MOST - 1)) == MOST - 1
    assert await drained(await kind.process(2)) == 1


async def test_two_processes_at_work_never_go_over_by_the_marketplaces_own_count(kind: Kind) -> None:
    door = Door(LIMITS)
    processes = [await kind.process(number) for number in (1, 2)]
    await asyncio.gather(*(process.work(door, 2 * WINDOW) for process in processes))
    assert door.over == 0
    assert door.made >= MOST


async def test_going_over_to_the_other_limiter_opens_no_window(kind: Kind, redis: Redis) -> None:
    """Nobody knows how two clocks stand to one another: what was lent by one counts as answered now by the other."""
    process = await kind.process(1)
    await process.answer(await process.lent(MOST))
    server = RedisServer(redis.url)
    other = await (embedded(kind.store, 2) if kind.name == "redis" else with_redis(server, kind.store, 2))
    assert await other.lent() == []
    await server.close()
