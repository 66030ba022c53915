"""The world of a crawl, opened."""

from __future__ import annotations

import pytest
from tests.crawling.crawl_world import CrawlWorld

from sellerwatch.adapters.sql.store import SqlStore


@pytest.fixture
async def world(inline_store: SqlStore) -> CrawlWorld:
    """Two sellers with three products each, three agents, one worker."""
    return await CrawlWorld(inline_store).open()
