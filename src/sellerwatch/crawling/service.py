"""The service: every loop of one process, started together and stopped together."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

from sellerwatch.agents.tend import change_limits
from sellerwatch.crawling.context import Crawl, Tuning
from sellerwatch.crawling.look_after import jobs_of, put_back, run_once
from sellerwatch.crawling.ports import CrawlTx, WorkerInfo
from sellerwatch.crawling.process import Absorbed
from sellerwatch.crawling.put_back import release
from sellerwatch.crawling.start_due import start_due
from sellerwatch.crawling.work import Worker
from sellerwatch.kernel.clock import Moment, moment
from sellerwatch.kernel.ids import Draw
from sellerwatch.kernel.notices import Notice
from sellerwatch.kernel.store import StoreFailed
from sellerwatch.outbox.deliver import Delivery

log = logging.getLogger(__name__)

#: How often the embedded scheduler looks; a run starts at most this late.
SCHEDULER_TURN = 1.0


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
    schedules: bool = True
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    progress: Progress = field(default_factory=Progress)
    #: When each job last came to its end, by the boot's clock: for whoever asks whether it still runs.
    turns: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.worker = Worker(self.crawl, self._absorbed)

    def nudge(self) -> None:
        """Something was registered or triggered: everybody looks now."""
        self.worker.nudge()
        for delivery in self.deliveries:
            delivery.nudge()

    async def run(self, grace: float = 5.0) -> None:
        await self._begin()
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
        beat = self.crawl.heartbeat.total_seconds()
        loops: list[Coroutine[Any, Any, None]] = [
            self.worker.run(self.stop, grace),
            self._every(beat, self._beat),
            self._every(min(self.tending_interval, self.crawl.visibility).total_seconds(), self._look_after),
            *(delivery.run(self.stop) for delivery in self.deliveries),
            self.crawl.alerts.run(self.stop),
        ]
        if self.schedules:
            loops.append(self._every(SCHEDULER_TURN, self._start_due))
        return loops

    async def _every(self, seconds: float, job: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """A job again and again; a failure is logged and the next turn is another chance."""
        while not self.stop.is_set():
            try:
                await job()
                self.turns[job.__name__.lstrip("_")] = self.crawl.clock.monotonic()
            except StoreFailed:
                log.exception("a job failed; it runs again")
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
        tx.workers.enter(WorkerInfo(crawl.worker_id, "service", socket.gethostname(), os.getpid(), at.now, at.now))
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

    async def _start_due(self) -> None:
        if (await start_due(self.crawl)).runs:
            self.worker.nudge()

    async def _look_after(self) -> None:
        """Tasks and messages whose worker vanished, runs past their deadline, and the jobs that run once anywhere."""
        back = await put_back(self.crawl)
        for delivery in self.deliveries:
            await delivery.recover(self.crawl.visibility)
        done = {name: await run_once(self.crawl, name, job) for name, job in jobs_of(self.crawl).items()}
        await self._retune()
        if back.again or back.poison or any(done.values()):
            log.info("looked after", extra={"put_back": back.again, "poison": back.poison} | done)
            self.worker.nudge()

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
        self.progress.completed += group.completed
        self.progress.failed += group.failed
        self.progress.again += group.again
        self.progress.events += group.events
        self.progress.products += group.products
        if group.events:
            self.deliveries[0].nudge()
