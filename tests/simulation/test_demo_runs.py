"""The runs of a demo beside those that a person starts in its console."""

from __future__ import annotations

from tests.simulation.service_world import ServiceWorld, simulated

from sellerwatch.cli.demo import start_or_join


@simulated(sellers=1, products=5)
async def test_a_demo_joins_the_run_that_a_person_started(world: ServiceWorld) -> None:
    (seller_id,) = await world.register_all()
    async with world.serving() as service:
        started = await world.start(service, seller_id)
        assert await start_or_join(service, seller_id) == started
        await world.settle(service)
        assert await start_or_join(service, seller_id) != started
        await world.settle(service)
