"""Start a run: ask the marketplace how many products the seller has, then make the run's list tasks.

The execution is written first, PENDING and with the time of its next try, so that a start is never lost: not by an
outage, not by a process that dies while it asks. The question is asked outside any transaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sellerwatch.agents.answers import Answer
from sellerwatch.agents.ask import NotAsked, Question, ask
from sellerwatch.agents.breaker import PoolBreakerOpen
from sellerwatch.agents.lending import ask_gate
from sellerwatch.agents.marketplace_circuit import Endpoint, next_probe
from sellerwatch.catalog.ports import Unparsable
from sellerwatch.crawling.context import Crawl
from sellerwatch.crawling.execution import CrawlInProgress, Execution, ExecutionStatus
from sellerwatch.crawling.list_reconciliation import hold_all, list_tasks, pages_of
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.crawling.save_execution import add_execution, save_execution
from sellerwatch.kernel.clock import moment
from sellerwatch.kernel.failure import FailureCode
from sellerwatch.kernel.ids import ExecutionId, ReplayableIds, SellerId
from sellerwatch.kernel.notices import Notice
from sellerwatch.kernel.wording import failure_text
from sellerwatch.oversight.audit import AuditEntry, record_audit
from sellerwatch.schedules.schedule import Schedule
from sellerwatch.sellers.seller import Seller, SellerNotFound

#: Failed tries of a start after which an alert is sent.
ALERT_AFTER = 3
#: Causes that are no failed try: nothing was asked.
NOT_TRIED = frozenset(
    {
        FailureCode.CIRCUIT_OPEN,
        FailureCode.NO_FREE_AGENT,
        FailureCode.POOL_BREAKER_OPEN,
        FailureCode.MARKETPLACE_PAUSED,
    }
)


@dataclass(frozen=True)
class Triggered:
    """A run that was started. `task_count` is the number of its list pages; None while the run waits to be started."""

    execution_id: ExecutionId
    task_count: int | None


async def trigger(
    crawl: Crawl, seller_id: SellerId, actor: str, *, waits_for_pool: bool = False, is_check: bool = False
) -> Triggered:
    """Start a run of an ACTIVE seller that has none going, or let it wait to be started. `is_check`: as of `start`."""
    execution_id = await request_run(crawl, seller_id, actor, waits_for_pool=waits_for_pool)
    return await start(crawl, execution_id, seller_id, is_check=is_check)


async def request_run(crawl: Crawl, seller_id: SellerId, actor: str, *, waits_for_pool: bool = False) -> ExecutionId:
    """Write a PENDING execution: from now on the start is not lost. Raise while the pool's breaker is open, unless it
    `waits_for_pool`."""
    await crawl.store.read(lambda tx: _may_start(tx, seller_id))
    if crawl.robots is not None and not crawl.pause.everything:
        await crawl.robots.allow(crawl.clock.now())
    at, draw = moment(crawl.clock), ReplayableIds(crawl.ids)
    now = at.now

    def work(tx: CrawlTx) -> tuple[ExecutionId | None, PoolBreakerOpen | None, tuple[Notice, ...]]:
        _, schedule = _may_start(tx, seller_id)
        gate = ask_gate(tx, crawl.rules.breaker, now)
        is_shut = gate.most == 0 or (gate.is_probe and not tx.agents.candidates(at))
        if is_shut and not waits_for_pool:
            return None, gate.refusal, gate.notices
        execution_id = ExecutionId(next(draw.replay()))
        execution = Execution.create(execution_id, schedule.schedule_id, seller_id, now)
        # Should this process die while it asks, another one tries again then.
        add_execution(tx, replace(execution, next_start_at=now + _retry_after(crawl, 1), started_by=actor))
        return execution_id, None, gate.notices

    execution_id, refusal, notices = await crawl.store.transact(work)
    crawl.tell(notices)
    if execution_id is None:
        raise refusal or CrawlInProgress(seller_id=seller_id, execution_id="")
    return execution_id


async def start(crawl: Crawl, execution_id: ExecutionId, seller_id: SellerId, *, is_check: bool = False) -> Triggered:
    """Try to start a PENDING execution: with its list tasks if the marketplace says how many products there are, else
    it goes on waiting. Cancelled meanwhile: nothing is started.

    `is_check`: a probe of the list that is due is not left to the job that checks endpoints. For commands, beside which
    no such job may run.
    """
    total = await _ask_total(crawl, seller_id, is_check=is_check)
    if isinstance(total, NotAsked):
        return await _waits(crawl, execution_id, total)
    now, draw = crawl.clock.now(), ReplayableIds(crawl.ids)

    def work(tx: CrawlTx) -> tuple[int | None, tuple[Notice, ...]]:
        execution = _pending(tx, execution_id)
        return (None, ()) if execution is None else _start(tx, crawl, execution, total, draw.replay(), now)

    pages, notices = await crawl.store.transact(work)
    crawl.tell(notices)
    return Triggered(execution_id, pages)


def _start(
    tx: CrawlTx, crawl: Crawl, execution: Execution, total: int, ids: Iterator[str], now: datetime
) -> tuple[int, tuple[Notice, ...]]:
    seller_id, actor = execution.seller_id, execution.started_by or "scheduler"
    pages = pages_of(total, crawl.rules.page_size)
    started = replace(execution.start(pages, now), list_total=total, deadline_at=now + crawl.deadline)
    save_execution(tx, execution, started)
    tx.tasks.add(list_tasks(started.execution_id, seller_id, range(pages), ids, crawl.rules, now))
    seller = tx.sellers.get(seller_id)
    if seller is not None:
        tx.sellers.save(seller.update_total_product_count(total, now))
    after = {"executionId": started.execution_id, "products": total, "pages": pages}
    record_audit(tx, AuditEntry(now, actor, "crawl.start", "seller", seller_id, after=after))
    return pages, () if pages else hold_all(tx, started, ids, now)


async def _waits(crawl: Crawl, execution_id: ExecutionId, why: NotAsked) -> Triggered:
    now = crawl.clock.now()
    rng = crawl.rng.random()

    def work(tx: CrawlTx) -> tuple[Notice, ...]:
        execution = _pending(tx, execution_id)
        if execution is None:
            return ()
        counts = why.failure.code not in NOT_TRIED
        later = now + _retry_after(crawl, execution.start_tries + 1, rng)
        if not counts and why.not_before is not None:
            later = max(why.not_before, now + timedelta(seconds=1))
        if (probe := _next_probe(tx, now)) is not None:
            later = min(later, probe)
        waiting = execution.wait_to_start(why.failure, later, counts=counts)
        save_execution(tx, execution, waiting)
        seller_id, text = execution.seller_id, failure_text(why.failure)
        if counts and waiting.start_tries == 1:
            record_audit(
                tx,
                AuditEntry(
                    now, execution.started_by or "scheduler", "crawl.start_failed", "seller", seller_id, note=text
                ),
            )
        if counts and waiting.start_tries == ALERT_AFTER:
            facts = {"seller": seller_id, "tries": ALERT_AFTER, "cause": why.failure}
            return (Notice("start.failing", seller_id, facts),)
        return ()

    crawl.tell(await crawl.store.transact(work))
    return Triggered(execution_id, None)


def _next_probe(tx: CrawlTx, now: datetime) -> datetime | None:
    """Return when the next probe of an endpoint that a start needs is sent; None while both endpoints answer. A start
    does not wait longer than that."""
    circuits = tx.marketplace.circuits()
    return next_probe((circuits[Endpoint.LIST], circuits[Endpoint.TOKEN]), now)


def _may_start(tx: CrawlTx, seller_id: SellerId) -> tuple[Seller, Schedule]:
    seller = tx.sellers.get(seller_id)
    schedule = tx.schedules.of_seller(seller_id)
    if seller is None or schedule is None:
        raise SellerNotFound(seller_id=seller_id)
    seller.must_be_active()
    going = tx.executions.open_of(seller_id)
    if going is not None:
        raise CrawlInProgress(seller_id=seller_id, execution_id=going.execution_id)
    return seller, schedule


def _pending(tx: CrawlTx, execution_id: ExecutionId) -> Execution | None:
    """Return the execution if it still waits to be started: the guard."""
    execution = tx.executions.get(execution_id)
    return execution if execution is not None and execution.status is ExecutionStatus.PENDING else None


def _retry_after(crawl: Crawl, tries: int, jitter: float = 0.0) -> timedelta:
    """Return the wait after a failed start: START_RETRY_SECONDS, doubling to 900, less up to 10 % jitter."""
    whole = min(crawl.start_retry.first * 2 ** min(tries - 1, 30), crawl.start_retry.longest)
    return timedelta(seconds=whole * (1 - crawl.start_retry.jitter * jitter))


async def _ask_total(crawl: Crawl, seller_id: SellerId, *, is_check: bool) -> int | NotAsked:
    """Ask for page 0 of size 1 of the list, which has the total."""
    url = crawl.marketplace.list_url(seller_id, 0, 1)
    question = Question(url, Endpoint.LIST, f"{seller_id}/total", is_check, seller_id)
    answer = await ask(crawl, question, lambda: crawl.pause.stops(seller_id))
    if not isinstance(answer, Answer):
        return answer
    try:
        return crawl.marketplace.read_list(answer.body, question.url).total
    except Unparsable as unparsable:
        return NotAsked(unparsable.failure(crawl.clock.now()))
