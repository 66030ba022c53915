"""The service: every loop of one process, started together and stopped together."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from sellerwatch.agents.tend import recover_rested
from sellerwatch.crawling.context import Crawl
from sellerwatch.crawling.ports import CrawlTx, WorkerInfo
from sellerwatch.crawling.process import Absorbed
from sellerwatch.crawling.put_back import PutBack, cancel_execution, put_back_lost, release
from sellerwatch.crawling.start_due import start_due
from sellerwatch.crawling.work import Worker
from sellerwatch.kernel.ids import Draw
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


@dataclass
class Service:
    """`run` ends when `stop` is set, or raises when one of the loops broke beyond its own repair."""

    crawl: Crawl
    deliveries: tuple[Delivery, ...]
    tending_interval: timedelta = timedelta(seconds=60)
    schedules: bool = True
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    progress: Progress = field(default_factory=Progress)

    def __post_init__(self) -> None:
        self.worker = Worker(self.crawl, self._absorbed)

    def nudge(self) -> None:
        """Something was registered or triggered: everybody looks now."""
        self.worker.nudge()
        for delivery in self.deliveries:
            delivery.nudge()

    async def run(self, grace: float = 5.0) -> None:
        crawl = self.crawl
        await crawl.store.transact(partial(self._enter, now=crawl.clock.now()))
        await self._look_after()
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
        ]
        if self.schedules:
            loops.append(self._every(SCHEDULER_TURN, self._start_due))
        return loops

    async def _every(self, seconds: float, job: Callable[[], Awaitable[None]]) -> None:
        """A job again and again; a failure is logged and the next turn is another chance."""
        while not self.stop.is_set():
            try:
                await job()
            except StoreFailed:
                log.exception("a job failed; it runs again")
            try:
                async with asyncio.timeout(seconds):
                    await self.stop.wait()
            except TimeoutError:
                continue

    def _enter(self, tx: CrawlTx, now: datetime) -> None:
        tx.permits.set_limits(self.crawl.limits)
        info = WorkerInfo(self.crawl.worker_id, "service", socket.gethostname(), os.getpid(), now, now)
        tx.workers.enter(info)

    async def _leave(self) -> None:
        crawl, now, draw = self.crawl, self.crawl.clock.now(), Draw(self.crawl.ids)
        await crawl.store.transact(lambda tx: release(tx, crawl.worker_id, crawl.rules, draw.replay(), now))

    async def _beat(self) -> None:
        now = self.crawl.clock.now()
        await self.crawl.store.transact(lambda tx: tx.workers.beat(self.crawl.worker_id, now))

    async def _start_due(self) -> None:
        if (await start_due(self.crawl)).runs:
            self.worker.nudge()

    async def _look_after(self) -> None:
        """Agents that have rested, tasks and messages whose worker vanished, runs past their deadline."""
        crawl, now, draw = self.crawl, self.crawl.clock.now(), Draw(self.crawl.ids)

        def work(tx: CrawlTx) -> tuple[int, PutBack]:
            ids = draw.replay()
            # Whoever looks after others is alive, however long the database or the machine was away.
            tx.workers.beat(crawl.worker_id, now)
            for execution in tx.executions.running():
                if execution.deadline_at is not None and execution.deadline_at <= now:
                    cancel_execution(tx, execution.execution_id, "ran past its deadline", crawl.rules, ids, now)
            recovered = recover_rested(tx, now)
            return recovered, put_back_lost(tx, crawl.visibility, crawl.rules, ids, now)

        recovered, put_back = await crawl.store.transact(work)
        for delivery in self.deliveries:
            await delivery.recover(crawl.visibility)
        if recovered or put_back.again or put_back.poison:
            log.info(
                "looked after",
                extra={"recovered": recovered, "put_back": put_back.again, "poison": put_back.poison},
            )
            self.worker.nudge()

    def _absorbed(self, group: Absorbed) -> None:
        self.progress.completed += group.completed
        self.progress.failed += group.failed
        self.progress.again += group.again
        self.progress.events += group.events
        self.progress.products += group.products
        if group.events:
            for delivery in self.deliveries:
                delivery.nudge()
