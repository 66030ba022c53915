"""Queue messages that were received and not yet acknowledged.

A task's row decides what is done, a message is only a hint. The embedded queue has no messages: then this is empty.
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

#: Seconds that one question to the queue waits for a message.
POLL = 20.0


class ReceivedMessages:
    """The messages of one worker. `tasks_in_hand` returns the tasks that it has claimed and not absorbed."""

    def __init__(self, crawl: Crawl, tasks_in_hand: Callable[[], Collection[TaskId]]) -> None:
        self._crawl = crawl
        self._tasks_in_hand = tasks_in_hand
        self._hints: dict[TaskId, Hint] = {}

    async def named(self, wanted: int) -> list[TaskId]:
        """Return tasks to claim: those that earlier messages name, then those of new ones."""
        queue, unclaimed = self._crawl.queue, self._unclaimed()
        if len(unclaimed) < wanted:
            hints = await queue.receive(wanted - len(unclaimed), 0 if unclaimed else POLL)
            again = [hint for hint in hints if hint.task_id in self._hints]
            await queue.acknowledge(again)
            self._hints |= {hint.task_id: hint for hint in hints if hint.task_id is not None and hint not in again}
            unclaimed = self._unclaimed()
        return unclaimed[:wanted]

    async def acknowledge(self, task_ids: Iterable[TaskId]) -> None:
        """Delete the messages of these tasks. One that cannot be deleted comes again, and finds its task done."""
        hints = [hint for task_id in task_ids if (hint := self._hints.pop(task_id, None))] if self._hints else []
        if hints:
            try:
                await self._crawl.queue.acknowledge(hints)
            except Unavailable as refusal:
                log.warning("messages were not deleted; they come again", extra={"problem": str(refusal)})

    async def put_off(self, until: datetime) -> None:
        """Let unclaimed tasks wait in the database until then. In the queue, waiting would count as received."""
        now, unclaimed = self._crawl.clock.now(), self._unclaimed()
        if unclaimed:
            await self._crawl.store.transact(lambda tx: put_off(tx, unclaimed, until, now))
            await self.acknowledge(unclaimed)

    async def give_back(self) -> None:
        """At the stop, have unclaimed tasks published again for other workers. Their messages would stay invisible for
        a while, and hold back the tasks of the same seller. Claimed tasks are put back by the service."""
        try:
            await self.put_off(self._crawl.clock.now())
        except StoreFailed as failure:
            log.warning("messages are not given back; they come again", extra={"problem": str(failure)})
            return
        await self.acknowledge(list(self._hints))

    async def keep_extending(self) -> None:
        """Keep the messages invisible to other workers, until cancelled."""
        while True:
            await self._crawl.clock.sleep(self._crawl.visibility.total_seconds() / 3)
            try:
                await self._crawl.queue.extend(list(self._hints.values()))
            except Unavailable as refusal:
                log.warning("messages were not extended", extra={"problem": str(refusal)})

    def _unclaimed(self) -> list[TaskId]:
        in_hand = self._tasks_in_hand()
        return [task_id for task_id in self._hints if task_id not in in_hand]
