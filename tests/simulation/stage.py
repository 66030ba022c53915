"""A stage for the whole service on virtual time: a simulator, a store in memory that rehearses, and a clock that jumps.

Everything between the doors is the real thing: worker, pool, scheduler, outbox, store and schema. Only the sockets and
the threads are missing, so that one seed gives one history and an hour costs a second.
"""

from __future__ import annotations

import asyncio
import base64
import random
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from tests.builders import LATER, a_context

from sellerwatch.adapters.sql.engine import make_engine
from sellerwatch.adapters.sql.store import InlineRunner, SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.compose.rules import pool_rules
from sellerwatch.compose.service import open_service
from sellerwatch.crawling.execution import Execution
from sellerwatch.crawling.trigger import trigger
from sellerwatch.kernel.errors import Unavailable
from sellerwatch.kernel.ids import ExecutionId, Ids, ReplayableIds, SellerId
from sellerwatch.kernel.store import Commits
from sellerwatch.kernel.virtual_time import VirtualClock, VirtualLoop, run_virtually
from sellerwatch.marketplaces.ports import Transport
from sellerwatch.operations.session import OperationSession
from sellerwatch.outbox.message import OutboxKind
from sellerwatch.outbox.ports import Receiver
from sellerwatch.schedules.interval import CrawlingInterval
from sellerwatch.sellers.commands import register_seller
from sellerwatch.service.service import Service
from sellerwatch.settings.limits import TunableLimits
from sellerwatch.settings.load import load
from sellerwatch.settings.model import Settings
from sellerwatch.simulator.receiver import SimulatedReceiver
from sellerwatch.simulator.simulator import Simulator
from sellerwatch.simulator.transport import SimulatedTransport

T = TypeVar("T")

#: Limits that let a small crawl end within virtual seconds; the limiter and the marketplace's judge go by the same.
QUICK: Mapping[str, float] = {"WINDOW_LIMIT": 80, "WINDOW_SECONDS": 10, "REQUESTS_PER_SECOND": 30}
KEY = f"practice:{base64.b64encode(bytes(32)).decode()}"
MOST_RUNS = 5
#: More than any story needs: whoever waits longer waits for ever.
PATIENCE = 24 * 3600.0


def settings_of(**values: object) -> Settings:
    given = {
        "DATABASE_URL": "sqlite://",
        "TOKEN_KEYS": KEY,
        "AGENT_SUSPENSION_SECONDS": 5,
        "TENDING_INTERVAL_SECONDS": 1,
        "OUTBOX_BACKOFF_SECONDS": 1,
        "OUTBOX_CIRCUIT_OPEN_SECONDS": 1,
        **QUICK,
        **values,
    }
    return load({f"SELLERWATCH_{name}": str(value) for name, value in given.items()}).settings


def simulator_of(settings: Settings, **given: Any) -> Simulator:
    """A simulator that judges by the limits the service goes by."""
    judged = {
        "window_limit": settings.window_limit,
        "window_seconds": settings.window_seconds,
        "requests_per_second": settings.requests_per_second,
    }
    return Simulator(**{"detail_kb": 1, **judged, **given})


def copy_in_memory(template: Path, clock: VirtualClock) -> SqlStore:
    """A database of its own in memory, already migrated."""
    engine = make_engine("sqlite://")
    raw = engine.raw_connection()
    source = sqlite3.connect(template)
    try:
        assert isinstance(raw.driver_connection, sqlite3.Connection)
        source.backup(raw.driver_connection)
    finally:
        source.close()
        raw.close()
    return SqlStore(engine, clock, InlineRunner(), InlineRunner(), rehearse=True, commits=Commits())


@dataclass
class Stage:
    """One database, one simulator, one time; services come and go on it."""

    loop: VirtualLoop
    settings: Settings
    simulator: Simulator
    store: SqlStore
    seed: int = 1
    clock: VirtualClock = field(init=False)
    ids: Ids = field(init=False)

    def __post_init__(self) -> None:
        self.clock = VirtualClock(self.loop)
        self.rng = random.Random(self.seed)
        self.ids = Ids(self.clock, self.rng)
        self.transport: Transport = SimulatedTransport(self.simulator, self.clock)
        self.receiver: Receiver = SimulatedReceiver(self.simulator, self.clock)

    @asynccontextmanager
    async def service(
        self,
        *,
        schedules: bool = False,
        store: SqlStore | None = None,
        transport: Transport | None = None,
        receiver: Receiver | None = None,
        scheduler: Receiver | None = None,
    ) -> AsyncIterator[Service]:
        """A service that is not running yet, on these doors."""
        async with open_service(
            self.settings,
            clock=self.clock,
            rng=random.Random(self.rng.getrandbits(64)),
            store=store or self.store,
            transport=transport or self.transport,
            receiver=receiver or self.receiver,
            scheduler=scheduler,
            schedules=schedules,
        ) as service:
            yield service

    def session(self, service: Service, actor: str = "kim") -> OperationSession:
        """Commands and queries of a person, beside this service."""
        crawl = service.crawl
        return OperationSession(
            store=self.store,
            clock=self.clock,
            ids=self.ids,
            rules=crawl.rules,
            pool=pool_rules(self.settings),
            limits=TunableLimits(self.settings),
            deadline=crawl.deadline,
            actor=actor,
            language="en",
            changed=service.nudge,
        )

    @asynccontextmanager
    async def serving(
        self, *, schedules: bool = False, store: SqlStore | None = None, scheduler: Receiver | None = None
    ) -> AsyncIterator[Service]:
        """A service at work while the block runs; then it is stopped as SIGTERM does it. One that breaks is seen."""
        async with self.service(schedules=schedules, store=store, scheduler=scheduler) as service:
            running = asyncio.create_task(service.run())
            try:
                yield service
            finally:
                service.stop.set()
                await running

    @property
    def sellers(self) -> list[SellerId]:
        return [SellerId(name) for name in self.simulator.world.sellers]

    async def register(self, *, every: CrawlingInterval | None = None, due: datetime | None = None) -> list[SellerId]:
        """All sellers of the simulator's world; `due` sets when the scheduler is to start them."""
        draw, now, sellers = ReplayableIds(self.ids), self.clock.now(), self.sellers

        def work(tx: Transaction) -> None:
            ids = draw.replay()
            for seller_id in sellers:
                register_seller(tx, a_context(now, ids), seller_id, f"상점 {seller_id}", every)
                schedule = tx.schedules.of_seller(seller_id)
                if schedule is not None and due is not None:
                    tx.schedules.save(schedule.ran(due, now))

        await self.store.transact(work)
        return sellers

    async def leave_agents(self, number: int) -> None:
        """Remove all agents but so many: a small pool is soon at its limits."""

        def work(tx: Transaction) -> None:
            for one in tx.pool_report.agents()[number:]:
                tx.agents.remove(one.row)

        await self.store.transact(work)

    async def crawl(self, service: Service, sellers: Sequence[SellerId]) -> list[Execution]:
        """One run of each seller to its end, everything delivered."""
        started = [await self.start(service, seller_id) for seller_id in sellers]
        service.nudge()
        await self.settle(service)
        return [run for run in await self.executions() if run.execution_id in started]

    async def crawl_to_end(self, service: Service, seller_id: SellerId) -> None:
        """One run of this seller to its end; others may be under way or paused."""
        run = await self.start(service, seller_id)
        service.nudge()

        async def is_over() -> bool:
            runs = [one for one in await self.executions() if one.execution_id == run]
            return not any(one.is_open for one in runs) and not await service.deliveries[0].pending()

        await self.until(is_over, service)

    async def start(self, service: Service, seller_id: SellerId) -> ExecutionId:
        """A run, or one that waits to be started; with the pool's breaker open, later."""
        while True:
            try:
                return (await trigger(service.crawl, seller_id, "test")).execution_id
            except Unavailable as refusal:
                await self.clock.sleep(refusal.retry_after or 1.0)

    async def crawl_all(self, service: Service, sellers: Sequence[SellerId]) -> int:
        """Runs until each seller had one without a failure, at most five each; returns how many rounds it took."""
        left = list(sellers)
        for number in range(1, MOST_RUNS + 1):
            runs = await self.crawl(service, left)
            await self.check_books()
            whole = {run.seller_id for run in runs if run.all_succeeded and await self._is_seen_whole(run)}
            left = [seller_id for seller_id in left if seller_id not in whole]
            if not left:
                return number
        return MOST_RUNS

    async def _is_seen_whole(self, run: Execution) -> bool:
        standing = await self.store.read(lambda tx: tx.products.list_counts(run.seller_id, run.execution_id))
        return standing.seen >= (run.list_total or 0)

    async def settle(self, service: Service | None = None) -> None:
        """Until no run is going and nothing waits to be delivered."""

        def is_settled(tx: Transaction) -> bool:
            return not (
                tx.executions.running() or tx.executions.pending() or tx.outbox_queries(OutboxKind.PRODUCT).pending()
            )

        await self.until(lambda: self.store.read(is_settled), service)

    async def until(self, happened: Callable[[], Awaitable[bool]], service: Service | None = None) -> None:
        limit = self.loop.time() + PATIENCE
        while not await happened():
            assert self.loop.time() < limit, "it waits for ever"
            assert service is None or not service.stop.is_set(), "the service broke"
            await self.clock.sleep(0.5)

    async def executions(self) -> Sequence[Execution]:
        """Every run there was, oldest first."""
        newest = await self.store.read(lambda tx: tx.execution_queries.newest(seller_id=None, status=None, limit=1000))
        return newest[::-1]

    async def count(self, sql: str) -> int:
        return await self.store.read(lambda tx: int(tx.db.value(sql)))

    async def notes(self, action: str) -> list[str]:
        """What the audit trail says of an action, oldest first."""
        rows = await self.store.read(
            lambda tx: tx.db.rows("SELECT note FROM audit WHERE action = :action ORDER BY id", {"action": action})
        )
        return [row[0] for row in rows]

    async def check_books(self) -> None:
        """Counters are the tasks counted again; of a run that is over no task is open; no permit is unanswered."""
        for run in await self.executions():
            by_status: dict[str, int] = {}
            tally = await self.store.read(lambda tx, run=run: tx.run_tasks.tally(run.execution_id))  # type: ignore[misc]
            for (_, status), number in tally.items():
                by_status[status] = by_status.get(status, 0) + number
            recounted = (sum(by_status.values()), by_status.get("COMPLETED", 0), by_status.get("FAILED", 0))
            assert (run.total_tasks_created, run.completed_tasks, run.failed_tasks) == recounted
            assert run.is_open or set(by_status) <= {"COMPLETED", "FAILED"}, by_status
        assert await self.count("SELECT COUNT(*) FROM permits WHERE answered_at IS NULL") == 0

    def check_world(self) -> None:
        """The receiver holds the truth, its rules were kept, and so were the marketplace's limits."""
        assert self.simulator.compare() == []
        self.check_manners()

    def check_manners(self) -> None:
        stats = self.simulator.marketplace.stats()
        assert self.simulator.product_server.violations == []
        assert (stats["over_budget"], stats["over_rate"]) == (0, 0)
        assert stats["ignored_retry_after"] == 0
        assert stats["most_in_a_window"] <= self.settings.window_limit


def stored(template: Path | str, clock: VirtualClock) -> SqlStore:
    """A store on a copy of a file, or on the address of a migrated database."""
    if isinstance(template, Path):
        return copy_in_memory(template, clock)
    return SqlStore(make_engine(template), clock, InlineRunner(), InlineRunner(), rehearse=True)


def play(
    template: Path | str,
    story: Callable[[Stage], Awaitable[T]],
    *,
    settings: Settings | None = None,
    simulator: Simulator | None = None,
    seed: int = 1,
    **world: Any,
) -> T:
    """Tell one story on a stage of its own. Keywords are the simulator's."""
    loop, settings = VirtualLoop(LATER), settings or settings_of()
    simulator = simulator or simulator_of(settings, seed=seed, **world)

    async def told() -> T:
        store = stored(template, VirtualClock(loop))
        try:
            return await story(Stage(loop, settings, simulator, store, seed))
        finally:
            store.close()

    return run_virtually(told(), loop=loop)
