"""The two queues of a worker."""

from __future__ import annotations

import asyncio

import pytest
from tests.crawling.worker_parts import a_claim, a_result, judged, some_claims

from sellerwatch.crawling.judged_result import FetchResult, JudgedResult
from sellerwatch.crawling.task import TaskType
from sellerwatch.crawling.worker_queues import BATCH_SIZE, RESULT_BUFFER, ClaimQueue, ResultQueue


def test_claims_are_started_in_the_order_they_came() -> None:
    queue = ClaimQueue()
    first, second = some_claims(2)
    queue.put([first, second])
    assert (queue.start_next(lambda _: True), queue.start_next(lambda _: True)) == (first, second)
    assert queue.start_next(lambda _: True) is None


def test_a_claim_that_may_not_be_sent_is_passed_over_and_kept() -> None:
    queue = ClaimQueue()
    page, detail = a_claim(1, TaskType.MINISHOP), a_claim(2)
    queue.put([page, detail])
    assert queue.start_next(lambda claim: not claim.is_page) == detail
    assert queue.start_next(lambda _: True) == page


def test_a_started_claim_counts_until_it_is_finished() -> None:
    queue, page = ClaimQueue(), a_claim(1, TaskType.MINISHOP)
    queue.put([page])
    queue.start_next(lambda _: True)
    assert (len(queue), queue.in_flight, queue.list_pages_in_flight) == (1, 1, 1)
    assert list(queue.task_ids) == [page.task.task_id]
    queue.finish(page)
    assert (len(queue), queue.in_flight, queue.list_pages_in_flight) == (0, 0, 0)


def test_removing_takes_waiting_claims_and_none_in_flight() -> None:
    queue = ClaimQueue()
    sent, waiting = some_claims(2)
    queue.put([sent, waiting])
    queue.start_next(lambda _: True)
    assert queue.remove(lambda _: True)
    assert list(queue.task_ids) == [sent.task.task_id]
    assert not queue.remove(lambda _: True)


def test_a_batch_is_kept_until_it_is_committed() -> None:
    queue = ResultQueue()
    claim = a_claim()
    queue.put(a_result(claim), is_last=True)
    assert list(queue.fill_batch(judged)) == [1]
    assert (len(queue), list(queue.task_ids)) == (1, [claim.task.task_id])
    queue.commit()
    assert (len(queue), queue.batch) == (0, [])


def test_a_batch_has_a_largest_size_and_takes_the_oldest() -> None:
    queue = ResultQueue()
    claims = some_claims(BATCH_SIZE + 1)
    for claim in claims:
        queue.put(a_result(claim), is_last=False)
    assert queue.has_full_batch
    assert list(queue.fill_batch(judged))[-1] == BATCH_SIZE
    assert [result.claim for result in queue.batch] == claims[:-1]
    queue.commit()
    assert list(queue.task_ids) == [claims[-1].task.task_id]


def test_a_result_that_cannot_be_judged_stays() -> None:
    queue = ResultQueue()
    queue.put(a_result(a_claim()), is_last=True)

    def fail(_: FetchResult) -> JudgedResult:
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        list(queue.fill_batch(fail))
    assert (len(queue), queue.batch) == (1, [])


def test_the_queue_is_full_at_its_buffer() -> None:
    queue = ResultQueue()
    for claim in some_claims(RESULT_BUFFER - 1):
        queue.put(a_result(claim), is_last=False)
    assert not queue.is_full
    queue.put(a_result(a_claim(RESULT_BUFFER)), is_last=False)
    assert queue.is_full


async def test_a_list_page_is_not_held_back_to_fill_a_batch() -> None:
    queue, began = ResultQueue(), asyncio.get_running_loop().time()
    waiting = asyncio.create_task(queue.wait_for_batch(lambda: False))
    await asyncio.sleep(0)
    queue.put(a_result(a_claim(1, TaskType.MINISHOP)), is_last=False)
    await waiting
    assert asyncio.get_running_loop().time() - began < 0.03
    assert queue.list_pages == 1


async def test_waiting_goes_on_after_a_batch_was_committed() -> None:
    queue = ResultQueue()
    queue.put(a_result(a_claim()), is_last=True)
    await queue.wait_for_batch(lambda: True)
    list(queue.fill_batch(judged))
    queue.commit()
    waiting = asyncio.create_task(queue.wait_for_batch(lambda: True))
    await asyncio.sleep(0)
    assert not waiting.done()
    queue.put(a_result(a_claim(2)), is_last=True)
    await waiting
