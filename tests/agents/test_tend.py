"""Looking after the pool: who has rested comes back, over the real tables."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.builders import HOUR, LATER, MINUTE, NOW, an_agent, at

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.agents.agent import Agent, AgentStatus, Outcome
from sellerwatch.agents.maintenance import recover_rested

AVAILABLE, SUSPENDED, BLOCKED = AgentStatus.AVAILABLE, AgentStatus.SUSPENDED, AgentStatus.BLOCKED


async def agents(store: SqlStore, *rows: int) -> dict[int, Agent]:
    return await store.read(lambda tx: tx.agents.get_rows(rows))


async def test_agents_whose_own_time_is_over_come_back_with_a_good_health(inline_store: SqlStore) -> None:
    def fall_ill(tx: Transaction) -> None:
        pool = tx.agents.get_rows([1, 2, 3, 4])
        tx.agents.save(
            {
                1: pool[1].use(Outcome.TOO_MANY, NOW, HOUR),
                2: pool[2].use(Outcome.TOO_MANY, NOW, 3 * HOUR),
                3: pool[3].block(NOW, "a test"),
                4: pool[4].use(Outcome.SERVER_ERROR, NOW, HOUR),
            }
        )

    await inline_store.transact(fall_ill)
    assert await inline_store.transact(lambda tx: recover_rested(tx, LATER - MINUTE)) == 0
    assert await inline_store.transact(lambda tx: recover_rested(tx, LATER)) == 1
    pool = await agents(inline_store, 1, 2, 3, 4)
    assert [pool[row].status for row in (1, 2, 3, 4)] == [AVAILABLE, SUSPENDED, BLOCKED, AVAILABLE]
    assert [pool[row].health_score for row in (1, 4)] == [70, 90]
    assert (pool[1].suspended_at, pool[1].suspended_until, pool[1].updated_at) == (None, None, LATER)
    assert await inline_store.transact(lambda tx: recover_rested(tx, LATER)) == 0


async def test_a_whole_pool_that_was_suspended_comes_back_by_time_alone(inline_store: SqlStore) -> None:
    # A pool whose recovery asked for a health that suspension had made unreachable only ever shrank.
    everybody = range(1, 101)

    def fall_ill(tx: Transaction) -> None:
        pool = tx.agents.get_rows(everybody)
        tx.agents.save({row: agent.use(Outcome.SERVER_ERROR, NOW, HOUR, uses=10) for row, agent in pool.items()})

    await inline_store.transact(fall_ill)
    assert await inline_store.read(lambda tx: len(tx.agents.candidates(at()))) == 0
    assert await inline_store.transact(lambda tx: recover_rested(tx, LATER)) == 100
    assert await inline_store.read(lambda tx: len(tx.agents.candidates(at()))) == 100


@dataclass
class Shelf:
    """A table that names one agent too many: nobody can recover who does not rest."""

    found: dict[int, Agent]
    saved: dict[int, Agent] = field(default_factory=dict)
    dropped: list[int] = field(default_factory=list)

    @property
    def agents(self) -> Any:
        return self

    removed_agents = permits = tokens = circuits = marketplace = pool_report = windows = usage_log = agents

    def rested(self, _now: object) -> dict[int, Agent]:
        return self.found

    def save(self, agents: dict[int, Agent]) -> None:
        self.saved = agents

    def drop(self, rows: list[int]) -> None:
        self.dropped = rows


def test_one_that_cannot_recover_never_stops_the_pass_for_the_others(caplog: pytest.LogCaptureFixture) -> None:
    shelf = Shelf(
        {1: an_agent(1).suspend(NOW, HOUR, "a test"), 2: an_agent(2), 3: an_agent(3).suspend(NOW, HOUR, "a test")}
    )
    with caplog.at_level(logging.ERROR):
        assert recover_rested(shelf, LATER) == 2
    assert {row: agent.status for row, agent in shelf.saved.items()} == {1: AVAILABLE, 3: AVAILABLE}
    assert shelf.dropped == [1, 3], "who comes back gets a new token"
    assert [record.message for record in caplog.records] == ["an agent cannot recover"]
