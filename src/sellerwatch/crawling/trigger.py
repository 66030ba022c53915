"""Starting a run: ask the marketplace how many products the seller has, then make the run and its list tasks.

The question is asked outside any transaction; the answer, the run and its tasks are written in one.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from sellerwatch.agents.agent import Outcome
from sellerwatch.agents.pool import Candidate, NoBudget, lend
from sellerwatch.agents.ports import Permit, Use
from sellerwatch.crawling.context import Crawl
from sellerwatch.crawling.execution import CrawlInProgress, Execution
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.crawling.process import list_tasks, pages_of
from sellerwatch.crawling.sessions import open_session
from sellerwatch.kernel.errors import Failed
from sellerwatch.kernel.ids import Draw, ExecutionId, SellerId
from sellerwatch.marketplaces.ports import Answer, AnswerKind, Identity, Unparsable
from sellerwatch.oversight.audit import AuditEntry
from sellerwatch.schedules.schedule import Schedule
from sellerwatch.sellers.seller import Seller, SellerNotFound

#: Agents tried for the one question: a 429, a refused token or a dropped connection is one agent's day, not the shop's.
ASKED = 4


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


@dataclass(frozen=True)
class _Asked:
    permit: Permit
    answer: Answer
    took: float


async def trigger(crawl: Crawl, seller_id: SellerId, actor: str) -> Triggered:
    """Start a run of an ACTIVE seller that has none going."""
    await crawl.store.read(lambda tx: _may_start(tx, seller_id))
    problem = "no answer"
    for _ in range(ASKED):
        asked = await _ask_total(crawl, seller_id)
        total, problem = _total(crawl, asked.answer)
        if total is not None or asked.answer.kind in (AnswerKind.REFUSED, AnswerKind.GONE):
            break
        await _settle(crawl, asked)
    else:
        total = None
        return await _failed(crawl, seller_id, actor, problem, None)
    if total is None:
        return await _failed(crawl, seller_id, actor, problem, asked)
    return await _started(crawl, seller_id, actor, total, asked)


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


async def _started(crawl: Crawl, seller_id: SellerId, actor: str, total: int, asked: _Asked) -> Triggered:
    now, draw = crawl.clock.now(), Draw(crawl.ids)

    def work(tx: CrawlTx) -> Triggered:
        ids = draw.replay()
        seller, schedule = _may_start(tx, seller_id)
        _charge(tx, asked, crawl, now)
        pages = pages_of(total, crawl.rules.page_size)
        execution = Execution.create(ExecutionId(next(ids)), schedule.schedule_id, seller_id, now)
        execution = replace(execution.start(pages, now), list_total=total, deadline_at=now + crawl.deadline)
        tx.executions.add(execution)
        tx.tasks.add(list_tasks(execution.execution_id, seller_id, pages, ids, crawl.rules, now))
        tx.sellers.save(seller.update_total_product_count(total, now))
        after = {"executionId": execution.execution_id, "products": total, "pages": pages}
        tx.audit.record(AuditEntry(now, actor, "crawl.start", "seller", seller_id, after=after))
        return Triggered(execution.execution_id, pages)

    return await crawl.store.transact(work)


async def _failed(crawl: Crawl, seller_id: SellerId, actor: str, problem: str, asked: _Asked | None) -> Triggered:
    """Keep a FAILED run, so that the failure is seen where runs are looked at, and say so to the caller."""
    now, draw = crawl.clock.now(), Draw(crawl.ids)

    def work(tx: CrawlTx) -> None:
        ids = draw.replay()
        _, schedule = _may_start(tx, seller_id)
        if asked is not None:
            _charge(tx, asked, crawl, now)
        execution = Execution.create(ExecutionId(next(ids)), schedule.schedule_id, seller_id, now)
        tx.executions.add(execution.fail(f"the total could not be asked: {problem}", now))
        tx.audit.record(AuditEntry(now, actor, "crawl.start_failed", "seller", seller_id, note=problem))

    await crawl.store.transact(work)
    raise MarketplaceUnavailable(seller_id=seller_id, problem=problem)


async def _ask_total(crawl: Crawl, seller_id: SellerId) -> _Asked:
    """One request with a permit of its own: page 0 of size 1 carries the total."""
    permit = await _borrow(crawl)
    grant = permit.grant
    early = (grant.depart_at - crawl.clock.now()).total_seconds()
    if early > 0:
        await crawl.clock.sleep(early)
    began = crawl.clock.monotonic()
    assert grant.candidate.token is not None  # noqa: S101 - the pool lends none without
    identity = Identity(grant.candidate.user_agent_id, grant.candidate.user_agent, grant.candidate.token)
    url = crawl.marketplace.list_url(seller_id, 0, 1)
    answer = await crawl.marketplace.fetch(url, identity, crawl.clock.now())
    return _Asked(permit, answer, crawl.clock.monotonic() - began)


async def _borrow(crawl: Crawl) -> Permit:
    """A permit, with a session opened on the spot where nobody has a token; `NoBudget` says when one will be free."""
    refused: set[int] = set()
    while True:
        now = crawl.clock.now()
        permit, tokenless, not_before = await crawl.store.transact(partial(_reserve_one, crawl=crawl, now=now))
        if permit is not None:
            return permit
        untried = [candidate for candidate in tokenless if candidate.row not in refused]
        if not untried:
            wait = (not_before - now).total_seconds() if not_before else crawl.limits.spacing.total_seconds()
            raise NoBudget(seconds=round(max(wait, 0.1), 1))
        refused.update(candidate.row for candidate in untried[:3])
        await asyncio.gather(*(open_session(crawl, candidate) for candidate in untried[:3]))


def _reserve_one(tx: CrawlTx, crawl: Crawl, now: datetime) -> tuple[Permit | None, list[Candidate], datetime | None]:
    tx.permits.expire(now, crawl.limits)
    candidates = tx.agents.candidates(now)
    lending = lend(candidates, 1, now, crawl.limits)
    if lending.grants:
        return tx.permits.reserve(lending.grants, [None], crawl.worker_id, now)[0], [], None
    tokenless = [c for c in candidates if c.slots_left > 0 and (c.token is None or not c.token.is_valid(now))]
    times = [time for time in (lending.not_before, tx.permits.next_free(crawl.limits)) if time is not None]
    return None, tokenless, min(times, default=None)


def _total(crawl: Crawl, answer: Answer) -> tuple[int | None, str]:
    if answer.kind is not AnswerKind.OK:
        return None, answer.problem
    try:
        return crawl.marketplace.read_list(answer.body).total, ""
    except Unparsable as unparsable:
        return None, str(unparsable)


async def _settle(crawl: Crawl, asked: _Asked) -> None:
    now = crawl.clock.now()
    await crawl.store.transact(lambda tx: _charge(tx, asked, crawl, now))


def _charge(tx: CrawlTx, asked: _Asked, crawl: Crawl, now: datetime) -> None:
    """The permit is answered and the agent told, as for any task's request."""
    candidate, kind = asked.permit.grant.candidate, asked.answer.kind
    tx.permits.answer([asked.permit.number], now)
    outcome = {
        AnswerKind.OK: Outcome.SUCCESS,
        AnswerKind.TOO_MANY: Outcome.TOO_MANY,
    }.get(kind, Outcome.BLAMELESS)
    rest = max(crawl.rules.suspension, asked.answer.wait or crawl.rules.suspension)
    agents = tx.agents.get_rows([candidate.row])
    tx.agents.save({row: agent.use(outcome, now, rest) for row, agent in agents.items()})
    if kind in (AnswerKind.TOO_MANY, AnswerKind.UNAUTHORISED):
        tx.agents.drop_tokens([candidate.row])
    tx.agents.log_uses(
        [
            Use(
                agent_row=candidate.row,
                token_row=candidate.token_row,
                status=asked.answer.status,
                milliseconds=int(asked.took * 1000),
                succeeded=kind is AnswerKind.OK,
                too_many=kind is AnswerKind.TOO_MANY,
                at=now,
            )
        ]
    )
