"""Dead letters: messages that the queue gave up, each explained by the row of its task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated

from sellerwatch.crawling.commands import reopen_each
from sellerwatch.crawling.context import Crawl
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.crawling.queue import DeadLetter
from sellerwatch.crawling.task import Task, TaskStatus
from sellerwatch.kernel.bulk import BulkResult
from sellerwatch.kernel.clock import stamp
from sellerwatch.kernel.errors import Conflict
from sellerwatch.kernel.ids import TaskId
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.views import About, View
from sellerwatch.kernel.wording import failure_text

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
        """Why it is a dead letter, as a sentence without a full stop."""
        task = self.task
        if task is None:
            return "it names no task" if self.task_id is None else "its task does not exist any more"
        match task.status:
            case TaskStatus.FAILED:
                reason = "no reason is kept" if task.failure is None else failure_text(task.failure, language)
                return f"its task failed for good: {reason}"
            case TaskStatus.COMPLETED:
                return "its task is done; the message is left over"
            case TaskStatus.IN_PROGRESS:
                return f"its task is in progress at worker {task.worker_id}; the message is left over"
            case TaskStatus.PUBLISHED:
                return "its workers were lost before they took it; the sweep puts its task back"
            case _:
                return f"its task waits until {stamp(task.available_at)} and is published again then"


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


def explain(tx: CrawlTx, letters: Sequence[DeadLetter]) -> list[Explained]:
    """Return each letter with its task."""
    named = [letter.hint.task_id for letter in letters if letter.hint.task_id is not None]
    found = tx.tasks.get_many(named) if named else {}
    return [Explained(each, None if each.hint.task_id is None else found.get(each.hint.task_id)) for each in letters]


def explain_letters(tx: CrawlTx, context: OperationContext, letters: Sequence[DeadLetter]) -> Sequence[DeadLetterView]:
    """Return why each of these messages is a dead letter."""
    return [DeadLetterView.of(each, context.language) for each in explain(tx, letters)]


def redrive_letters(
    tx: CrawlTx, context: OperationContext, letters: Sequence[DeadLetter], deadline: timedelta, *, dry_run: bool = False
) -> tuple[BulkResult, Sequence[DeadLetter]]:
    """Have the tasks of dead letters done again. Return what became of each, and the letters to be removed: a letter
    whose task is refused stays."""
    explained = explain(tx, letters)
    if not dry_run:
        put_back_open(tx, explained, context.now)
    failed = [
        each.task.task_id for each in explained if each.task is not None and each.task.status is TaskStatus.FAILED
    ]
    result = reopen_each(tx, context, failed, deadline, dry_run=dry_run)
    refused = {refusal.id for refusal in result.refused}
    others = [each.task.task_id for each in explained if each.task is not None and each.task.task_id not in failed]
    settled = [each.letter for each in explained if each.task_id not in refused]
    return BulkResult((*result.done, *others), result.refused), settled


def put_back_open(tx: CrawlTx, explained: Sequence[Explained], now: datetime) -> int:
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
        explained = explain(tx, letters)
        put_back_open(tx, explained, now)
        return explained

    explained = await crawl.store.transact(work)
    swept = [each.letter for each in explained if not each.needs_a_person]
    await crawl.dead_letters.remove(swept)
    await crawl.dead_letters.leave([each.letter for each in explained if each.needs_a_person])
    return len(swept)
