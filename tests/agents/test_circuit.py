"""A circuit: three failures open it, ten minutes half open it, one request decides."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.builders import LATER, MINUTE, NOW, a_circuit

from sellerwatch.agents.circuit import Circuit, CircuitState
from sellerwatch.kernel.errors import IllegalMove

CLOSED, OPEN, HALF_OPEN = CircuitState.CLOSED, CircuitState.OPEN, CircuitState.HALF_OPEN


def an_open_circuit() -> Circuit:
    return Circuit().failed(NOW).failed(NOW).failed(NOW)


def test_a_circuit_begins_closed() -> None:
    assert Circuit().state is CLOSED
    assert Circuit().retry_at() is None


def test_a_circuit_opens_after_3_failures_in_a_row() -> None:
    circuit = Circuit().failed(NOW).failed(NOW)
    assert circuit.state is CLOSED
    opened = circuit.failed(LATER)
    assert (opened.state, opened.opened_at, opened.failure_count) == (OPEN, LATER, 3)


def test_a_success_between_starts_the_count_again() -> None:
    circuit = Circuit().failed(NOW).failed(NOW).succeeded(NOW).failed(NOW).failed(NOW)
    assert (circuit.state, circuit.failure_count) == (CLOSED, 2)


def test_an_open_circuit_lets_one_through_after_10_minutes() -> None:
    assert an_open_circuit().retry_at() == NOW + 10 * MINUTE


def test_the_threshold_and_the_time_are_settings() -> None:
    circuit = a_circuit(threshold=1, timeout=MINUTE).failed(NOW)
    assert (circuit.state, circuit.retry_at()) == (OPEN, NOW + MINUTE)


def test_a_half_open_circuit_names_no_time() -> None:
    assert an_open_circuit().half_open().retry_at() is None


def test_a_success_of_the_probe_closes_it() -> None:
    closed = an_open_circuit().half_open().succeeded(LATER)
    assert (closed.state, closed.failure_count, closed.closed_at) == (CLOSED, 0, LATER)


def test_a_failure_of_the_probe_opens_it_again_for_the_whole_time() -> None:
    opened = an_open_circuit().half_open().failed(LATER)
    assert opened.state is OPEN
    assert opened.retry_at() == LATER + 10 * MINUTE


def test_a_late_success_does_not_close_an_open_circuit() -> None:
    assert an_open_circuit().succeeded(LATER) == an_open_circuit()


def test_a_late_failure_does_not_prolong_an_open_circuit() -> None:
    late = an_open_circuit().failed(LATER)
    assert (late.state, late.retry_at()) == (OPEN, NOW + 10 * MINUTE)


def test_an_operator_can_close_an_open_circuit() -> None:
    closed = an_open_circuit().close(LATER)
    assert (closed.state, closed.failure_count, closed.closed_at) == (CLOSED, 0, LATER)


@pytest.mark.parametrize(
    ("state", "verb", "act"),
    [
        (CLOSED, "half_open", lambda c: c.half_open()),
        (HALF_OPEN, "half_open", lambda c: c.half_open()),
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
        Circuit().half_open()
    assert str(refusal.value) == "The circuit of the agent is CLOSED; to half open it must be OPEN."
