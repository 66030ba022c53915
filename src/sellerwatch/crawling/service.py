"""The service: every loop of one process, started together and stopped together."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from functools import partial
from typing import Any

from sellerwatch.agents.ports import Pause
from sellerwatch.agents.tend import change_limits
from sellerwatch.crawling.context import Crawl, Tuning
from sellerwatch.crawling.look_after import jobs_of, put_back, run_once
from sellerwatch.crawling.ports import CrawlTx, WorkerInfo
from sellerwatch.crawling.process import Absorbed
from sellerwatch.crawling.publish import publish_due
from sellerwatch.crawling.put_back import release
from sellerwatch.crawling.start_due import retry_starts, start_due
from sellerwatch.crawling.work import Worker
from sellerwatch.kernel.clock import Moment, moment
from sellerwatch.kernel.errors import Unavailable
from sellerwatch.kernel.ids import Draw
from sellerwatch.kernel.notices import Notice
from sellerwatch.kernel.store import StoreFailed
from sellerwatch.outbox.deliver import Delivery

log = logging.getLogger(__name__)

#: How often the embedded scheduler looks; a run starts at most this late.
SCHEDULER_TURN = 1.0
#: How often tasks that are due are looked for without a nudge.
PUBLISHER_TURN = 1.0
#: How often a process looks whether another one, or a command, did something; it acts on it at most this late.
HEED_TURN = 0.5


class Role(StrEnum):
    """What a process does, of which any number may run. WORKER crawls and delivers, SCHEDULER starts runs and does the
    jobs (each once, wherever many run), API answers requests. One process that does everything is the default."""

    API = "api"
    WORKER = "worker"
    SCHEDULER = "scheduler"


EVERYTHING = frozenset(Role)


@dataclass
class Progress:
    """What this process has done since it started; for progress displays."""

    completed: int = 0
    failed: int = 0
    again: int = 0
    events: int = 0
    products: int = 0


@dataclass(frozen=True)
class _Entered:
    tuning: Tuning
    highest_permit: int
    notices: tuple[Notice, ...]


@dataclass
class Service:
    """`run` ends when `stop` is set, or raises when one of the loops broke beyond its own repair."""

    crawl: Crawl
    #: Of products' events first: those are what a crawl makes.
    deliveries: tuple[Delivery[Any], ...]
    tune: Callable[[Mapping[str, str]], Tuning]
    tending_interval: timedelta = timedelta(seconds=60)
    roles: frozenset[Role] = EVERYTHING
    #: Whether sellers are crawled when they are due; a run in the foreground is nobody's turn.
    schedules: bool = True
    #: Somebody else starts the runs: we only those that should have been long ago.
    late_only: bool = False
    #: Other servers this process needs, each with a question that raises when it is not well.
    outside: Mapping[str, Callable[[], Awaitable[object]]] = field(default_factory=dict)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    #: Its servers were there and it is known to the others: from now on it waits for a server that goes away.
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    progress: Progress = field(default_factory=Progress)
    #: When each job last came to its end, by the boot's clock: for whoever asks whether it still runs.
    turns: dict[str, float] = field(default_factory=dict)
    #: Runs that take longer to start than whoever asked for them waits.
    starting: set[asyncio.Task[Any]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.worker = Worker(self.crawl, self._absorbed)
        self._heeded = 0
        self._due = asyncio.Event()

    @property
    def role(self) -> str:
        """Under which others know this process."""
        return "service" if self.roles == EVERYTHING else "+".join(sorted(self.roles))

    def nudge(self) -> None:
        """Something was registered or triggered: everybody looks now."""
        self.worker.nudge()
        self._due.set()
        for delivery in self.deliveries:
            delivery.nudge()

    async def run(self, grace: float = 5.0) -> None:
        await self._begin()
        self.begun.set()
        stopping = asyncio.create_task(self.stop.wait())
        loops = [asyncio.create_task(loop) for loop in self._loops(grace)]
        try:
            await asyncio.wait([stopping, *loops], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.stop.set()
            # A job that waits for a slow marketplace is not waited for: being cut off is what it is built for.
            await asyncio.wait(loops, timeout=grace + 1)
            for loop in loops:
                loop.cancel()
            results = await asyncio.gather(*loops, return_exceptions=True)
            await self._leave()
        for result in results:
            if isinstance(result, Exception):
                raise result

    def _loops(self, grace: float) -> list[Coroutine[Any, Any, None]]:
        products, *others = self.deliveries
        tending = min(self.tending_interval, self.crawl.visibility).total_seconds()
        loops: list[Coroutine[Any, Any, None]] = [
            self._every(self.crawl.heartbeat.total_seconds(), self._beat),
            self._every(tending, self._retune),
            self._every(tending, self._tend_limiter),
            self._every(HEED_TURN, self._heed),
            self.crawl.alerts.run(self.stop),
        ]
        if Role.WORKER in self.roles:
            loops += [self.worker.run(self.stop, grace), products.run(self.stop)]
            if self.crawl.queue.names_tasks:
                loops.append(self._keep_publishing())
        if Role.SCHEDULER in self.roles:
            loops += [self._every(tending, self._look_after), *(delivery.run(self.stop) for delivery in others)]
            loops.append(self._every(SCHEDULER_TURN, self._retry_starts))
            if self.schedules:
                loops.append(self._every(SCHEDULER_TURN, self._start_due))
        return loops

    async def _keep_publishing(self) -> None:
        """Tasks that are due become messages: at once when we made some, else when somebody else may have."""
        said = ""
        while not self.stop.is_set():
            try:
                await publish_due(self.crawl)
                said = ""
            except (StoreFailed, Unavailable) as refusal:
                if str(refusal) != said:
                    said = str(refusal)
                    log.warning("nothing is published", extra={"problem": said})
            self._due.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(PUBLISHER_TURN):
                    await self._due.wait()

    async def _every(self, seconds: float, job: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """A job again and again; a failure is said once while it stays the same; the next turn is another chance."""
        said = ""
        while not self.stop.is_set():
            try:
                await job()
                self.turns[job.__name__.lstrip("_")] = self.crawl.clock.monotonic()
                said = ""
            except (StoreFailed, Unavailable) as refusal:
                if str(refusal) != said:
                    said = str(refusal)
                    log.warning("a job waits for another server", extra={"job": job.__name__, "problem": said})
            try:
                async with asyncio.timeout(seconds):
                    await self.stop.wait()
            except TimeoutError:
                continue

    def _enter(self, tx: CrawlTx, at: Moment) -> _Entered:
        """What this process finds: limits an operator has set, permits of an earlier boot, perhaps a database that lost
        some of them."""
        crawl, tuning = self.crawl, self.tune(tx.overrides.all())
        tx.permits.set_limits(tuning.limits, at)
        tx.permits.enter_boot(at, tuning.limits)
        tx.tokens.drop_unknown(crawl.sealer.key_ids)
        tx.circuits.set_rules(crawl.circuit.threshold, crawl.circuit.timeout)
        tx.workers.enter(WorkerInfo(crawl.worker_id, self.role, socket.gethostname(), os.getpid(), at.now, at.now))
        highest = tx.permits.highest()
        if crawl.mark is None or highest >= crawl.mark.read():
            return _Entered(tuning, highest, ())
        tx.permits.fill(at, tuning.limits)
        text = "The database was restored from an older copy: every agent's window counts as full for one window."
        return _Entered(tuning, highest, (Notice("pool.restored", "pool", text),))

    async def _begin(self) -> None:
        crawl = self.crawl
        entered = await crawl.store.transact(partial(self._enter, at=moment(crawl.clock)))
        crawl.tuning.take(entered.tuning)
        await self.heed_pauses()
        await crawl.limiter.begin()
        if entered.notices and crawl.mark is not None:
            # The windows are full from now on: the next start has nothing more to make good.
            crawl.mark.write(entered.highest_permit)
        crawl.tell(entered.notices)

    async def _leave(self) -> None:
        crawl, at, draw = self.crawl, moment(self.crawl.clock), Draw(self.crawl.ids)
        await crawl.store.transact(lambda tx: release(tx, crawl.worker_id, crawl.rules, draw.replay(), at))

    async def _beat(self) -> None:
        now = self.crawl.clock.now()
        await self.crawl.store.transact(lambda tx: tx.workers.beat(self.crawl.worker_id, now))

    async def heed_pauses(self) -> None:
        """Stop at once what a person has paused, without waiting for the next look."""
        self._take_pauses(await self.crawl.store.read(lambda tx: tx.marketplace.pauses()))

    def _take_pauses(self, pauses: Sequence[Pause]) -> None:
        if self.crawl.pause.take(pauses):
            self.worker.stand_back()

    async def _heed(self) -> None:
        """What a command or another process did may be work for this one: looked for now, not at the next sweep."""
        newest, pauses = await self.crawl.store.read(lambda tx: (tx.activity.span()[1], tx.marketplace.pauses()))
        self._take_pauses(pauses)
        if newest != self._heeded:
            self._heeded = newest
            self.nudge()

    async def _start_due(self) -> None:
        if (await start_due(self.crawl, late_only=self.late_only)).runs:
            self.nudge()

    async def _retry_starts(self) -> None:
        if (await retry_starts(self.crawl)).runs:
            self.nudge()

    async def _look_after(self) -> None:
        """Tasks and messages whose worker vanished, runs past their deadline, and the jobs that run once anywhere."""
        back = await put_back(self.crawl)
        for delivery in self.deliveries:
            await delivery.recover(self.crawl.visibility)
        done = {name: await run_once(self.crawl, name, job) for name, job in jobs_of(self.crawl).items()}
        if back.again or back.poison or any(done.values()):
            log.info("looked after", extra={"put_back": back.again, "poison": back.poison} | done)
            self.worker.nudge()

    async def _tend_limiter(self) -> None:
        await self.crawl.limiter.tend()

    async def _retune(self) -> None:
        """Take over what an operator has changed since."""
        crawl, at = self.crawl, moment(self.crawl.clock)
        wanted = self.tune(await crawl.store.read(lambda tx: tx.overrides.all()))
        if wanted != crawl.tuning:
            was = crawl.limits
            await crawl.store.transact(lambda tx: change_limits(tx, was, wanted.limits, at))
            crawl.tuning.take(wanted)
            log.info("limits changed", extra={"limits": str(wanted.limits), "concurrency": wanted.concurrency})

    def _absorbed(self, group: Absorbed) -> None:
        self._due.set()
        self.progress.completed += group.completed
        self.progress.failed += group.failed
        self.progress.again += group.again
        self.progress.events += group.events
        self.progress.products += group.products
        if group.events:
            self.deliveries[0].nudge()
