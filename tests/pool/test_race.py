"""Many workers at one database at once: never the same slot twice, never the same task or message twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from functools import partial
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path

import pytest
from tests.builders import worker_id
from tests.conftest import ENGINES
from tests.crawling.crawl_world import CrawlWorld

from sellerwatch.adapters.sql.engine import make_engine
from sellerwatch.adapters.sql.store import InlineRunner, SqlStore, ThreadRunner
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.agents.breaker import BreakerRules
from sellerwatch.agents.lending import LendingRules
from sellerwatch.agents.limits import Host, Limits
from sellerwatch.crawling.claim import claim
from sellerwatch.kernel.clock import SystemClock, moment
from sellerwatch.kernel.ids import TaskId
from sellerwatch.kernel.store import StoreFailed

AGENTS = 5
LIMITS = Limits(window_limit=12, per_second=200, margin=timedelta(0))
TERMS = LendingRules(LIMITS, Host(concurrency=1000), BreakerRules(min_percent=0))
#: A slot: the agent's row, when its request may leave, and the task it is for.
Slot = tuple[int, int, str]


@pytest.fixture(params=ENGINES)
def on(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def open_pool(url: str, tasks: int) -> None:
    """A run with more tasks than there are slots, and a few agents with tokens that are valid now."""
    store = SqlStore(make_engine(url), SystemClock(), InlineRunner(), InlineRunner())
    world = CrawlWorld(store, products=tasks, page_size=1, limits=LIMITS)
    world.clock.time = SystemClock().now() - timedelta(minutes=1)
    await world.open(agents=AGENTS)
    await world.start()
    at = moment(SystemClock())

    def cut(tx: Transaction) -> None:
        tx.windows.set_limits(LIMITS, at)
        tx.windows.enter_boot(at, LIMITS)

    await store.transact(cut)
    store.close()


async def claim_all(store: SqlStore, number: int, wanted: int, named: Sequence[TaskId] | None = None) -> list[Slot]:
    """A worker that takes what it can until nothing is left; a database that stays busy is asked again.

    One that got something rests for longer than the others wait, or on a slow machine the first has it all.
    """
    clock, got, empty, turn = SystemClock(), list[Slot](), 0, number
    while empty < 8:
        at, turn = moment(clock), turn + 1
        try:
            claiming = partial(
                claim, worker_id=worker_id(number), wanted=wanted, rotation=turn, at=at, terms=TERMS, named=named
            )
            found = await store.transact(claiming)
        except StoreFailed:
            continue
        empty = 0 if found.taken else empty + 1
        got += [(c.candidate.row, c.permit.grant.depart_us, str(c.task.task_id)) for c in found.taken]
        await asyncio.sleep(0.04 if found.taken else 0.006)
    return got


def in_a_process(url: str, number: int) -> list[Slot]:
    async def main() -> list[Slot]:
        store = SqlStore(make_engine(url), SystemClock(), ThreadRunner(1, "w"), ThreadRunner(1, "r"))
        try:
            return await claim_all(store, number, 3)
        finally:
            store.close()

    return asyncio.run(main())


def check(slots: Sequence[Slot], url: str) -> None:
    by_agent = Counter(row for row, _, _ in slots)
    assert dict(by_agent) == dict.fromkeys(range(1, AGENTS + 1), LIMITS.window_limit), "every slot, and each once"
    assert len({task for _, _, task in slots}) == len(slots), "a task was claimed twice"
    for row in by_agent:
        departures = sorted(depart for other, depart, _ in slots if other == row)
        assert all(later - earlier >= LIMITS.spacing_us for earlier, later in pairwise(departures))
    with make_engine(url).connect() as database:
        permits = database.exec_driver_sql("SELECT agent_id, COUNT(*) FROM permits GROUP BY agent_id").all()
        left = database.exec_driver_sql(
            f"SELECT current_tokens FROM rate_limit_bucket WHERE agent_id <= {AGENTS}"  # noqa: S608
        ).all()
        held = database.exec_driver_sql("SELECT COUNT(*) FROM crawler_tasks WHERE status = 'IN_PROGRESS'").scalar_one()
    assert dict(tuple(row) for row in permits) == dict(by_agent)
    assert {number for (number,) in left} == {0}
    assert held == len(slots)


async def sixteen(url: str, wanted: int, named: Sequence[TaskId] | None = None) -> list[Slot]:
    """What sixteen workers got, each with connections of its own."""
    stores = [
        SqlStore(
            make_engine(url, connections=2),
            SystemClock(),
            ThreadRunner(1, f"write-{number}"),
            ThreadRunner(1, f"read-{number}"),
        )
        for number in range(16)
    ]
    try:
        found = await asyncio.gather(
            *(claim_all(store, number, wanted, named) for number, store in enumerate(stores, 1))
        )
    finally:
        for store in stores:
            store.close()
    assert sum(map(bool, found)) > 1, "one worker had it all: that was no race"
    return [slot for slots in found for slot in slots]


@pytest.mark.parametrize("wanted", [1, 7, 50])
async def test_sixteen_workers_with_connections_of_their_own_never_get_a_slot_twice(
    database_url: str, wanted: int
) -> None:
    await open_pool(database_url, tasks=100)
    check(await sixteen(database_url, wanted), database_url)


async def test_sixteen_workers_that_messages_name_the_same_tasks_to_never_get_one_twice(database_url: str) -> None:
    await open_pool(database_url, tasks=100)
    with make_engine(database_url).connect() as database:
        rows = database.exec_driver_sql("SELECT task_id FROM crawler_tasks ORDER BY id").all()
    check(await sixteen(database_url, 7, [TaskId(row[0]) for row in rows]), database_url)


def test_four_processes_never_get_a_slot_twice(database_file: Path) -> None:
    database_url = f"sqlite:///{database_file}"
    asyncio.run(open_pool(database_url, tasks=100))
    with ProcessPoolExecutor(4, mp_context=get_context("spawn")) as processes:
        found = [processes.submit(in_a_process, database_url, number) for number in range(1, 5)]
        slots = [slot for each in found for slot in each.result(timeout=600)]
    check(slots, database_url)
