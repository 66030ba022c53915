"""How many tasks of each type the circuits of the endpoints let through."""

from __future__ import annotations

import pytest
from tests.builders import NOW

from sellerwatch.agents.marketplace_circuit import Endpoint, MarketplaceCircuit
from sellerwatch.crawling.endpoint_capacity import EndpointCapacity
from sellerwatch.crawling.task import TaskType

CLOSED = {endpoint: MarketplaceCircuit(endpoint) for endpoint in Endpoint}


@pytest.mark.parametrize(
    ("rooms", "is_none", "bounded"),
    [((0, 0, 0), True, 0), ((0, 1, 0), False, 1), ((None, 0, 0), False, 0), ((None, None, None), False, 0)],
)
def test_nothing_may_be_claimed_only_where_no_endpoint_takes_a_task(
    rooms: tuple[int | None, ...], bounded: int, *, is_none: bool
) -> None:
    capacity = EndpointCapacity(CLOSED, dict(zip(TaskType, rooms, strict=False)), NOW)
    assert capacity.is_none is is_none
    assert len(capacity.bounded) == bounded
