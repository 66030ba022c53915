"""Send the requests of claimed tasks, as many at a time as there are slots.

A slot is free when the body is read, not when it is stored.
"""

from __future__ import annotations

import asyncio
import logging

from sellerwatch.agents.answers import Answer
from sellerwatch.agents.ask import identity_of
from sellerwatch.agents.judgement import judge_answer
from sellerwatch.agents.pool import Grant
from sellerwatch.crawling.claim import Claim
from sellerwatch.crawling.claim_ahead import ClaimAhead
from sellerwatch.crawling.context import Crawl
from sellerwatch.crawling.judged_result import FetchResult
from sellerwatch.crawling.worker_queues import ClaimQueue, ResultQueue

log = logging.getLogger(__name__)

#: List pages that are in flight or wait for their transaction.
MAX_LIST_PAGES = 5


class Fetch:
    """The second machine of a worker: takes claims from one queue and puts results into the other."""

    def __init__(self, crawl: Crawl, claims: ClaimQueue, results: ResultQueue, claim_ahead: ClaimAhead) -> None:
        self._crawl = crawl
        self._claims = claims
        self._results = results
        self._claim_ahead = claim_ahead
        self._slots: set[asyncio.Task[None]] = set()
        #: When each agent last sent a request, in microseconds of the monotonic clock.
        self._last_departure: dict[int, int] = {}

    async def run(self) -> None:
        """Start a slot for each claim that may be sent, whenever the queue changes."""
        while True:
            while (claim := self._next_claim()) is not None:
                slot = asyncio.create_task(self._run_slot(claim))
                self._slots.add(slot)
                slot.add_done_callback(self._slots.discard)
            self._claims.changed.clear()
            await self._claims.changed.wait()

    async def finish(self, grace: float) -> None:
        """Let what is in flight end within `grace` seconds, then cancel the rest: their permits are used up."""
        if self._slots:
            await asyncio.wait(self._slots, timeout=grace)
        slots = list(self._slots)
        for slot in slots:
            slot.cancel()
        await asyncio.gather(*slots, return_exceptions=True)

    def _next_claim(self) -> Claim | None:
        """Return the next claim to send, if a slot is free."""
        if self._claims.in_flight >= self._crawl.tuning.concurrency:
            return None
        return self._claims.start_next(self._may_send)

    def _may_send(self, claim: Claim) -> bool:
        pages = self._claims.list_pages_in_flight + self._results.list_pages
        return (pages < MAX_LIST_PAGES or not claim.is_page) and not self._crawl.pause.stops(claim.task.seller_id)

    async def _run_slot(self, first: Claim) -> None:
        """Send one claim after the other, until none may be sent."""
        claim: Claim | None = first
        while claim is not None:
            await self._fetch(claim)
            claim = self._next_claim()

    async def _fetch(self, claim: Claim) -> None:
        crawl, grant = self._crawl, claim.permit.grant
        began = await self._wait_for_departure(grant)
        if crawl.pause.stops(claim.task.seller_id):
            self._claim_ahead.return_started(claim)
            return
        answer: Answer | None = None
        problem = ""
        try:
            identity = identity_of(grant.candidate)
            answer = await crawl.marketplace.fetch(claim.task.request_url, identity, crawl.clock.now())
        except Exception as error:
            # A bug of ours must cost this one request, not the worker.
            log.exception("request failed in our own code", extra={"task": claim.task.task_id})
            problem = type(error).__name__
        seconds = crawl.clock.monotonic() - began
        if answer is not None and judge_answer(answer).drops_token:
            # Nothing more is sent as this agent before its answer is absorbed.
            row = grant.candidate.row
            self._claim_ahead.return_unsent(lambda waiting: waiting.candidate.row == row)
        self._claims.finish(claim)
        result = FetchResult(claim, answer, problem, seconds, crawl.clock.now())
        self._results.put(result, is_last=not len(self._claims))
        self._claim_ahead.nudge_if_wanted()

    async def _wait_for_departure(self, grant: Grant) -> float:
        """Wait until the grant's time, and until the agent's last departure is as long ago as the rate asks for: a
        claim that had to wait for the database leaves later than it was planned to. Return the departure."""
        clock, row, spacing = self._crawl.clock, grant.candidate.row, self._crawl.limits.spacing_us
        while True:
            now = clock.monotonic()
            now_us = int(now * 1_000_000)
            departure = max(grant.depart_us, self._last_departure.get(row, 0) + spacing)
            if departure <= now_us:
                self._last_departure[row] = now_us
                return now
            await clock.sleep((departure - now_us) / 1_000_000)
