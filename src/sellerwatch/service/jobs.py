"""Jobs that keep everything going: each runs once, wherever many processes run, and none stops another.

Each job says when it is next due, as a function of what the database holds: one read tells for all of them, and a job
with nothing to do costs nothing else. A job that failed has left what made it due, so it is due again.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from functools import partial
from zoneinfo import ZoneInfo

from sellerwatch.access.idempotency import KEPT as RESPONSES_KEPT
from sellerwatch.access.logins import FORGOTTEN as LOGINS_KEPT
from sellerwatch.agents.maintenance import recover_rested
from sellerwatch.agents.sessions import renew_due
from sellerwatch.crawling.context import Crawl
from sellerwatch.crawling.execution import Execution
from sellerwatch.crawling.messages import republish_lost
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.crawling.put_back import PutBack, cancel_execution, put_back_lost
from sellerwatch.crawling.recheck import plan_missing
from sellerwatch.kernel.activity import Activity
from sellerwatch.kernel.clock import Moment, moment
from sellerwatch.kernel.errors import Unavailable
from sellerwatch.kernel.failure import Failure, FailureCode
from sellerwatch.kernel.ids import OutboxId, ReplayableIds
from sellerwatch.kernel.store import StoreFailed
from sellerwatch.operations.dead_letters import sweep_dead_letters
from sellerwatch.operations.ports import ServiceTx
from sellerwatch.operations.quarantine import settle_ended
from sellerwatch.outbox.message import OutboxKind
from sellerwatch.service.check_endpoints import check_endpoints, next_check

log = logging.getLogger(__name__)

#: Longer than any job takes: a process that dies in one keeps the others from it for this long.
LEASE = timedelta(minutes=5)
FORGOTTEN_AT_ONCE = 500
#: Rows whose texts one transaction compresses: some 20 ms of CPU.
CONVERTED_AT_ONCE = 200
#: Messages and attempts that one transaction deletes at most.
BATCH = 1000
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
#: Transactions in which a job deletes old rows, at most.
MOST_BATCHES = 100
#: How long a reader of the event stream may be away and still get all that it missed.
ACTIVITY_KEPT = timedelta(days=7)
#: How long an expired token stays in the list of tokens.
TOKENS_KEPT = timedelta(days=30)

#: So that a heartbeat is older than the visibility, not as old, when it is looked at.
JUST_AFTER = timedelta(milliseconds=1)

Run = Callable[[Crawl], Awaitable[object]]
#: The next due time, by the database, the time the job last succeeded, and now; None: nothing is to be done.
NextDue = Callable[[ServiceTx, Crawl, datetime | None, datetime], datetime | None]


@dataclass(frozen=True)
class Job:
    """`makes_work`: what it did may be work for the other loops. `is_urgent`: it runs when it is due; others may be up
    to one interval late, so that they are done together."""

    run: Run
    next_due: NextDue
    makes_work: bool = False
    is_urgent: bool = False


def next_put_back(tx: CrawlTx, crawl: Crawl, at: Moment) -> datetime | None:
    """When `put_back`, or the recovery of the outboxes, may next find something."""
    heartbeat, forgotten_us = tx.dues.heartbeat(crawl.worker_id), tx.dues.forgotten_us()
    times = [
        None if heartbeat is None else heartbeat + crawl.visibility + JUST_AFTER,
        None if forgotten_us is None else at.now + timedelta(microseconds=forgotten_us - at.boot_us),
        None if _time_stands(tx) else tx.dues.deadline(),
        tx.dues.behind_failed(),
    ]
    return min((each for each in times if each is not None), default=None)


def next_dues(tx: ServiceTx, crawl: Crawl, jobs: Mapping[str, Job], now: datetime) -> dict[str, datetime]:
    """The next due time of each job that has one."""
    found = {name: job.next_due(tx, crawl, tx.leases.last_finished(name), now) for name, job in jobs.items()}
    return {name: due for name, due in found.items() if due is not None}


async def put_back(crawl: Crawl) -> PutBack:
    """Put back tasks whose worker vanished, and end runs past their deadline. The own heartbeat is renewed first."""
    at, draw = moment(crawl.clock), ReplayableIds(crawl.ids)

    def work(tx: CrawlTx) -> PutBack:
        ids = draw.replay()
        tx.workers.beat(crawl.worker_id, at.now)
        passed = Failure.of(FailureCode.DEADLINE_PASSED, at.now)
        for execution in _past_deadline(tx, at.now):
            cancel_execution(tx, execution.execution_id, passed, crawl.rules, ids, at.now)
        return put_back_lost(tx, crawl.visibility, crawl.rules, ids, at)

    back = await crawl.store.transact(work)
    crawl.tell(back.notices)
    return back


def _past_deadline(tx: CrawlTx, now: datetime) -> list[Execution]:
    """Return the runs past their deadline: none while the marketplace is away or paused: that time does not count."""
    if _time_stands(tx):
        return []
    paused = {pause.seller_id for pause in tx.marketplace.pauses()}
    late = [e for e in tx.executions.running() if e.deadline_at is not None and e.deadline_at <= now]
    return [execution for execution in late if execution.seller_id not in paused]


def _time_stands(tx: CrawlTx) -> bool:
    """Whether an endpoint is away or all requests are paused: deadlines are moved by that time when it ends."""
    is_away = any(not circuit.is_closed for circuit in tx.marketplace.circuits().values())
    return is_away or any(pause.seller_id is None for pause in tx.marketplace.pauses())


async def renew(crawl: Crawl) -> int:
    """Renew tokens that are due; none while requests are paused."""
    return 0 if crawl.pause.everything else await renew_due(crawl)


async def recover(crawl: Crawl) -> int:
    now = crawl.clock.now()

    def work(tx: CrawlTx) -> int:
        rested = tx.agents.rested(now).values()
        back = recover_rested(tx, now)
        for agent in rested if back else ():
            tx.activity.add(Activity(now, "agent.recovered", "agent", agent.user_agent_id))
        return back

    return await crawl.store.transact(work)


async def forget(crawl: Crawl) -> int:
    """Delete, every hour, finished messages and attempts."""
    return await _forget_delivered(crawl, crawl.clock.now() - crawl.retention.events)


async def begin_day(crawl: Crawl) -> int:
    """Set the counts of the day to 0 at midnight in the operator's time zone."""
    now, zone = crawl.clock.now(), ZoneInfo(crawl.timezone)

    def work(tx: CrawlTx) -> int:
        last = tx.leases.last_finished("begin_day")
        is_new = last is not None and last.astimezone(zone).date() < now.astimezone(zone).date()
        return tx.agents.new_day() if is_new else 0

    return await crawl.store.transact(work)


async def settle(crawl: Crawl) -> int:
    """Decide pending parts of runs that ended before enough of their parts were checked."""
    now, draw = crawl.clock.now(), ReplayableIds(crawl.ids)
    settled, notices = await crawl.store.transact(lambda tx: settle_ended(tx, crawl.rules, draw.replay(), now))
    crawl.tell(notices)
    return settled


async def recheck(crawl: Crawl) -> int:
    """Plan a re-check for each paused run without one (`crawling/recheck.py`)."""
    now, draw = crawl.clock.now(), ReplayableIds(crawl.ids)
    if not await crawl.store.read(lambda tx: tx.run_notes.paused_without_recheck()):
        return 0
    return await crawl.store.transact(lambda tx: plan_missing(tx, crawl.rules, draw.replay(), now))


async def forget_bodies(crawl: Crawl) -> int:
    """Delete, once a day, old bodies that have a newer one. They are found by a reader, as that may take a while."""
    now, forgotten = crawl.clock.now(), 0
    while True:
        rows = await crawl.store.read(lambda tx: tx.bodies.old_raws(now - crawl.retention.bodies, FORGOTTEN_AT_ONCE))
        forgotten += await crawl.store.transact(partial(_forget_bodies, rows=rows))
        if len(rows) < FORGOTTEN_AT_ONCE:
            return forgotten


async def convert_texts(crawl: Crawl) -> int:
    """Compress texts that an older version stored whole, some at a time."""
    now, steps = crawl.clock.now(), 0
    while steps < MOST_BATCHES and await crawl.store.transact(
        lambda tx: tx.text_conversions.convert_next(CONVERTED_AT_ONCE, now)
    ):
        steps += 1
    return steps


async def keep_months(crawl: Crawl) -> int:
    """Create and drop partitions of the usage log once a day, where it is partitioned."""
    now = crawl.clock.now()
    return 0 if crawl.months is None else await crawl.months.keep(now, now - crawl.retention.requests)


async def forget_traces(crawl: Crawl) -> int:
    """Delete, every hour, old activity, stored answers for an Idempotency-Key, failed log-ins, and log-ins and tokens
    that expired: some at a time, so that no transaction is long."""
    now, forgotten = crawl.clock.now(), 0

    def work(tx: CrawlTx) -> tuple[int, ...]:
        return (
            tx.activity.forget(now - ACTIVITY_KEPT, FORGOTTEN_AT_ONCE),
            tx.idempotency_keys.forget(now - RESPONSES_KEPT, FORGOTTEN_AT_ONCE),
            tx.logins.forget(now - LOGINS_KEPT, FORGOTTEN_AT_ONCE),
            tx.login_sessions.forget(now, FORGOTTEN_AT_ONCE),
            tx.api_tokens.forget(now - TOKENS_KEPT, FORGOTTEN_AT_ONCE),
        )

    for _ in range(MOST_BATCHES):
        gone = await crawl.store.transact(work)
        forgotten += sum(gone)
        if max(gone) < FORGOTTEN_AT_ONCE:
            break
    return forgotten


def _forget_bodies(tx: CrawlTx, rows: Sequence[int]) -> int:
    return tx.bodies.forget_raws(rows)


async def _forget_delivered(crawl: Crawl, before: datetime) -> int:
    """Delete old messages a batch at a time. What to delete is looked up without a lock."""
    forgotten = 0
    for kind in OutboxKind:
        for _ in range(MOST_BATCHES):
            old = await crawl.store.read(partial(_superseded, kind=kind, before=before))
            if old:
                forgotten += await crawl.store.transact(partial(_forget_these, kind=kind, outbox_ids=old))
            if len(old) < BATCH:
                break
    for _ in range(MOST_BATCHES):
        gone = await crawl.store.transact(
            lambda tx: max(tx.attempts.forget(before, BATCH), tx.resent_events.forget(before, BATCH))
        )
        forgotten += gone
        if gone < BATCH:
            break
    return forgotten


def _superseded(tx: CrawlTx, kind: OutboxKind, before: datetime) -> Sequence[OutboxId]:
    return tx.outbox_queries(kind).superseded(before, BATCH)


def _forget_these(tx: CrawlTx, kind: OutboxKind, outbox_ids: Sequence[OutboxId]) -> int:
    return tx.delivery_queue(kind).delete_finished(outbox_ids)


def hourly(_tx: CrawlTx, _crawl: Crawl, last: datetime | None, now: datetime) -> datetime:
    return now if last is None else last.replace(minute=0, second=0, microsecond=0) + HOUR


def daily(_tx: CrawlTx, _crawl: Crawl, last: datetime | None, now: datetime) -> datetime:
    return now if last is None else last.replace(hour=0, minute=0, second=0, microsecond=0) + DAY


def at_midnight(_tx: CrawlTx, crawl: Crawl, last: datetime | None, now: datetime) -> datetime:
    """Of the operator's time zone, whose days may be an hour longer or shorter."""
    if last is None:
        return now
    zone = ZoneInfo(crawl.timezone)
    return datetime.combine(last.astimezone(zone).date() + DAY, time(), zone).astimezone(UTC)


def _if_unjudged(tx: CrawlTx, _crawl: Crawl, _last: datetime | None, now: datetime) -> datetime | None:
    return now if tx.dues.has_unjudged() else None


def _if_paused_without_recheck(tx: CrawlTx, _crawl: Crawl, _last: datetime | None, now: datetime) -> datetime | None:
    return now if tx.run_notes.paused_without_recheck() else None


def _if_texts_are_whole(tx: CrawlTx, _crawl: Crawl, _last: datetime | None, now: datetime) -> datetime | None:
    return now if tx.text_conversions.are_pending() else None


def _if_messages_name_tasks(_tx: CrawlTx, crawl: Crawl, _last: datetime | None, now: datetime) -> datetime | None:
    """Return now: the state of messages is not in the database."""
    return now if crawl.queue.names_tasks else None


def _if_there_are_dead_letters(_tx: CrawlTx, crawl: Crawl, _last: datetime | None, now: datetime) -> datetime | None:
    """Return now: only the queue knows its dead letters."""
    return None if crawl.dead_letters is None else now


JOBS: Mapping[str, Job] = {
    "recover": Job(recover, lambda tx, _crawl, _last, _now: tx.dues.suspended_until(), makes_work=True),
    "renew": Job(renew, lambda tx, _crawl, _last, _now: tx.dues.renewal()),
    "check_endpoints": Job(check_endpoints, next_check, makes_work=True, is_urgent=True),
    "begin_day": Job(begin_day, at_midnight),
    "forget": Job(forget, hourly),
    "settle": Job(settle, _if_unjudged, makes_work=True),
    "recheck": Job(recheck, _if_paused_without_recheck, makes_work=True),
    "forget_bodies": Job(forget_bodies, daily),
    "forget_traces": Job(forget_traces, hourly),
    "convert_texts": Job(convert_texts, _if_texts_are_whole),
    "republish": Job(republish_lost, _if_messages_name_tasks, makes_work=True),
    "dead_letters": Job(sweep_dead_letters, _if_there_are_dead_letters, makes_work=True),
}
MONTHS: Mapping[str, Job] = {"keep_months": Job(keep_months, daily)}


def jobs_of(crawl: Crawl) -> Mapping[str, Job]:
    return JOBS if crawl.months is None else {**JOBS, **MONTHS}


async def run_once(crawl: Crawl, name: str, job: Run) -> object:
    """Run a job unless another process runs it. Return its result; None where another process has it."""
    if not await crawl.leases.take(name, LEASE):
        return None
    error: str | None = None
    try:
        return await job(crawl)
    except (StoreFailed, Unavailable) as refusal:
        error = str(refusal)
        log.warning("a job waits for another server", extra={"job": name, "problem": error})
        return None
    except Exception as failure:
        error = f"{type(failure).__name__}: {failure}"
        log.exception("a job failed; it runs again when it is due", extra={"job": name})
        return None
    finally:
        await crawl.leases.finish(name, error)
