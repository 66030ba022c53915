"""What an outage of the marketplace means for runs: failures are given back, deadlines move on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence, Set
from dataclasses import replace
from datetime import datetime

from sellerwatch.agents.marketplace_circuit import EndpointFailure
from sellerwatch.agents.outages import Observed
from sellerwatch.crawling.execution import ExecutionStatus
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.crawling.save_execution import save_execution
from sellerwatch.crawling.task import Task, TaskStatus
from sellerwatch.kernel.failure import Blame
from sellerwatch.kernel.ids import ExecutionId, TaskId


def apply_outage(tx: CrawlTx, observed: Observed, in_hand: Set[TaskId], now: datetime) -> None:
    """Do what an outage that an answer began or ended means for runs, in the transaction that writes the answer."""
    give_back(tx, observed.given_back, in_hand, now)
    if observed.away_since is not None:
        extend_deadlines(tx, observed.away_since, now)


def give_back(tx: CrawlTx, failures: Sequence[EndpointFailure], in_hand: Set[TaskId], now: datetime) -> int:
    """Give tasks the retries back that an outage used, and reopen those that failed because of it. Tasks `in_hand` are
    put back by the transaction that ends them. Return how many."""
    wanted = [failure.task_id for failure in failures if failure.task_id is not None]
    ids = [task_id for task_id in dict.fromkeys(wanted) if task_id not in in_hand]
    if not ids:
        return 0
    found = [task for task in tx.tasks.get_many(ids).values() if task.status in _REFUNDABLE]
    failed: dict[ExecutionId, list[Task]] = defaultdict(list)
    for task in tx.tasks.hold(found):
        if task.status is not TaskStatus.FAILED:
            tx.tasks.save([task.give_back(now)], now)
        elif task.blame is Blame.MARKETPLACE:
            # Not one that was cancelled, say, after it had failed.
            failed[task.execution_id].append(task)
    for execution_id, tasks in sorted(failed.items()):
        _reopen(tx, execution_id, tasks, now)
    return len(found)


_REFUNDABLE = (TaskStatus.WAITING, TaskStatus.PUBLISHED, TaskStatus.RETRY, TaskStatus.FAILED)


def _reopen(tx: CrawlTx, execution_id: ExecutionId, tasks: Sequence[Task], now: datetime) -> None:
    execution = tx.executions.get(execution_id)
    if execution is None or execution.status is ExecutionStatus.FAILED:
        # It was cancelled or had passed its deadline: it stays ended.
        return
    is_alone = execution.is_open or execution.is_refresh or tx.executions.open_of(execution.seller_id) is None
    if not is_alone:
        return
    deadline = execution.deadline_at
    reopened = execution.reopen_tasks(len(tasks))
    save_execution(tx, execution, reopened if execution.is_open else replace(reopened, deadline_at=deadline))
    tx.tasks.save([task.give_back(now) for task in tasks], now)


def extend_deadlines(tx: CrawlTx, since: datetime, now: datetime) -> None:
    """Move the deadlines of runs by the time since then, in which one endpoint or another did not answer."""
    for running in tx.executions.running():
        # Locked, and as it is now: others count the ends of its tasks meanwhile.
        run = tx.executions.get(running.execution_id)
        if run is not None and run.is_open and run.deadline_at is not None and run.started_at is not None:
            save_execution(tx, run, replace(run, deadline_at=run.deadline_at + (now - max(since, run.started_at))))
