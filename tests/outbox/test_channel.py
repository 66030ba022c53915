"""The channel by itself: what it makes of answers, and how many it lets leave."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from tests.builders import HOUR, MINUTE, NOW, SECOND, outbox_id, rng

from sellerwatch.kernel.backoff import Backoff
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.outbox.channel import Channel, NothingToResume, OutboxPaused
from sellerwatch.outbox.message import OutboxKind
from sellerwatch.outbox.receipt import Receipt
from sellerwatch.outbox.rules import DeliveryRules

CLOSED, OPEN, HALF_OPEN = CircuitState.CLOSED, CircuitState.OPEN, CircuitState.HALF_OPEN
RULES = DeliveryRules(concurrency=8, failures=3, opened=Backoff(30, 300, jitter=0))
SILENCE = Receipt.of_silence("no answer within 5 s")
FLOWING = Channel(OutboxKind.PRODUCT)


def fail(channel: Channel, number: int = 1, receipt: Receipt = SILENCE, now: datetime = NOW) -> tuple[Channel, bool]:
    return channel.failed(outbox_id(number), receipt, RULES, rng(), now)


def opened(now: datetime = NOW) -> Channel:
    channel = FLOWING
    for number in range(RULES.failures):
        channel, _ = fail(channel, number, now=now)
    return channel


def probing(now: datetime = NOW + MINUTE) -> Channel:
    return opened().send((outbox_id(1),), RULES, now)


def slots(channel: Channel, now: datetime, wanted: int = 8, under_way: int = 0, rules: DeliveryRules = RULES) -> int:
    return channel.allow(wanted, lambda: under_way, rules, now).slots


def test_a_channel_that_flows_lets_everything_leave_and_is_not_counted() -> None:
    def nobody_asks() -> int:
        raise AssertionError

    assert FLOWING.allow(8, nobody_asks, RULES, NOW).slots == 8
    assert FLOWING.answered(outbox_id(), RULES, NOW) is FLOWING


def test_failures_in_a_row_open_it_and_each_of_them_counts() -> None:
    channel, counts = FLOWING, []
    for number in range(3):
        assert channel.state is CLOSED
        channel, counted = fail(channel, number)
        counts.append(counted)
    assert counts == [True, True, True]
    assert (channel.state, channel.not_before, channel.opened_at) == (OPEN, NOW + 30 * SECOND, NOW)
    assert channel.reason == "no answer within 5 s"


def test_a_success_or_a_refusal_between_failures_starts_the_count_again() -> None:
    channel, _ = fail(fail(FLOWING)[0])
    channel, _ = fail(channel.answered(outbox_id(), RULES, NOW))
    assert (channel.state, channel.failures) == (CLOSED, 1)


def test_what_fails_while_it_is_open_costs_nothing_and_late_successes_do_not_close_it() -> None:
    channel = opened()
    assert fail(channel) == (channel, False)
    assert channel.answered(outbox_id(), RULES, NOW) is channel
    assert slots(channel, NOW + 29 * SECOND) == 0
    assert channel.allow(8, lambda: 0, RULES, NOW).check_at == NOW + 30 * SECOND


def test_after_its_time_one_message_finds_out_and_nobody_else_leaves() -> None:
    assert slots(opened(), NOW + 30 * SECOND) == 1
    channel = probing()
    assert (channel.state, channel.probe_id) == (HALF_OPEN, outbox_id(1))
    assert slots(channel, NOW + MINUTE) == 0


def test_only_the_probe_decides() -> None:
    channel = probing()
    assert channel.answered(outbox_id(2), RULES, NOW + MINUTE) is channel
    assert fail(channel, 2) == (channel, False)
    again, counted = fail(channel, 1, now=NOW + MINUTE)
    assert (again.state, again.not_before, counted) == (OPEN, NOW + MINUTE + 60 * SECOND, False)
    assert again.opened_at == NOW, "the outage began then"
    closed = channel.answered(outbox_id(1), RULES, NOW + MINUTE)
    assert (closed.state, closed.openings, closed.opened_at, closed.reason) == (CLOSED, 0, None, None)


def test_the_wait_between_probes_doubles_up_to_its_longest() -> None:
    channel, now, waits = opened(), NOW, []
    for _ in range(6):
        assert channel.not_before is not None
        waits.append((channel.not_before - now).total_seconds())
        now = channel.not_before
        channel, _ = fail(channel.send((outbox_id(1),), RULES, now), 1, now=now)
    assert waits == [30, 60, 120, 240, 300, 300]


def test_a_probe_that_is_never_answered_gets_a_successor() -> None:
    channel = probing(NOW + MINUTE)
    later = NOW + MINUTE + RULES.patience
    assert slots(channel, later) == 1
    successor = channel.send((outbox_id(2),), RULES, later)
    assert (successor.state, successor.probe_id) == (HALF_OPEN, outbox_id(2))


def test_a_probe_that_we_broke_off_ourselves_is_repeated_at_once() -> None:
    channel = probing()
    assert channel.interrupted(outbox_id(2), NOW) is channel
    missed = channel.interrupted(outbox_id(1), NOW + MINUTE)
    assert (missed.state, slots(missed, NOW + MINUTE)) == (OPEN, 1)


def test_after_the_probe_there_is_a_ramp_one_more_with_every_success() -> None:
    channel = probing().answered(outbox_id(1), RULES, NOW)
    ramp = []
    while channel.send_limit is not None:
        ramp.append(channel.send_limit)
        assert slots(channel, NOW, under_way=1) == channel.send_limit - 1
        channel = channel.answered(outbox_id(), RULES, NOW)
    assert ramp == [2, 3, 4, 5, 6, 7]
    assert slots(channel, NOW, under_way=8) == 8


def test_a_failure_on_the_ramp_counts_and_halves_it() -> None:
    channel = replace(FLOWING, send_limit=6)
    channel, counted = fail(channel)
    assert (channel.send_limit, counted, slots(channel, NOW, under_way=5)) == (3, True, 0)
    assert fail(fail(channel)[0])[0].state is OPEN


@pytest.mark.parametrize("status", [429, 503])
def test_a_receiver_that_asks_for_rest_gets_it_at_once_and_it_costs_nobody_a_try(status: int) -> None:
    asked = Receipt.of_answer(status, b"", HOUR)
    channel, counted = fail(FLOWING, receipt=asked)
    assert (channel.state, counted, channel.openings) == (OPEN, False, 0)
    assert channel.not_before is not None
    assert NOW + HOUR <= channel.not_before <= NOW + 1.1 * HOUR
    assert channel.notices(FLOWING) == ()


def test_a_longer_rest_asked_for_meanwhile_is_kept_too_and_a_shorter_one_shortens_nothing() -> None:
    channel, _ = fail(FLOWING, receipt=Receipt.of_answer(429, b"", MINUTE))
    longer, counted = fail(channel, receipt=Receipt.of_answer(429, b"", HOUR))
    assert longer.not_before is not None
    assert (longer.not_before >= NOW + HOUR, counted) == (True, False)
    assert fail(longer, receipt=Receipt.of_answer(429, b"", SECOND))[0] == longer


@pytest.mark.parametrize(
    "receipt", [Receipt.of_answer(429, b""), Receipt.of_answer(500, b"", HOUR), Receipt.of_answer(302, b"")]
)
def test_any_other_failure_is_one_of_those_in_a_row(receipt: Receipt) -> None:
    channel, counted = fail(FLOWING, receipt=receipt)
    assert (channel.state, channel.failures, counted) == (CLOSED, 1, True)


def test_people_hear_when_a_receiver_goes_down_and_when_it_is_back_and_not_in_between() -> None:
    down = opened()
    (notice,) = down.notices(replace(FLOWING, failures=2))
    assert (notice.kind, notice.subject) == ("receiver.down", "product")
    assert "product server accepts no events (no answer within 5 s)" in notice.text()
    half = down.send((outbox_id(1),), RULES, NOW)
    assert half.notices(down) == ()
    again, _ = fail(half, 1)
    assert again.notices(half) == ()
    (back,) = half.answered(outbox_id(1), RULES, NOW).notices(half)
    assert back.kind == "receiver.up"


def test_a_paused_channel_lets_nothing_leave_until_it_is_resumed() -> None:
    paused = FLOWING.pause("cli:minji", NOW)
    assert (paused.is_paused, slots(paused, NOW + HOUR)) == (True, 0)
    with pytest.raises(OutboxPaused, match="already paused, by cli:minji"):
        paused.pause("cli:jun", NOW)
    assert paused.resume(NOW) == FLOWING
    with pytest.raises(NothingToResume):
        FLOWING.resume(NOW)


def test_resuming_an_open_circuit_sends_one_message_to_find_out() -> None:
    channel = opened().resume(NOW + SECOND)
    assert (channel.state, slots(channel, NOW + SECOND)) == (OPEN, 1)


@pytest.mark.parametrize("per_second", [0.1, 1.0, 7.0, 250.0])
def test_a_rate_holds_over_any_stretch_of_time_but_for_one_burst(per_second: float) -> None:
    rules = replace(RULES, per_second=per_second)
    channel, sent, start = FLOWING, 0, NOW
    for step in range(500):
        now = start + step * timedelta(milliseconds=20)
        free = channel.allow(1000, lambda: 0, rules, now).slots
        channel = channel.send(tuple(outbox_id(n) for n in range(free)), rules, now)
        sent += free
        assert sent <= per_second * (now - start).total_seconds() + max(1, per_second / 10) + 1e-6
    assert sent >= per_second * 9 - 1


def test_a_rate_says_when_the_next_may_leave() -> None:
    rules = replace(RULES, per_second=2.0)
    channel = FLOWING.send((outbox_id(1),), rules, NOW)
    allowed = channel.allow(8, lambda: 0, rules, NOW)
    assert (allowed.slots, allowed.check_at) == (0, NOW + SECOND / 2)
