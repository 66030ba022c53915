"""Messages in hand: what a queue gave us, until its tasks are done, put off or handed over.

The rows decide, a message is a hint. The embedded queue has no messages: then there is nothing in here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from datetime import datetime

from sellerwatch.crawling.claim import put_off
from sellerwatch.crawling.context import Crawl
from sellerwatch.crawling.queue import Hint
from sellerwatch.kernel.errors import Unavailable
from sellerwatch.kernel.ids import TaskId
from sellerwatch.kernel.store import StoreFailed

log = logging.getLogger(__name__)

#: How long one question to a queue waits for a message, in seconds.
POLL = 20.0


class ReceivedMessages:
    """The messages of one worker. `under_way` says which tasks it is at."""

    def __init__(self, crawl: Crawl, under_way: Callable[[], Collection[TaskId]]) -> None:
        self._crawl = crawl
        self._under_way = under_way
        self._hints: dict[TaskId, Hint] = {}

    async def named(self, wanted: int) -> list[TaskId]:
        """Tasks that messages in hand name and that are not under way: those from before, then new ones."""
        queue, waiting = self._crawl.queue, self._waiting()
        if len(waiting) < wanted:
            hints = await queue.receive(wanted - len(waiting), 0 if waiting else POLL)
            again = [hint for hint in hints if hint.task_id in self._hints]
            await queue.acknowledge(again)
            self._hints |= {hint.task_id: hint for hint in hints if hint.task_id is not None and hint not in again}
            waiting = self._waiting()
        return waiting[:wanted]

    async def let_go(self, task_ids: Iterable[TaskId]) -> None:
        """Their tasks are not in hand any more, whatever became of them. A message that cannot be deleted comes again,
        and finds that out."""
        hints = [hint for task_id in task_ids if (hint := self._hints.pop(task_id, None))] if self._hints else []
        if hints:
            try:
                await self._crawl.queue.acknowledge(hints)
            except Unavailable as refusal:
                log.warning("messages were not deleted; they come again", extra={"problem": str(refusal)})

    async def put_off(self, until: datetime) -> None:
        """No budget for a while: what is named waits in the database, since in the queue it would count as received."""
        now, waiting = self._crawl.clock.now(), self._waiting()
        if waiting:
            await self._crawl.store.transact(lambda tx: put_off(tx, waiting, until, now))
            await self.let_go(waiting)

    async def hand_over(self) -> None:
        """Stopped: what is named and not taken is published anew, for others. In the queue it would be ours, and keep
        back all of its seller, until nobody has extended it for a while. Rows of what was taken and not done are put
        back by whoever releases what this worker holds."""
        try:
            await self.put_off(self._crawl.clock.now())
        except StoreFailed as failure:
            log.warning("messages in hand are not given back; they come again", extra={"problem": str(failure)})
            return
        await self.let_go(list(self._hints))

    async def keep(self) -> None:
        """Messages stay ours while their tasks are in hand."""
        while True:
            await self._crawl.clock.sleep(self._crawl.visibility.total_seconds() / 3)
            try:
                await self._crawl.queue.extend(list(self._hints.values()))
            except Unavailable as refusal:
                log.warning("messages were not extended", extra={"problem": str(refusal)})

    def _waiting(self) -> list[TaskId]:
        under_way = self._under_way()
        return [task_id for task_id in self._hints if task_id not in under_way]
