"""The service: every loop of one process, started together and stopped together."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Any

from sellerwatch.agents.agent_status import FullReason
from sellerwatch.agents.maintenance import change_limits
from sellerwatch.agents.ports import Pause
from sellerwatch.agents.recount import log_repairs, note_limiter_repairs, recount_buckets
from sellerwatch.crawling.absorb_results import Absorbed
from sellerwatch.crawling.context import Crawl, Tuning
from sellerwatch.crawling.messages import publish_due
from sellerwatch.crawling.ports import WorkerInfo
from sellerwatch.crawling.put_back import release
from sellerwatch.crawling.start_due import next_due, next_start, retry_starts, start_due
from sellerwatch.crawling.worker import Worker
from sellerwatch.kernel.clock import Moment, moment
from sellerwatch.kernel.errors import Unavailable
from sellerwatch.kernel.ids import ReplayableIds
from sellerwatch.kernel.notices import Notice
from sellerwatch.kernel.store import Store, StoreFailed
from sellerwatch.operations.ports import ServiceTx
from sellerwatch.outbox.deliver import Delivery
from sellerwatch.outbox.ports import EventReceiver
from sellerwatch.outbox.resending import Resending
from sellerwatch.service.jobs import jobs_of, next_dues, next_put_back, put_back, run_once
from sellerwatch.service.report_jobs import report_jobs
from sellerwatch.service.resync_job import EVERY as RESYNC_EVERY
from sellerwatch.service.resync_job import has_resync, write_snapshots
from sellerwatch.service.retention_job import retention_jobs
from sellerwatch.service.wake_up import WakeUp

log = logging.getLogger(__name__)

#: The embedded scheduler sleeps until a run is due or it is nudged, and looks this often in any case.
SCHEDULER_INTERVAL = 10.0
#: How often tasks that are due are looked for without a nudge.
PUBLISHER_INTERVAL = 1.0
#: How often a process looks for changes by other processes and commands. An idle process looks for nothing else.
WATCH_INTERVAL = 0.5
#: After a failure (a lost database) before the next try.
REPAIR_PAUSE = 1.0

#: Who repairs what a start finds wrong, on the audit trail.
STARTED_BY = "service"
#: What is done for workers that vanished, as the name of a job.
PUT_BACK = "put_back"

LoopBody = Callable[[], Coroutine[Any, Any, datetime | None]]
Wait = Callable[[datetime | None], Coroutine[Any, Any, None]]


class ProcessRole(StrEnum):
    """What a process does; any number of processes may run. WORKER crawls and delivers, SCHEDULER starts runs and does
    the jobs (each once, wherever many run), API answers requests. One process that does everything is the default."""

    API = "api"
    WORKER = "worker"
    SCHEDULER = "scheduler"


EVERYTHING = frozenset(ProcessRole)


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
    repaired_budgets: int
    notices: tuple[Notice, ...]


@dataclass
class Service:
    """`run` ends when `stop` is set, or raises when one of the loops broke beyond its own repair."""

    store: Store[ServiceTx]
    crawl: Crawl
    #: Of products' events first: those are what a crawl makes.
    deliveries: tuple[Delivery[Any], ...]
    tune: Callable[[Mapping[str, str]], Tuning]
    tending_interval: timedelta = timedelta(seconds=60)
    roles: frozenset[ProcessRole] = EVERYTHING
    #: Whether sellers are crawled when they are due; a run in the foreground is not scheduled.
    schedules: bool = True
    #: Another scheduler starts the runs; this one only those that are long overdue.
    late_only: bool = False
    #: Where events of products are sent; None where no address is set.
    receiver: EventReceiver | None = None
    #: Sends delivered events again; None where there is no receiver.
    resending: Resending[Any] | None = None
    #: Other servers this process needs, each with a question that raises when it is not well.
    outside: Mapping[str, Callable[[], Awaitable[object]]] = field(default_factory=dict)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    #: Its servers were there and it is known to the others: from now on it waits for a server that goes away.
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    progress: Progress = field(default_factory=Progress)
    #: When each job last ended, by the boot's clock: the health check reads this.
    last_ended: dict[str, float] = field(default_factory=dict)
    #: Starts that take longer than their caller waits.
    starting: set[asyncio.Task[Any]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.worker = Worker(self.crawl, self._absorbed)
        self._last_activity = 0
        self._due = asyncio.Event()
        tending = min(self.tending_interval, self.crawl.visibility).total_seconds()
        self._scheduling = self._wake_up(SCHEDULER_INTERVAL)
        self._resyncing = self._wake_up(SCHEDULER_INTERVAL)
        self._resending = self._wake_up(SCHEDULER_INTERVAL)
        self._watching = self._wake_up(WATCH_INTERVAL)
        self._changing_limits = self._wake_up(tending)
        self._running_jobs = self._wake_up(tending)
        self._beating = self._wake_up(self.crawl.heartbeat.total_seconds())
        # What another server holds changes without a commit.
        self._tending = WakeUp(self.crawl.clock, None, tending)
        self._has_job = False
        self._jobs = {**jobs_of(self.crawl), **report_jobs(self.store), **retention_jobs(self.store)}

    @property
    def role(self) -> str:
        """Under which others know this process."""
        return "service" if self.roles == EVERYTHING else "+".join(sorted(self.roles))

    def nudge(self) -> None:
        """Let every loop look now, because something was registered or triggered."""
        self.worker.nudge()
        self._due.set()
        self._scheduling.nudge()
        self._resyncing.nudge()
        self._resending.nudge()
        for delivery in self.deliveries:
            delivery.nudge()

    def _wake_up(self, seconds: float) -> WakeUp:
        return WakeUp(self.crawl.clock, self.store.commits, seconds)

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
        loops: list[Coroutine[Any, Any, None]] = [
            self._wake_on_stop(),
            self._keep(self._beating, self._beat, self._until_next_beat),
            self._keep(self._changing_limits, self._change_limits),
            self._keep(self._watching, self._watch),
            self.crawl.alerts.run(self.stop),
        ]
        if self.crawl.limiter.looks_ahead:
            loops.append(self._keep(self._tending, self._tend_limiter))
        if ProcessRole.WORKER in self.roles:
            loops += [self.worker.run(self.stop, grace), products.run(self.stop)]
            if self.resending is not None:
                loops.append(self._keep(self._resending, self._resend))
            if self.crawl.queue.names_tasks:
                loops.append(self._keep_publishing())
        if ProcessRole.SCHEDULER in self.roles:
            loops += [
                self._keep(self._running_jobs, self._run_jobs),
                *(delivery.run(self.stop) for delivery in others),
            ]
            loops.append(self._keep(self._scheduling, self._start_due))
            loops.append(self._keep(self._resyncing, self._resync))
        return loops

    async def _keep_publishing(self) -> None:
        """Publish due tasks: at once after a batch was absorbed, else every few seconds."""
        last_problem = ""
        while not self.stop.is_set():
            try:
                await publish_due(self.crawl)
                last_problem = ""
            except (StoreFailed, Unavailable) as refusal:
                if str(refusal) != last_problem:
                    last_problem = str(refusal)
                    log.warning("nothing is published", extra={"problem": last_problem})
            self._due.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(PUBLISHER_INTERVAL):
                    await self._due.wait()

    async def _wake_on_stop(self) -> None:
        await self.stop.wait()
        waiting = (
            self._scheduling,
            self._resyncing,
            self._resending,
            self._watching,
            self._changing_limits,
            self._running_jobs,
            self._beating,
            self._tending,
        )
        for loop in waiting:
            loop.nudge()

    async def _keep(self, wake_up: WakeUp, job: LoopBody, wait: Wait | None = None) -> None:
        """Run a job again and again, at the latest when it says that it is due. A failure is logged once while it stays
        the same, and the job runs again soon."""
        last_problem = ""
        while not self.stop.is_set():
            wake_up.begin()
            try:
                due = await job()
                self.last_ended[job.__name__.lstrip("_")] = self.crawl.clock.monotonic()
                last_problem = ""
            except (StoreFailed, Unavailable) as refusal:
                if str(refusal) != last_problem:
                    last_problem = str(refusal)
                    log.warning("a job waits for another server", extra={"job": job.__name__, "problem": last_problem})
                due = self.crawl.clock.now() + timedelta(seconds=REPAIR_PAUSE)
            if not self.stop.is_set():
                await (wait or wake_up.wait)(due)

    def _enter(self, tx: ServiceTx, at: Moment) -> _Entered:
        """What this process finds: limits an operator has set, permits of an earlier boot, perhaps a database that lost
        some of them."""
        crawl, tuning = self.crawl, self.tune(tx.overrides.all())
        tx.windows.set_limits(tuning.limits, at)
        tx.windows.enter_boot(at, tuning.limits)
        repaired = len(recount_buckets(tx, STARTED_BY, at.now))
        tx.tokens.drop_unknown(crawl.sealer.key_ids)
        tx.circuits.set_rules(crawl.circuit.threshold, crawl.circuit.timeout)
        tx.workers.enter(WorkerInfo(crawl.worker_id, self.role, socket.gethostname(), os.getpid(), at.now, at.now))
        highest = tx.windows.highest()
        if crawl.mark is None or highest >= crawl.mark.read():
            return _Entered(tuning, highest, repaired, ())
        tx.windows.fill(at, tuning.limits, FullReason.RESTORED)
        return _Entered(tuning, highest, repaired, (Notice("pool.restored", "pool"),))

    async def _begin(self) -> None:
        crawl = self.crawl
        entered = await crawl.store.transact(partial(self._enter, at=moment(crawl.clock)))
        crawl.tuning.take(entered.tuning)
        repaired, now = await crawl.limiter.begin(), crawl.clock.now()
        if repaired:
            await crawl.store.transact(lambda tx: note_limiter_repairs(tx, STARTED_BY, repaired, now))
        log_repairs(entered.repaired_budgets, repaired)
        if entered.notices and crawl.mark is not None:
            # The windows are full from now on: the next start has nothing more to make good.
            crawl.mark.write(entered.highest_permit)
        crawl.tell(entered.notices)

    async def _leave(self) -> None:
        crawl, at, draw = self.crawl, moment(self.crawl.clock), ReplayableIds(self.crawl.ids)
        await crawl.store.transact(lambda tx: release(tx, crawl.worker_id, crawl.rules, draw.replay(), at))

    async def _beat(self) -> datetime | None:
        """Renew the lease of everything this process holds."""
        now = self.crawl.clock.now()
        await self.store.transact(lambda tx: tx.workers.beat(self.crawl.worker_id, now))
        self._beating.begin()
        return None

    async def _until_next_beat(self, due: datetime | None) -> None:
        """A heartbeat's length. Where no other process can look, as long as nothing is under way and nothing was
        committed since the last beat: nothing is held then, and what is held later begins with a commit."""
        length = self.crawl.heartbeat
        await self._beating.pause(due or self.crawl.clock.now() + length)
        if not self._is_busy:
            await self._beating.change()

    @property
    def _is_busy(self) -> bool:
        """Something is under way whose lease is the heartbeat."""
        return self._has_job or self.worker.is_busy or any(delivery.is_busy for delivery in self.deliveries)

    async def apply_pauses(self) -> None:
        """Stop at once what a person has paused, without waiting for the next look."""
        self._take_pauses(await self.store.read(lambda tx: tx.marketplace.pauses()))

    def _take_pauses(self, pauses: Sequence[Pause]) -> None:
        if self.crawl.pause.take(pauses):
            self.worker.return_paused()

    async def _watch(self) -> datetime | None:
        """Look for work that a command or another process has made, and for pauses."""
        newest, pauses = await self.store.read(lambda tx: (tx.activity.span()[1], tx.marketplace.pauses()))
        self._take_pauses(pauses)
        if newest != self._last_activity:
            self._last_activity = newest
            self.nudge()
        return None

    async def _start_due(self) -> datetime | None:
        """Start the runs that are due and retry those that wait to be started. Return when the next start is due."""
        due = await self._next_start()
        if due is None or due > self.crawl.clock.now():
            return due
        runs = (await retry_starts(self.crawl)).runs
        if self.schedules:
            runs += (await start_due(self.crawl, late_only=self.late_only)).runs
        if runs:
            self.nudge()
        due, now = await self._next_start(), self.crawl.clock.now()
        # What is due still could not be started: again soon, but never without a pause.
        return due if due is None or due > now else now + timedelta(seconds=REPAIR_PAUSE)

    async def _next_start(self) -> datetime | None:
        now = self.crawl.clock.now()

        def work(tx: ServiceTx) -> datetime | None:
            scheduled = next_due(tx, now, late_only=self.late_only) if self.schedules else None
            return min((time for time in (scheduled, next_start(tx, now)) if time is not None), default=None)

        return await self.store.read(work)

    async def _resync(self) -> datetime | None:
        """Write snapshots of unfinished resyncs. Return when the next may be written."""
        if not await has_resync(self.crawl):
            return None
        if await run_once(self.crawl, "resync", write_snapshots):
            self.deliveries[0].nudge()
        return self.crawl.clock.now() + RESYNC_EVERY

    async def _resend(self) -> datetime | None:
        """Send delivered events again where that is asked for. Return when more may be sent."""
        resending = self.resending
        if resending is None or not await resending.is_asked_for():
            return None
        await run_once(self.crawl, "resend", lambda _: resending.send())
        return await resending.next_at()

    async def _run_jobs(self) -> datetime | None:
        """Put back what vanished workers held, end runs past their deadline, and run the jobs that are due. Return when
        the next of these is due."""
        dues, now = await self._next_jobs(), self.crawl.clock.now()
        due = [name for name, time in dues.items() if time <= now]
        if due:
            await self._run_due_jobs(due)
            dues, now = await self._next_jobs(), self.crawl.clock.now()
        # Not sooner than an interval later: jobs that come due meanwhile are done together, and those that are still
        # due, because they failed or another process has them, are tried again.
        interval = timedelta(seconds=self._running_jobs.seconds)
        jobs = self._jobs
        urgent = [time for name, time in dues.items() if name in jobs and jobs[name].is_urgent and time > now]
        return min((*urgent, max(min(dues.values()), now + interval))) if dues else None

    async def _next_jobs(self) -> dict[str, datetime]:
        """Return when each job is next due, by its name."""
        crawl, at = self.crawl, moment(self.crawl.clock)

        def work(tx: ServiceTx) -> dict[str, datetime]:
            back = next_put_back(tx, crawl, at)
            return next_dues(tx, crawl, self._jobs, at.now) | ({} if back is None else {PUT_BACK: back})

        return await self.store.read(work)

    async def _run_due_jobs(self, due: Sequence[str]) -> None:
        self._has_job = True
        results: dict[str, object] = {}
        found = False
        try:
            if PUT_BACK in due:
                # Messages before tasks: putting back its tasks buries a vanished worker, which is not looked at again.
                for delivery in self.deliveries:
                    await delivery.recover(self.crawl.visibility)
                back = await put_back(self.crawl)
                results |= {"put_back": back.again, "poison": back.poison}
                found = bool(back.again or back.poison)
            for name, job in self._jobs.items():
                if name in due:
                    results[name] = await run_once(self.crawl, name, job.run)
                    found |= job.makes_work and bool(results[name])
        finally:
            self._has_job = False
        if any(results.values()):
            log.info("looked after", extra=results)
        if found:
            self.nudge()

    async def _tend_limiter(self) -> datetime | None:
        await self.crawl.limiter.tend()
        return None

    async def _change_limits(self) -> datetime | None:
        """Apply the limits that an operator has changed since."""
        crawl, at = self.crawl, moment(self.crawl.clock)
        wanted = self.tune(await crawl.store.read(lambda tx: tx.overrides.all()))
        if wanted != crawl.tuning:
            was = crawl.limits
            await crawl.store.transact(lambda tx: change_limits(tx, was, wanted.limits, at))
            crawl.tuning.take(wanted)
            log.info("limits changed", extra={"limits": str(wanted.limits), "concurrency": wanted.concurrency})
        return None

    def _absorbed(self, group: Absorbed) -> None:
        self._due.set()
        self.progress.completed += group.completed
        self.progress.failed += group.failed
        self.progress.again += group.again
        self.progress.events += group.events
        self.progress.products += group.products
        if group.events:
            self.deliveries[0].nudge()
