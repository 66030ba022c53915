"""Giving agents their tokens: one session each, opened when work waits for it, never two at once for one agent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from sellerwatch.agents.pool import Candidate
from sellerwatch.crawling.context import Crawl
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.marketplaces.ports import NoSession

log = logging.getLogger(__name__)

AT_ONCE = 10
#: After an outage the same agent is not tried again at once.
PAUSE = timedelta(seconds=5)


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
        try:
            if await open_session(self._crawl, candidate):
                self._not_before.pop(candidate.row, None)
            else:
                self._not_before[candidate.row] = self._crawl.clock.now() + PAUSE
        except Exception:
            # One agent's trouble never stops the others; the next want tries again.
            log.exception("session not opened", extra={"agent": candidate.user_agent_id})
            self._not_before[candidate.row] = self._crawl.clock.now() + PAUSE
        finally:
            del self._opening[candidate.row]
            self._opened()


async def open_session(crawl: Crawl, candidate: Candidate) -> bool:
    """Ask the marketplace, seal what it gives, keep it. Only an answered refusal counts against the agent."""
    session = await crawl.marketplace.open_session(candidate.user_agent, crawl.clock.now())
    now = crawl.clock.now()
    row = candidate.row
    if isinstance(session, NoSession):
        problem, refused = session.problem, session.refused
        log.warning("no session", extra={"agent": candidate.user_agent_id, "problem": problem, "refused": refused})

        def note_refusal(tx: CrawlTx) -> None:
            agents = tx.agents.get_rows([row])
            tx.agents.save({found: agent.issue_refused(now) for found, agent in agents.items()})

        if refused:
            await crawl.store.transact(note_refusal)
        return False
    token = crawl.sealer.seal(
        session.token,
        bound_to=candidate.user_agent_id,
        nid=session.nid,
        mustit_uid=session.mustit_uid,
        issued_at=now,
        expires_at=now + session.lifetime,
    )

    def keep(tx: CrawlTx) -> None:
        agents = tx.agents.get_rows([row])
        tx.agents.keep_token(row, token)
        tx.agents.save({found: agent.issue_succeeded(now) for found, agent in agents.items()})

    await crawl.store.transact(keep)
    return True
