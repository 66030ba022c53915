"""An outage on virtual time: sending stops, no event pays for it, one finds out, and the rest comes back in a ramp."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from tests.outbox.delivery_world import LAPSE, SECRET, DeliveryWorld, Failing, Running
from tests.simulated_receiver import SimulatedReceiver

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.kernel.backoff import Backoff
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.ids import OutboxId
from sellerwatch.kernel.notices import Notice
from sellerwatch.outbox.message import MessageStatus
from sellerwatch.outbox.receipt import Attempt, DeliveryVerdict
from sellerwatch.outbox.rules import DeliveryRules
from sellerwatch.simulator.product_server import ServerMode

HOUR = 3600.0


@pytest.fixture
def world(inline_store: SqlStore) -> DeliveryWorld:
    return DeliveryWorld(inline_store)


async def attempts_of(world: DeliveryWorld, outbox_id: OutboxId) -> list[Attempt]:
    """Oldest first."""
    found = await world.store.read(lambda tx: tx.attempts.of(outbox_id, 1000))
    return list(found[::-1])


def most_at_once(world: DeliveryWorld, since: datetime) -> list[int]:
    """How many left in each round trip since then."""
    times = [sent.at for sent in world.wire.sent if sent.at >= since]
    rounds: list[int] = []
    edge = None
    for time in times:
        if edge is None or time >= edge:
            rounds.append(0)
            edge = time + timedelta(seconds=world.wire.latency)
        rounds[-1] += 1
    return rounds


@pytest.mark.parametrize(
    "mode", [ServerMode.DOWN, ServerMode.ERROR, ServerMode.HANG, ServerMode.DROP_AFTER, ServerMode.ERROR_AFTER]
)
def test_an_hour_of_outage_needs_nobody_and_costs_no_event_its_tries(world: DeliveryWorld, mode: ServerMode) -> None:
    async def scenario() -> None:
        for _ in range(2):
            await world.tell(*range(1, 101))
        world.behave(mode)
        heard: list[Notice] = []
        delivery = await world.delivery(alert=heard.extend)
        async with Running(delivery):
            await world.clock.sleep(HOUR)
            messages = await world.messages()
            assert {m.status for m in messages} <= {MessageStatus.WAITING, MessageStatus.SENDING}
            assert {m.retry_count for m in messages} == {0}, "an outage costs no event a try"
            assert (await world.channel()).state in (CircuitState.OPEN, CircuitState.HALF_OPEN)
            assert len(world.wire.sent) < 250, "an hour of asking again and again"
            world.behave(ServerMode.WELL)
            await world.until_empty(delivery, longest=400)
        assert (delivery.delivered, delivery.failed) == (200, 0)
        assert [notice.kind for notice in heard] == ["receiver.down", "receiver.up"]
        assert (await world.channel()).state is CircuitState.CLOSED

    world.play(scenario())
    world.check_everything_arrived()


def test_what_comes_back_comes_in_a_ramp_and_not_as_a_flood(world: DeliveryWorld) -> None:
    async def scenario() -> datetime:
        await world.tell(*range(1, 201))
        world.behave(ServerMode.DOWN)
        delivery = await world.delivery()
        async with Running(delivery):
            await world.clock.sleep(HOUR / 4)
            world.behave(ServerMode.WELL)
            back = world.clock.now()
            await world.until_empty(delivery)
        return back

    rounds = most_at_once(world, world.play(scenario()))
    assert rounds[:3] == [5, 6, 12]
    assert max(rounds) <= 15
    world.check_everything_arrived()


def test_a_rest_that_the_receiver_asks_for_is_kept_by_all_events_and_costs_none_a_try(world: DeliveryWorld) -> None:
    async def scenario() -> None:
        await world.tell(*range(1, 31))
        world.behave(ServerMode.THROTTLE, requests=22, wait=600)
        delivery = await world.delivery()
        async with Running(delivery):
            await world.until_empty(delivery)
        assert delivery.failed == 0
        assert {m.retry_count for m in await world.messages()} == {0}

    world.play(scenario())
    world.check_everything_arrived()
    times = sorted(sent.at.timestamp() for sent in world.wire.sent)
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert [gap for gap in gaps if gap > 60] == [pytest.approx(630, abs=31)] * 3


@pytest.mark.parametrize("wait", [0, 1_000_000])
def test_a_rest_of_no_time_or_of_far_too_much_stops_nobody_for_long(world: DeliveryWorld, wait: int) -> None:
    """The longest that is believed is an hour here."""

    async def scenario() -> None:
        world.wire.receiver = SimulatedReceiver(
            world.simulator, world.clock, (SECRET,), longest_wait=timedelta(hours=1)
        )
        await world.tell(*range(1, 31))
        world.behave(ServerMode.THROTTLE, requests=3, wait=wait)
        delivery = await world.delivery()
        async with Running(delivery):
            await world.until_empty(delivery, longest=1.2 * HOUR)

    world.play(scenario())
    world.check_everything_arrived()


def test_an_event_that_its_receiver_breaks_on_keeps_no_other_from_finding_out(world: DeliveryWorld) -> None:
    async def scenario() -> None:
        (bad,) = await world.tell(1)
        world.behave(ServerMode.DOWN)
        delivery = await world.delivery()
        delivery._receiver = Failing(world.wire, {world.products[1]})
        async with Running(delivery):
            await world.tell(*range(2, 40))
            delivery.nudge()
            await world.clock.sleep(HOUR)
            world.behave(ServerMode.WELL)
            while await delivery.pending():
                await world.tell(40)
                delivery.nudge()
                await world.clock.sleep(30)
            statuses = {m.outbox_id: m.status for m in await world.messages()}
            assert statuses.pop(bad) is MessageStatus.FAILED
            assert set(statuses.values()) == {MessageStatus.COMPLETED}

    world.play(scenario())


def test_a_restart_in_the_middle_of_an_outage_goes_on_where_the_circuit_stood(world: DeliveryWorld) -> None:
    async def scenario() -> None:
        await world.tell(*range(1, 60))
        world.behave(ServerMode.DOWN)
        for crashes in (False, True, False):
            running = Running(await world.delivery())
            async with running:
                await world.clock.sleep(600)
                if crashes:
                    await running.crash()
        sent = len(world.wire.sent)
        assert sent < 150, "a restart is no reason to ask again and again"
        world.behave(ServerMode.WELL)
        last = await world.delivery()
        async with Running(last):
            while await last.pending():
                await world.beat(last)
                await last.recover(LAPSE)
                await world.clock.sleep(10)

    world.play(scenario())
    world.check_everything_arrived()


def test_a_probe_whose_sender_was_killed_gets_a_successor(world: DeliveryWorld) -> None:
    async def scenario() -> None:
        await world.tell(*range(1, 30))
        world.behave(ServerMode.DOWN)
        running = Running(await world.delivery())
        async with running:
            while (await world.channel()).state is not CircuitState.HALF_OPEN:
                await world.clock.sleep(0.01)
            await running.crash()
        world.behave(ServerMode.WELL)
        other = await world.delivery()
        async with Running(other):
            await world.clock.sleep(40)
            assert await other.recover(LAPSE) == 5
            await world.beat(other)
            await world.until_empty(other, longest=200)

    world.play(scenario())
    world.check_everything_arrived()


def test_two_processes_go_by_one_circuit(world: DeliveryWorld) -> None:
    async def scenario() -> None:
        await world.tell(*range(1, 101))
        world.behave(ServerMode.DOWN)
        one, two = await world.delivery(), await world.delivery()
        async with Running(one), Running(two):
            await world.clock.sleep(HOUR)
            messages = await world.messages()
            assert {m.retry_count for m in messages} == {0}
            assert len(world.wire.sent) < 250
            world.behave(ServerMode.WELL)
            await world.until_empty(one, longest=600)

    world.play(scenario())
    world.check_everything_arrived()


def test_a_paused_outbox_sends_nothing_over_restarts_and_goes_on_within_seconds(world: DeliveryWorld) -> None:
    async def scenario() -> None:
        await world.tell(*range(1, 50))
        await world.pause(True)
        for _ in range(2):
            async with Running(await world.delivery()):
                await world.clock.sleep(HOUR)
        assert world.wire.sent == []
        delivery = await world.delivery()
        async with Running(delivery):
            await world.clock.sleep(100)
            await world.pause(False)
            await world.clock.sleep(6)
            assert world.wire.sent != []
            await world.until_empty(delivery)

    world.play(scenario())
    world.check_everything_arrived()


def test_a_pause_lets_what_is_under_way_finish(world: DeliveryWorld) -> None:
    async def scenario() -> None:
        await world.tell(*range(1, 50))
        world.wire.latency = 2.0
        delivery = await world.delivery()
        async with Running(delivery):
            await world.clock.sleep(1)
            await world.pause(True)
            await world.clock.sleep(100)
        assert (delivery.delivered, len(world.wire.sent)) == (15, 15)

    world.play(scenario())


@pytest.mark.parametrize("per_second", [2.0, 40.0])
def test_no_more_leave_in_a_second_than_the_rate_allows_over_all_processes(
    world: DeliveryWorld, per_second: float
) -> None:
    async def scenario() -> float:
        await world.tell(*range(1, 101))
        rules = DeliveryRules(per_second=per_second)
        one, two = await world.delivery(rules), await world.delivery(rules)
        began = world.clock.monotonic()
        async with Running(one), Running(two):
            await world.until_empty(one)
        return world.clock.monotonic() - began

    took = world.play(scenario())
    assert took == pytest.approx(100 / per_second, abs=2.5)
    times = [sent.at.timestamp() for sent in world.wire.sent]
    for time in times:
        assert len([t for t in times if time <= t < time + 1]) <= per_second + max(1, per_second / 10) + 1
    world.check_everything_arrived()


def test_every_try_is_a_row_with_its_time_its_length_and_the_beginning_of_the_answer(world: DeliveryWorld) -> None:
    async def scenario() -> list[Attempt]:
        (told,) = await world.tell(1)
        world.behave(ServerMode.ERROR, requests=2)
        delivery = await world.delivery(DeliveryRules(backoff=Backoff(30, 3600, jitter=0)))
        async with Running(delivery):
            await world.until_empty(delivery)
        return await attempts_of(world, told)

    first, second, third = world.play(scenario())
    sent = [request.at for request in world.wire.sent]
    assert [first.at, second.at, third.at] == sent
    assert [a.try_number for a in (first, second, third)] == [1, 1, 1]
    assert (first.status, first.verdict, first.is_counted) == (500, DeliveryVerdict.RETRY, False)
    assert first.answer == '{"status":500,"message":"out of order"}'
    assert (third.status, third.verdict) == (200, DeliveryVerdict.DELIVERED)
    assert third.answer == '{"received":true,"duplicate":false}'
    assert [a.duration_ms for a in (first, second, third)] == [50, 50, 50]


def test_tries_that_do_not_count_are_rows_too_and_say_so(world: DeliveryWorld) -> None:
    async def scenario() -> tuple[list[Attempt], int]:
        ids = await world.tell(*range(1, 31))
        world.behave(ServerMode.DOWN)
        delivery = await world.delivery()
        async with Running(delivery):
            await world.clock.sleep(300)
        found = [attempt for outbox_id in ids for attempt in await attempts_of(world, outbox_id)]
        return found, len(world.wire.sent)

    attempts, sent = world.play(scenario())
    assert len(attempts) == sent > 30
    assert not any(attempt.is_counted for attempt in attempts)
    assert {attempt.answer for attempt in attempts} == {"the connection was lost: Server disconnected"}


def test_a_try_whose_sender_vanished_or_stopped_is_a_row_as_well(world: DeliveryWorld) -> None:
    async def scenario() -> list[Attempt]:
        (told,) = await world.tell(1)
        world.wire.latency = 50.0
        crashing = Running(await world.delivery())
        async with crashing:
            await world.clock.sleep(1)
            await crashing.crash()
        await world.clock.sleep(40)
        stopping = await world.delivery(DeliveryRules(grace=2))
        assert await stopping.recover(LAPSE) == 1
        async with Running(stopping):
            await world.clock.sleep(35)
        return await attempts_of(world, told)

    vanished, stopped = world.play(scenario())
    assert (vanished.answer, vanished.is_counted, vanished.duration_ms) == ("its sender vanished", True, None)
    assert (stopped.answer, stopped.is_counted) == ("the sender stopped before there was an answer", False)
    assert (vanished.try_number, stopped.try_number) == (1, 2)


def test_an_answer_that_is_written_twice_counts_once(world: DeliveryWorld) -> None:
    """A commit whose answer was lost is run again: neither the circuit nor the tries hear of it twice."""

    async def scenario() -> None:
        ids = await world.tell(*range(1, 5))
        world.behave(ServerMode.DOWN)
        delivery = await world.delivery(store=Forgetful(world.store))  # type: ignore[arg-type]
        async with Running(delivery):
            await world.clock.sleep(10)
        assert (await world.channel()).failures == 4
        for outbox_id in ids:
            assert len(await attempts_of(world, outbox_id)) == 2, "the request and its repetition"

    world.play(scenario())


class Forgetful:
    """The real store, whose every second answer is lost after the commit."""

    commits = None

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self._calls = 0

    async def transact(self, work: Any) -> Any:
        from sellerwatch.adapters.sql.engine import DatabaseUnavailable  # noqa: PLC0415

        self._calls += 1
        result = await self._store.transact(work)
        if self._calls % 2 == 0:
            raise DatabaseUnavailable(where="sqlite://", problem="the answer was lost")
        return result

    async def read(self, work: Any) -> Any:
        return await self._store.read(work)


def test_what_waits_behind_failures_is_set_aside_until_they_are_out_of_the_way(world: DeliveryWorld) -> None:
    async def scenario() -> None:
        await world.tell(*range(1, 101))
        await world.tell(*range(1, 101))
        now = world.clock.now()
        messages = await world.messages()

        def give_up(tx: Transaction) -> None:
            tx.product_outbox.move([m.send(worker).refuse("no") for m in messages[:100]], now)

        delivery = await world.delivery()
        worker = delivery._worker_id
        await world.store.transact(give_up)
        assert await delivery.recover(LAPSE) == 0
        aside = [m for m in await world.messages() if m.status is MessageStatus.WAITING]
        assert {m.next_attempt_at for m in aside} == {now + timedelta(hours=1)}
        first = messages[0]

        def free(tx: Transaction) -> None:
            (failed,) = tx.product_outbox.get_many([first.outbox_id])
            tx.product_outbox.move([failed.discard()], now)
            tx.product_outbox.release_held([first.subject_id], now)

        await world.store.transact(free)
        async with Running(delivery):
            await world.clock.sleep(1)
        assert [sent.item_no for sent in world.wire.sent] == [first.item_no]

    world.play(scenario())
