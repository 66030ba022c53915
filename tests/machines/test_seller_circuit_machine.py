"""The circuit of a seller at the receiver under random answers and claims."""

from __future__ import annotations

from datetime import datetime, timedelta

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.builders import NOW, SELLER, rng
from tests.machines.moves import QUICK

from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.outbox.message import OutboxKind
from sellerwatch.outbox.receipt import Receipt
from sellerwatch.outbox.rules import DeliveryRules
from sellerwatch.outbox.seller_circuit import SellerCircuit

RULES = DeliveryRules(concurrency=6, failures=3, probes=2)
TROUBLE = Receipt.of_answer(500, b"out of order")


class SellerCircuitMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.circuit = SellerCircuit(OutboxKind.PRODUCT, SELLER)
        self.now = NOW
        self.flying: list[datetime] = []

    @rule(seconds=st.sampled_from([0.1, 5.0, 61.0, 400.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    @precondition(lambda self: self.circuit.can_send(self.now))
    @rule()
    def claim(self) -> None:
        number = self.circuit.most(RULES) - len(self.flying)
        if number > 0:
            self.circuit = self.circuit.send(RULES, self.now)
            self.flying += [self.now] * number

    @precondition(lambda self: self.flying)
    @rule(place=st.integers(0, 5))
    def one_is_accepted(self, place: int) -> None:
        began_at, before = self.flying.pop(place % len(self.flying)), self.circuit
        self.circuit = before.accepted(began_at)
        is_late = before.opened_at is not None and began_at < before.opened_at
        assert self.circuit == (before if is_late else SellerCircuit(OutboxKind.PRODUCT, SELLER))

    @precondition(lambda self: self.flying)
    @rule(place=st.integers(0, 5), may_open=st.booleans())
    def one_fails(self, place: int, may_open: bool) -> None:
        began_at, before = self.flying.pop(place % len(self.flying)), self.circuit
        self.circuit = before.failed(TROUBLE, began_at, may_open=may_open, rules=RULES, rng=rng(), at=self.now)
        if before.state is CircuitState.CLOSED:
            opens = may_open and before.failures + 1 >= RULES.failures
            assert (self.circuit.state is CircuitState.OPEN) == opens
            assert self.circuit.failures == before.failures + 1
        else:
            assert self.circuit.state is not CircuitState.CLOSED

    @precondition(lambda self: self.flying)
    @rule(place=st.integers(0, 5))
    def one_is_broken_off(self, place: int) -> None:
        began_at = self.flying.pop(place % len(self.flying))
        self.circuit = self.circuit.interrupted(began_at, self.now)

    @rule()
    def a_person_resumes(self) -> None:
        self.circuit = self.circuit.resume(self.now)
        assert self.circuit.can_send(self.now)

    @rule()
    def an_outage_ends(self) -> None:
        since = self.circuit.failing_since
        self.circuit = self.circuit.after_outage()
        assert self.circuit.failing_since == since

    @invariant()
    def a_circuit_that_is_not_closed_says_when_it_may_be_asked_since_when_and_why(self) -> None:
        is_closed = self.circuit.state is CircuitState.CLOSED
        for each in (self.circuit.not_before, self.circuit.reason, self.circuit.opened_at):
            assert (each is None) == is_closed
        assert is_closed or self.circuit.openings

    @invariant()
    def there_is_something_to_remember_exactly_while_it_fails(self) -> None:
        assert not self.circuit.failures or not self.circuit.is_new

    @invariant()
    def whatever_happened_it_may_send_again_some_day(self) -> None:
        assert self.circuit.can_send(self.now + timedelta(days=1))


TestSellerCircuit = SellerCircuitMachine.TestCase
TestSellerCircuit.settings = QUICK
