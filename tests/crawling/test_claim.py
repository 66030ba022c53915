"""Taking work: permits first, fairly from all runs, and no task before its time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

import pytest
from msgspec import structs
from tests.builders import DAY, HOUR, MINUTE, SECOND, a_failure, at, worker_id
from tests.conftest import ENGINES
from tests.crawling.crawl_world import ONE, TWO, CrawlWorld

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.agents.agent import Outcome
from sellerwatch.agents.limits import Limits
from sellerwatch.crawling.claim import Claim
from sellerwatch.crawling.task import TaskStatus
from sellerwatch.kernel.ids import ExecutionId


@pytest.fixture(params=ENGINES)
def on(request: pytest.FixtureRequest) -> str:
    return str(request.param)


ONE_A_SECOND = Limits()


async def with_products(store: SqlStore, number: int, **rest: object) -> CrawlWorld:
    return await CrawlWorld(store, products=number, page_size=1, **rest).open()  # type: ignore[arg-type]


async def used(world: CrawlWorld) -> int:
    """Slots that are spent in all windows together."""
    spent = "SELECT SUM(max_tokens - current_tokens) FROM rate_limit_bucket"
    return int(await world.store.read(lambda tx: tx.db.value(spent)))


async def test_a_claimed_task_is_running_with_a_permit_and_an_agent_before_a_byte_is_sent(world: CrawlWorld) -> None:
    run = await world.start()
    [taken] = await world.claim()
    task = await world.task(taken.task.task_id)
    assert task == taken.task
    assert (task.status, task.worker_id, task.attempt, task.started_at) == (
        TaskStatus.IN_PROGRESS,
        worker_id(),
        1,
        world.now,
    )
    assert (task.agent_row, task.publish_count, task.requests_made) == (taken.candidate.row, 1, 1)
    permits = await world.store.read(
        lambda tx: [tuple(r) for r in tx.db.rows("SELECT id, agent_id, worker_id, task_id, answered_at FROM permits")]
    )
    assert permits == [(taken.permit.number, taken.candidate.row, worker_id(), task.task_id, None)]
    assert (await world.run(run)).ended == 0


async def test_a_claimed_task_is_not_claimed_twice(world: CrawlWorld) -> None:
    await world.start()
    assert len(await world.claim()) == 1
    assert await world.claim(worker=2) == ()


async def test_without_work_nothing_is_lent_and_nobody_is_hungry(world: CrawlWorld) -> None:
    claims = await world.claims()
    assert (claims.taken, claims.not_before, claims.tokenless, claims.lacks_agents) == ((), None, (), False)
    assert await used(world) == 0


async def test_permits_are_reserved_for_the_tasks_there_are_and_not_for_those_wanted(inline_store: SqlStore) -> None:
    world = await with_products(inline_store, 4)
    await world.start()
    assert len(await world.claim(50)) == 4
    assert await used(world) == 4


async def test_no_more_is_taken_than_wanted(inline_store: SqlStore) -> None:
    world = await with_products(inline_store, 10)
    await world.start()
    assert len(await world.claim(3)) == 3


async def test_without_a_permit_no_task_is_touched_and_the_time_of_the_next_is_named(inline_store: SqlStore) -> None:
    world = await with_products(inline_store, 10, limits=ONE_A_SECOND)
    run = await world.start()
    assert len(await world.claim()) == 3, "one for each agent"
    before = await world.tasks(run)
    claims = await world.claims()
    assert (claims.taken, claims.lacks_agents) == ((), True)
    assert claims.not_before == world.now + timedelta(microseconds=ONE_A_SECOND.spacing_us)
    assert await world.tasks(run) == before


async def test_agents_without_a_token_are_named_so_that_they_get_one(world: CrawlWorld) -> None:
    await world.start()
    await world.store.transact(lambda tx: tx.tokens.drop([1, 2, 3]))
    claims = await world.claims()
    assert (claims.taken, claims.lacks_agents, claims.not_before) == ((), True, None)
    assert sorted(candidate.row for candidate in claims.tokenless) == [1, 2, 3]


async def test_an_agent_that_rests_or_is_blocked_is_not_asked(world: CrawlWorld) -> None:
    now = world.now

    def work(tx: Transaction) -> None:
        pool = tx.agents.get_rows([1, 2])
        tx.agents.save({1: pool[1].use(Outcome.TOO_MANY, now, HOUR), 2: pool[2].block(now, "a test")})

    await world.store.transact(work)
    await world.start()
    assert [taken.candidate.row for taken in await world.claim()] == [3]


async def test_a_full_window_opens_one_window_after_its_first_answer_and_not_before(inline_store: SqlStore) -> None:
    limits = Limits(window_limit=80, per_second=1000, margin=timedelta(0))
    world = await CrawlWorld(inline_store, products=200, page_size=1, limits=limits).open(agents=1)
    await world.start()
    taken: list[Claim] = []
    while claims := await world.claim():
        taken += claims
        world.clock.time += SECOND
    assert len(taken) == 80
    assert (await world.claims()).not_before is None, "nothing is answered: nobody can tell"
    answered = world.now
    await world.absorb([world.judged(each) for each in taken[:5]])
    assert (await world.claims()).not_before == answered + HOUR
    world.clock.time = answered + HOUR - timedelta(microseconds=1)
    assert await world.claim() == ()
    world.clock.time = answered + HOUR
    assert len(await world.claim()) == 5, "the very claim that finds them free may use them"
    assert await world.claim() == ()


async def test_a_task_is_not_taken_before_its_time(world: CrawlWorld) -> None:
    run = await world.start()
    [task], later = await world.tasks(run), world.now + MINUTE
    await world.store.transact(lambda tx: tx.tasks.save([structs.replace(task, available_at=later)], later))
    claims = await world.claims()
    assert (claims.taken, claims.not_before, claims.lacks_agents) == ((), later, False)
    world.clock.time = later - timedelta(microseconds=1)
    assert await world.claim() == ()
    world.clock.time = later
    assert len(await world.claim()) == 1


async def test_a_retry_goes_before_what_has_never_been_tried(inline_store: SqlStore) -> None:
    world = await with_products(inline_store, 5)
    run = await world.start()
    tasks, now = await world.tasks(run), world.now
    again = tasks[3].publish(now).start(worker_id(), now).fail(a_failure(), now).retry(now)
    await world.store.transact(lambda tx: tx.tasks.save([again], now))
    [taken] = await world.claim(1)
    assert (taken.task.task_id, taken.task.attempt, taken.task.publish_count) == (again.task_id, 2, 1)


async def test_tasks_of_a_run_that_is_over_are_not_taken(world: CrawlWorld) -> None:
    run = await world.start()
    ended = (await world.run(run)).fail(a_failure(), world.now)
    await world.store.transact(lambda tx: tx.executions.save(ended))
    assert await world.claim() == ()


def shares(taken: Sequence[Claim]) -> Counter[ExecutionId]:
    return Counter(each.task.execution_id for each in taken)


async def test_runs_share_a_claim_equally(inline_store: SqlStore) -> None:
    world = await with_products(inline_store, 40)
    one, two = await world.start(ONE), await world.start(TWO)
    assert shares(await world.claim(20)) == {one: 10, two: 10}


async def test_what_a_small_run_leaves_goes_to_a_large_one(inline_store: SqlStore) -> None:
    world = await with_products(inline_store, 40)
    one, two = await world.start(ONE), await world.start(TWO, total=3)
    assert shares(await world.claim(20)) == {one: 17, two: 3}
    world.clock.time += SECOND
    assert shares(await world.claim(20)) == {one: 20}


async def test_no_task_is_taken_twice_in_one_claim(inline_store: SqlStore) -> None:
    world = await with_products(inline_store, 40)
    await world.start(ONE)
    await world.start(TWO, total=2)
    taken = await world.claim(30)
    assert len({each.task.task_id for each in taken}) == len(taken) == 30


async def test_a_large_run_never_starves_another_however_few_permits_there_are(inline_store: SqlStore) -> None:
    world = await with_products(inline_store, 40)
    one, two = await world.start(ONE), await world.start(TWO)
    got: Counter[ExecutionId] = Counter()
    for _ in range(10):
        got += shares(await world.claim(1))
        world.clock.time += SECOND
    assert got == {one: 5, two: 5}


async def test_two_workers_on_one_database_share_one_budget(inline_store: SqlStore) -> None:
    world = await with_products(inline_store, 10, limits=ONE_A_SECOND)
    await world.start()
    first, second = await world.claim(2, worker=1), await world.claim(50, worker=2)
    assert [len(first), len(second)] == [2, 1]
    rows = [each.candidate.row for each in (*first, *second)]
    assert sorted(rows) == [1, 2, 3]


async def test_a_lower_limit_counts_at_once_and_what_is_lent_stays_counted(inline_store: SqlStore) -> None:
    world = await CrawlWorld(inline_store, products=40, page_size=1).open(agents=1)
    await world.start()
    assert len(await world.claim(4)) == 4
    limits = Limits(window_limit=6, per_second=1000, margin=timedelta(0))
    await world.store.transact(lambda tx: tx.windows.set_limits(limits, at(world.now)))
    world.clock.time += SECOND
    assert len(await world.claim(50)) == 2


async def test_a_token_that_has_expired_lends_nothing(world: CrawlWorld) -> None:
    await world.start()
    world.clock.time += 2 * DAY
    claims = await world.claims()
    assert (claims.taken, len(claims.tokenless), claims.lacks_agents) == ((), 3, True)
