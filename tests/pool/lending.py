"""Processes that ask a limiter for permits on real time: a database with agents, work that never ends, and a count of
its own at the marketplace's door, which knows nothing of permits."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from benchmarks.pool import Count, a_store, with_endless_work
from tests.builders import worker_id

from sellerwatch.adapters.redis.clock import RedisClock
from sellerwatch.adapters.redis.limiter import RedisLimiter
from sellerwatch.adapters.redis.server import RedisServer
from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.agents.breaker import BreakerRules
from sellerwatch.agents.lending import NOTHING, EmbeddedLimiter, LendingRules, lend_visit
from sellerwatch.agents.limits import Host, Limits
from sellerwatch.agents.ports import Limiter, Permit
from sellerwatch.crawling.claim import Claims, claim, survey
from sellerwatch.crawling.ports import WorkerInfo
from sellerwatch.kernel.clock import Clock, SystemClock, moment
from sellerwatch.kernel.errors import Unavailable

#: A window that a test can wait for, and a rate that is not in its way.
LIMITS = Limits(window_limit=5, window=timedelta(milliseconds=600), per_second=1000, margin=timedelta(0))
SLOW = Host(concurrency=1_000_000)


@dataclass
class Door:
    """What the marketplace saw of each agent."""

    limits: Limits
    counts: dict[int, Count] = field(default_factory=dict)

    def arrive(self, row: int) -> None:
        count = self.counts.setdefault(row, Count(self.limits))
        count.arrive(int(SystemClock().monotonic() * 1_000_000))

    @property
    def over(self) -> int:
        return sum(count.over for count in self.counts.values())

    @property
    def made(self) -> int:
        return sum(count.made for count in self.counts.values())


@dataclass
class Process:
    """One process: its limiter, and the steps of a claim one by one, so that a test can stop between any two."""

    store: SqlStore
    limiter: Limiter
    clock: Clock
    number: int
    limits: Limits = LIMITS
    host: Host = SLOW
    turn: int = 0

    @property
    def terms(self) -> LendingRules:
        return LendingRules(self.limits, self.host, BreakerRules(min_percent=0), self.limiter)

    async def enter(self) -> Process:
        at = moment(self.clock)
        info = WorkerInfo(worker_id(self.number), "test", "here", self.number, at.now, at.now)

        def work(tx: Transaction) -> None:
            tx.windows.enter_boot(at, self.limits)
            tx.workers.enter(info)

        await self.store.transact(work)
        await self.limiter.begin()
        return self

    async def claim(self, wanted: int = 50, tasks: int | None = None) -> Claims:
        """`tasks`: as many as there really are by then, when what was seen ahead is gone."""
        seen, ahead, terms = moment(self.clock), NOTHING, self.terms
        if self.limiter.looks_ahead:
            candidates, most = await self.store.read(
                lambda tx: survey(with_endless_work(tx), wanted, self.turn, seen, None)
            )
            ahead = await self.limiter.reserve(candidates, most, self.limits, terms.for_tasks.host, seen.now)
        at, most = moment(self.clock), wanted if tasks is None else tasks
        claims = await self.store.transact(
            lambda tx: claim(with_endless_work(tx), worker_id(self.number), most, self.turn, at, terms, ahead)
        )
        self.turn += 1
        await self.limiter.settle(ahead, [taken.permit for taken in claims.taken])
        return claims

    async def lent(self, wanted: int = 50) -> list[Permit]:
        return [taken.permit for taken in (await self.claim(wanted)).taken]

    async def visit(self) -> list[Permit]:
        """A permit for the token page, if there is one now."""
        ahead = await self.limiter.reserve_visit(self.host) if self.limiter.looks_ahead else NOTHING
        at, terms = moment(self.clock), self.terms
        permit = await self.store.transact(lambda tx: lend_visit(tx, worker_id(self.number), terms, ahead, at))
        permits = [] if permit is None else [permit]
        await self.limiter.settle(ahead, permits)
        return permits

    async def answer(self, permits: Sequence[Permit]) -> None:
        at, numbers = moment(self.clock), [permit.number for permit in permits]
        await self.store.transact(lambda tx: tx.permits.answer(numbers, at))
        await self.limiter.answered([(permit.grant.candidate.row, permit.number) for permit in permits])

    async def work(self, door: Door, seconds: float, latency: float = 0.02) -> None:
        """Claim, depart, arrive, answer, as fast as it is let. What cannot be asked for is waited for."""
        end = SystemClock().monotonic() + seconds
        while SystemClock().monotonic() < end:
            try:
                permits = await self.lent()
            except Unavailable:
                await asyncio.sleep(0.02)
                continue
            for permit in permits:
                early = permit.grant.depart_us / 1_000_000 - self.clock.monotonic()
                await asyncio.sleep(max(0.0, early))
                door.arrive(permit.grant.candidate.row)
            await asyncio.sleep(latency)
            if permits:
                await self.answer(permits)


def by_row(permits: Sequence[Permit]) -> dict[int, list[int]]:
    """Departures of each agent, in their order."""
    found: dict[int, list[int]] = defaultdict(list)
    for permit in permits:
        found[permit.grant.candidate.row].append(permit.grant.depart_us)
    return {row: sorted(departures) for row, departures in found.items()}


def a_ground(database: Path, agents: int = 3, limits: Limits = LIMITS) -> SqlStore:
    """In a database that is migrated already."""
    return a_store(f"sqlite:///{database}", agents, limits)


async def embedded(store: SqlStore, number: int, limits: Limits = LIMITS, host: Host = SLOW) -> Process:
    return await Process(store, EmbeddedLimiter(), SystemClock(), number, limits, host).enter()


async def with_redis(
    server: RedisServer, store: SqlStore, number: int, limits: Limits = LIMITS, host: Host = SLOW
) -> Process:
    clock = RedisClock(SystemClock())
    limiter = RedisLimiter(server, store, clock, worker_id(number), limits)
    await limiter.listen()
    return await Process(store, limiter, clock, number, limits, host).enter()
