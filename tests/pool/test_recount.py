"""What an agent may still ask is derived from its permits: after anything that disturbs it, it is counted again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import pytest
from tests.builders import HOUR, NOW, SELLER, StoppedClock, a_context, at, worker_id
from tests.conftest import ENGINES
from tests.world import StoreWorld

from sellerwatch.adapters.sql.migrate import downgrade, upgrade
from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.agents.agent import Outcome
from sellerwatch.agents.limits import Limits
from sellerwatch.agents.pool import Grant
from sellerwatch.agents.recount import recount_agents, recount_buckets
from sellerwatch.kernel.clock import Moment

LIMITS = Limits()


@pytest.fixture(params=ENGINES)
def on(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def lend(tx: Transaction, row: int, number: int) -> None:
    tx.windows.enter_boot(at(), LIMITS)
    (candidate,) = [each for each in tx.agents.candidates(at()) if each.row == row]
    tx.permits.reserve([Grant(candidate, at().boot_us)] * number, [None] * number, worker_id(), at())


def slots_left(tx: Transaction) -> dict[int, int]:
    return {stored.row: stored.slots_left for stored in tx.pool_report.agents()}


def spoil(tx: Transaction, row: int, left: int) -> None:
    tx.db.run("UPDATE rate_limit_bucket SET current_tokens = :left WHERE agent_id = :row", {"left": left, "row": row})


async def test_a_budget_that_disagrees_with_its_permits_is_repaired_recorded_and_counted(
    inline_store: SqlStore,
) -> None:
    def prepare(tx: Transaction) -> None:
        lend(tx, 1, 3)
        lend(tx, 2, 1)
        spoil(tx, 1, 80)
        spoil(tx, 3, 12)

    await inline_store.transact(prepare)
    found = await inline_store.transact(lambda tx: recount_agents(tx, a_context()))
    assert [(each.number, each.before, each.after) for each in found.repaired] == [(1, 80, 77), (3, 12, 80)]
    assert found.checked == 100
    left = await inline_store.read(slots_left)
    assert (left[1], left[2], left[3]) == (77, 79, 80)
    entries = await inline_store.read(lambda tx: tx.audit.newest(limit=5))
    assert [(entry.action, entry.before, entry.after) for entry in entries] == [
        ("agent.repair", {"slotsLeft": 12}, {"slotsLeft": 80}),
        ("agent.repair", {"slotsLeft": 80}, {"slotsLeft": 77}),
    ]
    assert (await inline_store.read(lambda tx: tx.counts.service_counts(NOW))).repairs == 2
    again = await inline_store.transact(lambda tx: recount_agents(tx, a_context()))
    assert again.repaired == [], "what is right is left alone"


async def test_going_down_to_a_schema_without_seeds_and_up_again_keeps_the_books(inline_store: SqlStore) -> None:
    """The migration that plants the agents planted full budgets beside the permits that had stayed: the marketplace
    counted one request more than the limit."""

    def prepare(tx: Transaction) -> None:
        lend(tx, 1, 3)
        agents = tx.agents.get_rows([1, 2, 3])
        tx.agents.save(
            {
                1: agents[1].use(Outcome.SUCCESS, NOW, HOUR, uses=3),
                2: agents[2].suspend(NOW, HOUR, "a test"),
                3: agents[3].block(NOW, "a test"),
            }
        )

    await inline_store.transact(prepare)
    before = await inline_store.read(lambda tx: tx.pool_report.agents())
    engine = inline_store.engine
    downgrade(engine, "0003")
    upgrade(engine, NOW)
    repaired = await inline_store.transact(lambda tx: recount_buckets(tx, "test", NOW))
    after = await inline_store.read(lambda tx: tx.pool_report.agents())
    assert repaired == []
    assert [stored.agent for stored in after[:3]] == [stored.agent for stored in before[:3]]
    assert [stored.slots_left for stored in after] == [77, *[80] * 99]


async def test_without_its_permits_every_window_counts_as_full_and_says_why(inline_store: SqlStore) -> None:
    """Down to a schema without permits it is forgotten what the marketplace still counts."""
    await inline_store.transact(lambda tx: lend(tx, 1, 80))
    downgrade(inline_store.engine, "0002")
    upgrade(inline_store.engine, NOW)

    def able(now: datetime) -> Callable[[Transaction], set[int]]:
        return lambda tx: {each.row for each in tx.agents.candidates(at(now))}

    others = set(range(2, 101))
    assert await inline_store.read(able(NOW)) == others, "before a service starts"
    await inline_store.transact(lambda tx: tx.windows.enter_boot(at(), LIMITS))
    assert await inline_store.read(able(NOW)) == others, "those that were never used have nothing to wait for"
    window = (await inline_store.read(lambda tx: tx.pool_report.standings(at(), LIMITS)))[0].window
    assert (window.full_until, window.full_reason) == (NOW + LIMITS.window, "DOWNGRADED")
    assert await inline_store.read(able(NOW + LIMITS.window)) == others | {1}


async def test_a_pool_that_is_planted_anew_knows_that_the_old_one_has_asked(inline_store: SqlStore) -> None:
    """Below the pool's own tables nothing says which agents were used: with full budgets they would ask again."""
    world = StoreWorld(inline_store, StoppedClock())
    await world.register([SELLER])
    await world.add_run(done=1)
    await inline_store.transact(lambda tx: tx.db.run("UPDATE crawler_tasks SET started_at = :now", {"now": NOW}))
    downgrade(inline_store.engine, "0001")
    upgrade(inline_store.engine, NOW)
    await inline_store.transact(lambda tx: tx.windows.enter_boot(at(), LIMITS))
    assert await inline_store.read(lambda tx: tx.agents.candidates(at(NOW))) == []
    assert len(await inline_store.read(lambda tx: tx.agents.candidates(at(NOW + LIMITS.window)))) == 100


async def test_a_changed_window_limit_is_right_at_once(inline_store: SqlStore) -> None:
    await inline_store.transact(lambda tx: lend(tx, 1, 30))
    await inline_store.transact(lambda tx: tx.windows.set_window_limit(40))
    left = await inline_store.read(slots_left)
    assert (left[1], left[2]) == (10, 40)
    await inline_store.transact(lambda tx: tx.windows.set_limits(Limits(window_limit=40), at()))
    full = await inline_store.read(lambda tx: tx.db.value("SELECT MAX(full_until_us) FROM rate_limit_bucket"))
    assert full is None, "the length of the window stayed as it was"


async def test_after_a_reboot_no_departure_lies_in_the_future(inline_store: SqlStore) -> None:
    """Times of the clock of an earlier boot mean nothing now: the rate towards the host waited for them."""
    await inline_store.transact(lambda tx: lend(tx, 1, 1))
    later = Moment(NOW + HOUR, 5, "another")
    await inline_store.transact(lambda tx: tx.windows.enter_boot(later, LIMITS))
    assert await inline_store.read(lambda tx: tx.windows.last_departure_us()) <= later.boot_us
