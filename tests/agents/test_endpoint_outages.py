"""What the circuit of an endpoint makes of answers that come late, overlap or come from several processes."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.builders import NOW, worker_id

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.agents.agent import Outcome
from sellerwatch.agents.marketplace_circuit import Endpoint, MarketplaceCircuit, MarketplaceCircuitRules
from sellerwatch.agents.outages import Observation, Observed, observe
from sellerwatch.kernel.failure import Failure, FailureCode
from sellerwatch.kernel.ids import TaskId

RULES = MarketplaceCircuitRules(failures=3, open_for=timedelta(seconds=30))
TIMED_OUT = Failure.of(FailureCode.TIMED_OUT, NOW)


def failed(number: int, *, sent: float, answered: float) -> Observation:
    return _seen(number, sent, answered, Outcome.NETWORK_ERROR, TIMED_OUT)


def succeeded(number: int, *, sent: float, answered: float, is_probe: bool = False) -> Observation:
    return _seen(number, sent, answered, Outcome.SUCCESS, None, is_probe)


def _seen(
    number: int, sent: float, answered: float, outcome: Outcome, outage: Failure | None, is_probe: bool = False
) -> Observation:
    return Observation(
        endpoint=Endpoint.DETAIL,
        permit=number,
        agent_row=number,
        subject=f"item {number}",
        sent_at=NOW + timedelta(seconds=sent),
        at=NOW + timedelta(seconds=answered),
        outcome=outcome,
        task_id=TaskId(f"task {number}"),
        outage=outage,
        is_probe=is_probe,
    )


@pytest.fixture
def store(inline_store: SqlStore) -> SqlStore:
    return inline_store


async def see(store: SqlStore, *seen: Observation) -> tuple[Observed, MarketplaceCircuit]:
    now = max(one.at for one in seen)
    observed = await store.transact(lambda tx: observe(tx, seen, RULES, now))
    return observed, (await store.read(lambda tx: tx.marketplace.circuits()))[Endpoint.DETAIL]


def send_probe(tx: Transaction) -> None:
    circuit = tx.marketplace.circuits()[Endpoint.DETAIL]
    tx.marketplace.save(circuit.probe(worker_id(), RULES, NOW), NOW)


def tasks_given_back(observed: Observed) -> list[str]:
    return [str(failure.task_id) for failure in observed.given_back]


async def test_a_success_that_was_sent_before_an_outage_hides_none_of_its_failures(store: SqlStore) -> None:
    await see(store, failed(1, sent=9.9, answered=10), failed(2, sent=10, answered=10.1))
    _, circuit = await see(store, succeeded(3, sent=9.5, answered=10.2))
    assert circuit.counted == ()
    observed, circuit = await see(store, *(failed(n, sent=10.3, answered=10.4 + n / 100) for n in (4, 5, 6)))
    assert not circuit.is_closed
    assert tasks_given_back(observed) == ["task 1", "task 2"]
    assert observed.excused == {4, 5, 6}


async def test_a_success_that_was_sent_after_failures_ends_their_row(store: SqlStore) -> None:
    await see(store, failed(1, sent=9.9, answered=10), failed(2, sent=10, answered=10.1))
    _, circuit = await see(store, succeeded(3, sent=10.2, answered=10.3))
    assert circuit.recent == ()
    observed, _ = await see(store, *(failed(n, sent=10.3, answered=10.4 + n / 100) for n in (4, 5, 6)))
    assert tasks_given_back(observed) == []


async def test_a_success_that_is_written_late_takes_nothing_from_failures_that_came_after_it(store: SqlStore) -> None:
    await see(store, failed(1, sent=9.9, answered=10), failed(2, sent=10, answered=10.1))
    await see(store, succeeded(3, sent=9, answered=9.9))
    observed, circuit = await see(store, failed(4, sent=10.1, answered=10.2))
    assert not circuit.is_closed
    assert tasks_given_back(observed) == ["task 1", "task 2"]


async def test_errors_among_good_answers_never_open_the_circuit(store: SqlStore) -> None:
    for number in range(1, 60, 3):
        at = 10 + number / 100
        _, circuit = await see(
            store,
            failed(number, sent=at - 1, answered=at),
            failed(number + 1, sent=at - 1, answered=at + 0.001),
            succeeded(number + 2, sent=at - 1, answered=at + 0.002),
        )
        assert circuit.is_closed


async def test_a_failure_from_an_outage_that_has_ended_is_excused_and_opens_nothing(store: SqlStore) -> None:
    await see(store, *(failed(n, sent=10, answered=10 + n / 100) for n in (1, 2, 3)))
    await store.transact(send_probe)
    _, circuit = await see(store, succeeded(4, sent=45, answered=45.1, is_probe=True))
    assert circuit.is_closed
    observed, circuit = await see(store, failed(5, sent=44, answered=45))
    assert circuit.is_closed
    assert observed.excused == {5}
