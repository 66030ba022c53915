"""Sending the requests of claimed tasks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.builders import NOW, task_id
from tests.crawling.crawl_world import TOO_MANY, CrawlWorld
from tests.crawling.worker_parts import OK, ScriptedMarketplace, a_claim, a_crawl, a_plan, some_claims
from tests.waiting import until

from sellerwatch.agents.answers import Answer
from sellerwatch.crawling.claim_ahead import ClaimAhead
from sellerwatch.crawling.fetch import MAX_LIST_PAGES, Fetch
from sellerwatch.crawling.messages import ReceivedMessages
from sellerwatch.crawling.task import TaskType
from sellerwatch.crawling.worker_queues import ClaimQueue, ResultQueue


class Sender:
    """A `Fetch` between its two queues; each request waits until `gate` is opened."""

    def __init__(self, world: CrawlWorld, concurrency: int = 2) -> None:
        self.answer: Answer | Exception = OK
        self.gate = asyncio.Event()
        self.market = ScriptedMarketplace(self._answer)
        self.crawl = a_crawl(world, self.market, concurrency)
        self.claims, self.results = ClaimQueue(), ResultQueue()
        self.plan = a_plan(self.claims, self.results)
        messages = ReceivedMessages(self.crawl, self.plan.tasks_in_hand)
        self.claim_ahead = ClaimAhead(self.crawl, self.claims, self.plan, messages)
        self.fetch = Fetch(self.crawl, self.claims, self.results, self.claim_ahead)

    async def _answer(self, url: str) -> Answer:
        await self.gate.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        loop = asyncio.create_task(self.fetch.run())
        try:
            yield
        finally:
            loop.cancel()
            await asyncio.gather(loop, return_exceptions=True)
            await self.fetch.finish(0)


async def test_at_most_one_request_a_slot_is_in_flight(world: CrawlWorld) -> None:
    sender = Sender(world)
    async with sender.running():
        sender.claims.put(some_claims(3))
        await until(lambda: len(sender.market.asked) == 2)
        for _ in range(20):
            await asyncio.sleep(0)
        assert (len(sender.market.asked), sender.claims.in_flight) == (2, 2)
        sender.gate.set()
        await until(lambda: len(sender.results) == 3)
    assert (len(sender.claims), len(sender.market.asked)) == (0, 3)


async def test_few_list_pages_are_on_their_way_until_they_are_absorbed(world: CrawlWorld) -> None:
    sender = Sender(world, concurrency=20)
    sender.gate.set()
    async with sender.running():
        sender.claims.put([a_claim(number, TaskType.MINISHOP) for number in range(1, MAX_LIST_PAGES + 3)])
        await until(lambda: len(sender.results) == MAX_LIST_PAGES)
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(sender.market.asked) == MAX_LIST_PAGES
        sender.claims.put([a_claim(99)])
        await until(lambda: len(sender.results) == MAX_LIST_PAGES + 1)
        assert len(sender.claims) == 2


async def test_a_paused_seller_is_not_asked_and_its_claims_wait(world: CrawlWorld) -> None:
    sender = Sender(world)
    sender.gate.set()
    sender.crawl.pause.everything = True
    async with sender.running():
        sender.claims.put(some_claims(1))
        for _ in range(20):
            await asyncio.sleep(0)
    assert (sender.market.asked, len(sender.claims)) == ([], 1)


async def test_a_claim_that_a_pause_meets_before_its_departure_goes_back(world: CrawlWorld) -> None:
    sender = Sender(world)
    claim = a_claim()
    sender.claims.put([claim])
    assert sender.claims.start_next(lambda _: True) == claim
    sender.crawl.pause.everything = True
    await sender.fetch._fetch(claim)
    assert (len(sender.claims), len(sender.results), sender.market.asked) == (0, 0, [])
    assert sender.plan.claim_outcome_unknown


async def test_after_a_429_waiting_claims_of_that_agent_go_back_unsent(world: CrawlWorld) -> None:
    sender = Sender(world, concurrency=1)
    sender.answer = TOO_MANY
    async with sender.running():
        sender.claims.put([a_claim(1, agent=1), a_claim(2, agent=1), a_claim(3, agent=2)])
        await until(lambda: len(sender.market.asked) == 1)
        sender.gate.set()
        await until(lambda: len(sender.results) == 2)
    assert set(sender.results.task_ids) == {task_id(1), task_id(3)}
    assert sender.plan.claim_outcome_unknown


async def test_an_error_of_our_own_costs_one_request(world: CrawlWorld) -> None:
    sender = Sender(world, concurrency=1)
    sender.answer = ValueError("a bug")
    sender.gate.set()
    async with sender.running():
        sender.claims.put(some_claims(2))
        await until(lambda: len(sender.results) == 2)
    assert len(sender.claims) == 0


async def test_requests_of_one_agent_keep_its_rate(world: CrawlWorld) -> None:
    sender = Sender(world)
    clock, grant = sender.crawl.clock, a_claim().permit.grant
    first = await sender.fetch._wait_for_departure(grant)
    second = await sender.fetch._wait_for_departure(grant)
    assert first == clock.monotonic() - (second - first)
    assert round((second - first) * 1_000_000) == pytest.approx(sender.crawl.limits.spacing_us, abs=1), "and no more"


async def test_what_does_not_end_within_the_grace_is_cancelled_and_stays_in_hand(world: CrawlWorld) -> None:
    sender = Sender(world)
    async with sender.running():
        sender.claims.put(some_claims(1))
        await until(lambda: len(sender.market.asked) == 1)
    assert len(sender.results) == 0
    assert sender.plan.tasks_in_hand() == {task_id(1)}
    assert sender.crawl.clock.now() >= NOW


async def test_what_ends_within_the_grace_is_brought_home(world: CrawlWorld) -> None:
    """Its permit is used in any case: cut off, the request would be made once more."""
    sender = Sender(world)
    loop = asyncio.create_task(sender.fetch.run())
    sender.claims.put(some_claims(1))
    await until(lambda: len(sender.market.asked) == 1)
    loop.cancel()
    asyncio.get_running_loop().call_later(0.01, sender.gate.set)
    await sender.fetch.finish(60)
    await asyncio.gather(loop, return_exceptions=True)
    assert len(sender.results) == 1
