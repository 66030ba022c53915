"""Show and redrive dead letters: the queue's messages together with the tasks they name."""

from __future__ import annotations

from collections.abc import Sequence

from sellerwatch.crawling.dead_letters import (
    DeadLettersView,
    NoDeadLetters,
    explain_letters,
    redrive_letters,
)
from sellerwatch.crawling.queue import DeadLetters
from sellerwatch.kernel.bulk import BulkResultView
from sellerwatch.kernel.ids import TaskId
from sellerwatch.operations.session import OperationSession

#: Letters that one redrive looks at.
MOST_REDRIVEN = 1000


async def list_dead_letters(session: OperationSession, dead_letters: DeadLetters | None, limit: int) -> DeadLettersView:
    """List dead letters and why each is one."""
    box = _box(dead_letters)
    letters = await box.look(limit)
    await box.leave(letters)
    views = await session.ask(explain_letters, letters) if letters else ()
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
        result, settled = await session.run(redrive_letters, chosen, session.deadline, dry_run=dry_run)
    except BaseException:
        await box.leave(letters)
        raise
    removed = () if dry_run else settled
    await box.remove(removed)
    await box.leave([letter for letter in letters if letter not in removed])
    return BulkResultView.of(result, session.language, dry_run=dry_run)


def _box(dead_letters: DeadLetters | None) -> DeadLetters:
    if dead_letters is None:
        raise NoDeadLetters(queue="database")
    return dead_letters
