"""A practice marketplace whose products are crawled by the real steps."""

from __future__ import annotations

import pytest
from tests.crawling.practice import Practice

from sellerwatch.adapters.sql.store import SqlStore


@pytest.fixture
async def practice(inline_store: SqlStore) -> Practice:
    return await Practice(inline_store).open()
