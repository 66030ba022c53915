"""With EventBridge as the scheduler we start nothing ourselves but what it has let pass."""

from __future__ import annotations

from datetime import timedelta

from tests.simulation.service_world import ServiceWorld, simulated

from sellerwatch.crawling.start_due import note_started, start_due


@simulated(sellers=1, products=1)
async def test_what_another_scheduler_starts_is_not_started_again_and_what_it_forgets_is(world: ServiceWorld) -> None:
    now = world.clock.now()
    (seller_id,) = await world.register_all(due=now)
    async with world.service() as service:
        await world.clock.sleep(3600)
        assert (await start_due(service.crawl, late_only=True)).runs == 0
        await note_started(service.crawl, seller_id)
        schedule = await world.store.read(lambda tx: tx.schedules.of_seller(seller_id))
        assert schedule is not None
        length = schedule.interval.length
        assert schedule.next_run_at == world.clock.now() + length
        await world.clock.sleep((length * 1.1 + timedelta(minutes=1)).total_seconds())
        assert (await start_due(service.crawl, late_only=True)).runs == 1
        assert (await start_due(service.crawl, late_only=True)).runs == 0
