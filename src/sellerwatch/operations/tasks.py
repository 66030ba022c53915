"""Reopen all failed tasks of a choice, in several transactions."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from sellerwatch.crawling.commands import retry_chosen_tasks
from sellerwatch.crawling.ports import TaskFilter
from sellerwatch.crawling.views import RetriedTasksView
from sellerwatch.operations.session import OperationSession


async def retry_all_chosen(session: OperationSession, choice: TaskFilter, *, dry_run: bool = False) -> RetriedTasksView:
    """Reopen every failed task of a choice. Cut off in between, the rest is still failed and can be chosen again."""
    view = await session.run(retry_chosen_tasks, choice, None, session.deadline, dry_run=dry_run)
    while view.next is not None:
        more = await session.run(retry_chosen_tasks, choice, view.next, session.deadline)
        view = replace(
            more,
            done=[*view.done, *more.done],
            refused=[*view.refused, *more.refused],
            tasks=view.tasks + more.tasks,
            by_seller=Counter(view.by_seller) + Counter(more.by_seller),
            by_type=Counter(view.by_type) + Counter(more.by_type),
        )
    return view
