"""Messages of the queue: publish tasks that are due, and keep the messages received until they are acknowledged.

A task's row decides what is done, a message is only a hint. The embedded queue has no messages.

At most 200 tasks of each run are published at a time. The others wait in the database, where they cost nothing, are
shared fairly between runs, and can be cancelled. A row says PUBLISHED before its message is sent, so that no message
comes before its row; a message that was not taken puts its row back at once, and one that was lost is noticed when its
row has been PUBLISHED for too long.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime, timedelta

from sellerwatch.crawling.claim import put_off
from sellerwatch.crawling.context import Crawl
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.crawling.queue import Hint
from sellerwatch.crawling.task import Task, TaskStatus
from sellerwatch.kernel.errors import Unavailable
from sellerwatch.kernel.ids import TaskId, WorkerId
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


#: Messages of one run that wait in the queue at most.
AHEAD = 200
#: A message that was not received for this long counts as lost. If it comes after all, its task is published or done.
LOST_AFTER = timedelta(minutes=15)
SWEPT_AT_ONCE = 500
UNPUBLISHED = (TaskStatus.RETRY, TaskStatus.WAITING)


async def publish_due(crawl: Crawl) -> int:
    """Publish due tasks of runs that have few messages in the queue. Return how many messages were sent."""
    now = crawl.clock.now()
    tasks = await crawl.store.transact(lambda tx: _published(tx, crawl.worker_id, now))
    if not tasks:
        return 0
    try:
        sent = await crawl.queue.send(tasks)
    except Unavailable:
        await _take_back(crawl, tasks)
        raise
    await _take_back(crawl, [task for task in tasks if task.task_id not in sent])
    return len(sent)


def _published(tx: CrawlTx, worker_id: WorkerId, now: datetime) -> list[Task]:
    found: list[Task] = []
    for execution in tx.executions.at_work():
        room = AHEAD - tx.task_claims.count_published(execution.execution_id)
        if room > 0:
            due = tx.task_claims.ready(execution.execution_id, now, room, UNPUBLISHED)
            found += [task.publish(now, worker_id) for task in due]
    waiting = tx.tasks.take_many(rechecks).values() if (rechecks := tx.run_notes.rechecks()) else ()
    due = [task for task in waiting if task.status in UNPUBLISHED and task.available_at <= now]
    found += [task.publish(now, worker_id) for task in due if task.task_id not in {each.task_id for each in found}]
    tx.tasks.save(found, now)
    return found


async def _take_back(crawl: Crawl, unsent: Sequence[Task]) -> None:
    """Put back tasks whose message was not sent, unless a worker has started them meanwhile."""
    if not unsent:
        return
    now = crawl.clock.now()
    counts = {task.task_id: task.publish_count for task in unsent}

    def work(tx: CrawlTx) -> None:
        found = tx.tasks.get_many(list(counts)).values()
        current = [t for t in found if t.status is TaskStatus.PUBLISHED and t.publish_count == counts[t.task_id]]
        tx.tasks.save([task.put_back(now) for task in tx.tasks.hold(current)], now)

    await crawl.store.transact(work)
    log.warning("messages were not taken by the queue; their tasks wait", extra={"tasks": len(unsent)})


async def republish_lost(crawl: Crawl) -> int:
    """Put back tasks that have been PUBLISHED for too long: their message is lost or was never sent."""
    if not crawl.queue.names_tasks:
        return 0
    now = crawl.clock.now()

    def work(tx: CrawlTx) -> int:
        lost = tx.tasks.hold(tx.task_claims.published_before(now - LOST_AFTER, SWEPT_AT_ONCE))
        tx.tasks.save([task.put_back(now) for task in lost], now)
        return len(lost)

    return await crawl.store.transact(work)
