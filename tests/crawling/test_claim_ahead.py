"""Claiming ahead: what is queued, what is put back, and when the next claim comes."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from tests.builders import a_candidate
from tests.crawling.crawl_world import ONE, CrawlWorld
from tests.crawling.worker_parts import a_crawl, a_plan, claims_of, some_claims
from tests.waiting import until

from sellerwatch.crawling.claim_ahead import AGENT_WAIT, AGENT_WAIT_UNKNOWN, AT_ONCE, DRAINED_WAIT, ClaimAhead, Supply
from sellerwatch.crawling.messages import ReceivedMessages
from sellerwatch.crawling.task import TaskStatus
from sellerwatch.crawling.worker_queues import ClaimQueue, ResultQueue
from sellerwatch.kernel.clock import moment


class Claimer:
    """A `ClaimAhead` in front of its queue, in a crawl of its own."""

    def __init__(self, world: CrawlWorld, concurrency: int = 2) -> None:
        self.world = world
        self.crawl = a_crawl(world, concurrency=concurrency)
        self.claims, self.results = ClaimQueue(), ResultQueue()
        self.plan = a_plan(self.claims, self.results)
        self.messages = ReceivedMessages(self.crawl, self.plan.tasks_in_hand)
        self.claim_ahead = ClaimAhead(self.crawl, self.claims, self.plan, self.messages)

    async def claim(self, wanted: int) -> object:
        return await self.claim_ahead._claim(wanted)


async def test_claimed_tasks_wait_in_the_queue_in_progress(world: CrawlWorld) -> None:
    claimer = Claimer(world)
    await world.start()
    looked_again = await claimer.claim(10)
    (task_id,) = claimer.plan.tasks_in_hand()
    assert (await world.task(task_id)).status is TaskStatus.IN_PROGRESS
    assert claimer.plan.supply is Supply.DRAINED
    assert looked_again == world.now + DRAINED_WAIT


async def test_a_full_claim_is_followed_by_another_at_once(world: CrawlWorld) -> None:
    claimer = Claimer(world)
    await world.start()
    assert await claimer.claim(1) is AT_ONCE
    assert claimer.plan.supply is Supply.MORE_AVAILABLE


async def test_an_unsent_claim_is_put_back_by_the_next_one(world: CrawlWorld) -> None:
    claimer = Claimer(world)
    await world.start()
    await claimer.claim(1)
    (task_id,) = claimer.plan.tasks_in_hand()
    claimer.claim_ahead.return_unsent(lambda claim: claim.task.seller_id == ONE)
    assert claimer.plan.tasks_in_hand() == set()
    assert claimer.claim_ahead.with_absorb([]) is None
    await claimer.claim_ahead._put_back_unknown()
    assert (await world.task(task_id)).status is TaskStatus.WAITING
    assert not claimer.plan.claim_outcome_unknown


async def test_a_claim_with_a_batch_is_made_while_more_is_available(world: CrawlWorld) -> None:
    claimer = Claimer(world)
    await world.start()
    assert claimer.claim_ahead.with_absorb([]) is None
    claimer.plan.note(claims_of(some_claims(3)), 3)
    along = claimer.claim_ahead.with_absorb([])
    assert along is not None
    assert (along.wanted, along.rotation) == (10, 1)
    at = moment(world.clock)
    claims = await world.store.transact(lambda tx: along.run(tx, at))
    claimer.claim_ahead.receive(claims, along.wanted)
    assert len(claimer.claims) == 1
    assert claimer.plan.supply is Supply.DRAINED


async def test_claims_that_come_after_the_stop_are_not_queued(world: CrawlWorld) -> None:
    claimer = Claimer(world)
    claimer.plan.stop()
    claimer.claim_ahead.receive(claims_of(some_claims(2)), 2)
    assert len(claimer.claims) == 0


async def test_without_an_agent_the_next_look_has_a_longest_wait(world: CrawlWorld) -> None:
    claimer, now = Claimer(world), world.now
    lacking = claims_of(lacks_agents=True)
    is_shared = world.store.commits is None
    unknown = DRAINED_WAIT if is_shared else AGENT_WAIT_UNKNOWN
    assert claimer.claim_ahead._next_look(lacking, now) == now + unknown
    soon = type(lacking)((), now + timedelta(milliseconds=5), (), True)
    assert claimer.claim_ahead._next_look(soon, now) == now + timedelta(milliseconds=5)
    far = type(lacking)((), now + timedelta(days=1), (), True)
    assert claimer.claim_ahead._next_look(far, now) == now + (DRAINED_WAIT if is_shared else AGENT_WAIT)
    tokenless = type(lacking)((), now + timedelta(days=1), (a_candidate(),), True)
    assert claimer.claim_ahead._next_look(tokenless, now) == now + unknown, "one may have a token any moment"


async def test_a_claim_that_was_not_sent_is_put_back_at_once(world: CrawlWorld) -> None:
    """Waiting for something else to happen, its task would stand still."""
    claimer = Claimer(world)
    (unsent,) = some_claims(1)
    claimer.claims.put([unsent])
    assert claimer.claims.start_next(lambda _: True) == unsent
    claimer.claim_ahead.return_started(unsent)
    assert claimer.claim_ahead._nudged.is_set()
    assert claimer.plan.claim_outcome_unknown


async def test_the_loop_waits_for_a_nudge_while_nothing_is_wanted(world: CrawlWorld) -> None:
    claimer = Claimer(world, concurrency=1)
    await world.start()
    claimer.claims.put(some_claims(1, first=900))
    loop = asyncio.create_task(claimer.claim_ahead.run())
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(claimer.claims) == 1
    claimer.claims.remove(lambda _: True)
    claimer.claim_ahead.nudge_if_wanted()
    await until(lambda: len(claimer.claims) == 1)
    loop.cancel()
    await asyncio.gather(loop, return_exceptions=True)


async def test_a_result_nudges_only_if_a_claim_could_bring_more(world: CrawlWorld) -> None:
    claimer = Claimer(world)
    claimer.plan.note(claims_of(some_claims(1)), 5)
    claimer.claim_ahead.nudge_if_wanted()
    assert not claimer.claim_ahead._nudged.is_set()
    claimer.plan.note(claims_of(some_claims(5)), 5)
    claimer.claim_ahead.nudge_if_wanted()
    assert claimer.claim_ahead._nudged.is_set()
