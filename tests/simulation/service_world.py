"""The whole service on virtual time: a simulator, a store in memory that rehearses, and a clock that jumps.

Everything in between is the real thing: worker, pool, scheduler, outbox, store and schema. Only the sockets and
the threads are missing, so that one seed gives one history and an hour costs a second.
"""

from __future__ import annotations

import asyncio
import inspect
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from tests.builders import LATER
from tests.event_contract import ContractReceiver
from tests.simulated_service import settings_of, simulator_of
from tests.simulated_transport import SimulatedTransport
from tests.world import StoreWorld, keep_agents, store_in_memory

from sellerwatch.adapters.sql.engine import make_engine
from sellerwatch.adapters.sql.store import InlineRunner, SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.compose.rules import pool_rules
from sellerwatch.compose.service import open_service
from sellerwatch.crawling.absorb_batch import CrawlRules
from sellerwatch.crawling.execution import Execution
from sellerwatch.crawling.put_back import cancel_execution
from sellerwatch.crawling.trigger import trigger
from sellerwatch.kernel.errors import Unavailable
from sellerwatch.kernel.failure import Failure, FailureCode
from sellerwatch.kernel.ids import ExecutionId, Ids, SellerId
from sellerwatch.kernel.store import Commits
from sellerwatch.kernel.virtual_time import VirtualClock, VirtualLoop, run_virtually
from sellerwatch.marketplaces.ports import Transport
from sellerwatch.operations.session import OperationSession
from sellerwatch.outbox.message import OutboxKind
from sellerwatch.outbox.ports import EventReceiver, Receiver
from sellerwatch.schedules.interval import CrawlingInterval
from sellerwatch.service.service import Service
from sellerwatch.settings.limits import TunableLimits
from sellerwatch.settings.model import Settings
from sellerwatch.simulator.simulator import Simulator

T = TypeVar("T")

MOST_RUNS = 5
#: Agents of a world whose story asks for no other number. A new database has 100, and each costs tokens all day.
AGENTS = 10
#: More than any story needs: whoever waits longer waits for ever.
PATIENCE = 24 * 3600.0


class ServiceWorld(StoreWorld):
    """One database, one simulator, one time; services come and go on it."""

    clock: VirtualClock

    def __init__(
        self, loop: VirtualLoop, settings: Settings, simulator: Simulator, store: SqlStore, seed: int = 1
    ) -> None:
        clock, self.rng = VirtualClock(loop), random.Random(seed)
        super().__init__(store, clock, Ids(clock, self.rng))
        self.loop = loop
        self.seed = seed
        self.settings = settings
        self.simulator = simulator
        self.transport: Transport = SimulatedTransport(simulator, clock)
        self.contract = ContractReceiver(simulator, clock)
        self.receiver: EventReceiver = self.contract

    @asynccontextmanager
    async def service(
        self,
        *,
        schedules: bool = False,
        store: SqlStore | None = None,
        transport: Transport | None = None,
        receiver: EventReceiver | None = None,
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

    async def register_all(
        self, *, every: CrawlingInterval | None = None, due: datetime | None = None
    ) -> list[SellerId]:
        """All sellers of the simulator's world."""
        await self.register(self.sellers, every=every, due=due)
        return self.sellers

    async def cancel(self, rules: CrawlRules, *runs: ExecutionId) -> None:
        """End these runs from outside."""
        now = self.now

        def work(tx: Transaction, ids: Iterator[str]) -> None:
            for run in runs:
                cancel_execution(tx, run, Failure.of(FailureCode.CANCELLED, now), rules, ids, now)

        await self.transact_with_ids(work)

    async def leave_agents(self, number: int) -> None:
        await self.transact(lambda tx: keep_agents(tx, number))

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
        standing = await self.read(lambda tx: tx.products.list_counts(run.seller_id, run.execution_id))
        return standing.seen >= (run.list_total or 0)

    async def settle(self, service: Service | None = None) -> None:
        """Until no run is going and nothing waits to be delivered."""

        def is_settled(tx: Transaction) -> bool:
            return not (
                tx.executions.running() or tx.executions.pending() or tx.outbox_queries(OutboxKind.PRODUCT).pending()
            )

        await self.until(lambda: self.read(is_settled), service)

    async def until(self, happened: Callable[[], Awaitable[bool]], service: Service | None = None) -> None:
        limit = self.loop.time() + PATIENCE
        while not await happened():
            assert self.loop.time() < limit, "it waits for ever"
            assert service is None or not service.stop.is_set(), "the service broke"
            await self.clock.sleep(0.5)

    async def notes(self, action: str) -> list[str]:
        """What the audit trail says of an action, oldest first."""
        rows = await self.read(
            lambda tx: tx.db.rows("SELECT note FROM audit WHERE action = :action ORDER BY id", {"action": action})
        )
        return [row[0] for row in rows]

    async def check_books(self) -> None:
        """Counters are the tasks counted again; of a run that is over no task is open; no permit is unanswered."""
        for run in await self.executions():
            by_status: dict[str, int] = {}
            tally = await self.read(lambda tx, run=run: tx.run_tasks.tally(run.execution_id))  # type: ignore[misc]
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


def play(
    template: Path | str,
    story: Callable[[ServiceWorld], Awaitable[T]],
    *,
    settings: Settings | None = None,
    simulator: Simulator | None = None,
    seed: int = 1,
    agents: int = AGENTS,
    **world: Any,
) -> T:
    """Run one story in a world of its own. `template`: a migrated file to copy, or the address of a migrated database.
    `agents`: how many are in the pool. Other keywords are the simulator's."""
    loop, settings = VirtualLoop(LATER), settings or settings_of()
    simulator = simulator or simulator_of(settings, seed=seed, **world)

    async def told() -> T:
        clock = VirtualClock(loop)
        if isinstance(template, Path):
            store = store_in_memory(template, clock, Commits())
        else:
            store = SqlStore(make_engine(template), clock, InlineRunner(), InlineRunner(), rehearse=True)
        try:
            world = ServiceWorld(loop, settings, simulator, store, seed)
            await world.leave_agents(agents)
            found = await story(world)
            assert world.contract.broken == [], "an event breaks its schema"
            return found
        finally:
            store.close()

    return run_virtually(told(), loop=loop)


def simulated(
    *, settings: Settings | None = None, agents: int = AGENTS, **world: Any
) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., None]]:
    """Make a test of one story: it gets a `ServiceWorld` of its own, on virtual time. `agents`: how many are in
    the pool. Other keywords are the simulator's."""

    def decorate(story: Callable[..., Awaitable[None]]) -> Callable[..., None]:
        _, *others = inspect.signature(story).parameters.values()

        template = inspect.Parameter("migrated_template", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        signature = inspect.Signature([template, *others])

        def test(*args: Any, **given: Any) -> None:
            migrated_template, *values = signature.bind(*args, **given).args
            play(migrated_template, lambda world: story(world, *values), settings=settings, agents=agents, **world)

        test.__signature__ = signature  # type: ignore[attr-defined]
        test.__name__, test.__doc__, test.__module__ = story.__name__, story.__doc__, story.__module__
        return test

    return decorate
