"""Issue tokens to agents: when work waits for one, and before one expires; one process at a time for each agent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from sellerwatch.agents.agent import Agent, AgentStatus, Outcome
from sellerwatch.agents.answers import Answer, Session
from sellerwatch.agents.context import PoolContext, end_unsent, record_answer
from sellerwatch.agents.judgement import Verdict, failure_of, judge_answer
from sellerwatch.agents.lending import NOTHING, LendingRules, lend_visit
from sellerwatch.agents.marketplace_circuit import Endpoint, MarketplaceCircuitRules
from sellerwatch.agents.outages import Observation, Observed, observe
from sellerwatch.agents.pool import Candidate
from sellerwatch.agents.ports import AgentsTx, Permit, Reservation
from sellerwatch.agents.record_outcomes import status_notice
from sellerwatch.agents.token import Token
from sellerwatch.kernel.clock import Moment, moment
from sellerwatch.kernel.ids import UserAgentId, WorkerId
from sellerwatch.kernel.notices import Notice
from sellerwatch.kernel.wording import failure_text

log = logging.getLogger(__name__)

AT_ONCE = 10
#: After a failure the same agent is not tried again at once.
PAUSE = timedelta(seconds=5)
#: A process that dies while it opens a session keeps the others from that agent for this long.
LEASE = timedelta(seconds=30)
#: A renewal that did not come about is tried again then.
PUT_OFF = timedelta(minutes=1)
#: A token is renewed after `refresh_every`, or when this much of a shorter life is over.
LIFE_USED = 0.8
#: How often a visit that found no free slot at the host looks again.
LOOK_AGAIN = 0.1
MOST_LOOKS = 50


class Sessions:
    """Opens sessions in the background and calls `opened` after each, so that claiming looks again."""

    def __init__(self, context: PoolContext, opened: Callable[[], None]) -> None:
        self._context = context
        self._opened = opened
        self._opening: dict[int, asyncio.Task[None]] = {}
        self._not_before: dict[int, datetime] = {}

    def want(self, tokenless: Sequence[Candidate]) -> None:
        """Have tokens issued to some of these agents, because work waits."""
        now, terms = self._context.clock.now(), self._context.terms
        needed = terms.host.agents_needed(terms.limits)
        most = AT_ONCE if needed is None else min(AT_ONCE, needed)
        for candidate in tokenless:
            if len(self._opening) >= most:
                return
            resting = self._not_before.get(candidate.row, now) > now
            if candidate.row not in self._opening and not resting:
                self._opening[candidate.row] = asyncio.create_task(self._open(candidate))

    async def close(self) -> None:
        for task in list(self._opening.values()):
            task.cancel()
        await asyncio.gather(*self._opening.values(), return_exceptions=True)

    async def _open(self, candidate: Candidate) -> None:
        opened: bool | None = False
        try:
            opened = await open_session(self._context, candidate.row, candidate.user_agent_id, candidate.user_agent)
        except Exception:
            # One agent's trouble never stops the others; the next want tries again.
            log.exception("session not opened", extra={"agent": candidate.user_agent_id})
        finally:
            if opened:
                self._not_before.pop(candidate.row, None)
            else:
                self._not_before[candidate.row] = self._context.clock.now() + PAUSE
            del self._opening[candidate.row]
            self._opened()


@dataclass(frozen=True, slots=True)
class _Visit:
    """Permission to ask the token page once. `is_barred`: its circuit is open, or requests are paused."""

    permit: Permit | None
    is_probe: bool = False
    is_barred: bool = False


@dataclass(frozen=True, slots=True)
class _Visited:
    row: int
    visit: Permit
    is_probe: bool
    verdict: Verdict | None
    answer: Answer | None
    sent_at: datetime
    at: Moment

    def observation(self) -> Observation:
        failure = None
        if self.verdict is not None and self.answer is not None and self.verdict.is_outage:
            failure = failure_of(self.verdict, self.answer, self.at.now)
        # Nothing is charged to an agent for the token page's failures, so nothing has to be given back.
        return Observation(
            endpoint=Endpoint.TOKEN,
            permit=self.visit.number,
            agent_row=self.row,
            subject="/",
            sent_at=self.sent_at,
            at=self.at.now,
            outcome=Outcome.BLAMELESS,
            outage=failure,
            is_probe=self.is_probe,
        )


async def open_session(context: PoolContext, row: int, agent_id: UserAgentId, user_agent: str) -> bool | None:
    """Ask the marketplace for a token, seal it, keep it. False: there was none to be had; None: not now (another
    process is at it, requests are paused, the token page's circuit is open, or the host's limits are used up).

    Only an answered refusal counts against the agent: an outage must not block the pool.
    """
    job = f"session:{row}"
    if not await context.leases.take(job, LEASE):
        return None
    problem: str | None = "not asked"
    try:
        visit = await _visit(context)
        if visit.permit is None:
            return None
        opened, problem = await _ask_token_page(context, row, agent_id, user_agent, visit.permit, visit.is_probe)
        return opened
    finally:
        await context.leases.finish(job, problem)


async def probe_token_page(context: PoolContext) -> None:
    """Open one session where no work asks for one: for an agent without a token, if there is one."""
    at = moment(context.clock)
    candidates = await context.store.read(lambda tx: tx.agents.candidates(at))
    for candidate in sorted(candidates, key=lambda each: each.has_token(at.now))[:1]:
        await open_session(context, candidate.row, candidate.user_agent_id, candidate.user_agent)


async def _ask_token_page(
    context: PoolContext, row: int, agent_id: UserAgentId, user_agent: str, permit: Permit, is_probe: bool
) -> tuple[bool | None, str | None]:
    clock, terms = context.clock, context.terms
    early = permit.grant.depart_us / 1_000_000 - clock.monotonic()
    if early > 0:
        await clock.sleep(early)
    if context.is_paused:
        # Paused since the permit was written.
        await end_unsent(context, permit)
        return None, "paused"
    sent_at = clock.now()
    session = await context.marketplace.open_session(user_agent, sent_at)
    at = moment(clock)
    if isinstance(session, Answer):
        verdict = judge_answer(session)
        failure = failure_of(verdict, session, at.now)
        problem = failure_text(failure) if failure is not None else session.kind
        log.warning("no session", extra={"agent": agent_id, "problem": problem, "refused": verdict.refuses_agent})
        visited = _Visited(row, permit, is_probe, verdict, session, sent_at, at)
        await record_answer(context, lambda tx: _note_failure(tx, visited, terms.circuit), at.now)
    else:
        problem = None
        token, renew_at = _sealed(context, session, agent_id, at.now)
        visited = _Visited(row, permit, is_probe, None, None, sent_at, at)
        await record_answer(context, lambda tx: _keep(tx, visited, token, renew_at, terms.circuit), at.now)
    await terms.limiter.answered([(permit.grant.candidate.row, permit.number)])
    return problem is None, problem


def _sealed(context: PoolContext, session: Session, agent_id: UserAgentId, now: datetime) -> tuple[Token, datetime]:
    token = context.sealer.seal(session, bound_to=agent_id, issued_at=now)
    return token, now + min(context.refresh_every, session.lifetime * LIFE_USED)


async def _visit(context: PoolContext) -> _Visit:
    """A permit for the token page: it counts in HOST_CONCURRENCY and HOST_REQUESTS_PER_SECOND."""
    terms = context.terms
    for _ in range(MOST_LOOKS):
        if context.is_paused:
            return _Visit(None, is_barred=True)
        ahead = await terms.limiter.reserve_visit(terms.host) if terms.limiter.looks_ahead else NOTHING
        at = moment(context.clock)
        reserve = partial(_reserve, worker_id=context.worker_id, terms=terms, ahead=ahead, at=at)
        visit = await context.store.transact(reserve)
        await terms.limiter.settle(ahead, [] if visit.permit is None else [visit.permit])
        if visit.permit is not None:
            context.mark_permit(visit.permit)
        if visit.permit is not None or visit.is_barred:
            return visit
        await context.clock.sleep(LOOK_AGAIN)
    return _Visit(None)


def _reserve(tx: AgentsTx, worker_id: WorkerId, terms: LendingRules, ahead: Reservation, at: Moment) -> _Visit:
    circuit = tx.marketplace.circuits()[Endpoint.TOKEN]
    if circuit.room(at.now) == 0:
        return _Visit(None, is_barred=True)
    is_probe = not circuit.is_closed
    if is_probe:
        circuit = tx.marketplace.hold(Endpoint.TOKEN, at.now)
        if not circuit.may_probe(at.now):
            return _Visit(None, is_barred=True)
    permit = lend_visit(tx, worker_id, terms, ahead, at)
    if permit is not None and is_probe:
        tx.marketplace.save(circuit.probe(worker_id, terms.circuit, at.now), at.now)
    return _Visit(permit, is_probe)


def _keep(
    tx: AgentsTx, visited: _Visited, token: Token, renew_at: datetime, rules: MarketplaceCircuitRules
) -> Observed:
    if not tx.permits.answer([visited.visit.number], visited.at):
        return Observed()
    now = visited.at.now
    agents = tx.agents.get_rows([visited.row])
    if agents:
        tx.tokens.keep(visited.row, token, renew_at)
        tx.agents.save({found: agent.issue_succeeded(now) for found, agent in agents.items()})
    return observe(tx, [visited.observation()], rules, now)


def _note_failure(tx: AgentsTx, visited: _Visited, rules: MarketplaceCircuitRules) -> Observed:
    if not tx.permits.answer([visited.visit.number], visited.at):
        return Observed()
    now = visited.at.now
    observed = observe(tx, [visited.observation()], rules, now)
    is_refused = visited.verdict is not None and visited.verdict.refuses_agent
    before = tx.agents.get_rows([visited.row]) if is_refused else {}
    after: dict[int, Agent] = {found: agent.issue_refused(now) for found, agent in before.items()}
    tx.agents.save(after)
    blocked = [a for found, a in after.items() if a.status is AgentStatus.BLOCKED is not before[found].status]
    notices: tuple[Notice, ...] = tuple(status_notice(agent) for agent in blocked)
    return replace(observed, notices=(*observed.notices, *notices))


async def renew_due(context: PoolContext) -> int:
    """Renew tokens that should not get older. One that cannot be renewed is put off and works until it expires."""
    now = context.clock.now()
    due = await context.store.read(lambda tx: tx.tokens.due(now, AT_ONCE))
    renewed = 0
    for row, agent_id, user_agent in due:
        opened: bool | None = False
        try:
            opened = await open_session(context, row, agent_id, user_agent)
        except Exception:
            log.exception("a token was not renewed", extra={"agent": agent_id})
        renewed += bool(opened)
        if not opened:
            # None: nothing was asked, so nothing failed. Another process may be at it: it has set another time by then.
            until, has_failed = context.clock.now() + PUT_OFF, opened is not None
            await context.store.transact(partial(_put_off, row=row, due=now, until=until, has_failed=has_failed))
    return renewed


def _put_off(tx: AgentsTx, row: int, due: datetime, until: datetime, has_failed: bool) -> None:
    tx.tokens.put_off(row, due, until, has_failed=has_failed)
