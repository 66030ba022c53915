"""An operator's questions about the pool: who did how much, who was refused, what is open, what budget was used."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Engine
from tests.builders import DAY, HOUR, MINUTE, NOW, SECOND, a_context, a_token, at, worker_id
from tests.conftest import ENGINES
from tests.crawling.test_operate_pool import rules
from tests.recorded import asked, plan

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.agents.agent import Outcome
from sellerwatch.agents.agent_list import AgentChoice, AgentSort, ListedAgentView, list_agents
from sellerwatch.agents.budget_history import budget_history
from sellerwatch.agents.circuit import events_of
from sellerwatch.agents.commands import block_agents, recover_agents
from sellerwatch.agents.limits import Limits
from sellerwatch.agents.open_circuits import list_open_circuits
from sellerwatch.agents.pool import Grant
from sellerwatch.agents.pool_status import pool_status
from sellerwatch.agents.ports import UsageEntry
from sellerwatch.kernel.circuit import CircuitState


@pytest.fixture(params=ENGINES)
def on(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def log(tx: Transaction, row: int, status: int, *times: datetime) -> None:
    good, many = status == 200, status == 429
    tx.usage_log.add([UsageEntry(row, None, status, 10, good, many, many, time) for time in times])


def some_use(tx: Transaction) -> None:
    """Agent 1: three good requests of today and a failure of yesterday. 2: two 429s. 3: two failures, one old 429."""
    log(tx, 1, 200, *(NOW - n * MINUTE for n in (1, 2, 3)))
    log(tx, 1, 500, NOW - DAY - MINUTE)
    log(tx, 2, 429, NOW - 50 * MINUTE, NOW - 20 * MINUTE)
    log(tx, 3, 500, NOW - 2 * HOUR, NOW - HOUR - MINUTE)
    log(tx, 3, 429, NOW - 2 * DAY)
    log(tx, 3, 200, NOW - 30 * MINUTE)


async def numbers(store: SqlStore, **choice: Any) -> list[int]:
    found = await store.read(lambda tx: list_agents(tx, a_context(), rules(), AgentChoice(**choice)))
    return [agent.number for agent in found.content]


async def test_requests_are_counted_in_the_time_that_was_asked_for(inline_store: SqlStore) -> None:
    await inline_store.transact(some_use)

    async def counted(row: int, **times: Any) -> tuple[int, int, int, float | None, int, datetime | None]:
        choice = AgentChoice(**times)
        found = await inline_store.read(lambda tx: list_agents(tx, a_context(), rules(), choice))
        a: ListedAgentView = next(each for each in found.content if each.number == row)
        return a.requests, a.succeeded, a.failed, a.success_rate, a.too_many, a.last_too_many_at

    assert await counted(1, since=NOW - DAY) == (3, 3, 0, 100.0, 0, None)
    assert await counted(1, since=NOW - 2 * DAY) == (4, 3, 1, 75.0, 0, None)
    assert await counted(1, since=NOW - 2 * DAY, until=NOW - HOUR) == (1, 0, 1, 0.0, 0, None)
    assert await counted(2, since=NOW - HOUR) == (2, 0, 2, 0.0, 2, NOW - 20 * MINUTE)
    assert await counted(2, since=NOW - 30 * MINUTE) == (1, 0, 1, 0.0, 1, NOW - 20 * MINUTE)
    assert await counted(4, since=NOW - DAY) == (0, 0, 0, None, 0, None)


async def test_without_a_time_all_that_an_agent_ever_did_is_counted(inline_store: SqlStore) -> None:
    def prepare(tx: Transaction) -> None:
        some_use(tx)
        tx.agents.save({1: tx.agents.get_rows([1])[1].use(Outcome.SUCCESS, NOW, HOUR, uses=50)})

    await inline_store.transact(prepare)
    found = await inline_store.read(lambda tx: list_agents(tx, a_context(), rules(), AgentChoice()))
    first, _, third, *_ = found.content
    assert (first.requests, first.succeeded, first.success_rate) == (50, 50, 100.0), "the log may be younger"
    assert (third.too_many, third.last_too_many_at) == (1, NOW - 2 * DAY)


async def test_agents_are_sorted_by_what_is_asked_for(inline_store: SqlStore) -> None:
    await inline_store.transact(some_use)
    day = {"since": NOW - DAY, "limit": 3}
    assert await numbers(inline_store, sort=AgentSort.USES, **day) == [1, 3, 2]
    assert await numbers(inline_store, sort=AgentSort.FAILURES, **day) == [2, 3, 1]
    assert await numbers(inline_store, sort=AgentSort.TOO_MANY, **day) == [2, 1, 3]
    assert await numbers(inline_store, sort=AgentSort.TOO_MANY, since=NOW - 3 * DAY, limited=True) == [2, 3]
    assert await numbers(inline_store, limited=True, **day) == [2]


async def test_agents_are_chosen_by_their_circuit_and_sorted_by_health_and_budget(inline_store: SqlStore) -> None:
    def prepare(tx: Transaction) -> None:
        open_circuit(tx, 5, NOW)
        agents = tx.agents.get_rows([8, 9])
        tx.agents.save({row: agent.use(Outcome.OTHER, NOW, HOUR, uses=row) for row, agent in agents.items()})
        tx.windows.enter_boot(at(), Limits())
        (candidate,) = [each for each in tx.agents.candidates(at()) if each.row == 7]
        tx.permits.reserve([Grant(candidate, at().boot_us)], [None], worker_id(), at())
        block_agents(tx, a_context(), ["9"], "a test")

    await inline_store.transact(prepare)
    assert await numbers(inline_store, circuit=CircuitState.OPEN) == [5]
    assert await numbers(inline_store, sort=AgentSort.HEALTH, limit=3) == [9, 8, 1]
    assert await numbers(inline_store, sort=AgentSort.BUDGET, limit=2) == [7, 1]


def open_circuit(tx: Transaction, row: int, now: datetime, statuses: Sequence[int] = (500, 503, 429)) -> None:
    """By failures a second apart, the last of them at `now`."""
    circuit = tx.circuits.get_rows([row])[row]
    for place, status in enumerate(statuses):
        moment = now - (len(statuses) - 1 - place) * SECOND
        was, circuit = circuit, circuit.failed(moment)
        tx.circuits.save({row: circuit}, [(row, e) for e in events_of(was, circuit, moment, "SERVER_ERROR", status)])


async def test_an_open_circuit_says_since_and_until_when_and_after_which_failures(inline_store: SqlStore) -> None:
    def prepare(tx: Transaction) -> None:
        open_circuit(tx, 5, NOW - 3 * MINUTE)
        open_circuit(tx, 6, NOW - MINUTE, (500, 500, 500))
        # A late failure of a request that left before: it counts, and did not open the circuit.
        was = tx.circuits.get_rows([5])[5]
        late = was.failed(NOW)
        tx.circuits.save({5: late}, [(5, e) for e in events_of(was, late, NOW, "SERVER_ERROR", 502)])

    await inline_store.transact(prepare)
    found = (await inline_store.read(lambda tx: list_open_circuits(tx, a_context(), rules()))).content
    assert [(each.number, each.state, each.since, each.until) for each in found] == [
        (6, "OPEN", NOW - MINUTE, NOW + 9 * MINUTE),
        (5, "OPEN", NOW - 3 * MINUTE, NOW + 7 * MINUTE),
    ], "the newest first"
    assert [each.status for each in found[1].failures] == [429, 503, 500]
    assert found[1].user_agent.startswith("Mozilla/5.0")


async def test_an_available_agent_is_brought_back_by_closing_its_circuit(inline_store: SqlStore) -> None:
    """Its suspension ended by itself, and its circuit would have kept it out for another ten minutes."""

    def prepare(tx: Transaction) -> None:
        open_circuit(tx, 5, NOW)

    await inline_store.transact(prepare)
    done = await inline_store.transact(lambda tx: recover_agents(tx, a_context(), ["5", "6"]))
    assert [refused.error_code for refused in done.refused] == ["ILLEGAL_MOVE"], "nothing keeps 6 out"
    stored = {one.row: one for one in await inline_store.read(lambda tx: tx.pool_report.agents())}
    assert stored[5].circuit.state is CircuitState.CLOSED
    assert stored[5].agent.health_score == 100, "its health was not the reason"


async def test_tokens_are_sorted_by_age_renewal_and_failed_renewals(inline_store: SqlStore) -> None:
    def prepare(tx: Transaction) -> None:
        for row, age, renewal in ((1, 10, 50), (2, 30, 20), (3, 20, 40)):
            issued = NOW - age * MINUTE
            token = a_token(row, fingerprint=f"{row:064x}", issued_at=issued, expires_at=issued + 2 * HOUR)
            tx.tokens.keep(row, token, NOW + renewal * MINUTE)
        for _ in range(2):
            tx.tokens.put_off(3, NOW + HOUR, NOW + 40 * MINUTE, has_failed=True)

    await inline_store.transact(prepare)
    assert await numbers(inline_store, sort=AgentSort.TOKEN_AGE, limit=3) == [2, 3, 1]
    assert await numbers(inline_store, sort=AgentSort.RENEWAL, limit=3) == [2, 3, 1]
    assert (await numbers(inline_store, sort=AgentSort.RENEWAL_FAILURES, limit=2))[0] == 3


async def test_the_budget_of_the_last_day_is_what_was_used_in_each_window(inline_store: SqlStore) -> None:
    last = NOW.replace(minute=0, second=0, microsecond=0)

    def prepare(tx: Transaction) -> None:
        log(tx, 1, 200, *(last - 3 * HOUR + n * SECOND for n in range(1, 41)))
        log(tx, 2, 500, last - 2 * HOUR)
        log(tx, 2, 200, last - 2 * DAY)

    await inline_store.transact(prepare)
    found = await inline_store.read(lambda tx: budget_history(tx, a_context(), rules()))
    used = {point.at: point.used for point in found.content if point.used}
    assert used == {
        last - 3 * HOUR + n * timedelta(minutes=15): number
        for n, number in {1: 40, 2: 40, 3: 40, 4: 41, 5: 1, 6: 1, 7: 1}.items()
    }
    assert len(found.content) == 97
    assert found.content[-1].left == found.now.limit == 8000


async def test_who_was_answered_429_is_named_with_the_time_and_the_end_of_its_rest(inline_store: SqlStore) -> None:
    def prepare(tx: Transaction) -> None:
        some_use(tx)
        tx.agents.save({2: tx.agents.get_rows([2])[2].use(Outcome.TOO_MANY, NOW - 20 * MINUTE, HOUR)})

    await inline_store.transact(prepare)
    (found,) = (await inline_store.read(lambda tx: pool_status(tx, a_context(), rules()))).too_many_last_hour
    assert (found.number, found.count, found.last_at) == (2, 2, NOW - 20 * MINUTE)
    assert (found.suspended_until, found.user_agent[:7]) == (NOW + 40 * MINUTE, "Mozilla")


@pytest.mark.parametrize("on", ["sqlite"])
async def test_questions_read_the_log_by_its_indexes(inline_store: SqlStore, engine: Engine) -> None:
    """At full budget the log has 17 million rows."""

    def ask(tx: Transaction) -> None:
        tx.pool_report.usage(NOW - DAY, NOW)
        tx.pool_report.requests_between(NOW - HOUR, NOW)
        tx.pool_report.failures_until(1, NOW, 3)
        tx.task_queries.ages([NOW - HOUR])

    plans = "\n".join(plan(engine, statement) for statement in asked(engine, ask))
    assert "COVERING INDEX token_usage_log__idx_user_agent_time (agent_id=? AND request_timestamp>?" in plans
    assert "INDEX token_usage_log__idx_success_time (is_success=? AND request_timestamp>?" in plans
    assert "COVERING INDEX token_usage_log__idx_429_errors" in plans
    assert "INDEX circuit_breaker_event__idx_user_agent_time (agent_id=? AND event_timestamp<?)" in plans
    assert "SCAN crawler_tasks USING COVERING INDEX crawler_tasks__idx_status_created_at" in plans
    assert "SCAN token_usage_log" not in plans
