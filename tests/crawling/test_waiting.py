"""Why an open run makes no progress: one cause for each thing that can keep it waiting."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.agents.outages import open_circuit
from tests.builders import MINUTE, NOW, SELLER, a_context, a_seller, a_task, an_execution, worker_id
from tests.conftest import ENGINES

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.agents.marketplace_circuit import Endpoint
from sellerwatch.crawling.execution import Execution
from sellerwatch.crawling.ports import NoteKind
from sellerwatch.crawling.queries import causes_of_waiting
from sellerwatch.crawling.task import TaskType
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.failure import Failure, FailureCode
from sellerwatch.kernel.failure_view import WaitingView
from sellerwatch.kernel.ids import SellerId
from sellerwatch.operations import marketplace

REFUSED = Failure.of(FailureCode.UNREACHABLE, NOW, detail="connection refused")
RUNNING = an_execution(1).start(1, NOW)
PENDING = an_execution(1).wait_to_start(REFUSED, NOW + MINUTE)


@pytest.fixture(params=ENGINES)
def on(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def keep(store: SqlStore, run: Execution, *task_types: TaskType) -> None:
    def work(tx: Transaction) -> None:
        tx.sellers.add(a_seller(1, seller_id=SELLER))
        tx.executions.add(run)
        tx.tasks.add([a_task(number, type_) for number, type_ in enumerate(task_types, start=1)])

    await store.transact(work)


async def cause(store: SqlStore, run: Execution) -> Failure | None:
    return (await store.read(lambda tx: causes_of_waiting(tx, [run], NOW))).get(run.execution_id)


async def pause(store: SqlStore, seller_id: SellerId | None) -> None:
    await store.transact(lambda tx: marketplace.pause(tx, a_context(NOW), seller_id))


async def test_a_run_at_work_waits_for_nothing(inline_store: SqlStore) -> None:
    await keep(inline_store, RUNNING, TaskType.PRODUCT_DETAIL)
    assert await cause(inline_store, RUNNING) is None


@pytest.mark.parametrize("task_type", list(TaskType))
async def test_a_run_waits_for_an_endpoint_that_is_away_and_that_it_needs(
    inline_store: SqlStore, task_type: TaskType
) -> None:
    await keep(inline_store, RUNNING, task_type)
    await open_circuit(inline_store, Endpoint.OPTIONS, NOW)
    found = await cause(inline_store, RUNNING)
    if task_type is not TaskType.PRODUCT_OPTION:
        assert found is None
        return
    assert found is not None
    assert (found.code, found.at) == (FailureCode.CIRCUIT_OPEN, NOW)
    assert found.facts_by_name == {
        "endpoint": "options",
        "cause": "SERVER_ERROR",
        "status": 503,
    }
    shown = WaitingView.of(found, "en")
    assert shown is not None
    assert "options endpoint does not answer" in shown.message
    assert "answered 503" in shown.message


async def test_a_run_waits_for_the_token_page_whatever_it_needs(inline_store: SqlStore) -> None:
    await keep(inline_store, RUNNING, TaskType.PRODUCT_DETAIL)
    await open_circuit(inline_store, Endpoint.TOKEN, NOW)
    found = await cause(inline_store, RUNNING)
    assert found is not None
    assert found.facts_by_name["endpoint"] == "token"


async def test_a_run_at_work_does_not_wait_for_the_token_page(inline_store: SqlStore) -> None:
    # Agents that have a valid token go on at full speed.
    await keep(inline_store, RUNNING, TaskType.PRODUCT_DETAIL, TaskType.PRODUCT_OPTION)
    await open_circuit(inline_store, Endpoint.TOKEN, NOW)
    started = a_task(1, TaskType.PRODUCT_DETAIL).publish_and_start(worker_id(), NOW, 1)
    await inline_store.transact(lambda tx: tx.tasks.save([started], NOW))
    assert await cause(inline_store, RUNNING) is None


@pytest.mark.parametrize("seller_id", [None, SELLER], ids=["everything", "the seller"])
@pytest.mark.parametrize("run", [RUNNING, PENDING], ids=["running", "pending"])
async def test_a_pause_is_said_before_anything_else(
    inline_store: SqlStore, run: Execution, seller_id: SellerId | None
) -> None:
    await keep(inline_store, run, TaskType.PRODUCT_DETAIL)
    await open_circuit(inline_store, Endpoint.DETAIL, NOW)
    await pause(inline_store, seller_id)
    found = await cause(inline_store, run)
    assert found is not None
    assert found.code is FailureCode.MARKETPLACE_PAUSED


async def test_a_run_that_was_not_started_says_why_its_last_try_did_not_succeed(inline_store: SqlStore) -> None:
    await keep(inline_store, PENDING)
    assert await cause(inline_store, PENDING) == REFUSED


async def test_a_start_says_that_the_list_is_away_although_its_last_try_failed_before(inline_store: SqlStore) -> None:
    await keep(inline_store, PENDING)
    await open_circuit(inline_store, Endpoint.LIST, NOW)
    found = await cause(inline_store, PENDING)
    assert found is not None
    assert (found.code, found.facts_by_name["endpoint"]) == (FailureCode.CIRCUIT_OPEN, "list")


@pytest.mark.parametrize("code", [FailureCode.NO_FREE_AGENT, FailureCode.NO_SESSION])
async def test_a_start_that_found_no_agent_says_that_the_token_page_is_away(
    inline_store: SqlStore, code: FailureCode
) -> None:
    run = an_execution(1).wait_to_start(Failure.of(code, NOW, seconds=1), NOW + MINUTE)
    await keep(inline_store, run)
    await open_circuit(inline_store, Endpoint.TOKEN, NOW)
    found = await cause(inline_store, run)
    assert found is not None
    assert (found.code, found.facts_by_name["endpoint"]) == (FailureCode.CIRCUIT_OPEN, "token")


async def test_a_start_whose_question_failed_does_not_wait_for_the_token_page(inline_store: SqlStore) -> None:
    await keep(inline_store, PENDING)
    await open_circuit(inline_store, Endpoint.TOKEN, NOW)
    assert await cause(inline_store, PENDING) == REFUSED


async def test_a_run_paused_by_unreadable_answers_says_which(inline_store: SqlStore) -> None:
    await keep(inline_store, RUNNING, TaskType.PRODUCT_DETAIL)
    await inline_store.transact(
        lambda tx: tx.run_notes.add(RUNNING.execution_id, {(NoteKind.PAUSED, "MISSING where=items"): 20})
    )
    shown = WaitingView.of(await cause(inline_store, RUNNING), "en")
    assert shown is not None
    assert (shown.code, shown.blame) == ("RUN_PAUSED", "PARSER")
    assert shown.message == "The run is paused; answers that could not be read: 20 (items: missing)."
    assert shown.facts == {"answers": 20, "problem": "MISSING", "where": "items"}


async def test_a_run_waits_while_the_pools_breaker_is_open(inline_store: SqlStore) -> None:
    await keep(inline_store, RUNNING, TaskType.PRODUCT_DETAIL)

    def work(tx: Transaction) -> None:
        breaker = replace(tx.circuits.breaker(), state=CircuitState.OPEN, opened_at=NOW)
        tx.circuits.save_breaker(breaker, NOW)

    await inline_store.transact(work)
    found = await cause(inline_store, RUNNING)
    assert found is not None
    assert found.code is FailureCode.POOL_BREAKER_OPEN


SHUT = (
    "UPDATE circuit_breaker_state SET circuit_state = 'OPEN', failure_count = 3, opened_at = :at WHERE agent_id {which}"
)
USED_UP = "UPDATE rate_limit_bucket SET current_tokens = 0 WHERE agent_id {which}"


@pytest.mark.parametrize(
    ("shut", "used_up", "code"),
    [
        ("> 0", "= 0", FailureCode.AGENT_CIRCUITS_OPEN),
        ("> 1", "= 0", None),
        ("= 0", "> 0", FailureCode.BUDGET_USED_UP),
        ("> 1", "= 1", FailureCode.BUDGET_USED_UP),
        ("= 0", "> 1", None),
    ],
)
async def test_a_run_waits_while_no_available_agent_can_be_asked(
    inline_store: SqlStore, shut: str, used_up: str, code: FailureCode | None
) -> None:
    await keep(inline_store, RUNNING, TaskType.PRODUCT_DETAIL)

    def work(tx: Transaction) -> None:
        tx.db.run(SHUT.format(which=shut), {"at": NOW - 4 * MINUTE})
        tx.db.run(USED_UP.format(which=used_up))

    await inline_store.transact(work)
    found = await cause(inline_store, RUNNING)
    assert (None if found is None else found.code) == code
    if code is FailureCode.AGENT_CIRCUITS_OPEN:
        shown = WaitingView.of(found, "en")
        assert shown is not None
        assert shown.message.endswith("are open after failures in a row; the next one is tried in about 360 s.")
    # One request under way may end all this: the run is at work.
    await inline_store.transact(lambda tx: tx.db.run("UPDATE crawler_tasks SET status = 'IN_PROGRESS'"))
    assert await cause(inline_store, RUNNING) is None


async def test_a_run_that_is_over_waits_for_nothing_however_the_marketplace_is(inline_store: SqlStore) -> None:
    over = RUNNING.record(NOW, completed=1)
    await keep(inline_store, over)
    await open_circuit(inline_store, Endpoint.DETAIL, NOW)
    await pause(inline_store, None)
    assert await cause(inline_store, over) is None
