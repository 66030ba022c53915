"""What every step of a crawl works with: handed in whole, so that no step opens anything itself."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import timedelta

from sellerwatch.agents.limits import Limits
from sellerwatch.agents.ports import Sealer
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.crawling.process import CrawlRules
from sellerwatch.kernel.backoff import Backoff
from sellerwatch.kernel.clock import Clock
from sellerwatch.kernel.ids import Ids, WorkerId
from sellerwatch.kernel.store import Store
from sellerwatch.marketplaces.ports import Marketplace


@dataclass(frozen=True)
class Crawl:
    """The means of crawling. `worker_id` is this process: its heartbeat keeps what it holds."""

    store: Store[CrawlTx]
    marketplace: Marketplace
    clock: Clock
    ids: Ids
    luck: random.Random
    sealer: Sealer
    worker_id: WorkerId
    rules: CrawlRules
    limits: Limits = field(default_factory=Limits)
    concurrency: int = 100
    heartbeat: timedelta = timedelta(seconds=10)
    visibility: timedelta = timedelta(seconds=30)
    deadline: timedelta = timedelta(days=1)
    retry_pause: Backoff = field(default_factory=lambda: Backoff(first=1.0, longest=60.0))
