"""A simulated marketplace whose products are crawled by the real steps."""

from __future__ import annotations

import pytest
from tests.crawling.crawl_world import CrawlWorld

from sellerwatch.adapters.sql.store import SqlStore


@pytest.fixture
async def world(inline_store: SqlStore) -> CrawlWorld:
    return await CrawlWorld(inline_store).open()
