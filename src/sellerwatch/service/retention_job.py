"""Delete rows that are too old to be kept, every hour (`operations/retention.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from zoneinfo import ZoneInfo

from sellerwatch.crawling.context import Crawl
from sellerwatch.kernel.store import Store
from sellerwatch.operations.ports import ServiceTx
from sellerwatch.operations.retention import forget_rows
from sellerwatch.oversight.retention import KeptRows
from sellerwatch.service.jobs import Job, hourly


def retention_jobs(store: Store[ServiceTx]) -> Mapping[str, Job]:
    """Return the job, on this store."""

    async def retain(crawl: Crawl) -> int:
        """Delete old rows of each kind; return how many."""
        now, zone = crawl.clock.now(), ZoneInfo(crawl.timezone)
        return sum([await forget_rows(store, kind, crawl.retention, zone, now) for kind in KeptRows])

    return {"retain": Job(retain, hourly)}
