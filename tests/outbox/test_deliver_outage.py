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
def practice(inline_store: SqlStore) -> DeliveryWorld:
    return DeliveryWorld(inline_store)


async def attempts_of(practice: DeliveryWorld, outbox_id: OutboxId) -> list[Attempt]:
    """Oldest first."""
    found = await practice.store.read(lambda tx: tx.attempts.of(outbox_id, 1000))
    return list(found[::-1])


def most_at_once(practice: DeliveryWorld, since: datetime) -> list[int]:
    """How many left in each round trip since then."""
    times = [sent.at for sent in practice.wire.sent if sent.at >= since]
    rounds: list[int] = []
    edge = None
    for time in times:
        if edge is None or time >= edge:
            rounds.append(0)
            edge = time + timedelta(seconds=practice.wire.latency)
        rounds[-1] += 1
    return rounds


@pytest.mark.parametrize(
    "mode", [ServerMode.DOWN, ServerMode.ERROR, ServerMode.HANG, ServerMode.DROP_AFTER, ServerMode.ERROR_AFTER]
)
def test_an_hour_of_outage_needs_nobody_and_costs_no_event_its_tries(practice: DeliveryWorld, mode: ServerMode) -> None:
    async def scenario() -> None:
        for _ in range(2):
            await practice.tell(*range(1, 101))
        practice.behave(mode)
        heard: list[Notice] = []
        delivery = await practice.delivery(alert=heard.extend)
        async with Running(delivery):
            await practice.clock.sleep(HOUR)
            messages = await practice.messages()
            assert {m.status for m in messages} <= {MessageStatus.WAITING, MessageStatus.SENDING}
            assert {m.retry_count for m in messages} == {0}, "an outage costs no event a try"
            assert (await practice.channel()).state in (CircuitState.OPEN, CircuitState.HALF_OPEN)
            assert len(practice.wire.sent) < 250, "an hour of asking again and again"
            practice.behave(ServerMode.WELL)
            await practice.until_empty(delivery, longest=400)
        assert (delivery.delivered, delivery.failed) == (200, 0)
        assert [notice.kind for notice in heard] == ["receiver.down", "receiver.up"]
        assert (await practice.channel()).state is CircuitState.CLOSED

    practice.play(scenario())
    practice.check_everything_arrived()


def test_what_comes_back_comes_in_a_ramp_and_not_as_a_flood(practice: DeliveryWorld) -> None:
    async def scenario() -> datetime:
        await practice.tell(*range(1, 201))
        practice.behave(ServerMode.DOWN)
        delivery = await practice.delivery()
        async with Running(delivery):
            await practice.clock.sleep(HOUR / 4)
            practice.behave(ServerMode.WELL)
            back = practice.clock.now()
            await practice.until_empty(delivery)
        return back

    rounds = most_at_once(practice, practice.play(scenario()))
    assert rounds[:3] == [5, 6, 12]
    assert max(rounds) <= 15
    practice.check_everything_arrived()


def test_a_rest_that_the_receiver_asks_for_is_kept_by_all_events_and_costs_none_a_try(practice: DeliveryWorld) -> None:
    async def scenario() -> None:
        await practice.tell(*range(1, 31))
        practice.behave(ServerMode.THROTTLE, requests=22, wait=600)
        delivery = await practice.delivery()
        async with Running(delivery):
            await practice.until_empty(delivery)
        assert delivery.failed == 0
        assert {m.retry_count for m in await practice.messages()} == {0}

    practice.play(scenario())
    practice.check_everything_arrived()
    times = sorted(sent.at.timestamp() for sent in practice.wire.sent)
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert [gap for gap in gaps if gap > 60] == [pytest.approx(630, abs=31)] * 3


@pytest.mark.parametrize("wait", [0, 1_000_000])
def test_a_rest_of_no_time_or_of_far_too_much_stops_nobody_for_long(practice: DeliveryWorld, wait: int) -> None:
    """The longest that is believed is an hour here."""

    async def scenario() -> None:
        practice.wire.receiver = SimulatedReceiver(
            practice.simulator, practice.clock, (SECRET,), longest_wait=timedelta(hours=1)
        )
        await practice.tell(*range(1, 31))
        practice.behave(ServerMode.THROTTLE, requests=3, wait=wait)
        delivery = await practice.delivery()
        async with Running(delivery):
            await practice.until_empty(delivery, longest=1.2 * HOUR)

    practice.play(scenario())
    practice.check_everything_arrived()


def test_an_event_that_its_receiver_breaks_on_keeps_no_other_from_finding_out(practice: DeliveryWorld) -> None:
    async def scenario() -> None:
        (bad,) = await practice.tell(1)
        practice.behave(ServerMode.DOWN)
        delivery = await practice.delivery()
        delivery._receiver = Failing(practice.wire, {practice.products[1]})
        async with Running(delivery):
            await practice.tell(*range(2, 40))
            delivery.nudge()
            await practice.clock.sleep(HOUR)
            practice.behave(ServerMode.WELL)
            while await delivery.pending():
                await practice.tell(40)
                delivery.nudge()
                await practice.clock.sleep(30)
            statuses = {m.outbox_id: m.status for m in await practice.messages()}
            assert statuses.pop(bad) is MessageStatus.FAILED
            assert set(statuses.values()) == {MessageStatus.COMPLETED}

    practice.play(scenario())


def test_a_restart_in_the_middle_of_an_outage_goes_on_where_the_circuit_stood(practice: DeliveryWorld) -> None:
    async def scenario() -> None:
        await practice.tell(*range(1, 60))
        practice.behave(ServerMode.DOWN)
        for crashes in (False, True, False):
            running = Running(await practice.delivery())
            async with running:
                await practice.clock.sleep(600)
                if crashes:
                    await running.crash()
        sent = len(practice.wire.sent)
        assert sent < 150, "a restart is no reason to ask again and again"
        practice.behave(ServerMode.WELL)
        last = await practice.delivery()
        async with Running(last):
            while await last.pending():
                await practice.beat(last)
                await last.recover(LAPSE)
                await practice.clock.sleep(10)

    practice.play(scenario())
    practice.check_everything_arrived()


def test_a_probe_whose_sender_was_killed_gets_a_successor(practice: DeliveryWorld) -> None:
    async def scenario() -> None:
        await practice.tell(*range(1, 30))
        practice.behave(ServerMode.DOWN)
        running = Running(await practice.delivery())
        async with running:
            while (await practice.channel()).state is not CircuitState.HALF_OPEN:
                await practice.clock.sleep(0.01)
            await running.crash()
        practice.behave(ServerMode.WELL)
        other = await practice.delivery()
        async with Running(other):
            await practice.clock.sleep(40)
            assert await other.recover(LAPSE) == 5
            await practice.beat(other)
            await practice.until_empty(other, longest=200)

    practice.play(scenario())
    practice.check_everything_arrived()


def test_two_processes_go_by_one_circuit(practice: DeliveryWorld) -> None:
    async def scenario() -> None:
        await practice.tell(*range(1, 101))
        practice.behave(ServerMode.DOWN)
        one, two = await practice.delivery(), await practice.delivery()
        async with Running(one), Running(two):
            await practice.clock.sleep(HOUR)
            messages = await practice.messages()
            assert {m.retry_count for m in messages} == {0}
            assert len(practice.wire.sent) < 250
            practice.behave(ServerMode.WELL)
            await practice.until_empty(one, longest=600)

    practice.play(scenario())
    practice.check_everything_arrived()


def test_a_paused_outbox_sends_nothing_over_restarts_and_goes_on_within_seconds(practice: DeliveryWorld) -> None:
    async def scenario() -> None:
        await practice.tell(*range(1, 50))
        await practice.pause(True)
        for _ in range(2):
            async with Running(await practice.delivery()):
                await practice.clock.sleep(HOUR)
        assert practice.wire.sent == []
        delivery = await practice.delivery()
        async with Running(delivery):
            await practice.clock.sleep(100)
            await practice.pause(False)
            await practice.clock.sleep(6)
            assert practice.wire.sent != []
            await practice.until_empty(delivery)

    practice.play(scenario())
    practice.check_everything_arrived()


def test_a_pause_lets_what_is_under_way_finish(practice: DeliveryWorld) -> None:
    async def scenario() -> None:
        await practice.tell(*range(1, 50))
        practice.wire.latency = 2.0
        delivery = await practice.delivery()
        async with Running(delivery):
            await practice.clock.sleep(1)
            await practice.pause(True)
            await practice.clock.sleep(100)
        assert (delivery.delivered, len(practice.wire.sent)) == (15, 15)

    practice.play(scenario())


@pytest.mark.parametrize("per_second", [2.0, 40.0])
def test_no_more_leave_in_a_second_than_the_rate_allows_over_all_processes(
    practice: DeliveryWorld, per_second: float
) -> None:
    async def scenario() -> float:
        await practice.tell(*range(1, 101))
        rules = DeliveryRules(per_second=per_second)
        one, two = await practice.delivery(rules), await practice.delivery(rules)
        began = practice.clock.monotonic()
        async with Running(one), Running(two):
            await practice.until_empty(one)
        return practice.clock.monotonic() - began

    took = practice.play(scenario())
    assert took == pytest.approx(100 / per_second, abs=2.5)
    times = [sent.at.timestamp() for sent in practice.wire.sent]
    for time in times:
        assert len([t for t in times if time <= t < time + 1]) <= per_second + max(1, per_second / 10) + 1
    practice.check_everything_arrived()


def test_every_try_is_a_row_with_its_time_its_length_and_the_beginning_of_the_answer(practice: DeliveryWorld) -> None:
    async def scenario() -> list[Attempt]:
        (told,) = await practice.tell(1)
        practice.behave(ServerMode.ERROR, requests=2)
        delivery = await practice.delivery(DeliveryRules(backoff=Backoff(30, 3600, jitter=0)))
        async with Running(delivery):
            await practice.until_empty(delivery)
        return await attempts_of(practice, told)

    first, second, third = practice.play(scenario())
    sent = [request.at for request in practice.wire.sent]
    assert [first.at, second.at, third.at] == sent
    assert [a.try_number for a in (first, second, third)] == [1, 1, 1]
    assert (first.status, first.verdict, first.is_counted) == (500, DeliveryVerdict.RETRY, False)
    assert first.answer == '{"status":500,"message":"out of order"}'
    assert (third.status, third.verdict) == (200, DeliveryVerdict.DELIVERED)
    assert third.answer == '{"received":true,"duplicate":false}'
    assert [a.duration_ms for a in (first, second, third)] == [50, 50, 50]


def test_tries_that_do_not_count_are_rows_too_and_say_so(practice: DeliveryWorld) -> None:
    async def scenario() -> tuple[list[Attempt], int]:
        ids = await practice.tell(*range(1, 31))
        practice.behave(ServerMode.DOWN)
        delivery = await practice.delivery()
        async with Running(delivery):
            await practice.clock.sleep(300)
        found = [attempt for outbox_id in ids for attempt in await attempts_of(practice, outbox_id)]
        return found, len(practice.wire.sent)

    attempts, sent = practice.play(scenario())
    assert len(attempts) == sent > 30
    assert not any(attempt.is_counted for attempt in attempts)
    assert {attempt.answer for attempt in attempts} == {"the connection was lost: Server disconnected"}


def test_a_try_whose_sender_vanished_or_stopped_is_a_row_as_well(practice: DeliveryWorld) -> None:
    async def scenario() -> list[Attempt]:
        (told,) = await practice.tell(1)
        practice.wire.latency = 50.0
        crashing = Running(await practice.delivery())
        async with crashing:
            await practice.clock.sleep(1)
            await crashing.crash()
        await practice.clock.sleep(40)
        stopping = await practice.delivery(DeliveryRules(grace=2))
        assert await stopping.recover(LAPSE) == 1
        async with Running(stopping):
            await practice.clock.sleep(35)
        return await attempts_of(practice, told)

    vanished, stopped = practice.play(scenario())
    assert (vanished.answer, vanished.is_counted, vanished.duration_ms) == ("its sender vanished", True, None)
    assert (stopped.answer, stopped.is_counted) == ("the sender stopped before there was an answer", False)
    assert (vanished.try_number, stopped.try_number) == (1, 2)


def test_an_answer_that_is_written_twice_counts_once(practice: DeliveryWorld) -> None:
    """A commit whose answer was lost is run again: neither the circuit nor the tries hear of it twice."""

    async def scenario() -> None:
        ids = await practice.tell(*range(1, 5))
        practice.behave(ServerMode.DOWN)
        delivery = await practice.delivery(store=Forgetful(practice.store))  # type: ignore[arg-type]
        async with Running(delivery):
            await practice.clock.sleep(10)
        assert (await practice.channel()).failures == 4
        for outbox_id in ids:
            assert len(await attempts_of(practice, outbox_id)) == 2, "the request and its repetition"

    practice.play(scenario())


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


def test_what_waits_behind_failures_is_set_aside_until_they_are_out_of_the_way(practice: DeliveryWorld) -> None:
    async def scenario() -> None:
        await practice.tell(*range(1, 101))
        await practice.tell(*range(1, 101))
        now = practice.clock.now()
        messages = await practice.messages()

        def give_up(tx: Transaction) -> None:
            tx.product_outbox.move([m.send(worker).refuse("no") for m in messages[:100]], now)

        delivery = await practice.delivery()
        worker = delivery._worker_id
        await practice.store.transact(give_up)
        assert await delivery.recover(LAPSE) == 0
        aside = [m for m in await practice.messages() if m.status is MessageStatus.WAITING]
        assert {m.next_attempt_at for m in aside} == {now + timedelta(hours=1)}
        first = messages[0]

        def free(tx: Transaction) -> None:
            (failed,) = tx.product_outbox.get_many([first.outbox_id])
            tx.product_outbox.move([failed.discard()], now)
            tx.product_outbox.release_held([first.subject_id], now)

        await practice.store.transact(free)
        async with Running(delivery):
            await practice.clock.sleep(1)
        assert [sent.item_no for sent in practice.wire.sent] == [first.item_no]

    practice.play(scenario())
