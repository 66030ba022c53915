"""The channel by itself: what it makes of answers, and how many it lets leave."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from tests.builders import HOUR, MINUTE, NOW, SECOND, rng

from sellerwatch.kernel.backoff import Backoff
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.outbox.channel import Channel, NothingToResume, OutboxPaused
from sellerwatch.outbox.message import OutboxKind
from sellerwatch.outbox.receipt import Receipt
from sellerwatch.outbox.rules import DeliveryRules

CLOSED, OPEN, HALF_OPEN = CircuitState.CLOSED, CircuitState.OPEN, CircuitState.HALF_OPEN
RULES = DeliveryRules(concurrency=8, failures=3, probes=2, opened=Backoff(30, 300, jitter=0))
SILENCE = Receipt.of_silence("no answer within 5 s")
FLOWING = Channel(OutboxKind.PRODUCT)


def fail(channel: Channel, receipt: Receipt = SILENCE, now: datetime = NOW, began: datetime | None = None) -> Channel:
    return channel.failed(receipt, began or now, RULES, rng(), now)


def take(channel: Channel, now: datetime = NOW, began: datetime | None = None, is_accepted: bool = True) -> Channel:
    return channel.answered(is_accepted, began or now, RULES, now)


def opened(now: datetime = NOW) -> Channel:
    channel = FLOWING
    for _ in range(RULES.failures):
        channel = fail(channel, now=now)
    return channel


def probing(now: datetime = NOW + MINUTE) -> Channel:
    return opened().send(2, RULES, now)


def slots(channel: Channel, now: datetime, wanted: int = 8, under_way: int = 0, rules: DeliveryRules = RULES) -> int:
    allowed = channel.allow(wanted, lambda: under_way, rules, now)
    return 0 if allowed.new_sellers_only else allowed.slots


def test_a_channel_that_flows_lets_everything_leave_and_is_not_counted() -> None:
    def nobody_asks() -> int:
        raise AssertionError

    assert FLOWING.allow(8, nobody_asks, RULES, NOW).slots == 8


def test_while_nothing_fails_an_accepted_message_is_noted_once_a_second() -> None:
    channel = take(FLOWING)
    assert channel.accepted_at == NOW
    assert take(channel, NOW + SECOND / 2) is channel
    assert take(channel, NOW + SECOND).accepted_at == NOW + SECOND
    failed = channel.charged(NOW + SECOND / 4)
    assert take(failed, NOW + SECOND / 2).accepted_at == NOW + SECOND / 2, "the first after a failure"


def test_a_time_noted_before_the_clock_was_set_back_proves_nothing() -> None:
    channel = take(FLOWING, NOW + HOUR)
    assert not channel.accepted_between(NOW - HOUR, NOW)
    assert channel.accepted_between(NOW - HOUR, NOW + HOUR)
    assert take(channel, NOW).accepted_at == NOW


def test_failures_in_a_row_open_it() -> None:
    channel = FLOWING
    for _ in range(3):
        assert channel.state is CLOSED
        channel = fail(channel)
    assert (channel.state, channel.not_before, channel.opened_at) == (OPEN, NOW + 30 * SECOND, NOW)
    assert channel.reason == "no answer within 5 s"


@pytest.mark.parametrize("is_accepted", [True, False])
def test_a_success_or_a_refusal_between_failures_starts_the_count_again(is_accepted: bool) -> None:
    channel = fail(fail(FLOWING))
    channel = fail(take(channel, is_accepted=is_accepted), now=NOW + SECOND)
    assert (channel.state, channel.failures) == (CLOSED, 1)


def test_what_was_sent_before_something_else_was_accepted_is_no_failure_in_a_row() -> None:
    channel = take(FLOWING, NOW + SECOND)
    for _ in range(RULES.failures):
        channel = fail(channel, now=NOW + 5 * SECOND, began=NOW)
    assert (channel.state, channel.failures) == (CLOSED, 0)


def test_a_failure_that_is_charged_to_its_message_or_to_one_seller_is_none_either() -> None:
    channel = fail(fail(FLOWING)).charged(NOW)
    assert (channel.state, channel.failures) == (CLOSED, 2)
    assert channel.blamed_on_seller(NOW).failures == 0


def test_late_failures_and_late_successes_change_nothing_while_it_is_open() -> None:
    channel = opened(NOW + MINUTE)
    assert replace(fail(channel, began=NOW), failed_at=channel.failed_at) == channel
    late = take(channel, NOW + MINUTE + SECOND, began=NOW)
    assert (late.state, late.accepted_at) == (OPEN, NOW + MINUTE + SECOND)
    assert slots(channel, NOW + 89 * SECOND) == 0


def test_after_its_time_some_messages_find_out_and_nobody_else_leaves() -> None:
    assert slots(opened(), NOW + 30 * SECOND) == 2
    channel = probing()
    assert channel.state is HALF_OPEN
    assert slots(channel, NOW + MINUTE) == 0
    assert channel.was_open_at(NOW + MINUTE)


def test_messages_of_sellers_that_were_not_tried_yet_wait_for_two_seconds_at_most() -> None:
    channel = opened()
    first = channel.allow(8, lambda: 0, RULES, NOW + SECOND)
    assert (first.slots, first.new_sellers_only, first.check_at) == (2, True, NOW + 30 * SECOND)
    channel = channel.send(1, RULES, NOW + SECOND)
    second = channel.allow(8, lambda: 0, RULES, NOW + 2 * SECOND)
    assert (second.slots, second.check_at) == (0, NOW + 3 * SECOND)
    assert channel.allow(8, lambda: 0, RULES, NOW + 3 * SECOND).new_sellers_only


def test_only_a_probe_decides_and_the_first_that_fails_waits_for_all() -> None:
    channel = probing()
    again = fail(channel, now=NOW + MINUTE)
    assert (again.state, again.not_before) == (OPEN, NOW + MINUTE + 60 * SECOND)
    assert again.opened_at == NOW, "the outage began then"
    assert fail(again, now=NOW + MINUTE) == again, "the other probe of the round"
    for each in (channel, again):
        closed = take(each, NOW + MINUTE)
        assert (closed.state, closed.openings, closed.opened_at, closed.reason) == (CLOSED, 0, None, None)
        assert closed.was_open_at(NOW + 59 * SECOND)
        assert not closed.was_open_at(NOW + MINUTE)


def test_the_wait_between_probes_doubles_up_to_its_longest() -> None:
    channel, now, waits = opened(), NOW, []
    for _ in range(6):
        assert channel.not_before is not None
        waits.append((channel.not_before - now).total_seconds())
        now = channel.not_before
        channel = fail(channel.send(2, RULES, now), now=now)
    assert waits == [30, 60, 120, 240, 300, 300]


def test_probes_that_are_never_answered_get_successors() -> None:
    channel = probing(NOW + MINUTE)
    later = NOW + MINUTE + RULES.patience
    assert slots(channel, later) == 2
    assert channel.send(2, RULES, later).state is HALF_OPEN


def test_a_probe_that_we_broke_off_ourselves_is_repeated_at_once() -> None:
    channel = probing()
    assert channel.interrupted(NOW - SECOND, NOW) is channel
    missed = channel.interrupted(NOW + MINUTE, NOW + MINUTE)
    assert (missed.state, slots(missed, NOW + MINUTE)) == (OPEN, 2)


def test_after_the_probe_there_is_a_ramp_one_more_with_every_success() -> None:
    channel = take(probing(), NOW + MINUTE)
    ramp = []
    while channel.send_limit is not None:
        ramp.append(channel.send_limit)
        assert slots(channel, NOW, under_way=1) == channel.send_limit - 1
        channel = take(channel, NOW + MINUTE)
    assert ramp == [2, 3, 4, 5, 6, 7]
    assert slots(channel, NOW, under_way=8) == 8


def test_a_failure_on_the_ramp_halves_it() -> None:
    channel = fail(replace(FLOWING, send_limit=6))
    assert (channel.send_limit, slots(channel, NOW, under_way=5)) == (3, 0)
    assert fail(fail(channel)).state is OPEN


@pytest.mark.parametrize("status", [429, 503])
def test_a_receiver_that_asks_for_rest_gets_it_at_once_and_from_everybody(status: int) -> None:
    asked = Receipt.of_answer(status, b"", HOUR)
    channel = fail(FLOWING, receipt=asked)
    assert (channel.state, channel.openings) == (OPEN, 0)
    assert channel.allow(8, lambda: 0, RULES, NOW + MINUTE).slots == 0, "nor of a seller that was not tried yet"
    assert take(channel, NOW + MINUTE).state is OPEN
    assert channel.not_before is not None
    assert NOW + HOUR <= channel.not_before <= NOW + 1.1 * HOUR
    assert channel.notices(FLOWING) == ()


def test_a_longer_rest_asked_for_meanwhile_is_kept_too_and_a_shorter_one_shortens_nothing() -> None:
    channel = fail(FLOWING, receipt=Receipt.of_answer(429, b"", MINUTE))
    longer = fail(channel, receipt=Receipt.of_answer(429, b"", HOUR))
    assert longer.not_before is not None
    assert longer.not_before >= NOW + HOUR
    assert fail(longer, receipt=Receipt.of_answer(429, b"", SECOND)) == longer


@pytest.mark.parametrize(
    "receipt", [Receipt.of_answer(429, b""), Receipt.of_answer(500, b"", HOUR), Receipt.of_answer(302, b"")]
)
def test_any_other_failure_is_one_of_those_in_a_row(receipt: Receipt) -> None:
    channel = fail(FLOWING, receipt=receipt)
    assert (channel.state, channel.failures) == (CLOSED, 1)


def test_people_hear_when_a_receiver_goes_down_and_when_it_is_back_and_not_in_between() -> None:
    down = opened()
    (notice,) = down.notices(replace(FLOWING, failures=2))
    assert (notice.kind, notice.subject) == ("receiver.down", "product")
    assert "product server accepts no events (no answer within 5 s)" in notice.text()
    half = down.send(2, RULES, NOW)
    assert half.notices(down) == ()
    assert fail(half).notices(half) == ()
    (back,) = take(half).notices(half)
    assert back.kind == "receiver.up"


def test_a_paused_channel_lets_nothing_leave_until_it_is_resumed() -> None:
    paused = FLOWING.pause("cli:minji", NOW)
    assert (paused.is_paused, slots(paused, NOW + HOUR)) == (True, 0)
    with pytest.raises(OutboxPaused, match="already paused, by cli:minji"):
        paused.pause("cli:jun", NOW)
    assert paused.resume(NOW) == FLOWING
    with pytest.raises(NothingToResume):
        FLOWING.resume(NOW)


def test_resuming_an_open_circuit_sends_probes_even_after_the_clock_was_set_back() -> None:
    channel = opened().resume(NOW + SECOND)
    assert (channel.state, slots(channel, NOW + SECOND)) == (OPEN, 2)
    resting = fail(FLOWING, receipt=Receipt.of_answer(429, b"", HOUR)).resume(NOW + SECOND)
    assert slots(resting, NOW + SECOND) == 2
    earlier = opened().resume(NOW - HOUR)
    assert take(earlier, NOW - HOUR).state is CLOSED


@pytest.mark.parametrize("per_second", [0.1, 1.0, 7.0, 250.0])
def test_a_rate_holds_over_any_stretch_of_time_but_for_one_burst(per_second: float) -> None:
    rules = replace(RULES, per_second=per_second)
    channel, sent, start = FLOWING, 0, NOW
    for step in range(500):
        now = start + step * timedelta(milliseconds=20)
        free = channel.allow(1000, lambda: 0, rules, now).slots
        channel = channel.send(free, rules, now)
        sent += free
        assert sent <= per_second * (now - start).total_seconds() + max(1, per_second / 10) + 1e-6
    assert sent >= per_second * 9 - 1


def test_a_rate_says_when_the_next_may_leave() -> None:
    rules = replace(RULES, per_second=2.0)
    channel = FLOWING.send(1, rules, NOW)
    allowed = channel.allow(8, lambda: 0, rules, NOW)
    assert (allowed.slots, allowed.check_at) == (0, NOW + SECOND / 2)
    assert channel.repeated(rules, NOW).allow(8, lambda: 0, rules, NOW).check_at == NOW + SECOND
