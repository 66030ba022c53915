"""When a start that waits is tried again: at its time, or at once when what it waited for is back."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest
from tests.agents.outages import RULES, answer_503
from tests.builders import HOUR, MINUTE, NOW, SELLER, a_seller, an_execution, worker_id
from tests.conftest import ENGINES

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.agents.marketplace_circuit import Endpoint
from sellerwatch.crawling.start_due import _is_of_this_time, next_start
from sellerwatch.crawling.trigger import _next_probe
from sellerwatch.kernel.failure import Failure, FailureCode

FAILED = NOW + MINUTE
BACK = NOW + 2 * MINUTE
LATER = NOW + 3 * MINUTE
NEXT_TRY = NOW + HOUR
NO_SESSION = Failure.of(FailureCode.NO_SESSION, FAILED)


@pytest.fixture(params=ENGINES)
def on(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def wait_to_start(store: SqlStore, away: tuple[Endpoint, ...], back: tuple[Endpoint, ...]) -> None:
    """A start that failed while these endpoints were away, and waits for an hour; some of them are back since."""

    def work(tx: Transaction) -> None:
        tx.sellers.add(a_seller(1, seller_id=SELLER))
        tx.executions.add(an_execution(1).wait_to_start(NO_SESSION, NEXT_TRY))
        for endpoint in away:
            answer_503(tx, endpoint, NOW)
        for endpoint in back:
            circuit = tx.marketplace.hold(endpoint, BACK)
            tx.marketplace.save(circuit.probe(worker_id(), RULES, FAILED).probe_succeeded(BACK), BACK)

    await store.transact(work)


async def due(store: SqlStore, now: datetime) -> datetime | None:
    return await store.read(lambda tx: next_start(tx, now))


async def test_a_start_waits_for_its_time(inline_store: SqlStore) -> None:
    await wait_to_start(inline_store, (), ())
    assert await due(inline_store, LATER) == NEXT_TRY
    assert await due(inline_store, NEXT_TRY) == NEXT_TRY


@pytest.mark.parametrize("endpoint", [Endpoint.LIST, Endpoint.TOKEN])
async def test_a_start_is_tried_at_once_when_the_endpoint_it_needs_is_back(
    inline_store: SqlStore, endpoint: Endpoint
) -> None:
    await wait_to_start(inline_store, (endpoint,), (endpoint,))
    assert await due(inline_store, LATER) == LATER


async def test_a_start_is_not_tried_while_one_of_the_endpoints_it_needs_is_away(inline_store: SqlStore) -> None:
    await wait_to_start(inline_store, (Endpoint.LIST, Endpoint.TOKEN), (Endpoint.TOKEN,))
    assert await due(inline_store, LATER) == NEXT_TRY


async def test_products_that_are_back_are_nothing_to_a_start(inline_store: SqlStore) -> None:
    await wait_to_start(inline_store, (Endpoint.DETAIL,), (Endpoint.DETAIL,))
    assert await due(inline_store, LATER) == NEXT_TRY


async def test_a_start_that_failed_after_the_endpoint_was_back_waits_for_its_time(inline_store: SqlStore) -> None:
    await wait_to_start(inline_store, (Endpoint.LIST,), (Endpoint.LIST,))

    def work(tx: Transaction) -> None:
        (run,) = tx.executions.pending()
        tx.executions.save(run.wait_to_start(replace(NO_SESSION, at=LATER), NEXT_TRY))

    await inline_store.transact(work)
    assert await due(inline_store, LATER) == NEXT_TRY


@pytest.mark.parametrize(("created", "is_of_it"), [(NOW - MINUTE, False), (NOW, True), (NOW + MINUTE, True)])
def test_a_run_made_at_the_due_time_or_later_is_the_run_that_is_due(created: datetime, *, is_of_it: bool) -> None:
    assert _is_of_this_time(an_execution(created_at=created), NOW) is is_of_it


@pytest.mark.parametrize("away", [Endpoint.LIST, Endpoint.TOKEN])
async def test_a_start_waits_no_longer_than_until_the_next_probe_of_what_it_needs(
    inline_store: SqlStore, away: Endpoint
) -> None:
    assert await inline_store.read(lambda tx: _next_probe(tx, NOW)) is None
    await wait_to_start(inline_store, away=(away,), back=())
    circuit = (await inline_store.read(lambda tx: tx.marketplace.circuits()))[away]
    assert circuit.not_before is not None
    assert await inline_store.read(lambda tx: _next_probe(tx, NOW)) == circuit.not_before
