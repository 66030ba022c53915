"""Delivery on virtual time: whatever the receiver does, each event takes effect once, in order, never too early."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from tests.outbox.delivery_world import DeliveryWorld, Failing, Running

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.outbox.deliver import Delivery
from sellerwatch.outbox.message import MessageStatus
from sellerwatch.outbox.rules import DeliveryRules
from sellerwatch.simulator.product_server import ServerMode

COMPLETED, FAILED, WAITING, SENDING = (
    MessageStatus.COMPLETED,
    MessageStatus.FAILED,
    MessageStatus.WAITING,
    MessageStatus.SENDING,
)


@pytest.fixture
def world(inline_store: SqlStore) -> DeliveryWorld:
    return DeliveryWorld(inline_store)


def test_every_event_arrives_once_in_the_order_of_its_product(world: DeliveryWorld) -> None:
    async def scenario() -> Delivery[Any]:
        for _ in range(3):
            await world.tell(*range(1, 51))
        delivery = await world.delivery()
        async with Running(delivery):
            await world.until_empty(delivery)
        return delivery

    delivery = world.play(scenario())
    world.check_everything_arrived()
    assert (delivery.delivered, delivery.retried, delivery.failed) == (150, 0, 0)
    assert len(world.wire.sent) == 150


def test_an_event_that_arrived_is_completed_and_stamped(world: DeliveryWorld) -> None:
    async def scenario() -> None:
        delivery = await world.delivery()
        async with Running(delivery):
            await world.tell(1)
            delivery.nudge()
            await world.until_empty(delivery)
        (message,) = await world.messages()
        assert (message.status, message.worker_id, message.next_attempt_at) == (COMPLETED, None, None)
        assert message.sent_at is not None

    world.play(scenario())


@pytest.mark.parametrize(
    "mode",
    [
        ServerMode.DOWN,
        ServerMode.ERROR,
        ServerMode.ERROR_AFTER,
        ServerMode.DROP_AFTER,
        ServerMode.HANG,
        ServerMode.REDIRECT,
    ],
)
def test_a_receiver_that_fails_for_a_while_gets_everything_in_the_end(world: DeliveryWorld, mode: ServerMode) -> None:
    async def scenario() -> None:
        for _ in range(2):
            await world.tell(*range(1, 31))
        world.behave(mode, requests=40)
        delivery = await world.delivery()
        async with Running(delivery):
            await world.until_empty(delivery)
        assert delivery.failed == 0

    world.play(scenario())
    world.check_everything_arrived()


def test_a_receiver_that_fails_by_chance_gets_everything_with_the_help_of_an_operator(world: DeliveryWorld) -> None:
    async def scenario() -> None:
        for _ in range(3):
            await world.tell(*range(1, 41))
        world.behave(ServerMode.ERROR_AFTER, probability=0.5)
        delivery = await world.delivery()
        async with Running(delivery):
            await world.until_empty(delivery)
            while await world.replay_failed():
                delivery.nudge()
                await world.until_empty(delivery)

    world.play(scenario())
    world.check_everything_arrived()


def test_the_tries_of_an_event_are_five_besides_its_first_and_lie_a_back_off_apart(world: DeliveryWorld) -> None:
    """Another product's event is accepted between each two tries: the failures are the event's own."""

    async def scenario() -> None:
        (bad,) = await world.tell(1)
        delivery = await world.delivery()
        delivery._receiver = Failing(world.wire, {world.products[1]})
        async with Running(delivery):
            while await delivery.pending():
                await world.tell(2)
                delivery.nudge()
                await world.clock.sleep(10)
        message, *_ = await world.messages()
        assert (message.outbox_id, message.status, message.next_attempt_at) == (bad, FAILED, None)
        assert (message.can_retry(), message.retry_count) == (False, 5)
        assert message.error_message == "answered 500: a bug of theirs"
        assert (delivery.retried, delivery.failed) == (5, 1)

    world.play(scenario())
    times = [sent.at for sent in world.wire.sent if sent.item_no == 900_000_001]
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(times)]
    assert len(gaps) == 5
    for gap, whole in zip(gaps, (30, 30, 60, 120, 240), strict=True):
        assert whole / 2 <= gap <= whole + 1


def test_a_refusal_fails_at_once_holds_its_product_and_nobody_else(world: DeliveryWorld) -> None:
    async def scenario() -> None:
        (bad,) = await world.tell(1)
        await world.tell(1, 2)
        await world.store.transact(
            lambda tx: tx.db.run("UPDATE product_outbox SET payload = '{}' WHERE outbox_id = :i", {"i": bad})
        )
        delivery = await world.delivery()
        async with Running(delivery):
            await world.until_empty(delivery)
            refused, held, other = await world.messages()
            assert (refused.status, held.status, other.status) == (FAILED, WAITING, COMPLETED)
            assert refused.error_message == 'answered 400: {"status":400,"message":"eventId is missing or not str"}'
            now = world.clock.now()
            await world.store.transact(lambda tx: tx.product_outbox.move([refused.discard()], now))
            delivery.nudge()
            await world.until_empty(delivery)
        assert [m.status for m in await world.messages()] == [MessageStatus.DISCARDED, COMPLETED, COMPLETED]

    world.play(scenario())
    assert len(world.wire.sent) == 3


def test_an_event_whose_stored_body_is_damaged_is_never_sent_and_holds_its_product_alone(world: DeliveryWorld) -> None:
    async def scenario() -> None:
        (bad,) = await world.tell(1)
        await world.tell(1, 2)
        await world.store.transact(
            lambda tx: tx.db.run("UPDATE product_outbox SET payload = x'28B52FFD00' WHERE outbox_id = :i", {"i": bad})
        )
        delivery = await world.delivery()
        async with Running(delivery):
            await world.until_empty(delivery)
            damaged, held, other = await world.messages()
            assert (damaged.status, held.status, other.status) == (FAILED, WAITING, COMPLETED)
            assert damaged.error_message == "not sent: its stored body is damaged"

    world.play(scenario())
    assert len(world.wire.sent) == 1


def test_no_more_is_claimed_than_can_start_now(world: DeliveryWorld) -> None:
    async def scenario() -> None:
        await world.tell(*range(1, 101))
        world.wire.latency = 1.0
        delivery = await world.delivery(DeliveryRules(concurrency=7))
        async with Running(delivery):
            while await delivery.pending():
                sending = [m for m in await world.messages() if m.status is SENDING]
                assert len(sending) <= 5
                await world.clock.sleep(0.3)

    world.play(scenario())
    world.check_everything_arrived()
    assert world.wire.most == 5, "one seller leaves slots for others"


def test_a_batch_smaller_than_the_slots_still_fills_them(world: DeliveryWorld) -> None:
    async def scenario() -> None:
        await world.tell(*range(1, 21), *range(1001, 1021))
        world.wire.latency = 1.0
        delivery = await world.delivery(DeliveryRules(concurrency=10, batch=3))
        async with Running(delivery):
            await world.until_empty(delivery)

    world.play(scenario())
    assert world.wire.most == 10


def test_without_a_nudge_it_looks_every_interval_and_with_one_at_once(world: DeliveryWorld) -> None:
    async def scenario() -> None:
        delivery = await world.delivery(DeliveryRules(interval=300))
        async with Running(delivery):
            await world.clock.sleep(10)
            await world.tell(1)
            await world.clock.sleep(280)
            assert world.wire.sent == []
            await world.clock.sleep(20)
            assert len(world.wire.sent) == 1
            await world.tell(2)
            delivery.nudge()
            await world.clock.sleep(0.001)
            assert len(world.wire.sent) == 2

    world.play(scenario())


def test_without_a_receiver_it_waits_and_claims_nothing(world: DeliveryWorld) -> None:
    async def scenario() -> None:
        await world.tell(1)
        delivery = await world.delivery()
        delivery._receiver = None
        async with Running(delivery):
            delivery.nudge()
            await world.clock.sleep(1000)
            (message,) = await world.messages()
            assert (message.status, message.attempted) == (WAITING, False)

    world.play(scenario())


def test_a_stop_lets_answers_come_in_and_puts_the_rest_back_uncounted(world: DeliveryWorld) -> None:
    async def scenario() -> None:
        await world.tell(1, 2)
        delivery = await world.delivery(DeliveryRules(grace=6))
        world.wire.latency = 4.0
        async with Running(delivery):
            await world.clock.sleep(1)
            world.wire.latency = 100.0
            await world.tell(3)
            delivery.nudge()
            await world.clock.sleep(1)
            started = world.clock.monotonic()
        assert world.clock.monotonic() - started == pytest.approx(6)
        first, second, third = await world.messages()
        assert (first.status, second.status) == (COMPLETED, COMPLETED)
        assert (third.status, third.retry_count, third.worker_id) == (WAITING, 0, None)
        assert third.is_due(world.clock.now())
        assert third.attempted, "its body may have been seen"

    world.play(scenario())


def test_a_stop_with_nothing_in_flight_is_immediate(world: DeliveryWorld) -> None:
    async def scenario() -> None:
        began = world.clock.monotonic()
        async with Running(await world.delivery()):
            await world.clock.sleep(1)
        assert world.clock.monotonic() - began == pytest.approx(1)

    world.play(scenario())


def test_one_seed_gives_one_history(inline_store: SqlStore) -> None:
    def history(seed: int) -> list[object]:
        def work(tx: Transaction) -> None:
            tx.db.run("DELETE FROM product_outbox")
            tx.db.run("DELETE FROM workers")
            tx.db.run("DELETE FROM outbox_channels")

        other = DeliveryWorld(inline_store, seed)

        async def scenario() -> list[object]:
            await other.store.transact(work)
            for _ in range(2):
                await other.tell(*range(1, 61))
            other.behave(ServerMode.ERROR_AFTER, probability=0.4)
            delivery = await other.delivery()
            async with Running(delivery):
                await other.until_empty(delivery)
            return [*other.wire.sent, *await other.messages()]

        return other.play(scenario())

    assert history(1) == history(1)
    assert history(1) != history(2)
