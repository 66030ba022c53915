"""The worker: three small machines joined by two bounded queues.

`ClaimAhead` claims tasks, each with a permit, and puts them into the queue of claims. `Fetch` sends their requests and
puts the results into the queue of results. `AbsorbLoop` writes those in batches. Many requests are in flight, each
rule sees one task, and the database sees batches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from sellerwatch.crawling.absorb_loop import AbsorbLoop
from sellerwatch.crawling.absorb_results import Absorbed
from sellerwatch.crawling.claim_ahead import ClaimAhead, ClaimPlan
from sellerwatch.crawling.context import Crawl
from sellerwatch.crawling.fetch import Fetch
from sellerwatch.crawling.messages import ReceivedMessages
from sellerwatch.crawling.worker_queues import ClaimQueue, ResultQueue


class Worker:
    """One worker of a process. `on_absorbed` is called after each batch is committed."""

    def __init__(self, crawl: Crawl, on_absorbed: Callable[[Absorbed], None] = lambda _: None) -> None:
        self._crawl = crawl
        self._claims, self._results = ClaimQueue(), ResultQueue()
        # What has to be asked over the network before a claim cannot be asked in a transaction.
        can_claim_with_absorb = not (crawl.queue.names_tasks or crawl.limiter.looks_ahead)
        plan = ClaimPlan(self._claims, self._results, can_claim_with_absorb=can_claim_with_absorb)
        self._messages = ReceivedMessages(crawl, plan.tasks_in_hand)
        self._claim_ahead = ClaimAhead(crawl, self._claims, plan, self._messages)
        self._fetch = Fetch(crawl, self._claims, self._results, self._claim_ahead)
        self._absorb = AbsorbLoop(crawl, self._claims, self._results, self._claim_ahead, self._messages, on_absorbed)

    @property
    def is_busy(self) -> bool:
        """Whether requests are in flight, or their results wait to be absorbed."""
        return bool(self._claims.in_flight or len(self._results))

    def nudge(self) -> None:
        """Look for tasks now: there may be some, or an agent for them."""
        self._claim_ahead.nudge()

    def return_paused(self) -> None:
        """Return claims that a pause stops. Call this when requests were paused."""
        self._claim_ahead.return_unsent(lambda claim: self._crawl.pause.stops(claim.task.seller_id))
        self._claim_ahead.nudge()

    async def run(self, stop: asyncio.Event, grace: float = 5.0) -> None:
        """Work until `stop`; then let what is in flight end within `grace` seconds and put the rest back."""
        absorbing = asyncio.create_task(self._absorb.run())
        claiming = asyncio.create_task(self._claim_ahead.run())
        fetching = asyncio.create_task(self._fetch.run())
        stopping = asyncio.create_task(stop.wait())
        extending = asyncio.create_task(self._messages.keep_extending()) if self._crawl.queue.names_tasks else None
        machines = (absorbing, claiming, fetching)
        try:
            await asyncio.wait((*machines, stopping), return_when=asyncio.FIRST_COMPLETED)
            for machine in machines:
                if machine.done():
                    machine.result()
        finally:
            self._claim_ahead.plan.stop()
            await _cancel(stopping, claiming, fetching)
            # The service puts back the tasks of these when it releases all that this worker holds.
            self._claims.remove(lambda _: True)
            await self._fetch.finish(grace)
            # One absorber at a time. What this one has committed meets the guard when it is absorbed again.
            await _cancel(absorbing)
            await self._absorb.finish()
            await self._claim_ahead.close()
            await self._messages.give_back()
            if extending is not None:
                await _cancel(extending)


async def _cancel(*tasks: asyncio.Task[None] | asyncio.Task[bool]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
