"""The embedded scheduler's turn: start the runs whose time has come."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from sellerwatch.crawling.context import Crawl
from sellerwatch.crawling.execution import CrawlInProgress
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.crawling.trigger import MarketplaceUnavailable, trigger
from sellerwatch.kernel.errors import SellerwatchError, Unavailable
from sellerwatch.kernel.ids import SellerId
from sellerwatch.kernel.store import StoreFailed
from sellerwatch.oversight.audit import AuditEntry
from sellerwatch.schedules.missed import Tick, late_at, late_tick, starts_at, tick
from sellerwatch.schedules.schedule import Schedule

log = logging.getLogger(__name__)

ACTOR = "scheduler"


@dataclass(frozen=True)
class Started:
    """One turn's work; `retry_at` is set when a seller had to be left for want of budget."""

    runs: int
    retry_at: datetime | None


async def start_due(crawl: Crawl, *, late_only: bool = False) -> Started:
    """Start every seller that is due. One that cannot be started never keeps the others from it.

    `late_only`: another scheduler starts them, and this is for those it has forgotten: overdue by more than a tenth of
    their interval.
    """
    now = crawl.clock.now()
    look = late_tick if late_only else tick
    due = await crawl.store.read(lambda tx: [(s, t) for s in tx.schedules.due(now) if (t := look(s, now))])
    runs, retry_at = 0, None
    for schedule, found in due:
        try:
            note = await _start(crawl, schedule.seller_id)
            runs += note is None
        except Unavailable as refusal:
            # No budget, or the pool's breaker is open. Its time stays due: the next turn finds it again.
            retry_at = now + timedelta(seconds=refusal.retry_after or 0)
            continue
        except StoreFailed:
            # Ours to mend, not a reason to let the time pass.
            raise
        except SellerwatchError as error:
            note = str(error)
            log.warning("a due run was not started", extra={"seller": schedule.seller_id, "problem": note})
        noted = partial(_note_turn, schedule=schedule, found=found, note=note, now=crawl.clock.now())
        await crawl.store.transact(noted)
    return Started(runs, retry_at)


def next_due(tx: CrawlTx, now: datetime, *, late_only: bool = False) -> datetime | None:
    """The first time at which `start_due` may find something to start; one that has passed: it would now.

    A schedule whose time has come waits for the seller's own moment; one whose time has not is looked at when it has.
    """
    times = [late_at(schedule) if late_only else starts_at(schedule) for schedule in tx.schedules.due(now)]
    return min((each for each in (*times, tx.dues.start(now)) if each is not None), default=None)


async def _start(crawl: Crawl, seller_id: SellerId) -> str | None:
    """None when it was started, else why the time passes without a run."""
    try:
        await trigger(crawl, seller_id, ACTOR)
    except CrawlInProgress as going:
        return f"skipped: run {going.execution_id} takes longer than the interval"
    except MarketplaceUnavailable as unavailable:
        return str(unavailable)
    return None


async def note_started(crawl: Crawl, seller_id: SellerId) -> None:
    """Another scheduler started a run: the next one is due an interval later."""
    now = crawl.clock.now()

    def work(tx: CrawlTx) -> None:
        schedule = tx.schedules.of_seller(seller_id)
        if schedule is not None and schedule.next_run_at is not None:
            tx.schedules.save(schedule.ran(now + schedule.interval.length, now))

    await crawl.store.transact(work)


def _note_turn(tx: CrawlTx, schedule: Schedule, found: Tick, note: str | None, now: datetime) -> None:
    """The next time, and on the trail whatever did not go as planned."""
    current = tx.schedules.get(schedule.schedule_id)
    if current is None or current.next_run_at != schedule.next_run_at:
        return
    tx.schedules.save(current.ran(found.next_run_at, now))
    if found.skipped:
        missed = f"{found.skipped} missed run(s) skipped, one caught up"
        tx.audit.record(AuditEntry(now, ACTOR, "schedule.missed", "seller", schedule.seller_id, note=missed))
    if note:
        tx.audit.record(AuditEntry(now, ACTOR, "schedule.skip", "seller", schedule.seller_id, note=note))
