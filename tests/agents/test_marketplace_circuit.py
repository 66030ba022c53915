"""The circuit of an endpoint, step by step: what opens it, who may probe it, and how it ramps up."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from tests.builders import HOUR, MINUTE, NOW, SECOND, worker_id

from sellerwatch.agents.agent import Outcome
from sellerwatch.agents.marketplace_circuit import (
    LEFT_TO_CHECK,
    MOST_FAILED_SUBJECTS,
    RAMP_LASTS,
    Endpoint,
    EndpointFailure,
    MarketplaceCircuit,
    MarketplaceCircuitRules,
    next_probe,
)
from sellerwatch.kernel.failure import Failure, FailureCode

RULES = MarketplaceCircuitRules()
DOWN = Failure.of(FailureCode.SERVER_ERROR, NOW, status=500)


def fail(circuit: MarketplaceCircuit, *subjects: str, at: datetime = NOW) -> MarketplaceCircuit:
    """A failure about each of these, each by another agent."""
    for number, subject in enumerate(subjects, start=1):
        entry = EndpointFailure(number, subject, None, Outcome.SERVER_ERROR, at, permit=number)
        circuit = circuit.failed(entry, DOWN, RULES, at)
    return circuit


def opened(*subjects: str) -> MarketplaceCircuit:
    circuit = fail(MarketplaceCircuit(Endpoint.DETAIL), *subjects)
    assert not circuit.is_closed
    return circuit


def closed_again(*subjects: str) -> MarketplaceCircuit:
    """After an outage in which these failed; the probe asked about something else."""
    return opened(*subjects).probe(worker_id(), RULES, NOW + MINUTE).probe_succeeded(NOW + MINUTE, "other")


ABCDE = ("a", "b", "c", "d", "e")


def test_products_that_failed_in_an_outage_do_not_open_the_circuit_again_by_themselves() -> None:
    circuit = fail(closed_again(*ABCDE), *ABCDE, *ABCDE, at=NOW + 2 * MINUTE)
    assert circuit.is_closed
    assert fail(circuit, "new", at=NOW + 2 * MINUTE).is_closed, "one more may be broken too"
    assert not fail(circuit, "new", "newer", at=NOW + 2 * MINUTE).is_closed


def test_a_product_that_was_answered_counts_again() -> None:
    circuit = closed_again(*ABCDE)
    for subject in ABCDE:
        circuit = circuit.answered(NOW + MINUTE, NOW + MINUTE, subject)
    assert circuit.failed_subjects == ()
    assert not fail(circuit, *ABCDE, at=NOW + HOUR).is_closed


def test_a_failure_about_a_product_that_failed_before_is_not_its_agents() -> None:
    circuit = closed_again(*ABCDE)
    assert circuit.blames_no_agent(EndpointFailure(1, "a", None, Outcome.SERVER_ERROR, NOW, permit=1))
    assert not circuit.blames_no_agent(EndpointFailure(1, "new", None, Outcome.SERVER_ERROR, NOW, permit=1))


def test_one_product_alone_does_not_open_a_circuit_that_ramps_up_and_two_do() -> None:
    ramping = closed_again(*ABCDE)
    soon = NOW + 2 * MINUTE
    assert fail(ramping, "new", "new", "new", at=soon).is_closed
    assert not fail(ramping, "new", "newer", at=soon).is_closed


def test_a_ramp_ends_after_some_minutes_however_few_requests_there_were() -> None:
    ramping, over = closed_again(*ABCDE), NOW + MINUTE + RAMP_LASTS
    assert ramping.room(over - SECOND) == 2
    assert ramping.room(over) is None
    assert fail(ramping, "new", "newer", at=over).is_closed
    assert ramping.answered(over, over).most_at_once is None


def test_a_probe_is_about_what_has_not_failed_unless_it_is_overdue() -> None:
    circuit = opened(*ABCDE)
    due = NOW + RULES.open_for
    assert not circuit.may_probe(due - SECOND)
    assert (circuit.may_probe(due), circuit.may_probe(due, "new"), circuit.may_probe(due, "a")) == (True, True, False)
    assert circuit.may_probe(due + LEFT_TO_CHECK, "a")


def test_each_second_probe_is_left_to_whoever_chooses_its_subject() -> None:
    circuit = opened(*ABCDE).probe(worker_id(), RULES, NOW).probe_failed(DOWN, RULES, NOW)
    assert circuit.not_before is not None
    due = circuit.not_before
    assert (circuit.may_probe(due), circuit.may_probe(due, "new")) == (True, False)
    again = circuit.probe(worker_id(), RULES, due).probe_failed(DOWN, RULES, due)
    assert again.not_before is not None
    assert again.may_probe(again.not_before, "new")


def test_the_next_probe_is_later_than_now() -> None:
    circuit, due = opened(*ABCDE), NOW + RULES.open_for
    assert next_probe([circuit], NOW) == due
    assert next_probe([circuit], due) == due + LEFT_TO_CHECK
    assert next_probe([circuit], due + LEFT_TO_CHECK) is None
    assert next_probe([closed_again(*ABCDE)], NOW) is None


def test_what_failed_is_remembered_up_to_a_bound() -> None:
    circuit = opened(*ABCDE).with_failed_subjects(str(number) for number in range(MOST_FAILED_SUBJECTS))
    assert len(circuit.failed_subjects) == MOST_FAILED_SUBJECTS
    assert circuit.failed_subjects[-1] == str(MOST_FAILED_SUBJECTS - 1)


@pytest.mark.parametrize("endpoint", [Endpoint.LIST, Endpoint.TOKEN])
def test_where_one_subject_is_all_there_is_two_agents_open_a_ramping_circuit(endpoint: Endpoint) -> None:
    circuit = fail(MarketplaceCircuit(endpoint), "/", "/", "/", "/", "/")
    ramping = circuit.probe(worker_id(), RULES, NOW).probe_succeeded(NOW + timedelta(minutes=1), "/")
    assert fail(ramping, "/", at=NOW + 2 * MINUTE).is_closed
    assert not fail(ramping, "/", "/", at=NOW + 2 * MINUTE).is_closed


def test_the_wait_for_a_probe_doubles_with_each_that_failed_up_to_twenty_times() -> None:
    circuit, now, waits = opened("1", "2", "3", "4", "5"), NOW, []
    for _ in range(8):
        assert circuit.not_before is not None
        now = circuit.not_before
        circuit = circuit.probe(worker_id(), RULES, now).probe_failed(DOWN, RULES, now)
        assert circuit.not_before is not None
        waits.append((circuit.not_before - now) / RULES.open_for)
    assert waits == [2, 4, 8, 16, 20, 20, 20, 20]
