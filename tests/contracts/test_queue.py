"""One suite for every queue, together with the rows that are the truth: the database's own, and SQS."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest
from msgspec import structs
from tests.aws import emulator, queues
from tests.builders import rng, worker_id
from tests.crawling.crawl_world import BROKEN, CrawlWorld
from tests.servers import Aws

from sellerwatch.adapters.sealing import AesGcmSealer
from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.agents.agent_status import FullReason
from sellerwatch.crawling.claim import Claim
from sellerwatch.crawling.claim_ahead import claim_with_permits
from sellerwatch.crawling.context import Crawl, Tuning
from sellerwatch.crawling.messages import publish_due, republish_lost
from sellerwatch.crawling.ports import NoteKind
from sellerwatch.crawling.put_back import put_back_lost
from sellerwatch.crawling.queue import EmbeddedQueue, Hint
from sellerwatch.crawling.task import TaskStatus
from sellerwatch.kernel.clock import moment
from sellerwatch.kernel.ids import TaskId
from sellerwatch.operations.dead_letters import sweep_dead_letters


@pytest.fixture(scope="module")
def aws() -> Iterator[Aws]:
    with emulator() as server:
        yield server


@dataclass
class QueueWorld:
    """A crawl whose tasks go through a queue."""

    world: CrawlWorld
    crawl: Crawl

    @property
    def is_named(self) -> bool:
        return self.crawl.queue.names_tasks

    async def publish(self) -> int:
        return await publish_due(self.crawl) if self.is_named else 0

    async def receive(self) -> list[Hint]:
        return list(await self.crawl.queue.receive(100, 0))

    async def claim(self, hints: list[Hint] | None = None, worker: int = 1) -> list[Claim]:
        """As the worker does it; what is stale is acknowledged."""
        hints = await self.receive() if hints is None else hints
        named = [hint.task_id for hint in hints if hint.task_id is not None] if self.is_named else None
        crawl = replace(self.crawl, worker_id=worker_id(worker))
        claims = await claim_with_permits(crawl, 50, 0, named)
        await self.acknowledge(hints, set(claims.stale))
        return list(claims.taken)

    async def notice_the_silent(self) -> None:
        """As a scheduler does it: everybody but worker 2 has been silent."""
        at = moment(self.world.clock)

        def notice(tx: Transaction, ids: Iterator[str]) -> None:
            tx.workers.beat(worker_id(2), at.now)
            put_back_lost(tx, timedelta(seconds=30), self.world.rules, ids, at)

        await self.world.transact_with_ids(notice)

    async def acknowledge(self, hints: list[Hint], task_ids: set[TaskId]) -> None:
        await self.crawl.queue.acknowledge([hint for hint in hints if hint.task_id in task_ids])


@pytest.fixture(params=["database", "sqs"])
async def world(request: pytest.FixtureRequest, inline_store: SqlStore, aws: Aws) -> AsyncIterator[QueueWorld]:
    world = await CrawlWorld(inline_store, products=4, page_size=2).open(workers=2)
    async with queues(aws) as made:
        is_sqs = request.param == "sqs"
        crawl = Crawl(
            store=inline_store,
            marketplace=world.market,
            clock=world.clock,
            ids=world.ids,
            rng=rng(),
            sealer=AesGcmSealer([("k", b"0" * 32)]),
            worker_id=worker_id(1),
            rules=world.rules,
            tuning=Tuning(world.limits, world.host),
            queue=made.queue if is_sqs else EmbeddedQueue(),
            dead_letters=made.dead_letters if is_sqs else None,
        )
        yield QueueWorld(world, crawl)


async def test_what_is_due_is_taken_and_taken_once(world: QueueWorld) -> None:
    await world.world.start()
    await world.publish()
    taken = await world.claim()
    assert sorted(claim.task.page_no or 0 for claim in taken) == [0, 1]
    assert await world.claim() == []
    await world.publish()
    assert await world.claim() == []


async def test_a_row_says_that_it_is_in_hand_and_how_often_it_was_published(world: QueueWorld) -> None:
    await world.world.start()
    await world.publish()
    (first, *_) = await world.claim()
    row = await world.world.task(first.task.task_id)
    assert (row.status, row.publish_count, row.attempt) == (TaskStatus.IN_PROGRESS, 1, 1)


async def test_a_task_to_be_tried_again_comes_when_its_time_has_come(world: QueueWorld) -> None:
    await world.world.start()
    await world.publish()
    hints = await world.receive()
    first, second = await world.claim(hints)
    ending = structs.replace(world.world.judged(first, BROKEN), wait=timedelta(seconds=30))
    await world.world.absorb([ending, structs.replace(world.world.judged(second, BROKEN), wait=timedelta(hours=1))])
    await world.crawl.queue.acknowledge(hints)
    await world.publish()
    assert await world.claim() == []
    world.world.clock.time += timedelta(seconds=31)
    await world.publish()
    (again,) = await world.claim()
    assert (again.task.task_id, again.task.attempt) == (first.task.task_id, 2)


async def test_of_a_cancelled_run_nothing_is_taken(world: QueueWorld) -> None:
    run = await world.world.start()
    await world.publish()
    hints = await world.receive()
    await world.world.cancel(run)
    assert await world.claim(hints) == []
    assert await world.claim() == []


async def test_of_a_paused_run_only_what_is_to_be_checked_again_is_taken_when_its_time_has_come(
    world: QueueWorld,
) -> None:
    run = await world.world.start()
    later = world.world.now + timedelta(minutes=5)

    def pause(tx: Transaction) -> TaskId:
        first, *_ = tx.run_tasks.open_of(run, [TaskStatus.WAITING])
        tx.tasks.save([structs.replace(first, available_at=later)], world.world.now)
        tx.run_notes.add(run, {(NoteKind.PAUSED, "why"): 1, (NoteKind.RECHECK, first.task_id): 1})
        return first.task_id

    checked = await world.world.store.transact(pause)
    await world.publish()
    assert await world.claim() == []
    world.world.clock.time = later
    await world.publish()
    assert [claim.task.task_id for claim in await world.claim()] == [checked]
    await world.publish()
    assert await world.claim() == []


async def test_a_task_whose_worker_vanished_is_taken_by_another(world: QueueWorld) -> None:
    await world.world.start()
    await world.publish()
    hints = await world.receive()
    lost = await world.claim(hints)
    world.world.clock.time += timedelta(minutes=1)
    await world.notice_the_silent()
    await world.crawl.queue.acknowledge(hints)
    await world.publish()
    again = await world.claim(worker=2)
    assert {claim.task.task_id for claim in again} == {claim.task.task_id for claim in lost}
    assert {claim.task.attempt for claim in again} == {2}


async def test_a_message_that_comes_twice_or_late_does_nothing_twice(world: QueueWorld) -> None:
    await world.world.start()
    await world.publish()
    hints = await world.receive()
    taken = await world.claim(hints)
    assert await world.claim(hints) == []
    await world.world.absorb([world.world.judged(claim) for claim in taken])
    assert await world.claim(hints) == [] or not world.is_named


async def test_without_budget_a_task_is_not_taken_and_pays_nothing(world: QueueWorld) -> None:
    run = await world.world.start()
    limits, at = world.crawl.limits, moment(world.world.clock)
    await world.world.store.transact(lambda tx: tx.windows.fill(at, limits, FullReason.RESTORED))
    await world.publish()
    assert await world.claim() == []
    assert {(task.retry_count, task.attempt) for task in await world.world.tasks(run)} == {(0, 0)}


async def test_a_message_that_was_lost_is_noticed_by_its_row(world: QueueWorld) -> None:
    """The queue was emptied, or we were killed between the row and the message."""
    await world.world.start()
    await world.publish()
    await world.crawl.queue.acknowledge(await world.receive())
    world.world.clock.time += timedelta(minutes=16)
    assert await republish_lost(world.crawl) == (2 if world.is_named else 0)
    await world.publish()
    assert len(await world.claim()) == 2


async def test_a_process_killed_between_the_row_and_the_message_is_noticed_by_its_heart(world: QueueWorld) -> None:
    await world.world.start()
    await world.publish()
    await world.crawl.queue.acknowledge(await world.receive())
    world.world.clock.time += timedelta(minutes=1)
    await world.notice_the_silent()
    world.crawl = replace(world.crawl, worker_id=worker_id(2))
    assert await world.publish() == (2 if world.is_named else 0)
    await world.notice_the_silent()
    assert await world.publish() == 0, "whoever lives has sent them"
    assert len(await world.claim(worker=2)) == 2


async def test_a_dead_letter_whose_task_is_not_over_is_put_back(world: QueueWorld) -> None:
    if not world.is_named:
        assert await sweep_dead_letters(world.crawl) == 0
        return
    await world.world.start()
    await world.publish()
    assert world.crawl.dead_letters is not None
    while not await world.crawl.dead_letters.count():
        await world.crawl.queue.receive(10, 2)
    assert await sweep_dead_letters(world.crawl) == 2
    assert await world.crawl.dead_letters.count() == 0
    assert await world.publish() == 2
    assert len(await world.claim()) == 2
