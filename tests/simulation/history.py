"""One history, told to standard output: what was asked, when and by whom, and what arrived. Run it twice and compare.

python -m tests.simulation.history TEMPLATE SEED
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
from tests.simulated_service import settings_of
from tests.simulation.service_world import ServiceWorld, play

from sellerwatch.marketplaces.ports import Reply, Transport
from sellerwatch.simulator.rng import seeded_rng
from sellerwatch.simulator.world import CHANGES_ONLY


class Listening:
    """A transport that keeps what was asked."""

    def __init__(self, transport: Transport, world: ServiceWorld) -> None:
        self._transport = transport
        self._stage = world
        self.asked: list[tuple[float, str, str]] = []

    async def get(self, url: str, headers: Mapping[str, str]) -> Reply:
        by = {name.lower(): value for name, value in headers.items()}.get("user-agent", "")
        self.asked.append((self._stage.loop.time(), by, url))
        return await self._transport.get(url, headers)


async def tell(world: ServiceWorld) -> dict[str, Any]:
    """Two rounds on a hostile day with changes between, started by the scheduler and by hand."""
    listening = world.transport = Listening(world.transport, world)
    sellers = await world.register_all(due=world.clock.now() - timedelta(minutes=5))
    async with world.serving(schedules=True) as service:
        await world.clock.sleep(10)
        await world.settle(service)
        world.simulator.world.mutate(10, seeded_rng(world.seed, "changes"), CHANGES_ONLY)
        await world.crawl_all(service, sellers)
    return {
        "asked": listening.asked,
        "events": [asdict(event) for event in world.simulator.product_server.events()],
        "marketplace": world.simulator.marketplace.stats(),
        "executions": [asdict(run) for run in await world.executions()],
        "ended": world.loop.time(),
    }


def main() -> None:
    template, seed = Path(sys.argv[1]), int(sys.argv[2])
    settings = settings_of(PAGE_SIZE=10)
    told = play(template, tell, settings=settings, seed=seed, profile="hostile", sellers=3, products=15)
    sys.stdout.buffer.write(orjson.dumps(told, option=orjson.OPT_INDENT_2))


if __name__ == "__main__":
    main()
