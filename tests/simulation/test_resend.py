"""Resends inside the whole service: the same keys and bodies once more, whatever the receiver does."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import datetime

import pytest
from tests.simulated_service import settings_of
from tests.simulation.service_world import ServiceWorld, simulated

from sellerwatch.kernel.ids import ItemNo, OutboxId, ResendId
from sellerwatch.operations.resends import cancel_resend, start_resend
from sellerwatch.outbox import commands
from sellerwatch.outbox.message import MessageStatus, OutboxKind
from sellerwatch.outbox.ports import EventBody, MessageFilter
from sellerwatch.outbox.receipt import Receipt
from sellerwatch.outbox.resend import NotDelivered, NothingToResend, ResendChoice, ResendStatus
from sellerwatch.outbox.resend_queries import ResendView, list_resend_answers, show_resend
from sellerwatch.service.service import Service
from sellerwatch.simulator.product_server import ServerBehaviour, ServerMode
from sellerwatch.simulator.rng import seeded_rng
from sellerwatch.simulator.world import MutationKind

OUTBOX = "product_outbox"
FAILED = MessageFilter(status=MessageStatus.FAILED)


@dataclass
class Recorder:
    """The receiver, with every body that reached it; bodies with a text in `failing` are answered with that status."""

    world: ServiceWorld
    failing: dict[str, int] = field(default_factory=dict)
    bodies: list[tuple[str, bytes]] = field(default_factory=list)
    times: list[datetime] = field(default_factory=list)

    async def deliver(self, message: EventBody, now: datetime) -> Receipt:
        self.bodies.append((message.outbox_id, message.payload))
        self.times.append(now)
        for text, status in self.failing.items():
            if text.encode() in message.payload:
                return Receipt.of_answer(status, b"no")
        return await self.world.contract.deliver(message, now)


async def resend(world: ServiceWorld, service: Service, choice: ResendChoice | None = None) -> ResendId:
    started = await world.session(service).run(start_resend, choice or ResendChoice())
    assert started.resend_id is not None
    return ResendId(started.resend_id)


async def look(world: ServiceWorld, service: Service, resend_id: ResendId) -> ResendView:
    return await world.session(service).ask(show_resend, resend_id)


async def until_over(world: ServiceWorld, service: Service, resend_id: ResendId) -> ResendView:
    async def is_over() -> bool:
        return (await look(world, service, resend_id)).status is not ResendStatus.RUNNING

    await world.until(is_over, service)
    await world.settle(service)
    return await look(world, service, resend_id)


async def delivered(world: ServiceWorld) -> list[tuple[object, ...]]:
    return (await world.all_rows())[OUTBOX]


@simulated(sellers=2, products=40)
async def test_a_receiver_that_lost_its_database_is_whole_after_every_event_came_again(world: ServiceWorld) -> None:
    world.receiver = recorder = Recorder(world)
    async with world.serving() as service:
        sellers = await world.register_all()
        await world.crawl(service, sellers)
        world.simulator.world.mutate(20, seeded_rng("resend"))
        await world.crawl(service, sellers)
        first, before = [*recorder.bodies], await delivered(world)
        world.simulator.product_server.lose_database()
        recorder.bodies.clear()
        found = await until_over(world, service, await resend(world, service))
        assert sorted(recorder.bodies) == sorted(first), "the same keys and bodies"
        assert await delivered(world) == before, "the events stay as they were"
        assert (found.accepted, found.left, found.progress_rate) == (len(first), 0, 100.0)
        answers = await world.session(service).ask(list_resend_answers, ResendId(found.resend_id), None, None, 100)
        assert {(each.answer, each.http_status_code) for each in answers.content} == {("ACCEPTED", 200)}
        trail = [entry.action for entry in await world.audit_trail("")]
        assert [action for action in trail if action.startswith("resend")] == ["resend.complete", "resend.start"]
    world.check_world()


@simulated(sellers=1, products=30, settings=settings_of(OUTBOX_REQUESTS_PER_SECOND=5))
async def test_new_events_go_first_and_the_receivers_rate_bounds_both(world: ServiceWorld) -> None:
    world.receiver = recorder = Recorder(world)
    async with world.serving() as service:
        [seller_id] = await world.register_all()
        await world.crawl(service, [seller_id])
        recorder.times.clear()
        resend_id = await resend(world, service)
        world.simulator.world.mutate(10, seeded_rng("beside"), {MutationKind.CHANGED: 1})
        began, number = world.now, len(world.simulator.product_server.events())
        await world.crawl(service, [seller_id])
        fresh = world.simulator.product_server.events(number)
        assert fresh
        assert all(event.received_at - began.timestamp() < 60 for event in fresh)
        assert (await until_over(world, service, resend_id)).accepted == 30
    times = [each.timestamp() for each in recorder.times]
    assert max(sum(time <= each < time + 1 for each in times) for time in times) <= 5 + 1
    world.check_world()


@simulated(sellers=2, products=25)
async def test_an_outage_costs_no_event_a_try_and_a_broken_event_ends_alone(world: ServiceWorld) -> None:
    world.receiver = recorder = Recorder(world)
    async with world.serving() as service:
        await world.crawl(service, await world.register_all())
        [broken, refused, *_] = [outbox_id for outbox_id, _ in recorder.bodies]
        world.simulator.product_server.behave(ServerBehaviour(ServerMode.ERROR))
        resend_id = await resend(world, service)
        await world.clock.sleep(3600)
        found = await look(world, service, resend_id)
        assert (found.status, found.accepted, found.failed, found.left) == ("RUNNING", 0, 0, 50)
        assert found.problem is not None
        assert found.not_before is not None
        world.simulator.product_server.behave(ServerBehaviour(ServerMode.WELL))
        recorder.failing |= {broken: 500, refused: 422}
        found = await until_over(world, service, resend_id)
        assert (found.accepted, found.refused, found.failed, found.left) == (48, 1, 1, 0)
        assert await service.deliveries[0].pending() == 0
    assert [row for row in await delivered(world) if "COMPLETED" not in row] == []


@simulated(sellers=1, products=40)
async def test_a_killed_service_goes_on_where_it_was_and_no_event_is_left_out(world: ServiceWorld) -> None:
    async with world.serving() as service:
        await world.crawl(service, await world.register_all())
        world.simulator.product_server.lose_database()
        await world.session(service).run(commands.pause, OutboxKind.PRODUCT, None)
        resend_id = await resend(world, service)
        await world.clock.sleep(10)
        assert (await look(world, service, resend_id)).left == 40, "it obeys a pause of the outbox"
        await world.session(service).run(commands.resume, OutboxKind.PRODUCT)
    for number in range(3):
        world.receiver = receiver = Killer(world, after=3 + 5 * number)
        async with world.service() as service:
            running = asyncio.create_task(service.run())
            await receiver.reached.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
    world.receiver = world.contract
    async with world.serving() as service:
        found = await until_over(world, service, resend_id)
        assert (found.accepted, found.left) == (40, 0)
        # An event is counted once, however often its round was made.
        answers = await world.session(service).ask(list_resend_answers, resend_id, None, None, 100)
        assert len(answers.content) == 40
    world.check_world()


@dataclass
class Killer:
    """The receiver; when so many events have reached it, its answers are lost with the process."""

    world: ServiceWorld
    after: int
    reached: asyncio.Event = field(default_factory=asyncio.Event)

    async def deliver(self, message: EventBody, now: datetime) -> Receipt:
        self.after -= 1
        receipt = await self.world.contract.deliver(message, now)
        if self.after <= 0:
            self.reached.set()
            await asyncio.Event().wait()
        return receipt


@simulated(sellers=2, products=15)
async def test_a_choice_is_counted_first_and_a_cancelled_resend_sends_no_more(world: ServiceWorld) -> None:
    world.receiver = recorder = Recorder(world)
    async with world.serving() as service:
        first, second = await world.register_all()
        await world.crawl(service, [first, second])
        session = world.session(service)
        before = await world.all_rows()
        counted = await session.run(start_resend, ResendChoice(seller_id=first), dry_run=True)
        assert (counted.messages, counted.by_seller, counted.by_type) == (15, {first: 15}, {"PRODUCT_CREATED": 15})
        assert await world.all_rows() == before
        with pytest.raises(NothingToResend):
            await session.run(start_resend, ResendChoice(since=world.now))
        item_no = next(item for item, data in world.simulator.product_server.catalogue() if data["sellerId"] == second)
        recorder.bodies.clear()
        await until_over(world, service, await resend(world, service, ResendChoice(item_no=ItemNo(item_no))))
        [(outbox_id, body)] = recorder.bodies
        assert f'"itemNo":{item_no}'.encode() in body
        await until_over(world, service, await resend(world, service, ResendChoice((OutboxId(outbox_id),))))
        assert recorder.bodies == [(outbox_id, body)] * 2
        await session.run(commands.pause, OutboxKind.PRODUCT, None)
        resend_id = await resend(world, service)
        cancelled = await session.run(cancel_resend, resend_id)
        assert (cancelled.status, cancelled.left, cancelled.ended_by) == ("CANCELLED", 30, "kim")
        await session.run(commands.resume, OutboxKind.PRODUCT)
        await world.clock.sleep(30)
        assert len(recorder.bodies) == 2
        recorder.failing["PRODUCT_UPDATED"] = 422
        world.simulator.world.mutate(10, seeded_rng("refused"), {MutationKind.CHANGED: 1})
        await world.crawl(service, [first, second])
        failed = await world.store.read(lambda tx: tx.outbox_queries(OutboxKind.PRODUCT).ids(FAILED, 1))
        with pytest.raises(NotDelivered):
            await session.run(start_resend, ResendChoice((failed[0],)))
