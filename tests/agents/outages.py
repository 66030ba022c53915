"""An endpoint of the marketplace whose circuit is open, for tests of what is shown of it."""

from __future__ import annotations

from datetime import datetime

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.agents.agent import Outcome
from sellerwatch.agents.marketplace_circuit import Endpoint, EndpointFailure, MarketplaceCircuitRules
from sellerwatch.kernel.failure import Failure, FailureCode

RULES = MarketplaceCircuitRules(failures=3)


def answer_503(tx: Transaction, endpoint: Endpoint, now: datetime) -> Failure:
    """Enough server errors, over enough products and agents, to open the circuit."""
    failure = Failure.of(FailureCode.SERVER_ERROR, now, status=503)
    circuit = tx.marketplace.hold(endpoint, now)
    for number in range(RULES.failures):
        entry = EndpointFailure(number, f"item {number}", None, Outcome.SERVER_ERROR, now, permit=number)
        circuit = circuit.failed(entry, failure, RULES, now)
    tx.marketplace.save(circuit, now)
    return failure


async def open_circuit(store: SqlStore, endpoint: Endpoint, now: datetime) -> Failure:
    return await store.transact(lambda tx: answer_503(tx, endpoint, now))
