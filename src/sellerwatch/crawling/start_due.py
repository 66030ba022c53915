"""Start the runs that are due, and retry those that could not be started: the embedded scheduler."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from sellerwatch.agents.marketplace_circuit import Endpoint
from sellerwatch.crawling.context import Crawl
from sellerwatch.crawling.execution import CrawlInProgress, Execution, ExecutionStatus
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.crawling.save_execution import save_execution
from sellerwatch.crawling.trigger import start, trigger
from sellerwatch.kernel.errors import SellerwatchError
from sellerwatch.kernel.failure import Failure, FailureCode
from sellerwatch.kernel.ids import ExecutionId, SellerId
from sellerwatch.kernel.store import StoreFailed
from sellerwatch.kernel.wording import failure_text
from sellerwatch.oversight.audit import AuditEntry, record_audit
from sellerwatch.schedules.next_run import DueRun, due_at, late_at, late_tick, tick
from sellerwatch.schedules.schedule import Schedule

log = logging.getLogger(__name__)

ACTOR = "scheduler"


@dataclass(frozen=True)
class Started:
    """How many runs were started, those that wait to be started included."""

    runs: int


async def start_due(crawl: Crawl, *, late_only: bool = False) -> Started:
    """Start a run of every seller that is due. One that cannot be started does not stop the others.

    `late_only`: another scheduler starts them, and this is for those it has forgotten: overdue by more than a tenth of
    their interval.
    """
    now = crawl.clock.now()
    look = late_tick if late_only else tick
    due = await crawl.store.read(lambda tx: [(s, t) for s in tx.schedules.due(now) if (t := look(s, now))])
    runs = 0
    for schedule, found in due:
        try:
            note = await _start(crawl, schedule)
            runs += note is None
        except StoreFailed:
            # Ours to mend, not a reason to let the time pass.
            raise
        except SellerwatchError as error:
            note = str(error)
            log.warning("a due run was not started", extra={"seller": schedule.seller_id, "problem": note})
        noted = partial(_save_next_due, schedule=schedule, found=found, note=note, now=crawl.clock.now())
        await crawl.store.transact(noted)
    return Started(runs)


async def retry_starts(crawl: Crawl) -> Started:
    """Try again to start the executions whose next try is due. Each is taken by one process: its next try is moved on
    before anything is asked."""
    now, runs = crawl.clock.now(), 0
    due = await crawl.store.read(lambda tx: _due_starts(tx, now))
    for execution in due:
        if await crawl.store.transact(partial(_take, crawl=crawl, execution=execution, now=crawl.clock.now())):
            try:
                if crawl.robots is not None:
                    await crawl.robots.allow(crawl.clock.now())
                started = await start(crawl, execution.execution_id, execution.seller_id)
                runs += started.task_count is not None
            except StoreFailed:
                raise
            except SellerwatchError as error:
                log.warning("a run waits to be started", extra={"seller": execution.seller_id, "problem": str(error)})
    return Started(runs)


def _due_starts(tx: CrawlTx, now: datetime) -> list[Execution]:
    """Return the starts to be tried now: those that are due, and those whose outage or pause is over."""
    pending = tx.executions.pending()
    if not pending:
        return []
    circuits = tx.marketplace.circuits()
    needed = circuits[Endpoint.LIST], circuits[Endpoint.TOKEN]
    paused = {pause.seller_id for pause in tx.marketplace.pauses()}

    def is_due(execution: Execution) -> bool:
        if None in paused or execution.seller_id in paused:
            return False
        if execution.next_start_at is None or execution.next_start_at <= now:
            return True
        failure = execution.failure
        if failure is None:
            return False
        closed = [circuit.closed_at for circuit in needed if circuit.closed_at is not None]
        is_back = all(circuit.is_closed for circuit in needed) and max(closed, default=failure.at) > failure.at
        return is_back or failure.code is FailureCode.MARKETPLACE_PAUSED

    return [execution for execution in pending if is_due(execution)]


def _take(tx: CrawlTx, crawl: Crawl, execution: Execution, now: datetime) -> bool:
    current = tx.executions.get(execution.execution_id)
    if current is None or current.status is not ExecutionStatus.PENDING:
        return False
    if current.next_start_at != execution.next_start_at or current.start_tries != execution.start_tries:
        return False
    save_execution(tx, current, replace(current, next_start_at=now + crawl.start_taken))
    return True


def next_start(tx: CrawlTx, now: datetime) -> datetime | None:
    """Return when the next waiting start is tried again; now if one is due."""
    if _due_starts(tx, now):
        return now
    times = [execution.next_start_at for execution in tx.executions.pending()]
    return min((time for time in times if time is not None and time > now), default=None)


def next_due(tx: CrawlTx, now: datetime, *, late_only: bool = False) -> datetime | None:
    """Return the first time at which `start_due` may find a run to start; a time that has passed means now.

    A schedule whose time has come waits for the seller's own moment; one whose time has not is looked at when it has.
    """
    times = [late_at(schedule) if late_only else due_at(schedule) for schedule in tx.schedules.due(now)]
    return min((each for each in (*times, tx.dues.start(now)) if each is not None), default=None)


async def _start(crawl: Crawl, schedule: Schedule) -> str | None:
    """Start a run. Return None when it was started or waits to be, else why there is no run this time."""
    now = crawl.clock.now()
    due = due_at(schedule) or now
    await crawl.store.transact(partial(_overtake, seller_id=schedule.seller_id, due=due, now=now))
    try:
        await trigger(crawl, schedule.seller_id, ACTOR, waits_for_pool=True)
    except CrawlInProgress as going:
        run = await crawl.store.read(lambda tx: tx.executions.open_of(schedule.seller_id))
        if run is None or _is_of_this_time(run, due):
            return None
        return f"skipped: run {going.execution_id} takes longer than the interval"
    return None


def _is_of_this_time(run: Execution, due: datetime) -> bool:
    """Whether it is the run that is due now, started by another process."""
    return run.created_at >= due


def _overtake(tx: CrawlTx, seller_id: SellerId, due: datetime, now: datetime) -> ExecutionId | None:
    """End an execution that could not be started before the next one is due."""
    waiting = tx.executions.open_of(seller_id)
    if waiting is None or waiting.status is not ExecutionStatus.PENDING or _is_of_this_time(waiting, due):
        return None
    cause = waiting.failure
    failure = Failure.because(cause, FailureCode.OVERTAKEN, now, None if cause is None else cause.blame)
    save_execution(tx, waiting, waiting.fail(failure, now))
    note = failure_text(failure)
    record_audit(tx, AuditEntry(now, ACTOR, "crawl.overtaken", "execution", waiting.execution_id, note=note))
    return waiting.execution_id


async def note_started(crawl: Crawl, seller_id: SellerId) -> None:
    """Move the next due time an interval on, because another scheduler started a run."""
    now = crawl.clock.now()

    def work(tx: CrawlTx) -> None:
        schedule = tx.schedules.of_seller(seller_id)
        if schedule is not None and schedule.next_run_at is not None:
            tx.schedules.save(schedule.ran(now + schedule.length, now))

    await crawl.store.transact(work)


def _save_next_due(tx: CrawlTx, schedule: Schedule, found: DueRun, note: str | None, now: datetime) -> None:
    """Save the next due time, and record on the audit trail what did not go as planned."""
    current = tx.schedules.get(schedule.schedule_id)
    if current is None or current.next_run_at != schedule.next_run_at:
        return
    tx.schedules.save(current.ran(found.next_run_at, now))
    if found.skipped:
        missed = f"{found.skipped} missed run(s) skipped, one caught up"
        record_audit(tx, AuditEntry(now, ACTOR, "schedule.missed", "seller", schedule.seller_id, note=missed))
    if note:
        record_audit(tx, AuditEntry(now, ACTOR, "schedule.skip", "seller", schedule.seller_id, note=note))
