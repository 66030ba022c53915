"""Jobs that keep everything going: each runs once, wherever many processes run, and none stops another."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from zoneinfo import ZoneInfo

from sellerwatch.agents.sessions import renew_due
from sellerwatch.agents.tend import BATCH, forget_old_uses, recover_rested
from sellerwatch.crawling.context import Crawl
from sellerwatch.crawling.dead_letters import sweep_dead_letters
from sellerwatch.crawling.execution import Execution
from sellerwatch.crawling.operate_catalog import settle_ended
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.crawling.publish import republish_lost
from sellerwatch.crawling.put_back import PutBack, cancel_execution, put_back_lost
from sellerwatch.crawling.recheck import plan_missing
from sellerwatch.kernel.activity import Activity
from sellerwatch.kernel.clock import moment
from sellerwatch.kernel.errors import Unavailable
from sellerwatch.kernel.failure import Failure, FailureCode
from sellerwatch.kernel.ids import Draw, OutboxId
from sellerwatch.kernel.store import StoreFailed
from sellerwatch.outbox.message import OutboxKind
from sellerwatch.oversight.answers import KEPT as ANSWERS_KEPT
from sellerwatch.oversight.logins import FORGOTTEN as LOGINS_KEPT

log = logging.getLogger(__name__)

#: Longer than any turn of a job takes; a process that dies in one keeps the others from it for so long.
LEASE = timedelta(minutes=5)
FORGOTTEN_AT_ONCE = 500
HOUR = timedelta(hours=1)
#: Transactions that one turn of forgetting takes at most.
MOST_BATCHES = 100
#: How long a watcher may be away and still be told all it missed.
ACTIVITY_KEPT = timedelta(days=7)

Job = Callable[[Crawl], Awaitable[object]]


async def put_back(crawl: Crawl) -> PutBack:
    """Tasks whose worker vanished, and runs past their deadline. Our own heart beats first: whoever looks, lives."""
    at, draw = moment(crawl.clock), Draw(crawl.ids)

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
    """Time in which the marketplace is away or paused does not count, so nothing is past its deadline meanwhile."""
    is_away = any(not circuit.is_closed for circuit in tx.marketplace.circuits().values())
    paused = {pause.seller_id for pause in tx.marketplace.pauses()}
    if is_away or None in paused:
        return []
    late = [e for e in tx.executions.running() if e.deadline_at is not None and e.deadline_at <= now]
    return [execution for execution in late if execution.seller_id not in paused]


async def renew(crawl: Crawl) -> int:
    """Tokens that should not get older; none while requests are paused."""
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
    """Lines of the log past their time; on the first turn of each hour also events that are over, and tries."""
    now = crawl.clock.now()

    def work(tx: CrawlTx) -> tuple[int, datetime | None]:
        return forget_old_uses(tx, crawl.log_kept, now), tx.leases.last_finished("forget")

    forgotten, last = await crawl.store.transact(work)
    if last is None or last.replace(minute=0, second=0, microsecond=0) + HOUR <= now:
        forgotten += await _forget_delivered(crawl, now - crawl.outbox_kept)
    return forgotten


async def begin_day(crawl: Crawl) -> int:
    """At midnight in the operator's time zone the day's counts begin again."""
    now, zone = crawl.clock.now(), ZoneInfo(crawl.timezone)

    def work(tx: CrawlTx) -> int:
        last = tx.leases.last_finished("begin_day")
        is_new = last is not None and last.astimezone(zone).date() < now.astimezone(zone).date()
        return tx.agents.new_day() if is_new else 0

    return await crawl.store.transact(work)


async def settle(crawl: Crawl) -> int:
    """Changes that waited for the judgement of a run that was cut short."""
    now, draw = crawl.clock.now(), Draw(crawl.ids)
    if not await crawl.store.read(lambda tx: tx.quarantine.pending_runs()):
        return 0
    settled, notices = await crawl.store.transact(lambda tx: settle_ended(tx, crawl.rules, draw.replay(), now))
    crawl.tell(notices)
    return settled


async def recheck(crawl: Crawl) -> int:
    """Paused runs without a planned re-check get one (`crawling/recheck.py`)."""
    now, draw = crawl.clock.now(), Draw(crawl.ids)
    if not await crawl.store.read(lambda tx: tx.run_notes.paused_without_recheck()):
        return 0
    return await crawl.store.transact(lambda tx: plan_missing(tx, crawl.rules, draw.replay(), now))


async def forget_bodies(crawl: Crawl) -> int:
    """On the first turn of each day: bodies past their time, as long as a newer one of their part is there. Found by a
    reader, as it may take a while."""
    now, forgotten = crawl.clock.now(), 0
    last = await crawl.store.read(lambda tx: tx.leases.last_finished("forget_bodies"))
    if last is not None and last.date() == now.date():
        return 0
    while True:
        rows = await crawl.store.read(lambda tx: tx.products.old_raws(now - crawl.bodies_kept, FORGOTTEN_AT_ONCE))
        forgotten += await crawl.store.transact(partial(_forget_bodies, rows=rows))
        if len(rows) < FORGOTTEN_AT_ONCE:
            return forgotten


async def keep_months(crawl: Crawl) -> int:
    """On the first turn of each day, where the log of requests is cut into months: the next ones are cut off, those
    past their time dropped."""
    now = crawl.clock.now()
    last = await crawl.store.read(lambda tx: tx.leases.last_finished("keep_months"))
    if crawl.months is None or (last is not None and last.date() == now.date()):
        return 0
    return await crawl.months.keep(now, now - crawl.log_kept)


async def forget_traces(crawl: Crawl) -> int:
    """What is kept for a while only: what happened, answers for an Idempotency-Key, failed log-ins. Some at a time, so
    that no transaction is long; what is left is for the next turn."""
    now = crawl.clock.now()

    def work(tx: CrawlTx) -> int:
        return (
            tx.activity.forget(now - ACTIVITY_KEPT, FORGOTTEN_AT_ONCE)
            + tx.answers.forget(now - ANSWERS_KEPT, FORGOTTEN_AT_ONCE)
            + tx.logins.forget(now - LOGINS_KEPT, FORGOTTEN_AT_ONCE)
        )

    return await crawl.store.transact(work)


def _forget_bodies(tx: CrawlTx, rows: Sequence[int]) -> int:
    return tx.products.forget_raws(rows)


async def _forget_delivered(crawl: Crawl, before: datetime) -> int:
    """Piece by piece. What to delete is looked up without holding up anybody's writing."""
    forgotten = 0
    for kind in OutboxKind:
        for _ in range(MOST_BATCHES):
            old = await crawl.store.read(partial(_superseded, kind=kind, before=before))
            if old:
                forgotten += await crawl.store.transact(partial(_forget_these, kind=kind, outbox_ids=old))
            if len(old) < BATCH:
                break
    for _ in range(MOST_BATCHES):
        gone = await crawl.store.transact(lambda tx: tx.attempts.forget(before, BATCH))
        forgotten += gone
        if gone < BATCH:
            break
    return forgotten


def _superseded(tx: CrawlTx, kind: OutboxKind, before: datetime) -> Sequence[OutboxId]:
    return tx.outbox(kind).superseded(before, BATCH)


def _forget_these(tx: CrawlTx, kind: OutboxKind, outbox_ids: Sequence[OutboxId]) -> int:
    return tx.outbox(kind).forget(outbox_ids)


JOBS: dict[str, Job] = {
    "recover": recover,
    "renew": renew,
    "begin_day": begin_day,
    "forget": forget,
    "settle": settle,
    "recheck": recheck,
    "forget_bodies": forget_bodies,
    "forget_traces": forget_traces,
    "republish": republish_lost,
    "dead_letters": sweep_dead_letters,
}


def jobs_of(crawl: Crawl) -> dict[str, Job]:
    return JOBS if crawl.months is None else JOBS | {"keep_months": keep_months}


async def run_once(crawl: Crawl, name: str, job: Job) -> object:
    """Run a job if no other process is at it. What it says is returned; None when somebody else had it."""
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
        log.exception("a job failed; it runs again at its next turn", extra={"job": name})
        return None
    finally:
        await crawl.leases.finish(name, error)
