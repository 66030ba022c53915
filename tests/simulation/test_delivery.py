"""Delivery inside the whole service: an outage, a scheduler that cannot be told, and what is forgotten in time."""

from __future__ import annotations

import logging
from datetime import datetime
from pathlib import Path

import pytest
from tests.builders import a_context
from tests.simulated_service import settings_of
from tests.simulation.service_world import ServiceWorld, play, simulated

from sellerwatch.kernel.ids import SellerId
from sellerwatch.outbox.commands import pause, resume
from sellerwatch.outbox.message import Message, OutboxKind
from sellerwatch.outbox.receipt import Receipt
from sellerwatch.schedules.schedule import ScheduleStatus
from sellerwatch.sellers.commands import retry_schedule
from sellerwatch.simulator.product_server import ServerBehaviour, ServerMode
from sellerwatch.simulator.rng import seeded_rng
from sellerwatch.simulator.world import CHANGES_ONLY

#: Longer than the tries of an event would last.
OUTAGE = 300.0
HOUR, DAY = 3600.0, 86_400.0
EVENTS = "SELECT COUNT(*) FROM product_outbox"
TRIES = "SELECT COUNT(*) FROM outbox_attempts"


@pytest.mark.parametrize("mode", [ServerMode.DOWN, ServerMode.ERROR_AFTER, ServerMode.THROTTLE])
@simulated(sellers=2, products=30)
async def test_while_the_product_server_is_away_crawls_go_on_and_afterwards_everything_arrives(
    world: ServiceWorld, mode: ServerMode
) -> None:
    sellers = await world.register_all()
    server = world.simulator.product_server
    async with world.serving() as service:
        server.behave(ServerBehaviour(mode, retry_after=30))
        for seller_id in sellers:
            await world.start(service, seller_id)
        await world.clock.sleep(OUTAGE)
        assert [run.is_open for run in await world.executions()] == [False, False]
        assert await world.count("SELECT COUNT(*) FROM product_outbox WHERE status = 'FAILED'") == 0
        server.behave(ServerBehaviour(ServerMode.WELL))
        await world.settle(service)
    world.check_world()
    assert len(server.events()) == 60


class Moody:
    """A scheduler that refuses everything until it is mended, and remembers what it was told."""

    def __init__(self) -> None:
        self.mended = False
        self.told: list[str] = []

    async def deliver(self, message: Message, now: datetime) -> Receipt:
        if not self.mended:
            return Receipt.of_answer(400, "규칙을 만들 수 없음".encode())
        self.told.append(message.event_type)
        return Receipt.of_answer(200, b"")


async def status_of(world: ServiceWorld, seller_id: SellerId) -> ScheduleStatus:
    schedule = await world.store.read(lambda tx: tx.schedules.of_seller(seller_id))
    assert schedule is not None
    return schedule.status


def test_a_scheduler_that_cannot_be_told_fails_the_schedule_alerts_and_is_told_in_order_on_retry(
    migrated_template: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(world: ServiceWorld) -> None:
        (seller_id,) = await world.register_all()
        scheduler = Moody()
        async with world.serving(scheduler=scheduler) as service:
            await world.clock.sleep(2)
            assert await status_of(world, seller_id) is ScheduleStatus.FAILED
            scheduler.mended = True
            await world.clock.sleep(OUTAGE)
            assert await status_of(world, seller_id) is ScheduleStatus.FAILED, "it does not end by itself"
            await world.command(retry_schedule, seller_id)
            service.nudge()
            await world.clock.sleep(2)
            assert await status_of(world, seller_id) is ScheduleStatus.ACTIVE
        assert scheduler.told == ["SCHEDULE_REGISTERED"]

    with caplog.at_level(logging.WARNING, "sellerwatch.alerts"):
        play(migrated_template, story, sellers=1, products=1)
    (alert,) = [record for record in caplog.records if record.name == "sellerwatch.alerts"]
    assert "규칙을 만들 수 없음" in alert.getMessage()
    assert "sellerwatch schedules retry seller_0001" in alert.getMessage()


@simulated(sellers=1, products=20)
async def test_a_pause_by_another_process_stops_delivery_until_it_ends(world: ServiceWorld) -> None:
    sellers = await world.register_all()
    server = world.simulator.product_server
    async with world.serving() as service:
        now = world.clock.now()
        await world.store.transact(lambda tx: pause(tx, a_context(now), OutboxKind.PRODUCT, None))
        for seller_id in sellers:
            await world.start(service, seller_id)
        await world.clock.sleep(OUTAGE)
        assert server.events() == []
        later = world.clock.now()
        await world.store.transact(lambda tx: resume(tx, a_context(later), OutboxKind.PRODUCT))
        await world.clock.sleep(10)
        assert len(server.events()) == 20
    world.check_world()


@simulated(settings=settings_of(OUTBOX_KEPT_DAYS=1), sellers=1, products=20)
async def test_old_events_and_tries_are_forgotten_but_never_what_the_next_change_is_a_change_of(
    world: ServiceWorld,
) -> None:
    sellers = await world.register_all()
    async with world.serving() as service:
        await world.crawl_all(service, sellers)
        world.simulator.world.mutate(10, seeded_rng("changes"), CHANGES_ONLY)
        await world.crawl_all(service, sellers)
        assert (await world.count(EVENTS), await world.count(TRIES)) == (30, 31)
    await world.clock.sleep(DAY + HOUR)
    async with world.serving() as service:
        await world.clock.sleep(5)
        assert (await world.count(EVENTS), await world.count(TRIES)) == (20, 0)
        world.simulator.world.mutate(20, seeded_rng("more changes"), CHANGES_ONLY)
        await world.crawl_all(service, sellers)
    world.check_world()
    assert await world.count("SELECT MAX(version) FROM product_outbox") == 3
