"""Dead letters: messages that the queue gave up, each explained by the row of its task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated

from sellerwatch.crawling.commands import reopen_each
from sellerwatch.crawling.context import Crawl
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.crawling.queue import DeadLetter, DeadLetters
from sellerwatch.crawling.task import Task, TaskStatus
from sellerwatch.kernel.bulk import BulkResult, BulkResultView
from sellerwatch.kernel.clock import stamp
from sellerwatch.kernel.errors import Conflict
from sellerwatch.kernel.failure_view import error_message
from sellerwatch.kernel.ids import TaskId
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.views import About, View
from sellerwatch.operations.session import OperationSession
from sellerwatch.texts import say

#: Letters that one redrive looks at.
MOST_REDRIVEN = 1000
#: Dead letters that one round of the sweep reads.
SWEPT_AT_ONCE = 200


@dataclass(eq=False)
class NoDeadLetters(Conflict):
    """The queue in use has no dead letters."""

    queue: str


@dataclass(frozen=True)
class Explained:
    """A dead letter with its task, if it names one that exists."""

    letter: DeadLetter
    task: Task | None

    @property
    def task_id(self) -> TaskId | None:
        return self.letter.hint.task_id

    @property
    def needs_a_person(self) -> bool:
        """Whether no sweep can settle it: its task failed for good, or it names none."""
        return self.task is None or self.task.status is TaskStatus.FAILED

    def why(self, language: str) -> str:
        """Return why it is a dead letter, as a sentence."""
        task = self.task
        if task is None:
            return say("dead_letters", "no_task" if self.task_id is None else "unknown_task", language)
        match task.status:
            case TaskStatus.FAILED:
                reason = error_message(task.failure, language) or say("dead_letters", "no_reason", language)
                return say("dead_letters", "failed", language, reason=reason)
            case TaskStatus.COMPLETED:
                return say("dead_letters", "completed", language)
            case TaskStatus.IN_PROGRESS:
                return say("dead_letters", "in_progress", language, worker=task.worker_id)
            case TaskStatus.PUBLISHED:
                return say("dead_letters", "published", language)
            case _:
                return say("dead_letters", "waiting", language, time=stamp(task.available_at))


@dataclass(frozen=True)
class DeadLetterView(View):
    """A message that the queue gave up, and why."""

    task_id: str | None
    seller_id: str | None
    status: TaskStatus | None
    why: str
    needs_a_person: Annotated[bool, About("Its task failed for good, or it names none: redrive it or look at it.")]
    receive_count: int
    body: str

    @classmethod
    def of(cls, explained: Explained, language: str) -> DeadLetterView:
        task = explained.task
        return cls(
            task_id=explained.task_id,
            seller_id=None if task is None else task.seller_id,
            status=None if task is None else task.status,
            why=explained.why(language),
            needs_a_person=explained.needs_a_person,
            receive_count=explained.letter.received,
            body=explained.letter.body,
        )


@dataclass(frozen=True)
class DeadLettersView(View):
    """The first dead letters, and how many there are."""

    content: Sequence[DeadLetterView]
    total: int


async def list_dead_letters(session: OperationSession, dead_letters: DeadLetters | None, limit: int) -> DeadLettersView:
    """List dead letters and why each is one."""
    box = _box(dead_letters)
    letters = await box.look(limit)
    await box.leave(letters)
    views = await session.ask(_explain_letters, letters) if letters else ()
    return DeadLettersView(views, max(await box.count(), len(views)))


async def redrive_dead_letters(
    session: OperationSession,
    dead_letters: DeadLetters | None,
    task_ids: Sequence[TaskId] | None,
    *,
    dry_run: bool = False,
) -> BulkResultView:
    """Have the tasks of dead letters done again and remove the letters: all of them, or those of these tasks."""
    box = _box(dead_letters)
    letters = await box.look(MOST_REDRIVEN)
    chosen = [letter for letter in letters if task_ids is None or letter.hint.task_id in task_ids]
    try:
        result, settled = await session.run(_redrive_letters, chosen, session.deadline, dry_run=dry_run)
    except BaseException:
        await box.leave(letters)
        raise
    removed = () if dry_run else settled
    await box.remove(removed)
    await box.leave([letter for letter in letters if letter not in removed])
    return BulkResultView.of(result, session.language, dry_run=dry_run)


def _explain(tx: CrawlTx, letters: Sequence[DeadLetter]) -> list[Explained]:
    """Return each letter with its task."""
    named = [letter.hint.task_id for letter in letters if letter.hint.task_id is not None]
    found = tx.tasks.get_many(named) if named else {}
    return [Explained(each, None if each.hint.task_id is None else found.get(each.hint.task_id)) for each in letters]


def _explain_letters(tx: CrawlTx, context: OperationContext, letters: Sequence[DeadLetter]) -> Sequence[DeadLetterView]:
    """Return why each of these messages is a dead letter."""
    return [DeadLetterView.of(each, context.language) for each in _explain(tx, letters)]


def _redrive_letters(
    tx: CrawlTx, context: OperationContext, letters: Sequence[DeadLetter], deadline: timedelta, *, dry_run: bool = False
) -> tuple[BulkResult, Sequence[DeadLetter]]:
    """Have the tasks of dead letters done again. Return what became of each, and the letters to be removed: a letter
    whose task is refused stays."""
    explained = _explain(tx, letters)
    if not dry_run:
        _put_back_open(tx, explained, context.now)
    failed = [
        each.task.task_id for each in explained if each.task is not None and each.task.status is TaskStatus.FAILED
    ]
    result = reopen_each(tx, context, failed, deadline, dry_run=dry_run)
    refused = {refusal.id for refusal in result.refused}
    others = [each.task.task_id for each in explained if each.task is not None and each.task.task_id not in failed]
    settled = [each.letter for each in explained if each.task_id not in refused]
    return BulkResult((*result.done, *others), result.refused), settled


def _put_back_open(tx: CrawlTx, explained: Sequence[Explained], now: datetime) -> int:
    """Put back tasks whose message is dead: they wait to be published again, at no cost to them. Return how many."""
    ids = [each.task.task_id for each in explained if each.task is not None]
    found = tx.tasks.get_many(ids).values() if ids else ()
    back = tx.tasks.hold([task for task in found if task.status is TaskStatus.PUBLISHED])
    tx.tasks.save([task.put_back(now) for task in back], now)
    return len(back)


async def sweep_dead_letters(crawl: Crawl) -> int:
    """Put back the tasks that have attempts left and remove letters that are left over; a letter that needs a person
    stays. Return how many were removed."""
    if crawl.dead_letters is None:
        return 0
    letters = await crawl.dead_letters.look(SWEPT_AT_ONCE)
    if not letters:
        return 0
    now = crawl.clock.now()

    def work(tx: CrawlTx) -> list[Explained]:
        explained = _explain(tx, letters)
        _put_back_open(tx, explained, now)
        return explained

    explained = await crawl.store.transact(work)
    swept = [each.letter for each in explained if not each.needs_a_person]
    await crawl.dead_letters.remove(swept)
    await crawl.dead_letters.leave([each.letter for each in explained if each.needs_a_person])
    return len(swept)


def _box(dead_letters: DeadLetters | None) -> DeadLetters:
    if dead_letters is None:
        raise NoDeadLetters(queue="database")
    return dead_letters
