"""The worker: keeps many requests in flight, one at a time in the middle, in groups at the edges.

Claim (a transaction for up to 50), fetch, absorb (a transaction for up to 50 or 10 ms of results). A slot is free when
the body is read, not when it is stored. Killed before the claim commits: nothing happened. Between claim and absorb:
the permits count as used and the tasks come back. After absorb: a redelivery meets the guard.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sellerwatch.agents.agent import Outcome
from sellerwatch.agents.storm import Storm
from sellerwatch.crawling.claim import Claim, claim
from sellerwatch.crawling.context import Crawl
from sellerwatch.crawling.outcome import Ending, TaskEnd, judge
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.crawling.process import Absorbed, absorb
from sellerwatch.crawling.put_back import put_back_unknown
from sellerwatch.crawling.sessions import Sessions
from sellerwatch.kernel.ids import Draw, TaskId
from sellerwatch.kernel.store import StoreFailed
from sellerwatch.marketplaces.ports import Answer, Identity

log = logging.getLogger(__name__)

GROUP = 50
GROUP_DELAY = 0.01
#: Results that wait for their transaction before claiming waits for them.
BUFFER = 200
#: With nothing known to come, how often to look: another process may have made work.
IDLE = timedelta(seconds=1)
#: After a failure of our own (a full disk, a lost database) before the next try.
REPAIR_PAUSE = 1.0


@dataclass(frozen=True, slots=True)
class _Result:
    claim: Claim
    answer: Answer | None
    problem: str
    took: float
    at: datetime


class Worker:
    """One worker of a process. `absorbed` is called after each group is committed."""

    def __init__(self, crawl: Crawl, absorbed: Callable[[Absorbed], None] = lambda _: None) -> None:
        self._crawl = crawl
        self._absorbed = absorbed
        self._storm = Storm()
        self._sessions = Sessions(crawl, self.nudge)
        self._in_flight: dict[TaskId, asyncio.Task[None]] = {}
        self._results: list[_Result] = []
        self._wake = asyncio.Event()
        self._arrived = asyncio.Event()
        self._turn = 0
        self._unsure = False

    def nudge(self) -> None:
        """There may be work, or an agent for it: look now."""
        self._wake.set()

    async def run(self, stop: asyncio.Event, grace: float = 5.0) -> None:
        """Work until `stop`; then let what is in flight finish within `grace` seconds and put the rest back."""
        absorbing = asyncio.create_task(self._keep_absorbing())
        claiming = asyncio.create_task(self._keep_claiming())
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait((absorbing, claiming, stopping), return_when=asyncio.FIRST_COMPLETED)
            for ended in (absorbing, claiming):
                if ended.done():
                    ended.result()
        finally:
            stopping.cancel()
            claiming.cancel()
            await asyncio.gather(stopping, claiming, return_exceptions=True)
            await self._finish(grace)
            absorbing.cancel()
            await asyncio.gather(absorbing, return_exceptions=True)
            await self._sessions.close()

    async def _keep_claiming(self) -> None:
        while True:
            free = self._crawl.concurrency - len(self._in_flight)
            if free <= 0 or len(self._results) >= BUFFER or (free < GROUP // 2 and len(self._in_flight) > GROUP):
                await self._woken(None)
                continue
            try:
                not_before = await self._claim(min(free, GROUP))
            except StoreFailed:
                log.exception("claiming failed; trying again")
                self._unsure = True
                await self._crawl.clock.sleep(REPAIR_PAUSE)
                continue
            if not_before is not None:
                await self._woken(not_before)

    async def _claim(self, wanted: int) -> datetime | None:
        """Take what can be taken. Returns when to look again if that was nothing."""
        crawl, now, turn = self._crawl, self._crawl.clock.now(), self._turn
        self._wake.clear()
        if self._unsure:
            await self._put_back_unknown()
        claims = await crawl.store.transact(lambda tx: claim(tx, crawl.worker_id, wanted, turn, now, crawl.limits))
        self._turn += 1
        if claims.hungry:
            self._sessions.want(claims.tokenless)
        for taken in claims.taken:
            self._in_flight[taken.task.task_id] = asyncio.create_task(self._fetch(taken))
        if claims.taken and not claims.hungry:
            return None
        soon = now + IDLE
        return soon if claims.not_before is None else max(now, min(claims.not_before, soon))

    async def _put_back_unknown(self) -> None:
        """A claim that failed may have been committed all the same."""
        crawl, now, draw = self._crawl, self._crawl.clock.now(), Draw(self._crawl.ids)
        known = {*self._in_flight, *(result.claim.task.task_id for result in self._results)}
        await crawl.store.transact(
            lambda tx: put_back_unknown(tx, crawl.worker_id, known, crawl.rules, draw.replay(), now)
        )
        self._unsure = False

    async def _woken(self, until: datetime | None) -> None:
        """Sleep until something happened, or until that time."""
        with suppress(TimeoutError):
            if until is None:
                await self._wake.wait()
            else:
                seconds = (until - self._crawl.clock.now()).total_seconds()
                async with asyncio.timeout(max(seconds, 0.001)):
                    await self._wake.wait()
        self._wake.clear()

    async def _fetch(self, taken: Claim) -> None:
        crawl, grant = self._crawl, taken.permit.grant
        early = (grant.depart_at - crawl.clock.now()).total_seconds()
        if early > 0:
            await crawl.clock.sleep(early)
        began = crawl.clock.monotonic()
        answer, problem = None, ""
        try:
            assert grant.candidate.token is not None  # noqa: S101 - the pool lends none without
            identity = Identity(grant.candidate.user_agent_id, grant.candidate.user_agent, grant.candidate.token)
            answer = await crawl.marketplace.fetch(taken.task.request_url, identity, crawl.clock.now())
        except Exception as error:
            # A bug of ours must cost this one request, not the worker.
            log.exception("request failed in our own code", extra={"task": taken.task.task_id})
            problem = f"our own error: {type(error).__name__}"
        took = crawl.clock.monotonic() - began
        self._results.append(_Result(taken, answer, problem, took, crawl.clock.now()))
        del self._in_flight[taken.task.task_id]
        self._arrived.set()
        self._wake.set()

    async def _keep_absorbing(self) -> None:
        while True:
            await self._arrived.wait()
            if len(self._results) < GROUP:
                await self._crawl.clock.sleep(GROUP_DELAY)
            await self._absorb_group()
            if not self._results:
                self._arrived.clear()

    async def _absorb_group(self) -> None:
        """The oldest results, as one transaction; they leave the buffer only when it is committed."""
        results = self._results[:GROUP]
        endings = [self._judged(result) for result in results]
        try:
            await self._write_all(endings)
        except StoreFailed:
            log.exception("results cannot be stored; they are kept and tried again")
            await self._crawl.clock.sleep(REPAIR_PAUSE)
            return
        del self._results[: len(results)]
        self._wake.set()

    async def _write_all(self, endings: list[Ending]) -> None:
        """As one group; if that cannot be absorbed, one by one: those already in meet the guard."""
        try:
            await self._write(endings)
        except StoreFailed:
            raise
        except Exception:
            log.exception("a group failed; absorbing it one by one", extra={"size": len(endings)})
            for ending in endings:
                await self._write_alone(ending)

    async def _write(self, endings: list[Ending]) -> None:
        crawl, now, draw = self._crawl, self._crawl.clock.now(), Draw(self._crawl.ids)

        def work(tx: CrawlTx) -> Absorbed:
            return absorb(tx, endings, crawl.worker_id, crawl.rules, draw.replay(), now)

        self._absorbed(await crawl.store.transact(work))

    async def _write_alone(self, ending: Ending) -> None:
        """One bad item spoils only itself: its task fails with what went wrong."""
        try:
            await self._write([ending])
        except StoreFailed:
            raise
        except Exception as error:
            log.exception("a result cannot be absorbed", extra={"task": ending.claim.task.task_id})
            problem = f"our own error while storing: {type(error).__name__}"
            await self._write([replace(ending, end=TaskEnd.FAILED, parts=(), list_total=None, problem=problem)])

    def _judged(self, result: _Result) -> Ending:
        crawl, task = self._crawl, result.claim.task
        if result.answer is None:
            ending = Ending(
                result.claim,
                TaskEnd.FAILED,
                Outcome.BLAMELESS,
                None,
                int(result.took * 1000),
                result.at,
                result.problem,
            )
        else:
            ending = judge(result.claim, result.answer, crawl.marketplace, result.took, result.at)
        if ending.end is TaskEnd.FAILED:
            ending = replace(ending, wait=crawl.retry_pause.wait(task.retry_count + 1, crawl.luck))
        elif ending.agent is Outcome.TOO_MANY:
            # Not all back in the same second.
            rest = max(crawl.rules.suspension, ending.wait or timedelta(0))
            ending = replace(ending, wait=rest * (1 + 0.1 * crawl.luck.random()))
        if ending.agent in (Outcome.SERVER_ERROR, Outcome.NETWORK_ERROR) and self._storm.is_on(
            result.claim.candidate.row, result.at
        ):
            ending = replace(ending, agent=Outcome.BLAMELESS)
        return ending

    async def _finish(self, grace: float) -> None:
        """What is in flight may finish; what does not goes back, its permits spent."""
        if self._in_flight:
            await asyncio.wait(list(self._in_flight.values()), timeout=grace)
        for task in list(self._in_flight.values()):
            task.cancel()
        await asyncio.gather(*self._in_flight.values(), return_exceptions=True)
        while self._results:
            before = len(self._results)
            await self._absorb_group()
            if len(self._results) == before:
                break
