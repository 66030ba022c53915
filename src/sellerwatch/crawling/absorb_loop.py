"""Absorb results in batches: one transaction for up to 200 of them, or for those of 40 ms.

While more tasks are available, the transaction that absorbs a batch claims as well: one transaction instead of two.
Killed after it: a message that comes again finds its task done.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import nullcontext

from sellerwatch.catalog.absorb import EntryCache
from sellerwatch.crawling.absorb_results import Absorbed, abandon, absorb
from sellerwatch.crawling.claim import Claims
from sellerwatch.crawling.claim_ahead import REPAIR_PAUSE, ClaimAhead, ClaimWithAbsorb, mark_permits
from sellerwatch.crawling.context import Crawl
from sellerwatch.crawling.judged_result import AnswerReader, JudgedResult
from sellerwatch.crawling.messages import ReceivedMessages
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.crawling.worker_queues import ClaimQueue, ResultQueue
from sellerwatch.kernel.clock import moment
from sellerwatch.kernel.failure import Failure, FailureCode
from sellerwatch.kernel.ids import ReplayableIds
from sellerwatch.kernel.store import StoreFailed

log = logging.getLogger(__name__)

#: Answers read before other work of the event loop runs. All are read before the transaction, so that no two
#: threads compete for the interpreter.
READ_AT_ONCE = 20


class AbsorbLoop:
    """The third machine of a worker. `on_absorbed` is called after each batch is committed."""

    def __init__(
        self,
        crawl: Crawl,
        claims: ClaimQueue,
        results: ResultQueue,
        claim_ahead: ClaimAhead,
        messages: ReceivedMessages,
        on_absorbed: Callable[[Absorbed], None],
    ) -> None:
        self._crawl = crawl
        self._claims = claims
        self._results = results
        self._claim_ahead = claim_ahead
        self._messages = messages
        self._on_absorbed = on_absorbed
        self._reader = AnswerReader(crawl)
        self._entries = EntryCache()

    async def run(self) -> None:
        while True:
            await self._results.wait_for_batch(lambda: not len(self._claims))
            await self._absorb_batch()

    async def finish(self) -> None:
        """Absorb every result that there is. If the store refuses them, their tasks are put back by the lease."""
        left = -1
        while (unwritten := len(self._results)) and unwritten != left:
            left = unwritten
            await self._absorb_batch()

    async def _absorb_batch(self) -> None:
        for size in self._results.fill_batch(self._reader.judge):
            if size % READ_AT_ONCE == 0:
                await self._crawl.clock.sleep(0)
        try:
            await self._write(list(self._results.batch))
        except StoreFailed as failure:
            log.error("results cannot be stored; they are kept and tried again", extra={"problem": str(failure)})
            await self._crawl.clock.sleep(REPAIR_PAUSE)
            return
        self._results.commit()
        # There may be room for a list page, and tasks for a claim.
        self._claims.changed.set()
        self._claim_ahead.nudge()

    async def _write(self, batch: Sequence[JudgedResult]) -> None:
        """Write all in one transaction, which claims as well; if that fails, one by one. Those that were committed
        after all meet the guard."""
        try:
            await self._write_together(batch, self._claim_ahead.with_absorb(batch))
        except StoreFailed:
            raise
        except Exception:
            log.exception("a batch failed; absorbing its results one by one", extra={"size": len(batch)})
            for judged in batch:
                await self._write_alone(judged)

    async def _write_together(self, batch: Sequence[JudgedResult], along: ClaimWithAbsorb | None = None) -> None:
        crawl, at, drawn = self._crawl, moment(self._crawl.clock), ReplayableIds(self._crawl.ids)

        def work(tx: CrawlTx) -> tuple[Absorbed, Claims | None]:
            absorbed = absorb(tx, batch, crawl.worker_id, crawl.rules, drawn.replay(), at, self._entries)
            return absorbed, along.run(tx, at) if along is not None else None

        with self._claim_ahead.plan.claiming() if along is not None else nullcontext():
            absorbed, claims = await crawl.store.transact(work)
            self._entries.update(absorbed.entries)
            if along is not None and claims is not None:
                mark_permits(crawl, claims)
                self._claim_ahead.receive(claims, along.wanted)
        await crawl.limiter.answered((judged.claim.candidate.row, judged.claim.permit.number) for judged in batch)
        await self._messages.acknowledge(judged.claim.task.task_id for judged in batch)
        self._on_absorbed(absorbed)
        crawl.tell(absorbed.notices)

    async def _write_alone(self, judged: JudgedResult) -> None:
        """Write one result. If it cannot be absorbed its task fails, and no other is affected."""
        crawl, claim = self._crawl, judged.claim
        try:
            await self._write_together([judged])
        except StoreFailed:
            raise
        except Exception as error:
            log.exception("a result cannot be absorbed", extra={"task": claim.task.task_id})
            at = moment(crawl.clock)
            problem = Failure.of(FailureCode.INTERNAL, at.now, detail=f"{type(error).__name__} while storing")
            await crawl.store.transact(lambda tx: abandon(tx, judged, crawl.worker_id, problem, at))
            await crawl.limiter.answered([(claim.candidate.row, claim.permit.number)])
            await self._messages.acknowledge([claim.task.task_id])
