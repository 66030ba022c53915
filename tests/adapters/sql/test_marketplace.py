"""The state of the marketplace as all processes share it: a circuit per endpoint, and what a person has paused."""

from __future__ import annotations

import pytest
from tests.builders import LATER, MINUTE, NOW, seller_id, task_id, worker_id
from tests.conftest import ENGINES

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.agents.agent import Outcome
from sellerwatch.agents.marketplace_circuit import (
    Endpoint,
    EndpointFailure,
    MarketplaceCircuit,
    MarketplaceCircuitRules,
)
from sellerwatch.agents.ports import Pause
from sellerwatch.kernel.failure import Failure, FailureCode
from sellerwatch.kernel.ids import SellerId

RULES = MarketplaceCircuitRules()
DOWN = Failure.of(FailureCode.UNREACHABLE, NOW, detail="연결 거부 🧥")


@pytest.fixture(params=ENGINES)
def on(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def failed(circuit: MarketplaceCircuit, times: int) -> MarketplaceCircuit:
    """So many failures in a row, each by another agent about another product."""
    for number in range(1, times + 1):
        entry = EndpointFailure(number, str(number), task_id(number), Outcome.NETWORK_ERROR, NOW, permit=number)
        circuit = circuit.failed(entry, DOWN, RULES, NOW)
    return circuit


async def kept(store: SqlStore, circuit: MarketplaceCircuit) -> MarketplaceCircuit:
    """The circuit as it is read after it was written."""

    def work(tx: Transaction) -> None:
        tx.marketplace.hold(circuit.endpoint, NOW)
        tx.marketplace.save(circuit, LATER)

    await store.transact(work)
    return (await store.read(lambda tx: tx.marketplace.circuits()))[circuit.endpoint]


async def test_every_endpoint_has_a_closed_circuit_before_anything_was_written(inline_store: SqlStore) -> None:
    found = await inline_store.read(lambda tx: tx.marketplace.circuits())
    assert found == {endpoint: MarketplaceCircuit(endpoint) for endpoint in Endpoint}


async def test_a_circuit_comes_back_in_every_state_with_what_failed_lately(inline_store: SqlStore) -> None:
    counting = failed(MarketplaceCircuit(Endpoint.DETAIL), 4)
    opened = failed(MarketplaceCircuit(Endpoint.DETAIL), 5)
    probed = opened.probe(worker_id(), RULES, NOW + MINUTE)
    overlapped = counting.answered(NOW - MINUTE, NOW)
    assert [each.is_counted for each in overlapped.recent] == [False] * 4
    assert len(counting.recent) == 4
    assert not opened.is_closed
    reprobed = probed.probe_failed(DOWN, RULES, LATER)
    assert (opened.away_since, opened.failed_subjects) == (NOW, ("1", "2", "3", "4", "5"))
    for circuit in (counting, overlapped, opened, probed, reprobed, probed.probe_succeeded(LATER)):
        assert await kept(inline_store, circuit) == circuit


async def test_a_failure_of_the_token_page_has_no_task(inline_store: SqlStore) -> None:
    entry = EndpointFailure(1, "agent", None, Outcome.SERVER_ERROR, NOW, permit=1)
    circuit = MarketplaceCircuit(Endpoint.TOKEN).failed(entry, DOWN, RULES, NOW)
    assert await kept(inline_store, circuit) == circuit


async def test_circuits_of_other_endpoints_are_left_alone(inline_store: SqlStore) -> None:
    opened = await kept(inline_store, failed(MarketplaceCircuit(Endpoint.OPTIONS), 5))
    counting = await kept(inline_store, failed(MarketplaceCircuit(Endpoint.DETAIL), 1))
    found = await inline_store.read(lambda tx: tx.marketplace.circuits())
    assert (found[Endpoint.OPTIONS], found[Endpoint.DETAIL]) == (opened, counting)
    assert found[Endpoint.LIST] == MarketplaceCircuit(Endpoint.LIST)


async def test_holding_a_circuit_makes_its_row_once_and_gives_it_as_it_is(inline_store: SqlStore) -> None:
    for _ in range(2):
        held = await inline_store.transact(lambda tx: tx.marketplace.hold(Endpoint.LIST, NOW))
        assert held == MarketplaceCircuit(Endpoint.LIST)
    rows = await inline_store.read(lambda tx: tx.db.value("SELECT COUNT(*) FROM marketplace_circuits"))
    assert rows == 1
    opened = await kept(inline_store, failed(MarketplaceCircuit(Endpoint.LIST), 5))
    assert await inline_store.transact(lambda tx: tx.marketplace.hold(Endpoint.LIST, LATER)) == opened


async def test_a_pause_is_made_once_and_taken_back_once_for_all_or_for_one_seller(inline_store: SqlStore) -> None:
    async def pause(scope: SellerId | None, by: str) -> bool:
        return await inline_store.transact(lambda tx: tx.marketplace.pause(scope, by, NOW))

    for scope, by in ((None, "cli:kim"), (seller_id(2), "console:이영희")):
        assert await pause(scope, by)
        assert not await pause(scope, "another")
    assert await inline_store.read(lambda tx: tx.marketplace.pauses()) == [
        Pause(None, NOW, "cli:kim"),
        Pause(seller_id(2), NOW, "console:이영희"),
    ]
    assert not await inline_store.transact(lambda tx: tx.marketplace.resume(seller_id(3)))
    assert await inline_store.transact(lambda tx: tx.marketplace.resume(None))
    assert not await inline_store.transact(lambda tx: tx.marketplace.resume(None))
    assert await inline_store.read(lambda tx: tx.marketplace.pauses()) == [Pause(seller_id(2), NOW, "console:이영희")]
