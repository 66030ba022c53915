"""The limiter in Redis beside the embedded one as its oracle: the same pool in the same state lends the same."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs
from tests.builders import NOW, a_candidate, worker_id
from tests.servers import Redis, running

from sellerwatch.adapters.redis.clock import RedisClock
from sellerwatch.adapters.redis.limiter import RedisLimiter
from sellerwatch.adapters.redis.scripts import BEGIN, KEYS, LOAD, WINDOW
from sellerwatch.adapters.redis.server import RedisServer
from sellerwatch.adapters.sql.engine import make_engine
from sellerwatch.adapters.sql.store import InlineRunner, SqlStore
from sellerwatch.agents.limits import Host, Limits
from sellerwatch.agents.pool import lend, pace
from sellerwatch.kernel.clock import Moment, SystemClock

HOUR_US = 3_600_000_000


@pytest.fixture(scope="module")
def redis() -> Iterator[Redis]:
    with running(Redis) as server:
        assert isinstance(server, Redis)
        yield server


@dataclass(frozen=True)
class AgentDetails:
    """An agent: its health, when it was last used, ages of its answered slots in minutes, slots under way."""

    health: int
    used: int
    ages: tuple[int, ...]
    under_way: int


# No age is near the window's edge: the two clocks are not the same.
AGENTS = st.lists(
    st.builds(
        AgentDetails,
        st.sampled_from([30, 70, 100]),
        st.integers(0, 5),
        st.lists(st.sampled_from([1, 30, 59, 61, 200]), max_size=6).map(tuple),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(
    agents=AGENTS,
    limit=st.integers(1, 8),
    per_second=st.sampled_from([100.0, 500.0, 1000.0]),
    wanted=st.integers(1, 30),
    concurrency=st.integers(1, 30),
    host_rate=st.sampled_from([None, 200.0, 10_000.0]),
)
def test_both_lend_the_same(
    redis: Redis,
    agents: list[AgentDetails],
    limit: int,
    per_second: float,
    wanted: int,
    concurrency: int,
    host_rate: float | None,
) -> None:
    limits = Limits(limit, timedelta(hours=1), per_second, timedelta(0))
    host = Host(concurrency, host_rate)
    pool = dict(enumerate(agents, 1))
    expected = embedded(pool, wanted, limits, host)
    assert asyncio.run(in_redis(redis.url, pool, wanted, limits, host)) == expected


def candidates(pool: Mapping[int, AgentDetails], limits: Limits) -> list[object]:
    return [candidate(row, one, limits) for row, one in pool.items()]


def candidate(row: int, one: AgentDetails, limits: Limits) -> object:
    left = limits.window_limit - one.under_way - sum(age < 60 for age in one.ages)
    used = NOW - timedelta(minutes=one.used)
    return structs.replace(
        a_candidate(row), row=row, health_score=one.health, last_used_at=used, slots_left=left, last_departure_us=0
    )


def embedded(pool: Mapping[int, AgentDetails], wanted: int, limits: Limits, host: Host) -> list[tuple[int, int]]:
    """Rows and departures, counted from now."""
    at = Moment(NOW, 10 * HOUR_US, "boot")
    room = min(wanted, host.concurrency - sum(one.under_way for one in pool.values()))
    grants = lend(candidates(pool, limits), max(room, 0), at, limits).grants  # type: ignore[arg-type]
    if host.per_second is not None:
        grants = tuple(pace(grants, 0, host.per_second, at))
    return [(grant.candidate.row, grant.depart_us - at.boot_us) for grant in grants]


async def in_redis(
    url: str, pool: Mapping[int, AgentDetails], wanted: int, limits: Limits, host: Host
) -> list[tuple[int, int]]:
    server, clock = RedisServer(url), RedisClock(SystemClock())
    store = SqlStore(make_engine("sqlite://"), clock, InlineRunner(), InlineRunner())
    limiter = RedisLimiter(server, store, clock, worker_id(), limits)
    try:
        await server.ask("FLUSHALL")
        await limiter.listen()
        loaded: list[str | int] = [WINDOW]
        for row, one in pool.items():
            for number, age in enumerate((*(age * 60_000_000 for age in one.ages), *[-1] * one.under_way)):
                loaded += (row, f"{row}{number}", age)
        await server.run(LOAD, KEYS, loaded)
        # When they last departed is not part of this: long ago.
        await server.ask("DEL", KEYS[3])
        await server.run(BEGIN, KEYS, [WINDOW, "test"])
        found = await limiter.reserve(candidates(pool, limits), wanted, limits, host, NOW)  # type: ignore[arg-type]
        now_us = min((one.depart_us for one in found.reserved), default=0)
        return [(one.row, one.depart_us - now_us) for one in found.reserved]
    finally:
        store.close()
        await server.close()
