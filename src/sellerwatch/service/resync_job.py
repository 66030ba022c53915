"""Write the snapshots of unfinished resyncs: one process at a time, as fast as the receiver accepts them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from sellerwatch.catalog.resync import Resync
from sellerwatch.crawling.context import Crawl
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.kernel.ids import ReplayableIds, ResyncId
from sellerwatch.operations.resyncs import STEP, ResyncStep, write_step

#: How often it is seen how many snapshots the receiver has accepted.
EVERY = timedelta(seconds=1)


async def has_resync(crawl: Crawl) -> bool:
    return bool(await crawl.store.read(lambda tx: tx.resyncs.running()))


async def write_snapshots(crawl: Crawl) -> int:
    """Write as many snapshots of each unfinished resync as may wait now; return how many."""
    return sum([await _write(crawl, each) for each in await crawl.store.read(lambda tx: tx.resyncs.running())])


async def _write(crawl: Crawl, resync_id: ResyncId) -> int:
    """Write in small transactions: others write to the outbox in between."""
    measured_at, written = crawl.clock.now(), 0
    resync, waiting = await crawl.store.read(lambda tx: _look(tx, resync_id))
    room = 0 if resync is None else resync.room(waiting, measured_at)
    while written < room:
        draw, now = ReplayableIds(crawl.ids), crawl.clock.now()
        limit, before = min(room - written, STEP), waiting + written

        def work(
            tx: CrawlTx, draw: ReplayableIds = draw, now: datetime = now, limit: int = limit, before: int = before
        ) -> ResyncStep:
            ids: Iterator[str] = draw.replay()
            return write_step(tx, resync_id, limit, before, measured_at, crawl.rules, ids, now)

        step = await crawl.store.transact(work)
        written += step.written
        if not step.more:
            break
    return written


def _look(tx: CrawlTx, resync_id: ResyncId) -> tuple[Resync | None, int]:
    resync = tx.resyncs.get(resync_id)
    return resync, 0 if resync is None else tx.resyncs.waiting(resync.seller_id)
