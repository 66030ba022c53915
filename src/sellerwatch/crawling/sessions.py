"""Giving agents their tokens: opened when work waits for one, renewed before it expires, by one process at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial

from sellerwatch.agents.agent import Agent, AgentStatus
from sellerwatch.agents.charge import standing_notice
from sellerwatch.agents.pool import Candidate
from sellerwatch.agents.token import Token
from sellerwatch.crawling.context import Crawl
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.kernel.ids import UserAgentId
from sellerwatch.kernel.notices import Notice
from sellerwatch.marketplaces.ports import Identity, NoSession

log = logging.getLogger(__name__)

AT_ONCE = 10
#: After an outage the same agent is not tried again at once.
PAUSE = timedelta(seconds=5)
#: A process that dies while it opens a session keeps the others from it for so long.
LEASE = timedelta(seconds=30)
#: A token is renewed after an hour, or when four fifths of a shorter life are over.
PUT_OFF = timedelta(minutes=1)
RENEW_AFTER = timedelta(hours=1)
LIFE_USED = 0.8


class Sessions:
    """Opens sessions in the background and calls `opened` after each, so that whoever waits for one looks again."""

    def __init__(self, crawl: Crawl, opened: Callable[[], None]) -> None:
        self._crawl = crawl
        self._opened = opened
        self._opening: dict[int, asyncio.Task[None]] = {}
        self._not_before: dict[int, datetime] = {}

    def want(self, tokenless: Sequence[Candidate]) -> None:
        """Work waits: see that some of these get a token."""
        now = self._crawl.clock.now()
        for candidate in tokenless:
            if len(self._opening) >= AT_ONCE:
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
            opened = await open_session(self._crawl, candidate.row, candidate.user_agent_id, candidate.user_agent)
        except Exception:
            # One agent's trouble never stops the others; the next want tries again.
            log.exception("session not opened", extra={"agent": candidate.user_agent_id})
        finally:
            if opened:
                self._not_before.pop(candidate.row, None)
            else:
                self._not_before[candidate.row] = self._crawl.clock.now() + PAUSE
            del self._opening[candidate.row]
            self._opened()


def identity_of(candidate: Candidate) -> Identity:
    """Whom a request is made as; the pool lends nobody without a token."""
    if candidate.token is None:
        raise ValueError(f"agent {candidate.user_agent_id} was lent without a token")
    return Identity(candidate.user_agent_id, candidate.user_agent, candidate.token)


async def open_session(crawl: Crawl, row: int, agent_id: UserAgentId, user_agent: str) -> bool | None:
    """Ask the marketplace, seal what it gives, keep it. False: there was none to be had; None: somebody else is at it.

    Only an answered refusal counts against the agent: an outage must not block the pool.
    """
    job, now = f"session:{row}", crawl.clock.now()
    if not await crawl.leases.take(job, LEASE):
        return None
    session = await crawl.marketplace.open_session(user_agent, now)
    done = crawl.clock.now()
    if isinstance(session, NoSession):
        problem, refused = session.problem, session.refused
        log.warning("no session", extra={"agent": agent_id, "problem": problem, "refused": refused})
        notices = await crawl.store.transact(lambda tx: _note_failure(tx, row, job, crawl.worker_id, refused, done))
        await crawl.leases.let_go(job)
        crawl.tell(notices)
        return False
    token = crawl.sealer.seal(
        session.token,
        bound_to=agent_id,
        nid=session.nid,
        mustit_uid=session.mustit_uid,
        issued_at=done,
        expires_at=done + session.lifetime,
    )
    renew_at = done + min(RENEW_AFTER, session.lifetime * LIFE_USED)
    await crawl.store.transact(lambda tx: _keep(tx, row, token, renew_at, job, crawl.worker_id, done))
    await crawl.leases.let_go(job)
    return True


def _keep(tx: CrawlTx, row: int, token: Token, renew_at: datetime, job: str, owner: str, now: datetime) -> None:
    agents = tx.agents.get_rows([row])
    if agents:
        tx.tokens.keep(row, token, renew_at)
        tx.agents.save({found: agent.issue_succeeded(now) for found, agent in agents.items()})
    tx.leases.finish(job, owner, now)


def _note_failure(tx: CrawlTx, row: int, job: str, owner: str, refused: bool, now: datetime) -> tuple[Notice, ...]:
    tx.leases.finish(job, owner, now, "no session")
    before = tx.agents.get_rows([row]) if refused else {}
    after: dict[int, Agent] = {found: agent.issue_refused(now) for found, agent in before.items()}
    tx.agents.save(after)
    blocked = [a for found, a in after.items() if a.status is AgentStatus.BLOCKED is not before[found].status]
    return tuple(standing_notice(agent) for agent in blocked)


async def renew_due(crawl: Crawl) -> int:
    """Tokens that should not get older. One that cannot be renewed is put off and keeps working until it expires."""
    now = crawl.clock.now()
    due = await crawl.store.read(lambda tx: tx.tokens.due(now, AT_ONCE))
    renewed = 0
    for row, agent_id, user_agent in due:
        try:
            opened = await open_session(crawl, row, agent_id, user_agent)
        except Exception:
            log.exception("a token was not renewed", extra={"agent": agent_id})
            opened = False
        renewed += bool(opened)
        if not opened:
            await crawl.store.transact(partial(_put_off, row=row, until=crawl.clock.now() + PUT_OFF))
    return renewed


def _put_off(tx: CrawlTx, row: int, until: datetime) -> None:
    tx.tokens.put_off(row, until)
