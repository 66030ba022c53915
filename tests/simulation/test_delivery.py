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
    stage: ServiceWorld, mode: ServerMode
) -> None:
    sellers = await stage.register_all()
    server = stage.simulator.product_server
    async with stage.serving() as service:
        server.behave(ServerBehaviour(mode, retry_after=30))
        for seller_id in sellers:
            await stage.start(service, seller_id)
        await stage.clock.sleep(OUTAGE)
        assert [run.is_open for run in await stage.executions()] == [False, False]
        assert await stage.count("SELECT COUNT(*) FROM product_outbox WHERE status = 'FAILED'") == 0
        server.behave(ServerBehaviour(ServerMode.WELL))
        await stage.settle(service)
    stage.check_world()
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


async def status_of(stage: ServiceWorld, seller_id: SellerId) -> ScheduleStatus:
    schedule = await stage.store.read(lambda tx: tx.schedules.of_seller(seller_id))
    assert schedule is not None
    return schedule.status


def test_a_scheduler_that_cannot_be_told_fails_the_schedule_alerts_and_is_told_in_order_on_retry(
    migrated_template: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(stage: ServiceWorld) -> None:
        (seller_id,) = await stage.register_all()
        scheduler = Moody()
        async with stage.serving(scheduler=scheduler) as service:
            await stage.clock.sleep(2)
            assert await status_of(stage, seller_id) is ScheduleStatus.FAILED
            scheduler.mended = True
            await stage.clock.sleep(OUTAGE)
            assert await status_of(stage, seller_id) is ScheduleStatus.FAILED, "it does not end by itself"
            await stage.command(retry_schedule, seller_id)
            service.nudge()
            await stage.clock.sleep(2)
            assert await status_of(stage, seller_id) is ScheduleStatus.ACTIVE
        assert scheduler.told == ["SCHEDULE_REGISTERED"]

    with caplog.at_level(logging.WARNING, "sellerwatch.alerts"):
        play(migrated_template, story, sellers=1, products=1)
    (alert,) = [record for record in caplog.records if record.name == "sellerwatch.alerts"]
    assert "규칙을 만들 수 없음" in alert.getMessage()
    assert "sellerwatch schedules retry seller_0001" in alert.getMessage()


@simulated(sellers=1, products=20)
async def test_a_pause_by_another_process_stops_delivery_until_it_ends(stage: ServiceWorld) -> None:
    sellers = await stage.register_all()
    server = stage.simulator.product_server
    async with stage.serving() as service:
        now = stage.clock.now()
        await stage.store.transact(lambda tx: pause(tx, a_context(now), OutboxKind.PRODUCT, None))
        for seller_id in sellers:
            await stage.start(service, seller_id)
        await stage.clock.sleep(OUTAGE)
        assert server.events() == []
        later = stage.clock.now()
        await stage.store.transact(lambda tx: resume(tx, a_context(later), OutboxKind.PRODUCT))
        await stage.clock.sleep(10)
        assert len(server.events()) == 20
    stage.check_world()


@simulated(settings=settings_of(OUTBOX_KEPT_DAYS=1), sellers=1, products=20)
async def test_old_events_and_tries_are_forgotten_but_never_what_the_next_change_is_a_change_of(
    stage: ServiceWorld,
) -> None:
    sellers = await stage.register_all()
    async with stage.serving() as service:
        await stage.crawl_all(service, sellers)
        stage.simulator.world.mutate(10, seeded_rng("changes"), CHANGES_ONLY)
        await stage.crawl_all(service, sellers)
        assert (await stage.count(EVENTS), await stage.count(TRIES)) == (30, 31)
    await stage.clock.sleep(DAY + HOUR)
    async with stage.serving() as service:
        await stage.clock.sleep(5)
        assert (await stage.count(EVENTS), await stage.count(TRIES)) == (20, 0)
        stage.simulator.world.mutate(20, seeded_rng("more changes"), CHANGES_ONLY)
        await stage.crawl_all(service, sellers)
    stage.check_world()
    assert await stage.count("SELECT MAX(version) FROM product_outbox") == 3
