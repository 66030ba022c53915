"""Ask the marketplace one question: lend an agent, send, judge, record. Workers do the same steps in batches.

A rejected token is replaced once for the same question and agent; after a 429 or a failure another agent asks. What
cannot be asked now says why and when to try again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from sellerwatch.agents.answers import Answer, Identity
from sellerwatch.agents.breaker import PoolBreakerOpen
from sellerwatch.agents.context import PoolContext, end_unsent, record_answer
from sellerwatch.agents.judgement import TaskEnd, Verdict, failure_of, judge_answer
from sellerwatch.agents.lending import NOTHING, Offer, lend_for, lendable, offer
from sellerwatch.agents.marketplace_circuit import Endpoint, MarketplaceCircuit, next_probe
from sellerwatch.agents.pool import Candidate
from sellerwatch.agents.ports import AgentsTx, Permit, Reservation
from sellerwatch.agents.record_outcomes import RequestOutcome, record_outcome
from sellerwatch.agents.sessions import open_session
from sellerwatch.kernel.clock import Moment, moment
from sellerwatch.kernel.failure import Failure, FailureCode
from sellerwatch.kernel.ids import SellerId
from sellerwatch.kernel.notices import Notice

#: Agents that are tried for one question: a 429 or a dropped connection may be one agent's trouble.
MOST_AGENTS = 4
#: Agents without a token that are given one at a time, where no agent has one; and in all.
SESSIONS_AT_ONCE = 3
MOST_SESSIONS = 6
#: Longest wait for a free slot, and for sessions that another process is just opening.
PATIENCE = timedelta(seconds=2)
LOOK_AGAIN = timedelta(milliseconds=250)


@dataclass(frozen=True, slots=True)
class Question:
    """`subject` is what it is about, for the endpoint's circuit. `is_check`: it is asked to find out about the
    endpoint, so it may be a probe also about a subject that failed before."""

    url: str
    endpoint: Endpoint
    subject: str
    is_check: bool = False
    seller_id: SellerId | None = None

    def may_probe(self, circuit: MarketplaceCircuit, now: datetime) -> bool:
        return circuit.may_probe(now, None if self.is_check else self.subject)


@dataclass(frozen=True, slots=True)
class NotAsked:
    """No answer that can be used: why, and when to ask again (None: not known)."""

    failure: Failure
    not_before: datetime | None = None
    #: The pool's breaker is open.
    refusal: PoolBreakerOpen | None = None


@dataclass(frozen=True, slots=True)
class _Lent:
    permit: Permit
    is_pool_probe: bool
    is_endpoint_probe: bool

    @property
    def candidate(self) -> Candidate:
        return self.permit.grant.candidate


@dataclass(frozen=True, slots=True)
class _Reserved:
    """`lent` or, without it, why not: the endpoint's circuit is open, or what the pool could offer."""

    lent: _Lent | None
    offered: Offer | None = None
    shut: MarketplaceCircuit | None = None
    notices: tuple[Notice, ...] = ()


async def ask(context: PoolContext, question: Question, is_paused: Callable[[], bool]) -> Answer | NotAsked:
    """A good answer, or why there is none."""
    only: int | None = None
    replaced: set[int] = set()
    last: Failure | None = None
    for _ in range(MOST_AGENTS):
        lent = await _lend(context, question, only, is_paused)
        if isinstance(lent, NotAsked):
            # A rejected token that was replaced is no reason any more: what keeps it now is the free slot.
            is_paused_now = lent.failure.code is FailureCode.MARKETPLACE_PAUSED
            is_last = only is None and lent.refusal is None and not is_paused_now
            return NotAsked(last, lent.not_before) if last is not None and is_last else lent
        sent = await _send(context, question, lent, is_paused)
        if sent is None:
            return NotAsked(Failure.of(FailureCode.MARKETPLACE_PAUSED, context.clock.now()))
        answer, verdict, failure = sent
        if verdict.task is TaskEnd.DONE:
            return answer
        last, only = failure, None
        if verdict.task is TaskEnd.FATAL:
            break
        candidate = lent.candidate
        if verdict.code is FailureCode.TOKEN_REJECTED and candidate.row not in replaced:
            replaced.add(candidate.row)
            if await open_session(context, candidate.row, candidate.user_agent_id, candidate.user_agent):
                only = candidate.row
    return NotAsked(last or Failure.of(FailureCode.NO_SESSION, context.clock.now()))


def identity_of(candidate: Candidate) -> Identity:
    """Return the agent that a request is made as; the pool lends no agent without a token."""
    if candidate.token is None:
        raise ValueError(f"agent {candidate.user_agent_id} was lent without a token")
    return Identity(candidate.user_agent_id, candidate.user_agent, candidate.token)


async def _send(
    context: PoolContext, question: Question, lent: _Lent, is_paused: Callable[[], bool]
) -> tuple[Answer, Verdict, Failure | None] | None:
    """None: requests were paused since the permit was written, and nothing was sent."""
    permit, candidate, clock = lent.permit, lent.candidate, context.clock
    early = permit.grant.depart_us / 1_000_000 - clock.monotonic()
    if early > 0:
        await clock.sleep(early)
    if is_paused():
        await end_unsent(context, permit)
        return None
    began = clock.monotonic()
    answer = await context.marketplace.fetch(question.url, identity_of(candidate), clock.now())
    at, token = moment(clock), candidate.token
    verdict = judge_answer(answer, is_replacement=token is not None and token.is_replacement)
    failure = failure_of(verdict, answer, at.now)
    charge = RequestOutcome(
        candidate=candidate,
        permit=permit.number,
        outcome=verdict.agent,
        status=answer.status,
        milliseconds=int((clock.monotonic() - began) * 1000),
        at=at.now,
        rest=context.rest(answer.wait if verdict.task is TaskEnd.AGAIN else None),
        succeeded=verdict.task is TaskEnd.DONE,
        endpoint=question.endpoint,
        subject=question.subject,
        outage=failure if verdict.is_outage else None,
        drop_token=verdict.drops_token,
        is_rate_limited=answer.is_rate_limited,
        is_pool_probe=lent.is_pool_probe,
        is_endpoint_probe=lent.is_endpoint_probe,
        seller_id=question.seller_id,
    )
    terms = context.terms
    await record_answer(
        context, lambda tx: record_outcome(tx, charge, context.worker_id, terms.breaker, terms.circuit, at), at.now
    )
    await terms.limiter.answered([(candidate.row, permit.number)])
    return answer, verdict, failure


async def _lend(
    context: PoolContext, question: Question, only: int | None, is_paused: Callable[[], bool]
) -> _Lent | NotAsked:
    """A permit, with a session opened on the spot where no agent has a token; waits a moment for a free slot."""
    tried: set[int] = set()
    deadline = context.clock.now() + PATIENCE
    while True:
        if is_paused():
            return NotAsked(Failure.of(FailureCode.MARKETPLACE_PAUSED, context.clock.now()))
        ahead = await _ahead(context, only)
        at = moment(context.clock)
        got = await context.store.transact(
            partial(_reserve, context=context, question=question, only=only, ahead=ahead, at=at)
        )
        await context.terms.limiter.settle(ahead, [] if got.lent is None else [got.lent.permit])
        context.tell(got.notices)
        if got.lent is not None:
            context.mark_permit(got.lent.permit)
            return got.lent
        if got.shut is not None:
            code = FailureCode.NO_SESSION if tried else FailureCode.CIRCUIT_OPEN
            why = Failure.because(got.shut.failure, code, at.now, endpoint=got.shut.endpoint)
            return NotAsked(why, next_probe([got.shut], at.now))
        offered = got.offered
        if offered is None:
            continue
        if offered.is_shut and offered.refusal is not None:
            return _refused(offered, offered.refusal, at.now)
        needed = context.terms.host.agents_needed(context.terms.limits) or SESSIONS_AT_ONCE
        untried = [c for c in offered.tokenless if c.row not in tried][: min(SESSIONS_AT_ONCE, needed)]
        if untried and len(tried) < MOST_SESSIONS:
            opened = await asyncio.gather(
                *(open_session(context, c.row, c.user_agent_id, c.user_agent) for c in untried)
            )
            tried.update(c.row for c, done in zip(untried, opened, strict=True) if done is not None)
            if any(opened):
                continue
        if offered.refusal is not None:
            # The breaker lets one request through, but no agent could send it.
            return _refused(offered, offered.refusal, at.now)
        wait = offered.not_before or at.now + LOOK_AGAIN
        if wait > deadline or at.now >= deadline:
            return _not_lent(offered, bool(tried), at.now)
        await context.clock.sleep(max((wait - at.now).total_seconds(), 0.01))


def _refused(offered: Offer, refusal: PoolBreakerOpen, now: datetime) -> NotAsked:
    why = Failure.of(FailureCode.POOL_BREAKER_OPEN, now, rate=f"{refusal.rate:.2f}")
    return NotAsked(why, offered.not_before, refusal)


def _not_lent(offered: Offer, has_tried: bool, now: datetime) -> NotAsked:
    if has_tried and offered.not_before is None:
        return NotAsked(Failure.of(FailureCode.NO_SESSION, now))
    seconds = (offered.not_before - now).total_seconds() if offered.not_before else 0.0
    return NotAsked(Failure.of(FailureCode.NO_FREE_AGENT, now, seconds=round(max(seconds, 1.0), 1)), offered.not_before)


async def _ahead(context: PoolContext, only: int | None) -> Reservation:
    """Asked of a limiter that decides ahead of the transaction."""
    terms = context.terms
    if not terms.limiter.looks_ahead:
        return NOTHING
    at = moment(context.clock)
    candidates = await context.store.read(lambda tx: tx.agents.candidates(at))
    able = lendable(candidates, only=only, may_probe=False)
    return await terms.limiter.reserve(able, 1, terms.limits, terms.host, at.now)


def _reserve(
    tx: AgentsTx, context: PoolContext, question: Question, only: int | None, ahead: Reservation, at: Moment
) -> _Reserved:
    terms = context.terms
    circuits = tx.marketplace.circuits()
    circuit, tokens = circuits[question.endpoint], circuits[Endpoint.TOKEN]
    if not circuit.is_closed and not question.may_probe(circuit, at.now):
        return _Reserved(None, shut=circuit)
    # A question that a person waits for is not the one to find out with whether an agent is well again.
    offered = offer(tx, 1, terms, at, ahead, only=only, may_probe=False)
    if not offered.grants:
        # Without a token nothing can be asked, and while the token page is down there is none to be had.
        is_barred = bool(offered.tokenless) and tokens.room(at.now) == 0
        return _Reserved(None, offered, tokens if is_barred else None, offered.notices)
    is_probe = not circuit.is_closed
    if is_probe:
        circuit = tx.marketplace.hold(question.endpoint, at.now)
        if not question.may_probe(circuit, at.now):
            return _Reserved(None, shut=circuit, notices=offered.notices)
        tx.marketplace.save(circuit.probe(context.worker_id, terms.circuit, at.now), at.now)
    permits, notices = lend_for(tx, offered, [None], context.worker_id, terms, at)
    lent = _Lent(permits[0], offered.gate.is_probe, is_probe)
    return _Reserved(lent, notices=(*offered.notices, *notices))
