"""The practice ground, opened."""

from __future__ import annotations

import pytest
from tests.crawling.practice import Practice

from sellerwatch.adapters.sql.store import SqlStore


@pytest.fixture
async def practice(inline_store: SqlStore) -> Practice:
    """Two sellers with three products each, three agents, one worker."""
    return await Practice(inline_store).open()
