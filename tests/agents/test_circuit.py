"""A circuit: three failures open it, ten minutes half open it, one request decides."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from tests.builders import LATER, MINUTE, NOW, a_circuit

from sellerwatch.agents.circuit import Circuit
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.errors import IllegalMove

CLOSED, OPEN, HALF_OPEN = CircuitState.CLOSED, CircuitState.OPEN, CircuitState.HALF_OPEN


def an_open_circuit() -> Circuit:
    return Circuit().failed(NOW).failed(NOW).failed(NOW)


def test_a_circuit_begins_closed() -> None:
    assert Circuit().state is CLOSED
    assert Circuit().probe_at() is None


def test_a_circuit_opens_after_3_failures_in_a_row() -> None:
    circuit = Circuit().failed(NOW).failed(NOW)
    assert circuit.state is CLOSED
    opened = circuit.failed(LATER)
    assert (opened.state, opened.opened_at, opened.failure_count) == (OPEN, LATER, 3)


def test_a_success_between_starts_the_count_again() -> None:
    circuit = Circuit().failed(NOW).failed(NOW).succeeded(NOW).failed(NOW).failed(NOW)
    assert (circuit.state, circuit.failure_count) == (CLOSED, 2)


def test_an_open_circuit_lets_one_through_after_10_minutes() -> None:
    assert an_open_circuit().probe_at() == NOW + 10 * MINUTE


def test_the_threshold_and_the_time_are_settings() -> None:
    circuit = a_circuit(threshold=1, timeout=MINUTE).failed(NOW)
    assert (circuit.state, circuit.probe_at()) == (OPEN, NOW + MINUTE)


def test_one_request_may_find_out_when_the_time_has_come_and_not_before() -> None:
    assert not Circuit().may_probe(LATER)
    assert not an_open_circuit().may_probe(NOW + 10 * MINUTE - timedelta(microseconds=1))
    assert an_open_circuit().may_probe(NOW + 10 * MINUTE)


def test_while_a_probe_is_under_way_no_other_is_sent_and_one_never_answered_gets_a_successor() -> None:
    half_open = an_open_circuit().half_open(NOW + 10 * MINUTE)
    assert half_open.probe_at() == NOW + 20 * MINUTE
    assert not half_open.may_probe(NOW + 20 * MINUTE - timedelta(microseconds=1))
    again = half_open.half_open(NOW + 20 * MINUTE)
    assert (again.state, again.probe_at()) == (HALF_OPEN, NOW + 30 * MINUTE)


def test_a_success_of_the_probe_closes_it() -> None:
    closed = an_open_circuit().half_open(NOW + 10 * MINUTE).succeeded(LATER)
    assert (closed.state, closed.failure_count, closed.closed_at) == (CLOSED, 0, LATER)


def test_a_failure_of_the_probe_opens_it_again_for_the_whole_time() -> None:
    opened = an_open_circuit().half_open(NOW + 10 * MINUTE).failed(LATER)
    assert opened.state is OPEN
    assert opened.probe_at() == LATER + 10 * MINUTE


def test_a_late_success_does_not_close_an_open_circuit() -> None:
    assert an_open_circuit().succeeded(LATER) == an_open_circuit()


def test_a_late_failure_does_not_prolong_an_open_circuit() -> None:
    late = an_open_circuit().failed(LATER)
    assert (late.state, late.probe_at()) == (OPEN, NOW + 10 * MINUTE)


def test_an_operator_can_close_an_open_circuit() -> None:
    closed = an_open_circuit().close(LATER)
    assert (closed.state, closed.failure_count, closed.closed_at) == (CLOSED, 0, LATER)


def test_a_failure_that_was_the_marketplaces_is_taken_back() -> None:
    circuit = Circuit().failed(NOW).failed(NOW).forgive(1, LATER)
    assert (circuit.state, circuit.failure_count) == (CLOSED, 1)
    assert circuit.failed(LATER).state is CLOSED
    assert Circuit().forgive(5, LATER) == Circuit()


def test_a_circuit_that_would_not_have_opened_without_them_closes() -> None:
    closed = an_open_circuit().forgive(1, LATER)
    assert (closed.state, closed.failure_count, closed.closed_at) == (CLOSED, 2, LATER)
    probing = an_open_circuit().half_open(NOW + 10 * MINUTE).forgive(3, LATER)
    assert (probing.state, probing.failure_count) == (CLOSED, 0)


def test_a_circuit_with_failures_enough_of_its_own_stays_open() -> None:
    late = an_open_circuit().failed(NOW)
    assert (late.forgive(1, LATER).state, late.forgive(1, LATER).failure_count) == (OPEN, 3)


@pytest.mark.parametrize(
    ("state", "verb", "act"),
    [
        (CLOSED, "half_open", lambda c: c.half_open(NOW + 10 * MINUTE)),
        (CLOSED, "close", lambda c: c.close(NOW)),
    ],
)
def test_a_circuit_refuses_what_its_state_forbids(
    state: CircuitState, verb: str, act: Callable[[Circuit], Circuit]
) -> None:
    with pytest.raises(IllegalMove) as refusal:
        act(a_circuit(state=state))
    assert (refusal.value.noun, refusal.value.verb, refusal.value.state) == ("circuit", verb, state)


def test_the_refusal_of_a_circuit_is_a_tidy_sentence() -> None:
    with pytest.raises(IllegalMove) as refusal:
        Circuit().half_open(NOW + 10 * MINUTE)
    assert str(refusal.value) == "The circuit of the agent is CLOSED; to half open it must be OPEN or HALF_OPEN."
