"""The two queues of a worker: claims that wait for a slot, and results that wait for their transaction.

What is taken from a queue stays counted in it until it is finished: a claim until its request has ended, a result until
it is committed. So the two queues together know every task that the worker holds.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from sellerwatch.crawling.claim import Claim
from sellerwatch.crawling.judged_result import FetchResult, JudgedResult
from sellerwatch.kernel.ids import TaskId

#: Results in one transaction.
BATCH_SIZE = 200
#: A list page brings hundreds of products: a batch is full with one.
BATCH_PARTS = 500
#: Seconds that a result waits for others to share its transaction, while requests are in flight.
BATCH_DELAY = 0.04
#: While this many results wait for their transaction, nothing is claimed.
RESULT_BUFFER = 400


class ClaimQueue:
    """Claims that wait for a slot, and those in flight. Bounded by what `ClaimPlan.wanted` allows."""

    def __init__(self) -> None:
        #: Set when a claim may have become ready to send.
        self.changed = asyncio.Event()
        self.list_pages_in_flight = 0
        self._waiting: deque[Claim] = deque()
        self._in_flight: dict[TaskId, Claim] = {}

    def __len__(self) -> int:
        """Return the number of claims, waiting and in flight."""
        return len(self._waiting) + len(self._in_flight)

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    @property
    def task_ids(self) -> Iterator[TaskId]:
        yield from self._in_flight
        yield from (claim.task.task_id for claim in self._waiting)

    def put(self, claims: Iterable[Claim]) -> None:
        self._waiting += claims
        self.changed.set()

    def start_next(self, may_send: Callable[[Claim], bool]) -> Claim | None:
        """Return the first waiting claim that may be sent, and count it as in flight."""
        for index, claim in enumerate(self._waiting):
            if may_send(claim):
                del self._waiting[index]
                self._in_flight[claim.task.task_id] = claim
                self.list_pages_in_flight += claim.is_page
                return claim
        return None

    def finish(self, claim: Claim) -> None:
        """Count a claim as in flight no longer."""
        del self._in_flight[claim.task.task_id]
        self.list_pages_in_flight -= claim.is_page

    def remove(self, is_unwanted: Callable[[Claim], bool]) -> bool:
        """Remove waiting claims that are not to be sent; return whether there were any."""
        kept = deque(claim for claim in self._waiting if not is_unwanted(claim))
        is_shorter = len(kept) < len(self._waiting)
        self._waiting = kept
        return is_shorter


class ResultQueue:
    """Results that wait for their transaction. A batch is kept until it is committed.

    Bounded by claiming: at `RESULT_BUFFER` results nothing more is claimed, so at most what was claimed by then is
    added.
    """

    def __init__(self) -> None:
        #: Results that were read and judged and are being absorbed.
        self.batch: list[JudgedResult] = []
        self.list_pages = 0
        self._waiting: deque[FetchResult] = deque()
        self._arrived = asyncio.Event()
        self._batch_ready = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting) + len(self.batch)

    @property
    def is_full(self) -> bool:
        return len(self._waiting) >= RESULT_BUFFER

    @property
    def has_full_batch(self) -> bool:
        return len(self._waiting) >= BATCH_SIZE

    @property
    def task_ids(self) -> Iterator[TaskId]:
        yield from (result.claim.task.task_id for result in self._waiting)
        yield from (judged.claim.task.task_id for judged in self.batch)

    def put(self, result: FetchResult, *, is_last: bool) -> None:
        """Add a result. A list page and the last one in flight are absorbed without waiting for others."""
        self._waiting.append(result)
        is_page = result.claim.is_page
        self.list_pages += is_page
        self._arrived.set()
        if is_last or is_page or self.has_full_batch:
            self._batch_ready.set()

    async def wait_for_batch(self, is_idle: Callable[[], bool]) -> None:
        """Return when there are results and a batch is full, `BATCH_DELAY` is over or nothing more is on its way."""
        await self._arrived.wait()
        if not (self.has_full_batch or is_idle()):
            with suppress(TimeoutError):
                async with asyncio.timeout(BATCH_DELAY):
                    await self._batch_ready.wait()
        self._batch_ready.clear()

    def fill_batch(self, judge: Callable[[FetchResult], JudgedResult]) -> Iterator[int]:
        """Judge the oldest results and move them to the batch until it is full; yield its size after each."""
        parts = sum(len(judged.parts) for judged in self.batch)
        while self._waiting and len(self.batch) < BATCH_SIZE and parts < BATCH_PARTS:
            self.batch.append(judge(self._waiting[0]))
            self._waiting.popleft()
            parts += len(self.batch[-1].parts)
            yield len(self.batch)

    def commit(self) -> None:
        """Forget the batch: it is committed."""
        if self.list_pages:
            self.list_pages -= sum(judged.claim.is_page for judged in self.batch)
        self.batch.clear()
        if not self._waiting:
            self._arrived.clear()
