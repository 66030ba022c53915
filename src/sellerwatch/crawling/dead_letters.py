"""Dead letters: messages that the queue gave up, judged by the rows of their tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sellerwatch.crawling.commands import retry_tasks
from sellerwatch.crawling.context import Crawl
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.crawling.queue import DeadLetter
from sellerwatch.crawling.task import Task, TaskStatus
from sellerwatch.kernel.bulk import BulkResult
from sellerwatch.kernel.clock import stamp
from sellerwatch.kernel.ids import TaskId
from sellerwatch.kernel.wording import failure_text

SWEPT_AT_ONCE = 200


@dataclass(frozen=True)
class Explained:
    """A dead letter with its task, if it named one that there is."""

    letter: DeadLetter
    task: Task | None

    @property
    def needs_a_person(self) -> bool:
        """Nothing mends it by itself: its task failed for good, or it names none."""
        return self.task is None or self.task.status is TaskStatus.FAILED

    @property
    def why(self) -> str:
        task = self.task
        if task is None:
            named = self.letter.hint.task_id
            return "it names no task" if named is None else "there is no such task any more"
        match task.status:
            case TaskStatus.FAILED:
                reason = "no reason is kept" if task.failure is None else failure_text(task.failure)
                return f"its task failed for good: {reason}"
            case TaskStatus.COMPLETED:
                return "its task is done; the message is left over"
            case TaskStatus.IN_PROGRESS:
                return f"its task is in hand of worker {task.worker_id}; the message is left over"
            case TaskStatus.PUBLISHED:
                return "its workers vanished before they took it; the sweep puts its task back"
            case _:
                return f"its task waits until {stamp(task.available_at)} and is published again then"


def explain(tx: CrawlTx, letters: Sequence[DeadLetter]) -> list[Explained]:
    named = [letter.hint.task_id for letter in letters if letter.hint.task_id is not None]
    found = tx.tasks.get_many(named) if named else {}
    return [Explained(one, None if one.hint.task_id is None else found.get(one.hint.task_id)) for one in letters]


def put_back_open(tx: CrawlTx, explained: Sequence[Explained], now: datetime) -> int:
    """Tasks that wait for a message which is dead: they wait to be published again, at no cost to them."""
    ids = [one.task.task_id for one in explained if one.task is not None]
    found = tx.tasks.get_many(ids).values() if ids else ()
    back = tx.tasks.hold([task for task in found if task.status is TaskStatus.PUBLISHED])
    tx.tasks.save([task.put_back(now) for task in back], now)
    return len(back)


async def sweep_dead_letters(crawl: Crawl) -> int:
    """Puts back what has attempts left and throws away what is left over; what needs a person stays to be seen."""
    if crawl.dead_letters is None:
        return 0
    letters = await crawl.dead_letters.look(SWEPT_AT_ONCE)
    if not letters:
        return 0
    now = crawl.clock.now()

    def work(tx: CrawlTx) -> list[Explained]:
        explained = explain(tx, letters)
        put_back_open(tx, explained, now)
        return explained

    explained = await crawl.store.transact(work)
    swept = [one.letter for one in explained if not one.needs_a_person]
    await crawl.dead_letters.remove(swept)
    await crawl.dead_letters.leave([one.letter for one in explained if one.needs_a_person])
    return len(swept)


def redrive(
    tx: CrawlTx, explained: Sequence[Explained], deadline: timedelta, *, actor: str, now: datetime
) -> tuple[BulkResult, list[DeadLetter]]:
    """By an operator: their tasks are to be done after all. What can go, goes; what is refused stays a dead letter."""
    put_back_open(tx, explained, now)
    failed = [one.task.task_id for one in explained if one.task is not None and one.task.status is TaskStatus.FAILED]
    handled = retry_tasks(tx, failed, deadline, actor=actor, now=now)
    refused = {refusal.id for refusal in handled.refused}
    others = [_id(one) for one in explained if one.task is not None and one.task.task_id not in failed]
    gone = [one.letter for one in explained if _id(one) not in refused]
    return BulkResult((*handled.done, *(id_ for id_ in others if id_ is not None)), handled.refused), gone


def _id(one: Explained) -> TaskId | None:
    return one.letter.hint.task_id
