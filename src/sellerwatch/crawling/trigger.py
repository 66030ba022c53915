"""Starting a run: ask the marketplace how many products the seller has, then make the run and its list tasks.

The question is asked outside any transaction; the answer, the run and its tasks are written in one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from sellerwatch.agents.agent import Outcome
from sellerwatch.agents.breaker import PoolBreakerOpen
from sellerwatch.agents.charge import Charge, charge
from sellerwatch.agents.gate import ask_gate, start_probe
from sellerwatch.agents.limits import Host
from sellerwatch.agents.pool import Candidate, NoBudget
from sellerwatch.agents.ports import Permit, Reservation
from sellerwatch.crawling.context import Crawl
from sellerwatch.crawling.execution import CrawlInProgress, Execution
from sellerwatch.crawling.list_end import hold_all, list_tasks, pages_of
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.crawling.sessions import identity_of, open_session
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.clock import Moment, moment
from sellerwatch.kernel.errors import Failed
from sellerwatch.kernel.ids import Draw, ExecutionId, SellerId
from sellerwatch.kernel.notices import Notice
from sellerwatch.marketplaces.ports import Answer, AnswerKind, Unparsable
from sellerwatch.oversight.audit import AuditEntry
from sellerwatch.schedules.schedule import Schedule
from sellerwatch.sellers.seller import Seller, SellerNotFound

#: Agents tried for the one question: a 429, a refused token or a dropped connection is one agent's day, not the shop's.
ASKED = 4
#: Agents without a token that are given one at a time, when nobody has one.
SESSIONS_TRIED = 3
#: While others open the sessions: how long to wait for them, in seconds, and how often.
LOOK = 0.25
LOOKS = 20
#: The one question does not wait behind a crawl that uses all there is of the host's own limits.
UNBOUND = Host(concurrency=1_000_000_000)


@dataclass(eq=False)
class MarketplaceUnavailable(Failed):
    """The total could not be had; a FAILED run is kept to show it."""

    seller_id: str
    problem: str


@dataclass(frozen=True)
class Triggered:
    """What was started. `task_count` is the number of list pages; none for a seller without products."""

    execution_id: ExecutionId
    task_count: int


_OUTCOMES = {AnswerKind.OK: Outcome.SUCCESS, AnswerKind.TOO_MANY: Outcome.TOO_MANY}


class _NoSessionToBeHad(Exception):
    """Nobody has a token and nobody gets one: the marketplace is away, and asking more agents would be hammering."""


async def trigger(crawl: Crawl, seller_id: SellerId, actor: str) -> Triggered:
    """Start a run of an ACTIVE seller that has none going."""
    await crawl.store.read(lambda tx: _may_start(tx, seller_id))
    if crawl.robots is not None:
        await crawl.robots.allow(crawl.clock.now())
    problem = "no answer"
    for _ in range(ASKED):
        try:
            answer = await _ask_total(crawl, seller_id)
        except _NoSessionToBeHad:
            problem = "no agent could open a session"
            break
        total, problem = _total(crawl, seller_id, answer)
        if total is not None:
            return await _started(crawl, seller_id, actor, total)
        if answer.kind in (AnswerKind.REFUSED, AnswerKind.GONE):
            break
    return await _failed(crawl, seller_id, actor, problem)


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


async def _started(crawl: Crawl, seller_id: SellerId, actor: str, total: int) -> Triggered:
    now, draw = crawl.clock.now(), Draw(crawl.ids)

    def work(tx: CrawlTx) -> tuple[Triggered, tuple[Notice, ...]]:
        ids = draw.replay()
        seller, schedule = _may_start(tx, seller_id)
        pages = pages_of(total, crawl.rules.page_size)
        execution = Execution.create(ExecutionId(next(ids)), schedule.schedule_id, seller_id, now)
        execution = replace(execution.start(pages, now), list_total=total, deadline_at=now + crawl.deadline)
        tx.executions.add(execution)
        tx.tasks.add(list_tasks(execution.execution_id, seller_id, range(pages), ids, crawl.rules, now))
        tx.sellers.save(seller.update_total_product_count(total, now))
        after = {"executionId": execution.execution_id, "products": total, "pages": pages}
        tx.audit.record(AuditEntry(now, actor, "crawl.start", "seller", seller_id, after=after))
        notices = () if pages else hold_all(tx, execution, ids, now)
        return Triggered(execution.execution_id, pages), notices

    triggered, notices = await crawl.store.transact(work)
    crawl.tell(notices)
    return triggered


async def _failed(crawl: Crawl, seller_id: SellerId, actor: str, problem: str) -> Triggered:
    """Keep a FAILED run, so that the failure is seen where runs are looked at, and say so to the caller."""
    now, draw = crawl.clock.now(), Draw(crawl.ids)

    def work(tx: CrawlTx) -> None:
        ids = draw.replay()
        _, schedule = _may_start(tx, seller_id)
        execution = Execution.create(ExecutionId(next(ids)), schedule.schedule_id, seller_id, now)
        tx.executions.add(execution.fail(f"the total could not be asked: {problem}", now))
        tx.audit.record(AuditEntry(now, actor, "crawl.start_failed", "seller", seller_id, note=problem))

    await crawl.store.transact(work)
    raise MarketplaceUnavailable(seller_id=seller_id, problem=problem)


async def _ask_total(crawl: Crawl, seller_id: SellerId) -> Answer:
    """One request with a permit of its own, answered and charged whatever becomes of the run: page 0 of size 1 carries
    the total."""
    permit, is_probe = await _borrow(crawl)
    candidate = permit.grant.candidate
    early = permit.grant.depart_us / 1_000_000 - crawl.clock.monotonic()
    if early > 0:
        await crawl.clock.sleep(early)
    began = crawl.clock.monotonic()
    answer = await crawl.marketplace.fetch(
        crawl.marketplace.list_url(seller_id, 0, 1), identity_of(candidate), crawl.clock.now()
    )
    at, took, rest = moment(crawl.clock), crawl.clock.monotonic() - began, crawl.rest(answer.wait)
    one = Charge(
        candidate=candidate,
        permit=permit.number,
        outcome=_OUTCOMES.get(answer.kind, Outcome.BLAMELESS),
        status=answer.status,
        milliseconds=int(took * 1000),
        at=at.now,
        rest=rest,
        succeeded=answer.kind is AnswerKind.OK,
        drop_token=answer.kind in (AnswerKind.TOO_MANY, AnswerKind.UNAUTHORISED),
        is_pool_probe=is_probe,
    )
    rules = crawl.rules.breaker
    crawl.tell(await crawl.store.transact(lambda tx: charge(tx, [one], (), crawl.worker_id, rules, at)))
    await crawl.limiter.answered([(candidate.row, permit.number)])
    return answer


@dataclass(frozen=True)
class _Borrowing:
    permit: Permit | None
    tokenless: tuple[Candidate, ...] = ()
    not_before: datetime | None = None
    refusal: PoolBreakerOpen | None = None
    notices: tuple[Notice, ...] = ()
    is_probe: bool = False


async def _borrow(crawl: Crawl) -> tuple[Permit, bool]:
    """A permit, and whether it is the one that finds out for the whole pool; with a session opened on the spot where
    nobody has a token. Refusals say when a permit may be free."""
    tried: set[int] = set()
    waited = 0
    while True:
        ahead = await _ahead(crawl)
        at = moment(crawl.clock)
        got = await crawl.store.transact(partial(_reserve_one, crawl=crawl, ahead=ahead, at=at))
        await crawl.limiter.settle(ahead, [] if got.permit is None else [got.permit])
        crawl.tell(got.notices)
        if got.permit is not None:
            if crawl.mark is not None:
                crawl.mark.write(got.permit.number)
            return got.permit, got.is_probe
        untried = [c for c in got.tokenless if c.row not in tried][:SESSIONS_TRIED]
        if got.refusal is not None and not untried:
            raise got.refusal
        if not untried:
            wait = (got.not_before - at.now).total_seconds() if got.not_before else crawl.limits.spacing_us / 1_000_000
            raise NoBudget(seconds=round(max(wait, 0.1), 1))
        if len(tried) >= SESSIONS_TRIED * 2:
            raise _NoSessionToBeHad
        told = await asyncio.gather(*(open_session(crawl, c.row, c.user_agent_id, c.user_agent) for c in untried))
        tried.update(c.row for c, opened in zip(untried, told, strict=True) if opened is not None)
        if all(opened is None for opened in told):
            # Several runs start in a pool that is cold: whoever was first opens for all.
            if waited >= LOOKS:
                raise NoBudget(seconds=LOOK * LOOKS)
            waited += 1
            await crawl.clock.sleep(LOOK)


async def _ahead(crawl: Crawl) -> Reservation:
    """Asked of a limiter that decides ahead of the transaction."""
    if not crawl.limiter.looks_ahead:
        return Reservation()
    at = moment(crawl.clock)
    candidates = await crawl.store.read(lambda tx: tx.agents.candidates(at))
    return await crawl.limiter.reserve(_closed(candidates), 1, crawl.limits, UNBOUND, at.now)


def _closed(candidates: Sequence[Candidate]) -> list[Candidate]:
    """A question that a person waits for is not the one to find out with."""
    return [c for c in candidates if c.circuit.state is CircuitState.CLOSED]


def _reserve_one(tx: CrawlTx, crawl: Crawl, ahead: Reservation, at: Moment) -> _Borrowing:
    gate = ask_gate(tx, crawl.rules.breaker, at.now)
    if gate.most == 0:
        return _Borrowing(None, refusal=gate.refusal, notices=gate.notices)
    tx.permits.expire(at, crawl.limits)
    candidates = tx.agents.candidates(at)
    lending = crawl.limiter.lend(tx, ahead, _closed(candidates), 1, (crawl.limits, UNBOUND), at)
    if lending.grants:
        permit = tx.permits.reserve(lending.grants, [None], crawl.worker_id, at)[0]
        notices = gate.notices + start_probe(tx, gate, crawl.worker_id, crawl.rules.breaker, at.now)
        return _Borrowing(permit, notices=notices, is_probe=gate.is_probe)
    tokenless = tuple(c for c in candidates if c.slots_left > 0 and not c.has_token(at.now))
    free_us = None if crawl.limiter.looks_ahead else tx.permits.next_free_us(crawl.limits)
    waits = [wait for wait in (lending.wait_us, None if free_us is None else free_us - at.boot_us) if wait]
    not_before = at.now + timedelta(microseconds=min(waits)) if waits else None
    return _Borrowing(None, tokenless, not_before, gate.refusal, gate.notices)


def _total(crawl: Crawl, seller_id: SellerId, answer: Answer) -> tuple[int | None, str]:
    if answer.kind is not AnswerKind.OK:
        return None, answer.problem
    try:
        return crawl.marketplace.read_list(answer.body, crawl.marketplace.list_url(seller_id, 0, 1)).total, ""
    except Unparsable as unparsable:
        return None, str(unparsable)
