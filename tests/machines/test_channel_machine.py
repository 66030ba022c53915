"""A channel under random answers, pauses and claims."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.builders import NOW, outbox_id, rng
from tests.machines.moves import QUICK

from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.ids import OutboxId
from sellerwatch.outbox.channel import Channel
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
        self.flying: list[OutboxId] = []
        self.number = 0
        self.quiet_until = NOW

    @rule(seconds=st.sampled_from([0.1, 5.0, 61.0, 400.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    @rule()
    def claim(self) -> None:
        before = self.channel
        wanted = RULES.concurrency - len(self.flying)
        allowed = before.allow(wanted, lambda: len(self.flying), RULES, self.now)
        leaving = tuple(outbox_id(self.number + n) for n in range(1, allowed.slots + 1))
        self.number += len(leaving)
        assert 0 <= len(leaving) <= wanted
        if leaving:
            assert self.now >= self.quiet_until, "sent while the receiver rests"
            assert not before.is_paused
        if before.state is not CircuitState.CLOSED:
            assert len(leaving) <= 1
        self.channel = before.send(leaving, RULES, self.now)
        self.flying += leaving

    @precondition(lambda self: self.flying)
    @rule(place=st.integers(0, 5))
    def one_is_taken(self, place: int) -> None:
        outbox_id = self.flying.pop(place % len(self.flying))
        was_probe = outbox_id == self.channel.probe_id
        before = self.channel.state
        self.channel = self.channel.answered(outbox_id, RULES, self.now)
        assert self.channel.state is (CircuitState.CLOSED if was_probe else before)

    @precondition(lambda self: self.flying)
    @rule(place=st.integers(0, 5), trouble=st.sampled_from(TROUBLES))
    def one_fails(self, place: int, trouble: Receipt) -> None:
        outbox_id = self.flying.pop(place % len(self.flying))
        before = self.channel
        self.channel, counts = before.failed(outbox_id, trouble, RULES, rng(), self.now)
        asks = trouble.wait is not None
        assert counts == (before.state is CircuitState.CLOSED and not asks)
        if asks and (before.state is not CircuitState.HALF_OPEN or outbox_id == before.probe_id):
            self.quiet_until = max(self.quiet_until, self.now + ASKED)

    @precondition(lambda self: self.flying)
    @rule(place=st.integers(0, 5))
    def one_is_broken_off(self, place: int) -> None:
        outbox_id = self.flying.pop(place % len(self.flying))
        self.channel = self.channel.interrupted(outbox_id, self.now)

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
        assert (self.channel.probe_id is not None) == (self.channel.state is CircuitState.HALF_OPEN)

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
