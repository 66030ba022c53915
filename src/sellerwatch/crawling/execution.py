"""One run of one seller: from the trigger until its last task is done."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Self

from sellerwatch.catalog.changes import FoundProducts
from sellerwatch.kernel.errors import Conflict, NotFound
from sellerwatch.kernel.failure import Failure, FailureCode
from sellerwatch.kernel.ids import ExecutionId, ScheduleId, SellerId
from sellerwatch.kernel.lifecycle import Lifecycle


class ExecutionStatus(StrEnum):
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


EXECUTION_LIFE = Lifecycle(
    noun="execution",
    first=ExecutionStatus.PENDING,
    moves={
        (ExecutionStatus.PENDING, "start"): ExecutionStatus.RUNNING,
        (ExecutionStatus.PENDING, "fail"): ExecutionStatus.FAILED,
        (ExecutionStatus.RUNNING, "complete"): ExecutionStatus.COMPLETED,
        (ExecutionStatus.RUNNING, "fail"): ExecutionStatus.FAILED,
        (ExecutionStatus.COMPLETED, "reopen"): ExecutionStatus.RUNNING,
        (ExecutionStatus.FAILED, "reopen"): ExecutionStatus.RUNNING,
    },
    resting=frozenset({ExecutionStatus.COMPLETED, ExecutionStatus.FAILED}),
)


@dataclass(eq=False)
class ExecutionNotFound(NotFound):
    execution_id: str


@dataclass(eq=False)
class CrawlInProgress(Conflict):
    """The seller has an open run already; a seller has one at most."""

    seller_id: str
    execution_id: str


@dataclass(eq=False)
class RunNotStarted(Conflict):
    """The marketplace did not say how many products there are; the run waits to be started."""

    seller_id: str
    why: str


@dataclass(eq=False)
class CountsWrong(Conflict):
    """Counters that would lie. Loud, because a run would otherwise never end, or end wrongly."""

    execution_id: str
    problem: str


@dataclass(frozen=True)
class Execution:
    """A run. Its counters are sums over its tasks, written in the transactions that write those; tests recount them.

    PENDING while the marketplace has not said how many products there are: `start_tries` counts the tries, `failure`
    is the last cause and `next_start_at` the next try. Products are counted when the run ends; before that, and for
    runs of earlier versions, the numbers are None. COMPLETED when every task has ended, failures or not. FAILED
    only when it was cancelled, ran past its deadline, or the next due time came before it could start.
    """

    execution_id: ExecutionId
    schedule_id: ScheduleId
    seller_id: SellerId
    created_at: datetime
    status: ExecutionStatus = EXECUTION_LIFE.first
    total_tasks_created: int = 0
    completed_tasks: int = 0
    failed_tasks: int = 0
    list_total: int | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    deadline_at: datetime | None = None
    failure: Failure | None = None
    start_tries: int = 0
    next_start_at: datetime | None = None
    started_by: str | None = None
    new_products: int | None = None
    changed_products: int | None = None
    gone_products: int | None = None
    unchanged_products: int | None = None
    #: Of a run that reads single products again: how many. It reads no list, and stands beside other runs.
    refreshed_products: int | None = None

    @classmethod
    def create(cls, execution_id: ExecutionId, schedule_id: ScheduleId, seller_id: SellerId, now: datetime) -> Self:
        return cls(execution_id=execution_id, schedule_id=schedule_id, seller_id=seller_id, created_at=now)

    def start(self, total: int, now: datetime) -> Execution:
        """Move to RUNNING with `total` tasks; without tasks it completes at once."""
        self._check(total >= 0, f"it cannot start with {total} tasks")
        begun = {"started_at": now, "failure": None, "next_start_at": None}
        running = self._move("start", total_tasks_created=total, **begun)
        return running.settle(now)

    def record(self, now: datetime, *, added: int = 0, completed: int = 0, failed: int = 0) -> Execution:
        """Count tasks that were added and ended. Completes the run when no task is open."""
        summed = replace(
            self,
            total_tasks_created=self.total_tasks_created + added,
            completed_tasks=self.completed_tasks + completed,
            failed_tasks=self.failed_tasks + failed,
        )
        # After a cancel the tasks in flight still end and are counted; a run that is over gets no more tasks.
        self._check(min(added, completed, failed) >= 0, "tasks are added and ended, never taken back")
        self._check(self.status is ExecutionStatus.RUNNING or (not added and self.started_at is not None), "it is over")
        self._check(summed.ended <= summed.total_tasks_created, f"{summed.ended} ended of {summed.total_tasks_created}")
        return summed.settle(now)

    def would_end(self, *, added: int, completed: int, failed: int) -> bool:
        """Whether recording these would leave nothing to do: the last moment at which a run can be given more."""
        return self.is_open and self.ended + completed + failed == self.total_tasks_created + added

    def settle(self, now: datetime) -> Execution:
        """Complete a running execution if all its tasks have ended."""
        if self.status is ExecutionStatus.RUNNING and self.ended == self.total_tasks_created:
            return self._move("complete", completed_at=now)
        return self

    def complete(self, now: datetime) -> Execution:
        self._check(self.ended == self.total_tasks_created, "tasks of it are open")
        return self._move("complete", completed_at=now)

    @property
    def failure_code(self) -> FailureCode | None:
        return None if self.failure is None else self.failure.code

    def fail(self, failure: Failure, now: datetime) -> Execution:
        return self._move("fail", failure=failure, completed_at=now, next_start_at=None)

    def wait_to_start(self, failure: Failure, next_start_at: datetime, *, counts: bool = True) -> Execution:
        """Stay PENDING until `next_start_at`, because the marketplace could not be asked for the total."""
        self._check(self.status is ExecutionStatus.PENDING, "it has started")
        tries = self.start_tries + counts
        return replace(self, start_tries=tries, failure=failure, next_start_at=next_start_at)

    def count_products(self, found: FoundProducts) -> Execution:
        """Return the run with the numbers of products that it found new, changed, gone and unchanged."""
        return replace(
            self,
            new_products=found.new,
            changed_products=found.changed,
            gone_products=found.gone,
            # A retried run no longer has the products that a newer one has listed: they stay counted.
            unchanged_products=max(found.unchanged, self.unchanged_products or 0),
        )

    def reopen_tasks(self, number: int) -> Execution:
        """Count `number` failed tasks as open again. A run that had ended is running again."""
        self._check(0 < number <= self.failed_tasks, f"{number} tasks cannot be reopened of {self.failed_tasks} failed")
        fresh = {"completed_at": None, "failure": None, "deadline_at": None}
        moved = self if self.is_open else self._move("reopen", **fresh)
        return replace(moved, failed_tasks=moved.failed_tasks - number)

    @property
    def ended(self) -> int:
        return self.completed_tasks + self.failed_tasks

    @property
    def all_succeeded(self) -> bool:
        return self.status is ExecutionStatus.COMPLETED and self.failed_tasks == 0

    @property
    def waits_to_start(self) -> bool:
        return self.status is ExecutionStatus.PENDING

    @property
    def is_refresh(self) -> bool:
        """Whether it reads single products again, and not the whole seller."""
        return self.refreshed_products is not None

    @property
    def is_open(self) -> bool:
        return self.status in (ExecutionStatus.PENDING, ExecutionStatus.RUNNING)

    @property
    def progress_rate(self) -> float:
        """Ended tasks in percent of all tasks."""
        return 100.0 * self.ended / self.total_tasks_created if self.ended else 0.0

    @property
    def success_rate(self) -> float:
        """Completed tasks in percent of the ended ones; 0 while no task has ended."""
        return 100.0 * self.completed_tasks / self.ended if self.ended else 0.0

    def _check(self, holds: bool, problem: str) -> None:
        if not holds:
            raise CountsWrong(execution_id=self.execution_id, problem=problem)

    def _move(self, verb: str, **changed: object) -> Execution:
        status = EXECUTION_LIFE.after(self.status, verb, self.execution_id)
        return replace(self, status=status, **changed)  # type: ignore[arg-type]
