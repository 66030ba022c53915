"""Publish tasks that are due to the queue: at most 200 of each run at a time.

The others wait in the database, where they cost nothing, are shared fairly between runs, and can be cancelled. A row
says PUBLISHED before its message is sent, so that no message comes before its row; a message that was not taken puts
its row back at once, and one that was lost is noticed when its row has been PUBLISHED for too long.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta

from sellerwatch.crawling.context import Crawl
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.crawling.task import Task, TaskStatus
from sellerwatch.kernel.errors import Unavailable
from sellerwatch.kernel.ids import WorkerId

log = logging.getLogger(__name__)

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
        ours = [t for t in found if t.status is TaskStatus.PUBLISHED and t.publish_count == counts[t.task_id]]
        tx.tasks.save([task.put_back(now) for task in tx.tasks.hold(ours)], now)

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
