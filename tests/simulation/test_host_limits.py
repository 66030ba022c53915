"""The limits of the marketplace as a whole: requests as any agent, visits to the token page included."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from tests.simulated_service import settings_of
from tests.simulation.service_world import ServiceWorld, play


def gaps(world: ServiceWorld) -> list[float]:
    """Seconds between one request and the next. What robots.txt says is asked once, before anything else."""
    log = [each.at for each in world.simulator.marketplace.requests(0.0) if each.endpoint != "robots"]
    return [later - earlier for earlier, later in pairwise(log)]


@pytest.mark.parametrize(
    ("limit", "at_least", "tokens"),
    [
        # A token for as many agents as use up the rate: one of a hundred, and two where each may ask twice in 3 s.
        ({"HOST_REQUESTS_PER_SECOND": 1}, 1.0, 1),
        ({"HOST_REQUESTS_PER_SECOND": 1, "REQUESTS_PER_SECOND": 0.67}, 1.0, 2),
        ({"HOST_CONCURRENCY": 1}, 0.2, 100),
    ],
    ids=["one a second", "one a second of slower agents", "one at a time"],
)
def test_a_pool_without_tokens_keeps_the_hosts_limits_and_leaves_them_to_the_crawl(
    migrated_template: Path, limit: dict[str, int], at_least: float, tokens: int
) -> None:
    async def story(world: ServiceWorld) -> None:
        sellers = await world.register_all()
        async with world.serving() as service:
            await world.crawl(service, sellers)
        asked = Counter(each.endpoint for each in world.simulator.marketplace.requests(0.0))
        assert asked.keys() >= {"session", "list", "detail", "options"}
        assert asked["session"] <= tokens
        assert min(gaps(world)) >= at_least - 0.001
        world.check_world()

    # An answer takes 200 ms or more.
    play(migrated_template, story, settings=settings_of(**limit), sellers=2, products=10, latency_ms=300)
