"""An API over a real store and a simulated marketplace."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.builders import NOW, StoppedClock
from tests.simulated_service import settings_of, simulated_service, simulator_of

from sellerwatch.adapters.sql.store import SqlStore

from .api_world import ApiWorld


@pytest.fixture
async def world(inline_store: SqlStore) -> AsyncIterator[ApiWorld]:
    settings, clock = settings_of(), StoppedClock(NOW)
    simulator = simulator_of(settings, seed=1, sellers=2, products=12)
    async with simulated_service(settings, simulator, clock, store=inline_store) as service:
        yield ApiWorld(inline_store, clock, service, settings, simulator)
