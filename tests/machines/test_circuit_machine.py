"""A circuit under random answers and time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.builders import MINUTE, NOW
from tests.machines import spec
from tests.machines.moves import QUICK, attempt

from sellerwatch.agents.circuit import Circuit
from sellerwatch.kernel.circuit import CircuitState

CLOSED, OPEN, HALF_OPEN = CircuitState.CLOSED, CircuitState.OPEN, CircuitState.HALF_OPEN


class CircuitMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.circuit = Circuit()
        self.now = NOW
        self.failures_in_a_row = 0

    @rule(seconds=st.integers(0, 900))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule(verb=st.sampled_from(["half_open", "close"]))
    def any_verb(self, verb: str) -> None:
        acts: dict[str, Callable[[Circuit], Circuit]] = {
            "half_open": lambda c: c.half_open(self.now),
            "close": lambda c: c.close(self.now),
        }
        before = self.circuit
        after = attempt("circuit", before, before.state, verb, acts[verb])
        if after is not None:
            assert after.state == spec.CIRCUIT[before.state, verb]
            self.circuit = after
            if verb == "close":
                self.failures_in_a_row = 0

    @rule()
    def a_request_fails(self) -> None:
        before = self.circuit
        self.circuit = before.failed(self.now)
        if before.state is CLOSED:
            self.failures_in_a_row += 1
            assert self.circuit.state is (OPEN if self.failures_in_a_row == 3 else CLOSED)
        else:
            assert self.circuit.state is OPEN
        if before.state is not OPEN and self.circuit.state is OPEN:
            assert self.circuit.probe_at() == self.now + 10 * MINUTE

    @rule()
    def a_request_succeeds(self) -> None:
        before = self.circuit
        self.circuit = before.succeeded(self.now)
        if before.state is OPEN:
            assert self.circuit == before
        else:
            assert self.circuit.state is CLOSED
            self.failures_in_a_row = 0

    @rule(failures=st.integers(1, 4))
    def failures_turn_out_to_be_the_marketplaces(self, failures: int) -> None:
        before = self.circuit
        self.circuit = before.forgive(failures, self.now)
        left = max(0, before.failure_count - failures)
        assert self.circuit.failure_count == left
        assert self.circuit.state is (CLOSED if left < 3 else before.state)
        if self.circuit.state is CLOSED:
            self.failures_in_a_row = left

    @rule()
    def its_time_comes(self) -> None:
        if self.circuit.may_probe(self.now):
            self.circuit = self.circuit.half_open(self.now)
            assert not self.circuit.may_probe(self.now + 10 * MINUTE - timedelta(microseconds=1)), "two probes at once"

    @invariant()
    def a_circuit_that_is_not_closed_always_names_the_time_it_lets_one_through(self) -> None:
        assert (self.circuit.probe_at() is not None) == (self.circuit.state is not CLOSED)
        assert self.circuit.probe_at() is None or self.circuit.may_probe(self.now + 10 * MINUTE)

    @invariant()
    def a_closed_circuit_has_seen_less_than_three_failures_in_a_row(self) -> None:
        if self.circuit.state is CLOSED:
            assert self.circuit.failure_count == self.failures_in_a_row < 3


TestCircuit = CircuitMachine.TestCase
TestCircuit.settings = QUICK
