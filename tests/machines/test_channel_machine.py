"""A channel under random answers, pauses and claims."""

from __future__ import annotations

from datetime import datetime, timedelta

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.builders import NOW, rng
from tests.machines.moves import QUICK

from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.outbox.channel import ACCEPTED_EVERY, Channel
from sellerwatch.outbox.message import OutboxKind
from sellerwatch.outbox.receipt import Receipt
from sellerwatch.outbox.rules import DeliveryRules

RULES = DeliveryRules(concurrency=6, failures=3)
ASKED = timedelta(seconds=90)
TROUBLES = [
    Receipt.of_silence("no answer"),
    Receipt.of_answer(500, b"out of order"),
    Receipt.of_answer(302, b""),
    Receipt.of_answer(429, b"", ASKED),
    Receipt.of_answer(503, b"", ASKED),
    Receipt.of_answer(429, b""),
]


class ChannelMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.channel = Channel(OutboxKind.PRODUCT)
        self.now = NOW
        self.flying: list[datetime] = []
        self.quiet_until = NOW
        self.known_at = NOW - timedelta(days=1)

    @rule(seconds=st.sampled_from([0.1, 5.0, 61.0, 400.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    @rule(has_new_sellers=st.booleans())
    def claim(self, has_new_sellers: bool) -> None:
        before = self.channel
        wanted = RULES.concurrency - len(self.flying)
        allowed = before.allow(wanted, lambda: len(self.flying), RULES, self.now)
        number = allowed.slots if has_new_sellers or not allowed.new_sellers_only else 0
        assert 0 <= number <= wanted
        if number:
            assert self.now >= self.quiet_until, "sent while the receiver rests"
            assert not before.is_paused
        if before.state is not CircuitState.CLOSED:
            assert number <= RULES.probes
        self.channel = before.send(number, RULES, self.now)
        self.flying += [self.now] * number

    @precondition(lambda self: self.flying)
    @rule(place=st.integers(0, 5), is_accepted=st.booleans())
    def one_is_answered(self, place: int, is_accepted: bool) -> None:
        began_at, before = self.flying.pop(place % len(self.flying)), self.channel
        self.channel = before.answered(is_accepted, began_at, RULES, self.now)
        was_probe = before.opened_at is not None and began_at >= before.opened_at
        rests = before.rest_until is not None and before.rest_until > self.now
        is_closed = before.state is CircuitState.CLOSED or (was_probe and not rests)
        assert (self.channel.state is CircuitState.CLOSED) == is_closed
        assert not is_closed or not self.channel.failures
        if is_accepted:
            self.known_at = self.now

    @precondition(lambda self: self.flying)
    @rule(place=st.integers(0, 5), trouble=st.sampled_from(TROUBLES))
    def one_fails(self, place: int, trouble: Receipt) -> None:
        began_at, before = self.flying.pop(place % len(self.flying)), self.channel
        self.channel = before.failed(trouble, began_at, RULES, rng(), self.now)
        assert before.state is CircuitState.CLOSED or self.channel.state is not CircuitState.CLOSED
        if trouble.asks_for_rest:
            self.quiet_until = max(self.quiet_until, self.now + ASKED)

    @precondition(lambda self: self.flying and self.channel.state is CircuitState.CLOSED)
    @rule(place=st.integers(0, 5), is_a_sellers=st.booleans())
    def one_fails_by_itself_or_by_its_seller(self, place: int, is_a_sellers: bool) -> None:
        self.flying.pop(place % len(self.flying))
        before = self.channel
        self.channel = before.blamed_on_seller(self.now) if is_a_sellers else before.charged(self.now)
        assert self.channel.state is CircuitState.CLOSED

    @precondition(lambda self: self.flying)
    @rule(place=st.integers(0, 5))
    def one_is_broken_off(self, place: int) -> None:
        began_at = self.flying.pop(place % len(self.flying))
        self.channel = self.channel.interrupted(began_at, self.now)

    @precondition(lambda self: self.flying)
    @rule()
    def one_is_repeated_at_once(self) -> None:
        assert self.channel.repeated(RULES, self.now) == self.channel, "it only takes part in the rate"

    @rule()
    def pause_or_resume(self) -> None:
        if not self.channel.is_paused:
            self.channel = self.channel.pause("test", self.now)
            return
        if self.channel.state is CircuitState.OPEN:
            self.quiet_until = self.now  # a person decides
        self.channel = self.channel.resume(self.now)

    @invariant()
    def a_circuit_that_is_not_closed_says_when_it_may_be_asked_and_why(self) -> None:
        is_closed = self.channel.state is CircuitState.CLOSED
        assert (self.channel.not_before is None) == is_closed
        assert (self.channel.reason is None) == is_closed
        assert (self.channel.opened_at is None) == is_closed

    @invariant()
    def it_knows_to_a_second_when_something_was_accepted(self) -> None:
        noted = self.channel.accepted_at or self.known_at
        assert timedelta(0) <= self.known_at - noted < ACCEPTED_EVERY

    @invariant()
    def failures_and_the_ramp_stay_within_their_limits(self) -> None:
        assert 0 <= self.channel.failures <= RULES.failures
        assert self.channel.send_limit is None or 1 <= self.channel.send_limit < RULES.concurrency

    @invariant()
    def whatever_happened_it_flows_again_some_day(self) -> None:
        channel = self.channel.resume(self.now) if self.channel.is_paused else self.channel
        someday = self.now + timedelta(days=1)
        assert channel.allow(6, lambda: 0, RULES, someday).slots >= 1


TestChannel = ChannelMachine.TestCase
TestChannel.settings = QUICK
