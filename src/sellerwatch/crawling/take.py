"""One claim from end to end: what is asked over the network is asked before and after the transaction, never in it."""

from __future__ import annotations

from collections.abc import Sequence

from sellerwatch.agents.lending import NOTHING
from sellerwatch.crawling.claim import Claims, claim, survey
from sellerwatch.crawling.context import Crawl
from sellerwatch.kernel.clock import moment
from sellerwatch.kernel.ids import TaskId


async def take(crawl: Crawl, wanted: int, turn: int, named: Sequence[TaskId] | None = None) -> Claims:
    """Up to `wanted` tasks with a permit each. What is returned may be sent; where this raises, nothing may, though
    tasks may have been taken: whoever asked has to put back what it knows nothing of."""
    terms, ahead = crawl.terms, NOTHING
    if terms.limiter.looks_ahead:
        seen = moment(crawl.clock)
        candidates, most = await crawl.store.read(lambda tx: survey(tx, wanted, turn, seen, named))
        if most:
            ahead = await terms.limiter.reserve(candidates, most, terms.limits, terms.for_tasks.host, seen.now)
    at = moment(crawl.clock)
    claims = await crawl.store.transact(lambda tx: claim(tx, crawl.worker_id, wanted, turn, at, terms, ahead, named))
    mark(crawl, claims)
    await terms.limiter.settle(ahead, [taken.permit for taken in claims.taken])
    return claims


def mark(crawl: Crawl, claims: Claims) -> None:
    """Before anything of it is sent: a database that was put back to before this claim is known by it."""
    if claims.taken:
        crawl.mark_permit(claims.taken[-1].permit)
