"""Absorbing in batches: what is kept when the store fails, and what one bad result spoils."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.crawling.crawl_world import CrawlWorld
from tests.crawling.worker_parts import a_crawl, a_plan

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.crawling.absorb_loop import AbsorbLoop
from sellerwatch.crawling.absorb_results import Absorbed
from sellerwatch.crawling.claim import Claim
from sellerwatch.crawling.claim_ahead import ClaimAhead
from sellerwatch.crawling.judged_result import FetchResult
from sellerwatch.crawling.messages import ReceivedMessages
from sellerwatch.crawling.task import TaskStatus
from sellerwatch.crawling.worker_queues import ClaimQueue, ResultQueue
from sellerwatch.kernel.store import StoreFailed


class FailingStore:
    """The real store, which refuses the next transactions."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self.failures: list[Exception] = []
        self.transactions = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def transact(self, work: Callable[[Any], Any]) -> Any:
        self.transactions += 1
        if self.failures:
            raise self.failures.pop(0)
        return await self._store.transact(work)


class Absorber:
    """An `AbsorbLoop` behind its queue, in a crawl of its own."""

    def __init__(self, world: CrawlWorld) -> None:
        self.world = world
        self.store = FailingStore(world.store)
        self.absorbed: list[Absorbed] = []
        practice_store, world.store = world.store, self.store  # type: ignore[assignment]
        self.crawl = a_crawl(world)
        world.store = practice_store
        self.claims, self.results = ClaimQueue(), ResultQueue()
        self.plan = a_plan(self.claims, self.results)
        messages = ReceivedMessages(self.crawl, self.plan.tasks_in_hand)
        self.claim_ahead = ClaimAhead(self.crawl, self.claims, self.plan, messages)
        self.loop = AbsorbLoop(self.crawl, self.claims, self.results, self.claim_ahead, messages, self.absorbed.append)

    def put(self, claim: Claim) -> None:
        answer = self.world.truthful(claim.task)
        self.results.put(FetchResult(claim, answer, "", 0.1, self.world.now), is_last=True)


@pytest.fixture
async def absorber(world: CrawlWorld) -> Absorber:
    return Absorber(world)


async def test_a_batch_is_one_transaction(absorber: Absorber) -> None:
    await absorber.world.start()
    await absorber.world.answer((await absorber.world.claim())[0])
    for claim in await absorber.world.claim():
        absorber.put(claim)
    await absorber.loop.finish()
    assert absorber.store.transactions == 1
    assert [absorbed.completed for absorbed in absorber.absorbed] == [6]
    assert len(absorber.results) == 0


async def test_after_a_list_page_the_same_transaction_claims(absorber: Absorber) -> None:
    await absorber.world.start()
    (page,) = await absorber.world.claim()
    absorber.put(page)
    await absorber.loop.finish()
    assert absorber.store.transactions == 1
    assert len(absorber.claims) == 6
    assert absorber.claims.changed.is_set()


async def test_what_the_store_refuses_is_kept_and_tried_again(absorber: Absorber) -> None:
    await absorber.world.start()
    (page,) = await absorber.world.claim()
    absorber.put(page)
    absorber.store.failures = [StoreFailed()]
    await absorber.loop._absorb_batch()
    assert (len(absorber.results), absorber.absorbed) == (1, [])
    assert absorber.plan.claim_outcome_unknown
    await absorber.loop.finish()
    assert (len(absorber.results), [each.completed for each in absorber.absorbed]) == (0, [1])


async def test_at_the_end_a_store_that_stays_lost_is_given_up(absorber: Absorber) -> None:
    await absorber.world.start()
    (page,) = await absorber.world.claim()
    absorber.put(page)
    absorber.store.failures = [StoreFailed() for _ in range(10)]
    await absorber.loop.finish()
    assert (len(absorber.results), absorber.store.transactions) == (1, 1)


async def test_a_result_that_cannot_be_absorbed_fails_its_task_and_no_other(absorber: Absorber) -> None:
    run = await absorber.world.start()
    await absorber.world.answer((await absorber.world.claim())[0])
    bad, *_ = claims = await absorber.world.claim()
    for claim in claims:
        absorber.put(claim)
    # The batch fails, then the first result by itself.
    absorber.store.failures = [ValueError("a bug"), ValueError("a bug")]
    await absorber.loop.finish()
    statuses = {task.task_id: task.status for task in await absorber.world.tasks(run)}
    assert statuses.pop(bad.task.task_id) is TaskStatus.FAILED
    assert set(statuses.values()) == {TaskStatus.COMPLETED}
    assert len(absorber.results) == 0
