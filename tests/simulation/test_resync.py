"""A resync inside the whole service: a receiver that lost its database, changes meanwhile, and what holds it back."""

from __future__ import annotations

from collections import defaultdict

import pytest
from tests.simulated_service import settings_of
from tests.simulation.service_world import ServiceWorld, simulated

from sellerwatch.catalog.resync import FEWEST_WAITING, MOST_WAITING, ResyncChoice, ResyncInProgress, ResyncStatus
from sellerwatch.catalog.resync_queries import ResyncDetailView, show_resync
from sellerwatch.kernel.ids import ResyncId, SellerId
from sellerwatch.operations.resyncs import NothingToResync, cancel_resync, start_resync
from sellerwatch.outbox import commands
from sellerwatch.outbox.message import OutboxKind
from sellerwatch.service.service import Service
from sellerwatch.simulator.product_server import ServerBehaviour, ServerMode
from sellerwatch.simulator.rng import seeded_rng
from sellerwatch.simulator.world import MutationKind

SNAPSHOT = "PRODUCT_SNAPSHOT"
WAITING = "SELECT COUNT(*) FROM product_outbox WHERE status = 'WAITING' AND event_type = 'PRODUCT_SNAPSHOT'"


async def resync(world: ServiceWorld, service: Service, choice: ResyncChoice | None = None) -> ResyncId:
    started = await world.session(service).run(start_resync, choice or ResyncChoice())
    assert started.resync_id is not None
    return ResyncId(started.resync_id)


async def look(world: ServiceWorld, service: Service, resync_id: ResyncId) -> ResyncDetailView:
    return await world.session(service).ask(show_resync, resync_id)


async def until_written(world: ServiceWorld, service: Service, resync_id: ResyncId) -> None:
    async def is_over() -> bool:
        return (await look(world, service, resync_id)).status is not ResyncStatus.RUNNING

    await world.until(is_over, service)
    await world.settle(service)


async def crawl_with_a_removal(world: ServiceWorld, service: Service) -> list[int]:
    """Everything is told; a few products are gone again. Returns those."""
    sellers = await world.register_all()
    await world.crawl(service, sellers)
    before = {item for item, _ in world.simulator.product_server.catalogue()}
    world.simulator.world.mutate(5, seeded_rng("gone"), {MutationKind.VANISHED: 1})
    await world.crawl(service, sellers)
    return sorted(before - {item for item, _ in world.simulator.product_server.catalogue()})


def check_versions(world: ServiceWorld, after: int = 0) -> None:
    """The versions of each product that arrived rise by exactly 1."""
    versions = defaultdict[int, list[int]](list)
    for event in world.simulator.product_server.events(after):
        versions[event.item_no].append(event.version)
    assert all(seen == list(range(seen[0], seen[0] + len(seen))) for seen in versions.values())


@simulated(sellers=2, products=60)
async def test_a_receiver_that_lost_its_database_has_every_product_after_a_resync(world: ServiceWorld) -> None:
    server = world.simulator.product_server
    async with world.serving() as service:
        gone = await crawl_with_a_removal(world, service)
        assert len(gone) == 5
        server.lose_database()
        number = len(server.events())
        resync_id = await resync(world, service)
        await until_written(world, service, resync_id)
        world.check_world()
        snapshots = server.events(number)
        assert [event.event_type for event in snapshots] == [SNAPSHOT] * 120
        assert len({event.item_no for event in snapshots}) == 120
        assert [server.version(item) > 0 and server.product(item) is None for item in gone] == [True] * 5
        found = await look(world, service, resync_id)
        assert (found.status, found.total, found.written, found.progress_rate) == ("COMPLETED", 120, 120, 100.0)
        assert [entry.action for entry in (await world.audit_trail("kim"))[:1]] == ["resync.start"]
        # What changes later is a change from the snapshot; a product that returns is created.
        world.simulator.world.mutate(30, seeded_rng("later"))
        await world.crawl_all(service, world.sellers)
    world.check_world()
    check_versions(world, number)


@simulated(sellers=1, products=80)
async def test_changes_during_a_resync_arrive_in_order_with_it(world: ServiceWorld) -> None:
    async with world.serving() as service:
        [seller_id] = await world.register_all()
        await world.crawl(service, [seller_id])
        for number in range(3):
            resync_id = await resync(world, service)
            world.simulator.world.mutate(25, seeded_rng("during", number))
            await world.crawl(service, [seller_id])
            await until_written(world, service, resync_id)
        await world.crawl_all(service, [seller_id])
    world.check_world()
    check_versions(world)


@simulated(sellers=2, products=60)
async def test_a_receiver_that_accepts_nothing_gets_few_snapshots_queued_for_it(world: ServiceWorld) -> None:
    server = world.simulator.product_server
    async with world.serving() as service:
        await world.crawl(service, await world.register_all())
        server.behave(ServerBehaviour(ServerMode.DOWN))
        resync_id = await resync(world, service)
        await world.clock.sleep(120)
        assert await world.count(WAITING) == FEWEST_WAITING
        found = await look(world, service, resync_id)
        assert (found.status, found.written, found.waiting) == ("RUNNING", FEWEST_WAITING, FEWEST_WAITING)
        server.behave(ServerBehaviour(ServerMode.WELL))
        await until_written(world, service, resync_id)
    world.check_world()
    check_versions(world)


@simulated(sellers=1, products=120, settings=settings_of(OUTBOX_REQUESTS_PER_SECOND=4))
async def test_a_resync_stays_seconds_ahead_of_a_slow_receiver(world: ServiceWorld) -> None:
    most = 0
    async with world.serving() as service:
        await world.crawl(service, await world.register_all())
        resync_id = await resync(world, service)
        while (await look(world, service, resync_id)).status is ResyncStatus.RUNNING:
            most = max(most, await world.count(WAITING))
            await world.clock.sleep(0.5)
        await world.settle(service)
    assert 0 < most <= 3 * 4 + 1 < MOST_WAITING
    world.check_world()


@simulated(sellers=2, products=40)
async def test_a_cancelled_resync_writes_no_more_and_another_one_may_begin(world: ServiceWorld) -> None:
    async with world.serving() as service:
        first, second = await world.register_all()
        await world.crawl(service, [first, second])
        session = world.session(service)
        await session.run(commands.pause, OutboxKind.PRODUCT, None)
        resync_id = await resync(world, service, ResyncChoice(first))
        with pytest.raises(ResyncInProgress) as going:
            await resync(world, service, ResyncChoice(first))
        assert going.value.resync_id == resync_id
        await resync(world, service, ResyncChoice(second))
        await world.clock.sleep(5)
        assert (await session.run(cancel_resync, resync_id, dry_run=True)).status is ResyncStatus.RUNNING
        cancelled = await session.run(cancel_resync, resync_id)
        assert (cancelled.status, cancelled.written, cancelled.ended_by) == ("CANCELLED", FEWEST_WAITING, "kim")
        await session.run(commands.resume, OutboxKind.PRODUCT)
        await world.clock.sleep(30)
        assert (await look(world, service, resync_id)).written == FEWEST_WAITING
        await until_written(world, service, await resync(world, service, ResyncChoice(first)))
        types = world.simulator.product_server.stats()["events_by_type"]
        assert types == {"PRODUCT_CREATED": 80, SNAPSHOT: FEWEST_WAITING + 80}
    world.check_world()


@simulated(sellers=2, products=30)
async def test_a_resync_since_a_time_is_about_what_was_delivered_since_then(world: ServiceWorld) -> None:
    async with world.serving() as service:
        sellers = await world.register_all()
        await world.crawl(service, sellers)
        await world.clock.sleep(60)
        since = world.now
        changed = world.simulator.world.mutate(7, seeded_rng("since"), {MutationKind.CHANGED: 1})
        await world.crawl(service, sellers)
        told = {event.item_no for event in world.simulator.product_server.events(60)}
        assert told <= {each.item_no for each in changed}
        preview = await world.session(service).run(start_resync, ResyncChoice(since=since), dry_run=True)
        assert (preview.dry_run, preview.resync_id, preview.products) == (True, None, len(told))
        number = len(world.simulator.product_server.events())
        await until_written(world, service, await resync(world, service, ResyncChoice(since=since)))
        assert {event.item_no for event in world.simulator.product_server.events(number)} == told
    world.check_world()


@simulated(sellers=1, products=10)
async def test_without_a_product_that_was_told_there_is_nothing_to_send_again(world: ServiceWorld) -> None:
    async with world.service() as service:
        [seller_id] = await world.register_all()
        before = await world.all_rows()
        with pytest.raises(NothingToResync):
            await resync(world, service, ResyncChoice(SellerId(seller_id)))
        assert await world.all_rows() == before
