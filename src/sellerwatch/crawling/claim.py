"""Taking work: tasks, each with a permit and an identity, in one transaction. No byte is sent before it commits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sellerwatch.agents.limits import Limits
from sellerwatch.agents.pool import Candidate, lend
from sellerwatch.agents.ports import Permit
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.crawling.task import Task, TaskStatus
from sellerwatch.kernel.ids import ExecutionId, WorkerId


@dataclass(frozen=True, slots=True)
class Claim:
    """A task that is ours until its outcome is written, or our heartbeat lapses."""

    task: Task
    permit: Permit

    @property
    def candidate(self) -> Candidate:
        return self.permit.grant.candidate


@dataclass(frozen=True, slots=True)
class Claims:
    """What was taken. With nothing taken, `not_before` is when it is worth asking again: no one can tell if None.

    `tokenless` are agents that could work if they had a token; `hungry`: tasks were left for want of an agent.
    """

    taken: tuple[Claim, ...]
    not_before: datetime | None
    tokenless: tuple[Candidate, ...]
    hungry: bool


def claim(tx: CrawlTx, worker_id: WorkerId, wanted: int, turn: int, now: datetime, limits: Limits) -> Claims:
    """Up to `wanted` tasks, fairly from all runs, as many as there are permits for.

    Permits first: with none free no task is touched and none waits in anybody's hands. `turn` rotates which run comes
    first, so that a large one never starves the others.
    """
    tx.permits.expire(now, limits)
    candidates = tx.agents.candidates(now)
    tokenless = tuple(c for c in candidates if c.token is None or not c.token.is_valid(now))
    lending = lend(candidates, wanted, now, limits)
    runs = _in_turn([execution.execution_id for execution in tx.executions.running()], turn)
    tasks = _ready(tx, runs, len(lending.grants) or 1, now)
    if not tasks:
        times = [time for time in (tx.tasks.next_ready(run) for run in runs) if time is not None]
        return Claims((), min(times, default=None), (), hungry=False)
    if not lending.grants:
        times = [time for time in (lending.not_before, tx.permits.next_free(limits)) if time and time > now]
        return Claims((), min(times, default=None), tokenless, hungry=True)
    grants = lending.grants[: len(tasks)]
    started = [_started(task, worker_id, now, grant.candidate.row) for task, grant in zip(tasks, grants, strict=True)]
    permits = tx.permits.reserve(grants, [task.task_id for task in started], worker_id, now)
    tx.tasks.save(started, now)
    taken = tuple(Claim(task, permit) for task, permit in zip(started, permits, strict=True))
    return Claims(taken, None, tokenless, hungry=len(lending.grants) < wanted)


def _started(task: Task, worker_id: WorkerId, now: datetime, agent_row: int) -> Task:
    """In the embedded queue publishing and starting are one step: the row itself is the message."""
    if task.status is TaskStatus.WAITING:
        task = task.publish(now)
    return task.start(worker_id, now, agent_row)


def _in_turn(runs: list[ExecutionId], turn: int) -> list[ExecutionId]:
    first = turn % len(runs) if runs else 0
    return runs[first:] + runs[:first]


def _ready(tx: CrawlTx, runs: Sequence[ExecutionId], wanted: int, now: datetime) -> list[Task]:
    """An equal share of each run that has work, then what is left of the shares from whoever has more."""
    share = -(-wanted // len(runs)) if runs else 0
    found: list[Task] = []
    full = []
    for run in runs:
        if len(found) >= wanted:
            break
        got = tx.tasks.ready(run, now, min(share, wanted - len(found)))
        found += got
        if len(got) == share:
            full.append(run)
    for run in full:
        if len(found) >= wanted:
            break
        more = tx.tasks.ready(run, now, share + wanted - len(found))
        found += more[share:]
    return found
