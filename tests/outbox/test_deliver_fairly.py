"""A broken event or a refused seller beside healthy ones: no other waits, and no outage costs a try."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.builders import StoppedClock
from tests.outbox.delivery_world import DeliveryWorld, Failing, Running, seller_of
from tests.world import store_in_memory

from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.store import Commits
from sellerwatch.outbox.deliver import Delivery
from sellerwatch.outbox.message import Message, MessageStatus
from sellerwatch.outbox.receipt import Receipt
from sellerwatch.outbox.rules import DeliveryRules
from sellerwatch.simulator.product_server import ServerMode

COMPLETED, FAILED, WAITING = MessageStatus.COMPLETED, MessageStatus.FAILED, MessageStatus.WAITING
HOUR, DAY = 3600.0, 86_400.0
#: One seller's troubles delay another's events by no more.
MOST_SECONDS = 5.0


@pytest.fixture
def world(migrated_template: Path) -> Iterator[DeliveryWorld]:
    """In memory: while nothing is due, days cost nothing."""
    store = store_in_memory(migrated_template, StoppedClock(), Commits())
    yield DeliveryWorld(store)
    store.close()


async def sender(world: DeliveryWorld, *bad: str, hangs: bool = False, **rules: Any) -> Delivery[Any]:
    """A sender to a receiver that breaks on these products or sellers."""
    delivery = await world.delivery(DeliveryRules(**rules), alert=world.heard.extend)
    delivery._receiver = Failing(world.wire, set(bad), hangs)
    return delivery


async def trickle(world: DeliveryWorld, delivery: Delivery[Any], seconds: float, first: int = 2001) -> None:
    """One event of another seller every 7 s, each of another product."""
    for number in range(int(seconds / 7)):
        await world.tell(first + number % 900)
        delivery.nudge()
        await world.clock.sleep(7)


async def delays(world: DeliveryWorld, seller: str) -> list[float]:
    """How long each event of a seller took, in seconds."""
    found = [m for m in await world.messages() if m.seller_id == seller]
    assert {m.status for m in found} == {COMPLETED}
    return [(m.sent_at - m.created_at).total_seconds() for m in found if m.sent_at is not None]


def alerts(world: DeliveryWorld) -> list[tuple[str, str]]:
    return [(notice.kind, notice.subject) for notice in world.heard]


@pytest.mark.parametrize("bad_first", [True, False])
def test_one_sellers_bad_events_keep_nobody_waiting_and_cost_no_try_while_the_whole_seller_is_refused(
    world: DeliveryWorld, bad_first: bool
) -> None:
    bad, good = seller_of(1), seller_of(2001)

    async def scenario() -> None:
        delivery = await sender(world, bad)
        async with Running(delivery):
            if bad_first:
                await world.tell(*range(1, 151))
                delivery.nudge()
                await world.clock.sleep(600)
                assert (await world.channel()).state is not CircuitState.CLOSED, "nothing at all is accepted"
                await world.tell(*range(2001, 2021))
            else:
                await world.tell(*range(1, 151), *range(2001, 2021))
            delivery.nudge()
            await world.clock.sleep(60)
            assert max(await delays(world, good)) < MOST_SECONDS
            await trickle(world, delivery, HOUR, 2101)
            assert max(await delays(world, good)) < MOST_SECONDS
            circuit = (await world.circuits())[bad]
            assert (circuit.state is not CircuitState.CLOSED, circuit.reason) == (True, "answered 500: a bug of theirs")
            assert ("receiver.seller_down", bad) in alerts(world)
            refused = [m for m in await world.messages() if m.seller_id == bad]
            assert {(m.status, m.retry_count) for m in refused} <= {(WAITING, 0), (MessageStatus.SENDING, 0)}
            delivery._receiver = world.wire
            await world.until_empty(delivery, longest=400)
        assert alerts(world)[-1] == ("receiver.seller_up", bad)
        assert await world.circuits() == {}

    world.play(scenario())
    world.check_everything_arrived()


def test_every_tenth_of_a_thousand_that_always_fails_fails_for_good_and_holds_only_its_product(
    world: DeliveryWorld,
) -> None:
    async def scenario() -> None:
        await world.tell(*range(1, 1000))
        bad = [world.products[number] for number in range(10, 1000, 10)]
        delivery = await sender(world, *bad)
        async with Running(delivery):
            await world.tell(10, 11)
            await trickle(world, delivery, 1200)
        messages = await world.messages()
        failed = [m for m in messages if m.status is FAILED]
        assert {m.subject_id for m in failed} == set(bad)
        assert {m.retry_count for m in failed} == {5}
        (held,) = [m for m in messages if m.status is WAITING]
        assert held.subject_id == world.products[10]
        assert max(await delays(world, seller_of(2001))) < MOST_SECONDS
        assert alerts(world) == []

    world.play(scenario())


def test_a_receiver_that_loses_its_first_answer_to_every_event_gets_all_of_them_at_once(
    world: DeliveryWorld,
) -> None:
    seen: set[str] = set()

    class Forgetful:
        async def deliver(self, message: Message, now: datetime) -> Receipt:
            receipt = await world.wire.deliver(message, now)
            if message.outbox_id in seen:
                return receipt
            seen.add(message.outbox_id)
            return Receipt.of_silence("the connection was lost: Server disconnected", is_cut=True)

    async def scenario() -> None:
        await world.tell(*range(1, 21))
        delivery = await sender(world)
        delivery._receiver = Forgetful()
        async with Running(delivery):
            await world.until_empty(delivery, longest=2)
        assert (delivery.delivered, delivery.retried, alerts(world)) == (20, 0, [])

    world.play(scenario())
    world.check_everything_arrived()
    assert world.server.duplicates == 20


def test_a_receiver_that_hangs_on_one_seller_delays_no_other(world: DeliveryWorld) -> None:
    slow, good = seller_of(1), seller_of(2001)

    async def scenario() -> None:
        await world.tell(*range(1, 400))
        delivery = await sender(world, slow, hangs=True)
        async with Running(delivery):
            await trickle(world, delivery, 300)
        assert max(await delays(world, good)) < MOST_SECONDS
        assert (await world.circuits())[slow].state is not CircuitState.CLOSED
        assert {m.retry_count for m in await world.messages()} == {0}

    world.play(scenario())


@pytest.mark.parametrize("per_second", [None, 10.0])
def test_a_sellers_flood_or_slow_answers_delay_no_other(world: DeliveryWorld, per_second: float | None) -> None:
    async def scenario() -> None:
        await world.tell(*range(1, 1000))
        world.wire.latency = 0.05 if per_second else 4.0
        delivery = await sender(world, per_second=per_second)
        async with Running(delivery):
            await trickle(world, delivery, 42)
            await world.clock.sleep(10)
            assert await world.messages_waiting() > 100, "the flood is not over yet"
        assert max(await delays(world, seller_of(2001))) < MOST_SECONDS

    world.play(scenario())


def test_slots_go_to_all_sellers_alike(world: DeliveryWorld) -> None:
    async def scenario() -> None:
        for seller in range(0, 30_000, 1000):
            await world.tell(*range(seller + 1, seller + 11))
        async with Running(await sender(world)):
            await world.clock.sleep(0.5)

    world.play(scenario())
    sellers = [seller_of(sent.item_no - 900_000_000) for sent in world.wire.sent if sent.item_no is not None]
    assert len(sellers) > 120
    for turn in range(0, 120, 30):
        assert len(set(sellers[turn : turn + 30])) == 30, "a second event before each had a turn"


@pytest.mark.parametrize("mode", [ServerMode.DOWN, ServerMode.ERROR, ServerMode.HANG])
def test_three_days_of_outage_cost_no_event_a_try_and_few_requests(world: DeliveryWorld, mode: ServerMode) -> None:
    async def scenario() -> None:
        delivery = await sender(world)
        async with Running(delivery):
            await trickle(world, delivery, 140)
            world.behave(mode)
            for seller in range(0, 10_000, 1000):
                await world.tell(*range(seller + 1, seller + 4))
                await world.tell(*range(seller + 1, seller + 4))
            delivery.nudge()
            for _ in range(3 * 24):
                await world.tell(999)
                delivery.nudge()
                await world.clock.sleep(HOUR)
            assert {m.retry_count for m in await world.messages()} == {0}
            assert len(world.wire.sent) < 3 * DAY / 300 * 2 * 5 * 1.5
            world.behave(ServerMode.WELL)
            await world.until_empty(delivery, longest=400)
        assert (delivery.failed, alerts(world)) == (0, [("receiver.down", "product"), ("receiver.up", "product")])

    world.play(scenario())
    world.check_everything_arrived()


def test_a_lone_event_that_is_never_accepted_is_tried_on_and_the_next_event_gets_through_at_once(
    world: DeliveryWorld,
) -> None:
    async def scenario() -> None:
        (lone,) = await world.tell(1)
        delivery = await sender(world, world.products[1])
        async with Running(delivery):
            await world.clock.sleep(DAY)
            channel = await world.channel()
            assert (channel.state is CircuitState.CLOSED, channel.reason) == (False, "answered 500: a bug of theirs")
            assert 250 < len(world.wire.sent) < 600, "with the back-off of the circuit"
            assert (await world.messages())[0].retry_count == 0
            for number in range(2001, 2200):
                await world.tell(number)
                delivery.nudge()
                await world.clock.sleep(60)
        assert max(await delays(world, seller_of(2001))) < MOST_SECONDS
        (message,) = [m for m in await world.messages() if m.outbox_id == lone]
        assert (message.status, message.retry_count) == (FAILED, 5)

    world.play(scenario())


def test_a_restart_loses_neither_a_refused_seller_nor_its_back_off(world: DeliveryWorld) -> None:
    bad = seller_of(1)

    async def scenario() -> None:
        await world.tell(*range(1, 30), *range(2001, 2031))
        first = await sender(world, bad)
        async with Running(first) as running:
            await world.clock.sleep(20)
            await running.crash()
        circuit = (await world.circuits())[bad]
        assert circuit.not_before is not None
        sent = len(world.wire.sent)
        second = await sender(world, bad)
        async with Running(second):
            await world.clock.sleep((circuit.not_before - world.clock.now()).total_seconds() - 0.1)
            assert len(world.wire.sent) == sent
            await world.clock.sleep(1)
            assert len(world.wire.sent) == sent + 5
            assert await second.recover(timedelta(seconds=30)) == 0
        assert list(await world.circuits()) == [bad]

    world.play(scenario())
