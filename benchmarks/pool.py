"""The agent pool, measured: how much of its budget it uses, how fast its permits are, and what a day of it crawls.

    python benchmarks/pool.py                       (all three)
    python benchmarks/pool.py week [--agents 100] [--days 7]
    python benchmarks/pool.py permits [--claims 4000]
    python benchmarks/pool.py day [--sellers 20] [--products 1100] [--hours 24]

`week`: pool and limiter alone on virtual time, with demand above the budget: the share of the theoretical budget that
was used, and what went over it by a count of its own, which knows nothing of permits. `permits`: durable permits a
second in claims of 50 on an SQLite file, beside `limits`' moving window in memory. `day`: the whole service on virtual
time at default settings, against the simulator with 2 % of the requests harmed. Exits with 1 where a bar is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import heapq
import random
import sys
import tempfile
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from sellerwatch.adapters.sql.engine import make_engine
from sellerwatch.adapters.sql.migrate import upgrade
from sellerwatch.adapters.sql.store import InlineRunner, SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.agents.breaker import BreakerRules
from sellerwatch.agents.lending import LendingRules
from sellerwatch.agents.limits import Host, Limits
from sellerwatch.agents.pool import lend
from sellerwatch.agents.token import Token
from sellerwatch.crawling.claim import Claims, claim
from sellerwatch.crawling.execution import Execution
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.crawling.task import RequestUrl, Task, TaskType
from sellerwatch.kernel.clock import Moment
from sellerwatch.kernel.ids import ExecutionId, ScheduleId, SellerId, TaskId, WorkerId

T = TypeVar("T")

START = datetime(2026, 1, 5, tzinfo=UTC)
WORKER = WorkerId("0198c0de-0000-7000-8007-000000000001")
BOOT = "virtual"
CLAIM = 50
SECOND_US = 1_000_000

#: What the pool must reach.
LEAST_SHARE = 0.99
LEAST_PERMITS = 10_000
LEAST_PRODUCTS = 20_000
LEAST_SUCCEEDED = 0.95
LONGEST_WAY = timedelta(hours=24)


# A pool of its own.


class StillClock:
    """The store asks it only when it has to wait, which it never does here."""

    boot_id = BOOT

    def now(self) -> datetime:
        return START

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        raise RuntimeError("nobody else is at this database")


class Demand:
    """A transaction in which work never ends. The pool's tables are the real ones; only the tasks are made up."""

    _RUN = Execution.create(
        ExecutionId("0198c0de-0000-7000-8002-000000000001"),
        ScheduleId("0198c0de-0000-7000-8003-000000000001"),
        SellerId("endless"),
        START,
    )
    _TASK = Task(
        task_id=TaskId("0198c0de-0000-7000-8001-000000000001"),
        execution_id=_RUN.execution_id,
        seller_id=_RUN.seller_id,
        task_type=TaskType.MINISHOP,
        request_url=RequestUrl.parse(TaskType.MINISHOP, "/mustit-api/facade-api/v1/searchmini-shop-search?pageNo=0"),
        created_at=START,
        available_at=START,
        page_no=0,
    )

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)

    @property
    def executions(self) -> Demand:
        return self

    @property
    def tasks(self) -> Demand:
        return self

    @property
    def task_claims(self) -> Demand:
        return self

    def at_work(self) -> Sequence[Execution]:
        return (self._RUN,)

    def ready(self, run: ExecutionId, now: datetime, limit: int, types: object = None) -> Sequence[Task]:
        return [self._TASK] * limit

    def next_ready(self, run: ExecutionId, types: object = None) -> datetime | None:
        """Another task is always ready; what holds it back is the marketplace."""
        return None

    def start(self, tasks: Sequence[Task], now: datetime) -> None:
        """Nobody asks for them again."""


def with_endless_work(tx: Transaction) -> CrawlTx:
    return cast("CrawlTx", Demand(tx))


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """The value of a coroutine that never waits, as those of an inline store."""
    try:
        work.send(None)
    except StopIteration as ended:
        return cast("T", ended.value)
    raise RuntimeError("it waited")


def a_store(url: str, agents: int, limits: Limits) -> SqlStore:
    """A new database with so many agents, each with a token for years."""
    engine = make_engine(url)
    upgrade(engine, START)
    store = SqlStore(engine, StillClock(), InlineRunner(), InlineRunner())

    def work(tx: Transaction) -> None:
        for stored in tx.pool_report.agents()[agents:]:
            tx.agents.remove(stored.row)
        for stored in tx.pool_report.agents():
            tx.tokens.keep(stored.row, a_token(stored.row), START + timedelta(days=3650))
        tx.windows.set_limits(limits, moment(0))
        tx.windows.enter_boot(moment(0), limits)

    at_once(store.transact(work))
    return store


def a_token(row: int) -> Token:
    return Token(
        key_id="bench",
        sealed=base64.b64encode(f"the token of agent {row:05d}".encode() * 3).decode(),
        fingerprint=f"{row:064x}",
        nid=f"nid-{row}",
        mustit_uid=f"uid-{row}",
        issued_at=START,
        expires_at=START + timedelta(days=3650),
    )


def moment(us: int) -> Moment:
    return Moment(START + timedelta(microseconds=us), us, BOOT)


# The week.


@dataclass
class Count:
    """What one agent asked, by a plain list of its requests: it knows nothing of permits, buckets or boots."""

    limits: Limits
    in_window: deque[int] = field(default_factory=deque)
    made: int = 0
    over: int = 0
    last: int | None = None
    closest: int | None = None

    def arrive(self, us: int) -> None:
        while self.in_window and self.in_window[0] <= us - self.limits.window_us:
            self.in_window.popleft()
        self.in_window.append(us)
        self.made += 1
        self.over += len(self.in_window) > self.limits.window_limit
        if self.last is not None:
            self.closest = min(us - self.last, self.closest or us)
        self.last = us


@dataclass(frozen=True)
class Week:
    """What a pool with more work than budget did."""

    agents: int
    days: float
    requests: int
    budget: int
    over: int
    closest_us: int
    spacing_us: int
    seconds: float

    @property
    def share(self) -> float:
        return self.requests / self.budget

    @property
    def is_good(self) -> bool:
        return self.share >= LEAST_SHARE and self.over == 0 and self.closest_us >= self.spacing_us

    def __str__(self) -> str:
        return "\n".join(
            (
                f"{self.agents} agents, {self.days:g} simulated days, demand above the budget ({self.seconds:.1f} s)",
                f"  requests made             {self.requests:>12,}",
                f"  theoretical budget        {self.budget:>12,}",
                f"  share used                {self.share:>12.2%}   (at least {LEAST_SHARE:.0%})",
                f"  over the budget           {self.over:>12,}   (by arrival, counted by itself; 0)",
                (
                    f"  closest two departures    {self.closest_us / SECOND_US:>10.3f} s   (of one agent; at least "
                    f"{self.spacing_us / SECOND_US:g} s)"
                ),
            )
        )


def week(agents: int = 100, days: float = 7, seed: int = 1, limits: Limits | None = None) -> Week:
    """A worker that claims and answers as the real one does, and whose work never ends."""
    limits = limits or Limits()
    terms = LendingRules(limits, Host(concurrency=1000), BreakerRules())
    rng, began = random.Random(seed), time.perf_counter()
    departures: dict[int, Count] = defaultdict(lambda: Count(limits))
    arrivals: dict[int, Count] = defaultdict(lambda: Count(limits))
    under_way: list[tuple[int, list[int]]] = []
    now, end, turn = 0, int(days * 86_400) * SECOND_US, 0
    store = a_store("sqlite://", agents, limits)

    def claimed(at: Moment) -> Claims:
        return at_once(store.transact(lambda tx: claim(with_endless_work(tx), WORKER, CLAIM, turn, at, terms)))

    def answered(numbers: list[int], at: Moment) -> None:
        at_once(store.transact(lambda tx: tx.permits.answer(numbers, at)))

    while now < end:
        while under_way and under_way[0][0] <= now:
            answered(heapq.heappop(under_way)[1], moment(now))
        found = claimed(moment(now))
        turn += 1
        latency = rng.randrange(20_000, 400_000)
        for taken in found.taken:
            grant = taken.permit.grant
            departures[grant.candidate.row].arrive(grant.depart_us)
            arrivals[grant.candidate.row].arrive(grant.depart_us + latency // 2)
        if found.taken:
            last = found.taken[-1].permit.grant.depart_us
            heapq.heappush(under_way, (last + latency, [taken.permit.number for taken in found.taken]))
            if not found.lacks_agents:
                continue
        wait = now + SECOND_US
        if found.not_before is not None:
            wait = max(now + 1, (found.not_before - START) // timedelta(microseconds=1))
        now = min(wait, under_way[0][0]) if under_way else wait
    store.close()
    windows = timedelta(days=days) / limits.window
    return Week(
        agents=agents,
        days=days,
        requests=sum(count.made for count in departures.values()),
        budget=int(agents * limits.window_limit * windows),
        over=sum(count.over for count in arrivals.values()),
        closest_us=min((count.closest for count in departures.values() if count.closest is not None), default=0),
        spacing_us=limits.spacing_us,
        seconds=time.perf_counter() - began,
    )


# Permits a second.


@dataclass(frozen=True)
class Speed:
    """Permits a second, each way in rounds of its own; the median counts."""

    claims: int
    durable: list[float]
    whole: list[float]
    in_memory: list[float]

    @property
    def is_good(self) -> bool:
        return _median(self.durable) >= LEAST_PERMITS

    def __str__(self) -> str:
        return "\n".join(
            (
                f"permits a second, {self.claims} claims of {CLAIM} a round, median of {len(self.durable)} (worst)",
                (
                    f"  ours: reserve + answer, durable (SQLite file)     {_shown(self.durable)}   (at least "
                    f"{LEAST_PERMITS:,})"
                ),
                f"  ours: expire, choose among 100, reserve, answer   {_shown(self.whole)}",
                f"  limits: moving window in memory, nothing kept     {_shown(self.in_memory)}",
            )
        )


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


def _shown(values: Sequence[float]) -> str:
    return f"{_median(values):>9,.0f} ({min(values):,.0f})"


def permits(claims: int = 400, rounds: int = 5, agents: int = 100) -> Speed:
    """Contestants in turns, so that a busy machine hurts them alike."""
    speed = Speed(claims, [], [], [])
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            speed.durable.append(_durable(Path(folder) / f"durable-{number}.db", claims, agents, choose=False))
            speed.whole.append(_durable(Path(folder) / f"whole-{number}.db", claims, agents, choose=True))
            speed.in_memory.append(_in_memory(claims, agents))
    return speed


def _durable(path: Path, claims: int, agents: int, *, choose: bool) -> float:
    """Windows of a second of virtual time, in which a claim takes 10 ms: as many slots come free as are taken."""
    limits = Limits(window_limit=1_000_000, window=timedelta(seconds=1), per_second=SECOND_US, margin=timedelta(0))
    store = a_store(f"sqlite:///{path}", agents, limits)
    candidates = at_once(store.read(lambda tx: tx.agents.candidates(moment(0))))
    tasks: list[TaskId | None] = [Demand._TASK.task_id] * CLAIM
    once = lend(candidates, CLAIM, moment(SECOND_US), limits).grants

    def reserve(tx: Transaction, at: Moment) -> list[int]:
        tx.permits.expire(at, limits)
        grants = lend(tx.agents.candidates(at), CLAIM, at, limits).grants if choose else once
        return [permit.number for permit in tx.permits.reserve(grants, tasks, WORKER, at)]

    def answer(tx: Transaction, numbers: list[int], at: Moment) -> frozenset[int]:
        return tx.permits.answer(numbers, at)

    began = time.perf_counter()
    for number in range(claims):
        at = moment(SECOND_US + number * 10_000)
        numbers = at_once(store.transact(partial(reserve, at=at)))
        assert len(numbers) == CLAIM
        at_once(store.transact(partial(answer, numbers=numbers, at=at)))
    taken = time.perf_counter() - began
    store.close()
    return claims * CLAIM / taken


def _in_memory(claims: int, agents: int) -> float:
    from limits import RateLimitItemPerHour
    from limits.storage import MemoryStorage
    from limits.strategies import MovingWindowRateLimiter

    limiter = MovingWindowRateLimiter(MemoryStorage())
    item = RateLimitItemPerHour(1_000_000)
    names = [f"agent-{number}" for number in range(agents)]
    began = time.perf_counter()
    for number in range(claims * CLAIM):
        assert limiter.hit(item, names[number % agents])
    return claims * CLAIM / (time.perf_counter() - began)


# A day of everything.


@dataclass(frozen=True)
class Day:
    """What the whole service did in a simulated day."""

    hours: float
    products: int
    tasks: int
    completed: int
    failed: int
    changes: int
    longest_way: timedelta | None
    stale: int
    statuses: dict[str, int]
    over: int
    available: str
    seconds: float
    expected: int

    @property
    def succeeded(self) -> float:
        return self.completed / self.tasks if self.tasks else 0.0

    @property
    def is_good(self) -> bool:
        in_time = self.longest_way is not None and self.longest_way <= LONGEST_WAY and self.stale == 0
        crawled = self.products >= min(LEAST_PRODUCTS, self.expected)
        return crawled and self.succeeded >= LEAST_SUCCEEDED and in_time and self.over == 0

    def __str__(self) -> str:
        return "\n".join(
            (
                f"the whole service, {self.hours:g} simulated hours, 2 % of requests harmed ({self.seconds:.0f} s)",
                f"  products crawled and told    {self.products:>9,}   (at least {LEAST_PRODUCTS:,})",
                (
                    f"  tasks that succeeded         {self.succeeded:>9.2%}   (at least {LEAST_SUCCEEDED:.0%}; "
                    f"{self.completed:,} of {self.tasks:,}, {self.failed:,} failed)"
                ),
                f"  changes made                 {self.changes:>9,}",
                (
                    f"  longest way to the receiver  {self.longest_way!s:>9}   (at most {LONGEST_WAY}; "
                    f"{self.stale} never arrived)"
                ),
                f"  over the limits              {self.over:>9,}   (by the marketplace's own count; 0)",
                f"  agents available at the end  {self.available:>9}",
                f"  answers of the marketplace   {self.statuses}",
            )
        )


def day(sellers: int = 20, products: int = 1100, hours: float = 24, seed: int = 1) -> Day:
    """Every seller twice, half of the time apart; in between, when the first runs are over, products change."""
    from sellerwatch.kernel.virtual_time import VirtualClock, VirtualLoop, run_virtually
    from sellerwatch.schedules.interval import CrawlingInterval
    from sellerwatch.simulator.chaos import ChaosProfile
    from sellerwatch.simulator.rng import seeded_rng
    from sellerwatch.simulator.simulator import Simulator
    from sellerwatch.simulator.world import MutationKind

    loop, began = VirtualLoop(START), time.perf_counter()
    clock = VirtualClock(loop)
    simulator = Simulator(seed=seed, sellers=sellers, products=products, detail_kb=1, volatile=False)
    simulator.marketplace.chaos.become(
        ChaosProfile(latency_ms=120, jitter_ms=80, error=0.010, drop=0.005, truncated=0.003, html=0.002)
    )
    every = CrawlingInterval.of_hours(max(1, int(hours / 2)))

    async def story() -> tuple[int, timedelta | None, dict[str, Any]]:
        async with _serving(simulator, clock, seed, every) as service:
            await clock.sleep(hours * 3600 * 0.45)
            changed = {
                m.item_no
                for m in simulator.world.mutate(max(1, products // 5), seeded_rng(seed), {MutationKind.CHANGED: 1})
            }
            moved, seen = clock.now(), len(simulator.product_server.events())
            await clock.sleep(hours * 3600 * 0.55)
            arrived = [e for e in simulator.product_server.events(seen) if e.item_no in changed]
            ways = [START + timedelta(seconds=e.received_at - START.timestamp()) - moved for e in arrived]
            counts = await service.crawl.store.read(_counts)
            return len(changed), max(ways, default=None), counts

    changes, longest, counts = run_virtually(story(), loop=loop)
    stats = simulator.marketplace.stats()
    return Day(
        hours=hours,
        products=len(simulator.product_server),
        tasks=counts["completed"] + counts["failed"],
        completed=counts["completed"],
        failed=counts["failed"],
        changes=changes,
        longest_way=longest,
        stale=len(simulator.compare()),
        statuses=dict(sorted(stats["statuses"].items())),
        over=stats["over_budget"] + stats["over_rate"],
        available=f"{counts['available']}/{counts['agents']}",
        seconds=time.perf_counter() - began,
        expected=sellers * products,
    )


def _counts(tx: Any) -> dict[str, int]:
    tasks = dict(tx.db.rows("SELECT status, COUNT(*) FROM crawler_tasks GROUP BY status"))
    available, agents = tx.agents.tally()
    return {
        "completed": tasks.get("COMPLETED", 0),
        "failed": tasks.get("FAILED", 0),
        "available": available,
        "agents": agents,
    }


@asynccontextmanager
async def _serving(simulator: Any, clock: Any, seed: int, every: Any) -> AsyncIterator[Any]:
    """The service as `serve` runs it, at default settings, every seller due now and then at its interval."""
    from tests.simulated_receiver import SimulatedReceiver
    from tests.simulated_transport import SimulatedTransport

    from sellerwatch.compose.service import open_service
    from sellerwatch.kernel.clock import moment
    from sellerwatch.kernel.ids import Ids, ReplayableIds
    from sellerwatch.kernel.operations import OperationContext
    from sellerwatch.kernel.store import Commits
    from sellerwatch.sellers.commands import register_seller
    from sellerwatch.settings.load import load

    keys = f"bench:{base64.b64encode(bytes(32)).decode()}"
    settings = load({"SELLERWATCH_DATABASE_URL": "sqlite://", "SELLERWATCH_TOKEN_KEYS": keys}).settings
    engine = make_engine("sqlite://")
    upgrade(engine, START)
    store = SqlStore(engine, clock, InlineRunner(), InlineRunner(), commits=Commits())
    rng = random.Random(seed)
    draw, now = ReplayableIds(Ids(clock, rng)), moment(clock)

    def enter(tx: Transaction) -> None:
        context = OperationContext("bench", now, draw.replay())
        for name in simulator.world.sellers:
            register_seller(tx, context, SellerId(name), name, every)
            schedule = tx.schedules.of_seller(SellerId(name))
            assert schedule is not None
            tx.schedules.save(schedule.ran(now.now, now.now))

    await store.transact(enter)
    transport, receiver = SimulatedTransport(simulator, clock), SimulatedReceiver(simulator, clock)
    async with open_service(
        settings, clock=clock, rng=rng, store=store, transport=transport, receiver=receiver
    ) as service:
        running = asyncio.create_task(service.run())
        try:
            yield service
        finally:
            service.stop.set()
            await running
            store.close()


# The command.


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", nargs="?", choices=("all", "week", "permits", "day"), default="all")
    parser.add_argument("--agents", type=int, default=100)
    parser.add_argument("--days", type=float, default=7)
    parser.add_argument("--claims", type=int, default=400)
    parser.add_argument("--sellers", type=int, default=20)
    parser.add_argument("--products", type=int, default=1100, help="of each seller")
    parser.add_argument("--hours", type=float, default=24)
    args = parser.parse_args()
    asked: dict[str, Callable[[], Speed | Week | Day]] = {
        "permits": lambda: permits(args.claims),
        "week": lambda: week(args.agents, args.days),
        "day": lambda: day(args.sellers, args.products, args.hours),
    }
    failed = []
    for name, measure in asked.items():
        if args.what in (name, "all"):
            report = measure()
            print(report, flush=True)
            failed += [] if report.is_good else [name]
    if failed:
        print(f"a bar was missed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
