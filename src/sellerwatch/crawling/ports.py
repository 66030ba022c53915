"""What a crawl needs of the store: the other features' tables and its own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from sellerwatch.access.ports import AccessTx
from sellerwatch.agents.ports import PoolTx
from sellerwatch.catalog.ports import CatalogTx
from sellerwatch.crawling.execution import Execution, ExecutionStatus
from sellerwatch.crawling.task import READY_STATES, Task, TaskStatus, TaskType
from sellerwatch.kernel.failure import Failure
from sellerwatch.kernel.ids import ExecutionId, ItemNo, SellerId, TaskId, WorkerId
from sellerwatch.kernel.leases import LeasesTx
from sellerwatch.kernel.paging import Cursor, Page


@dataclass(frozen=True)
class TaskFilter:
    """Which tasks: what is given narrows it."""

    execution_id: ExecutionId | None = None
    seller_id: SellerId | None = None
    status: TaskStatus | None = None
    task_type: TaskType | None = None


@dataclass(frozen=True, slots=True)
class TaskAges:
    """Tasks in one status: how many, when the oldest was made, and how many since some times."""

    number: int
    oldest_at: datetime | None
    made_since: tuple[int, ...]


class Tasks(Protocol):
    def add(self, tasks: Iterable[Task]) -> int:
        """Add tasks, except where the product has one of the type in the run already; return how many were added."""

    def get(self, task_id: TaskId) -> Task | None: ...

    def get_many(self, task_ids: Sequence[TaskId]) -> dict[TaskId, Task]: ...

    def take_many(self, task_ids: Sequence[TaskId]) -> dict[TaskId, Task]:
        """Return the tasks that no other transaction has locked, and lock them until commit."""

    def hold(self, tasks: Sequence[Task]) -> Sequence[Task]:
        """Return the tasks that have not changed since they were read, and lock them until commit."""

    def save(self, tasks: Iterable[Task], now: datetime) -> None: ...

    def start(self, tasks: Iterable[Task], now: datetime) -> None:
        """Write tasks that were started at `now`, and nothing else about them."""

    def end(self, tasks: Iterable[Task], now: datetime) -> None:
        """Write tasks that completed or failed at `now` after having been in hand."""

    def complete(self, tasks: Sequence[Task], now: datetime) -> None:
        """Write of tasks in hand that they completed at `now`: as `Task.complete` and `end`, for all together."""


class TaskQueries(Protocol):
    """Read-only lists and counts of tasks, for people."""

    def newest(
        self,
        *,
        execution_id: ExecutionId | None,
        seller_id: SellerId | None,
        status: TaskStatus | None,
        limit: int,
    ) -> Sequence[Task]: ...

    def page(self, choice: TaskFilter, cursor: Cursor | None, limit: int) -> Page[Task]:
        """Newest first, behind a cursor."""

    def count(self, choice: TaskFilter) -> Mapping[tuple[SellerId, TaskType], int]:
        """Count the tasks of a choice by seller and type."""

    def ages(self, since: Sequence[datetime]) -> Mapping[TaskStatus, TaskAges]:
        """Count the tasks in each status, all of them and those made since each of these times."""


class RunTasks(Protocol):
    """The tasks of one run, as its rules see them."""

    def open_of(self, execution_id: ExecutionId, statuses: Sequence[TaskStatus]) -> Sequence[Task]: ...

    def open_items(self, execution_id: ExecutionId, items: Sequence[ItemNo]) -> dict[ItemNo, int]:
        """Count the open tasks of each of these products in this run."""

    def count_lists(self, execution_id: ExecutionId, *, is_open: bool = False) -> int:
        """Count the list tasks of this run, or only the open ones."""

    def unread_pages(self, execution_id: ExecutionId) -> int:
        """Count the pages of this run's list that no task has read."""

    def failures(self, execution_id: ExecutionId, limit: int) -> Sequence[tuple[Failure, int]]:
        """Return why tasks of a run failed, each failure with the number of its tasks; most frequent first."""

    def tally(self, execution_id: ExecutionId) -> dict[tuple[str, str], int]:
        """Count the tasks of each (type, status)."""


class TaskClaims(Protocol):
    """Which tasks may be started, and which worker holds which."""

    def attempts_held(self, worker_id: WorkerId, task_ids: Sequence[TaskId]) -> dict[TaskId, int]:
        """Return the attempt of each of these tasks that this worker still holds: the guard of every result."""

    def ready(
        self,
        execution_id: ExecutionId,
        now: datetime,
        limit: int,
        states: Sequence[TaskStatus] = READY_STATES,
        types: Sequence[TaskType] | None = None,
    ) -> Sequence[Task]:
        """Return tasks of one run that may be started now, earliest first; if given, of these types only."""

    def next_ready(self, execution_id: ExecutionId, types: Sequence[TaskType] | None = None) -> datetime | None:
        """Return when the next task of one run may be started; if given, of these types only."""

    def count_published(self, execution_id: ExecutionId) -> int:
        """Count the tasks of a run that are PUBLISHED and not started."""

    def published_before(self, time: datetime, limit: int) -> Sequence[Task]:
        """Return tasks that are PUBLISHED since before then and not started."""

    def published_by_lapsed(self, beat_before: datetime) -> Sequence[Task]:
        """Return tasks PUBLISHED by a process without a heartbeat since then that has not been buried."""

    def held_by_lapsed(self, beat_before: datetime) -> Sequence[Task]:
        """Return tasks IN_PROGRESS with a worker that is gone or without a heartbeat since then."""

    def held_by(self, worker_id: WorkerId) -> Sequence[Task]: ...


class Executions(Protocol):
    def add(self, execution: Execution) -> None: ...

    def save(self, execution: Execution) -> None: ...

    def get(self, execution_id: ExecutionId) -> Execution | None: ...

    def hold(self, execution_ids: Collection[ExecutionId]) -> None:
        """Lock these runs until commit, so that no other process absorbs for them or ends them."""

    def open_of(self, seller_id: SellerId) -> Execution | None: ...

    def pending(self) -> Sequence[Execution]:
        """Return the runs that wait to be started, oldest first."""

    def running(self) -> Sequence[Execution]:
        """Return the RUNNING runs, oldest first."""

    def at_work(self) -> Sequence[Execution]:
        """Return the RUNNING runs that are not paused."""


class ExecutionQueries(Protocol):
    """Read-only lists of runs, for people."""

    def newest(
        self, *, seller_id: SellerId | None, status: ExecutionStatus | None, limit: int
    ) -> Sequence[Execution]: ...

    def page(
        self, *, seller_id: SellerId | None, status: ExecutionStatus | None, cursor: Cursor | None, limit: int
    ) -> Page[Execution]:
        """Newest first, behind a cursor."""


class NoteKind(StrEnum):
    """What is noted of a run: how many parts were judged, which fields changed, what could not be read (each with its
    number); items on the list that are other sellers'; why it is paused; tasks whose answer could not be read, as
    "taskId problem"; those of them that may be claimed although the run is paused."""

    JUDGED = "judged"
    CHANGED = "changed"
    UNREADABLE = "unreadable"
    FOREIGN = "foreign"
    PAUSED = "paused"
    UNREAD_TASK = "unread_task"
    RECHECK = "recheck"


class RunNotes(Protocol):
    def of(self, execution_id: ExecutionId) -> dict[NoteKind, dict[str, int]]:
        """Return the notes of a run. Every kind is there, also without a note."""

    def add(self, execution_id: ExecutionId, notes: Mapping[tuple[NoteKind, str], int]) -> None:
        """Add to the stored numbers."""

    def clear(self, execution_id: ExecutionId, kind: NoteKind) -> int: ...

    def remove(self, execution_id: ExecutionId, notes: Collection[tuple[NoteKind, str]]) -> None: ...

    def rechecks(self) -> Sequence[TaskId]:
        """Return tasks of running executions that are noted as RECHECK."""

    def paused_without_recheck(self) -> Sequence[ExecutionId]:
        """Return running executions that are paused and have unread tasks, none of them noted as RECHECK."""


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """A process at work, as others see it."""

    worker_id: WorkerId
    role: str
    host: str
    pid: int
    started_at: datetime
    heartbeat_at: datetime


class Workers(Protocol):
    """The lease of everything a process holds is its heartbeat."""

    def enter(self, worker: WorkerInfo) -> None: ...

    def beat(self, worker_id: WorkerId, now: datetime) -> None:
        """Renew the heartbeat, also of a worker that was buried: the guard protects the tasks that it held."""

    def leave(self, worker_id: WorkerId, now: datetime) -> None: ...

    def alive(self, beat_since: datetime) -> Sequence[WorkerInfo]:
        """Return the processes with a heartbeat since then that have not left, in the order of their start."""

    def bury(self, beat_before: datetime, now: datetime) -> int:
        """End workers without a heartbeat since then, and their leases of jobs; return how many."""


class DueTimes(Protocol):
    """When the next of each kind of work is due, for loops that sleep until then. None: there is none."""

    def start(self, now: datetime) -> datetime | None:
        """The first time after `now` at which a schedule is to run, before the seller's own moment is added."""

    def heartbeat(self, worker_id: WorkerId) -> datetime | None:
        """The oldest heartbeat of the other processes that have not ended, or ended and still hold something."""

    def deadline(self) -> datetime | None:
        """The first deadline of a run that is going."""

    def forgotten_us(self) -> int | None:
        """When the oldest permit without an answer counts as forgotten, by the boot's clock."""

    def behind_failed(self) -> datetime | None:
        """The first time at which a message behind one that failed for good would be looked at."""

    def suspended_until(self) -> datetime | None:
        """When the first suspended agent may come back."""

    def renewal(self) -> datetime | None:
        """When the first token is to be renewed."""

    def has_unjudged(self) -> bool:
        """Whether changes wait for the judgement of a run that has ended."""


class CrawlTx(CatalogTx, PoolTx, AccessTx, LeasesTx, Protocol):
    @property
    def tasks(self) -> Tasks: ...

    @property
    def task_queries(self) -> TaskQueries: ...

    @property
    def run_tasks(self) -> RunTasks: ...

    @property
    def task_claims(self) -> TaskClaims: ...

    @property
    def executions(self) -> Executions: ...

    @property
    def execution_queries(self) -> ExecutionQueries: ...

    @property
    def run_notes(self) -> RunNotes: ...

    @property
    def workers(self) -> Workers: ...

    @property
    def dues(self) -> DueTimes: ...
