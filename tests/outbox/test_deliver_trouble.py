"""Delivery when we ourselves are the trouble: kills, a database that fails, an answer that is lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest
from tests.builders import SECOND
from tests.outbox.delivery_world import LAPSE, DeliveryWorld, Running

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.kernel.backoff import Backoff
from sellerwatch.kernel.errors import Failed
from sellerwatch.kernel.ids import OutboxId
from sellerwatch.outbox.message import Message, MessageStatus, OutboxKind
from sellerwatch.outbox.ports import Outbox
from sellerwatch.outbox.receipt import Receipt
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


@dataclass(eq=False)
class DiskFull(Failed):
    """What the store raises when the machine is at fault."""


class ShakyStore:
    """The real store, with a fault before or after the commit of chosen transactions (counted from 1)."""

    commits = None

    def __init__(self, store: SqlStore, before: Callable[[int], bool], after: Callable[[int], bool]) -> None:
        self._store = store
        self._before = before
        self._after = after
        self.transactions = 0

    async def transact(self, work: Callable[[Transaction], Any]) -> Any:
        self.transactions += 1
        number = self.transactions
        if self._before(number):
            raise DiskFull
        result = await self._store.transact(work)
        if self._after(number):
            raise DiskFull
        return result

    async def read(self, work: Callable[[Transaction], Any]) -> Any:
        return await self._store.read(work)


def never(_: int) -> bool:
    return False


async def crash_in_mid_send(world: DeliveryWorld, after: float) -> None:
    """A sender that is killed `after` seconds, with everything it had in hand."""
    delivery = await world.delivery()
    running = Running(delivery)
    async with running:
        await world.clock.sleep(after)
        await running.crash()


@pytest.mark.parametrize("after", [0.0, 0.001, 0.5, 0.999, 1.0, 1.005, 1.5, 2.5])
def test_a_killed_sender_loses_nothing_and_repeats_no_effect(world: DeliveryWorld, after: float) -> None:
    async def scenario() -> None:
        for _ in range(2):
            await world.tell(*range(1, 31))
        world.wire.latency = 1.0
        await crash_in_mid_send(world, after)
        second = await world.delivery()
        async with Running(second):
            while await second.pending():
                await world.beat(second)
                await second.recover(LAPSE)
                await world.clock.sleep(10)

    world.play(scenario())
    world.check_everything_arrived()


def test_a_sender_that_still_beats_keeps_what_it_holds(world: DeliveryWorld) -> None:
    async def scenario() -> None:
        await world.tell(1)
        world.wire.latency = 20.0
        delivery = await world.delivery()
        async with Running(delivery):
            await world.clock.sleep(10)
            assert await delivery.recover(LAPSE) == 0

    world.play(scenario())


def test_a_lapsed_sender_loses_the_message_with_the_try_counted_and_its_late_answer_changes_nothing(
    world: DeliveryWorld,
) -> None:
    async def scenario() -> None:
        await world.tell(1)
        world.wire.latency = 60.0
        slow = await world.delivery()
        other = await world.delivery(DeliveryRules(backoff=Backoff(600, 3600)))
        async with Running(slow):
            await world.clock.sleep(40)
            await world.beat(other)
            assert await other.recover(LAPSE) == 1
            (message,) = await world.messages()
            assert (message.status, message.retry_count, message.worker_id) == (WAITING, 1, None)
            assert not message.is_due(world.clock.now()), "it comes back after a back-off"
            await world.clock.sleep(21)
            (late,) = await world.messages()
            assert late == message
        assert slow.delivered == 0

    world.play(scenario())


def test_a_late_answer_does_not_end_the_try_of_the_next_sender(world: DeliveryWorld) -> None:
    async def scenario() -> None:
        (told,) = await world.tell(1)
        world.wire.latency = 60.0
        slow, other = await world.delivery(), await world.delivery()
        async with Running(slow):
            await world.clock.sleep(1)
            now = world.clock.now()

            def take_over(tx: Transaction) -> None:
                (held,) = tx.product_outbox.get_many([told])
                tx.product_outbox.move([held.lose_lease(now, SECOND).send(other._worker_id)], now)

            await world.store.transact(take_over)
            (taken,) = await world.messages()
            await world.clock.sleep(100)
            assert await world.messages() == [taken]
            assert (slow.delivered, slow.retried) == (0, 0)
            assert slow._unrecorded == []

    world.play(scenario())


def test_a_sender_that_gets_its_own_lost_message_back_sends_it_once_at_a_time(world: DeliveryWorld) -> None:
    async def scenario() -> None:
        await world.tell(1)
        world.wire.latency = 200.0
        delivery = await world.delivery()
        async with Running(delivery):
            await world.clock.sleep(40)
            assert await delivery.recover(LAPSE) == 1
            await world.beat(delivery)
            world.wire.latency = 1.0
            await world.until_empty(delivery, longest=60)
        assert delivery.delivered == 1

    world.play(scenario())
    world.check_everything_arrived()
    assert len(world.wire.sent) == 2


def test_a_message_whose_senders_vanish_five_times_fails_for_good(world: DeliveryWorld) -> None:
    async def scenario() -> None:
        await world.tell(1)
        world.wire.latency = 100.0
        watcher = await world.delivery()
        for _ in range(5):
            await crash_in_mid_send(world, 1)
            await world.clock.sleep(31)
            assert await watcher.recover(LAPSE) == 1
            await world.clock.sleep(300)
        (message,) = await world.messages()
        assert (message.status, message.error_message) == (FAILED, "its sender vanished")

    world.play(scenario())


def test_a_failing_database_keeps_the_answers_for_later_and_sends_nothing_twice(world: DeliveryWorld) -> None:
    async def scenario() -> None:
        await world.tell(*range(1, 31))
        shaky = ShakyStore(world.store, before=lambda number: 2 <= number <= 6, after=never)
        delivery = await world.delivery(store=shaky)  # type: ignore[arg-type]
        async with Running(delivery):
            await world.until_empty(delivery)
        assert delivery.delivered == 30

    world.play(scenario())
    world.check_everything_arrived()
    assert len(world.wire.sent) == 30


@pytest.mark.parametrize("lost", range(1, 6))
def test_a_claim_whose_commit_was_never_heard_of_is_taken_up_again(world: DeliveryWorld, lost: int) -> None:
    async def scenario() -> None:
        for _ in range(2):
            await world.tell(*range(1, 41))
        shaky = ShakyStore(world.store, before=never, after=lambda number: number == lost)
        delivery = await world.delivery(store=shaky)  # type: ignore[arg-type]
        async with Running(delivery):
            await world.until_empty(delivery, longest=100)

    world.play(scenario())
    world.check_everything_arrived()


class Picky:
    """An outbox that cannot write one message's end."""

    def __init__(self, outbox: Outbox, bad: OutboxId) -> None:
        self._outbox = outbox
        self._bad = bad

    def move(self, messages: Sequence[Message], now: datetime) -> None:
        if any(m.outbox_id == self._bad and m.status is COMPLETED for m in messages):
            raise ValueError("cannot be written")
        self._outbox.move(messages, now)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._outbox, name)


class PickyTx:
    def __init__(self, tx: Transaction, bad: OutboxId) -> None:
        self._tx = tx
        self._bad = bad

    def outbox(self, kind: OutboxKind) -> Any:
        return Picky(self._tx.outbox(kind), self._bad)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)


class PickyStore:
    """The real store, with an outbox that cannot write one message's end."""

    commits = None

    def __init__(self, store: SqlStore, bad: OutboxId) -> None:
        self._store = store
        self._bad = bad

    async def transact(self, work: Callable[[Any], Any]) -> Any:
        return await self._store.transact(lambda tx: work(PickyTx(tx, self._bad)))

    async def read(self, work: Callable[[Any], Any]) -> Any:
        return await self._store.read(work)


def test_one_outcome_that_cannot_be_written_spoils_only_itself(world: DeliveryWorld) -> None:
    async def scenario() -> None:
        bad, *_ = await world.tell(*range(1, 31))
        await world.tell(*range(1, 31))
        store = PickyStore(world.store, bad)
        delivery = await world.delivery(DeliveryRules(grace=0), store=store)  # type: ignore[arg-type]
        async with Running(delivery):
            await world.clock.sleep(400)
            statuses = [m.status for m in await world.messages()]
            assert statuses == [SENDING, *[COMPLETED] * 29, WAITING, *[COMPLETED] * 29]
        after = await world.delivery()
        async with Running(after):
            await world.clock.sleep(60)
            assert await after.recover(LAPSE) == 1
            await world.until_empty(after)

    world.play(scenario())
    world.check_everything_arrived()


def test_a_receiver_that_raises_fails_the_try_and_not_the_sender(world: DeliveryWorld) -> None:
    class Broken:
        async def deliver(self, message: Message, now: datetime) -> Receipt:
            raise RuntimeError("a bug")

    async def scenario() -> None:
        (bad,) = await world.tell(1)
        delivery = await world.delivery()
        wire, delivery._receiver = delivery._receiver, Broken()
        async with Running(delivery):
            await world.clock.sleep(100)
            attempts = await world.store.read(lambda tx: tx.attempts.of(bad, 10))
            assert {each.answer for each in attempts} == {"the sender itself failed: RuntimeError"}
            delivery._receiver = wire
        async with Running(delivery):
            await world.until_empty(delivery, longest=400)

    world.play(scenario())
    world.check_everything_arrived()


def test_an_error_text_of_a_megabyte_is_kept_in_part() -> None:
    assert len(Receipt.of_answer(400, b"x" * 2**20).problem) < 600
    assert len(Receipt.of_silence("x" * 2**20).problem) < 600


def test_an_answer_with_signs_no_column_takes_is_kept_readable() -> None:
    receipt = Receipt.of_answer(422, b"bad\x00 \xff price\nline 2 \xed\xa0\x80")
    assert receipt.problem.startswith("answered 422: bad  ")
    receipt.problem.encode("utf-8")


def test_two_senders_share_one_outbox_without_sending_anything_twice(world: DeliveryWorld) -> None:
    async def scenario() -> None:
        for _ in range(3):
            await world.tell(*range(1, 61))
        world.behave(ServerMode.ERROR, requests=20, probability=0.3)
        one, two = await world.delivery(), await world.delivery()
        async with Running(one), Running(two):
            await world.until_empty(one)
        assert one.delivered + two.delivered == 180
        assert min(one.delivered, two.delivered) > 20

    world.play(scenario())
    world.check_everything_arrived()
    assert len(world.wire.sent) == 200
