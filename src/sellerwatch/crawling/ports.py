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


class Tasks(Protocol):
    def add(self, tasks: Iterable[Task]) -> int:
        """Add those whose product has none of that type in this run yet; says how many that were."""
        ...

    def get(self, task_id: TaskId) -> Task | None: ...

    def get_many(self, task_ids: Sequence[TaskId]) -> dict[TaskId, Task]: ...

    def take_many(self, task_ids: Sequence[TaskId]) -> dict[TaskId, Task]:
        """Those of them that nobody else holds; nobody else moves them before we are done."""
        ...

    def hold(self, tasks: Sequence[Task]) -> Sequence[Task]:
        """Those that are still as they were when they were looked up; nobody else moves them before we are done."""
        ...

    def save(self, tasks: Iterable[Task], now: datetime) -> None: ...

    def start(self, tasks: Iterable[Task], now: datetime) -> None:
        """Write tasks that were started at `now`, and nothing else about them."""
        ...

    def end(self, tasks: Iterable[Task], now: datetime) -> None:
        """Write tasks that completed or failed at `now` after having been in hand."""
        ...

    def complete(self, tasks: Sequence[Task], now: datetime) -> None:
        """Write of tasks in hand that they completed at `now`: as `Task.complete` and `end`, for all together."""
        ...


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
        ...

    def count(self, choice: TaskFilter) -> Mapping[tuple[SellerId, TaskType], int]:
        """How many of a choice, by seller and type."""
        ...

    def count_by_status(self, seller_id: SellerId, since: datetime, until: datetime) -> dict[TaskStatus, int]:
        """Tasks of a seller made from `since` until before `until`."""
        ...


class RunTasks(Protocol):
    """The tasks of one run, as its rules see them."""

    def open_of(self, execution_id: ExecutionId, statuses: Sequence[TaskStatus]) -> Sequence[Task]: ...

    def open_items(self, execution_id: ExecutionId, items: Sequence[ItemNo]) -> dict[ItemNo, int]:
        """How many tasks of each of these products are not over in this run."""
        ...

    def count_lists(self, execution_id: ExecutionId, *, is_open: bool = False) -> int:
        """List tasks made in this run so far, or only those that are not over."""
        ...

    def unread_pages(self, execution_id: ExecutionId) -> int:
        """Pages of this run's list that no task has read."""
        ...

    def failures(self, execution_id: ExecutionId, limit: int) -> Sequence[tuple[Failure, int]]:
        """Why tasks of a run failed, each failure with the number of tasks it hit; most frequent first."""
        ...

    def tally(self, execution_id: ExecutionId) -> dict[tuple[str, str], int]:
        """How many tasks of each (type, status)."""
        ...


class TaskClaims(Protocol):
    """Which tasks may be started, and which are held by whom."""

    def attempts_held(self, worker_id: WorkerId, task_ids: Sequence[TaskId]) -> dict[TaskId, int]:
        """The guard of every outcome: which of these this worker still holds, and at which attempt."""
        ...

    def ready(
        self,
        execution_id: ExecutionId,
        now: datetime,
        limit: int,
        states: Sequence[TaskStatus] = READY_STATES,
        types: Sequence[TaskType] | None = None,
    ) -> Sequence[Task]:
        """Tasks of one run that may be started now, earliest first; of these types alone if given."""
        ...

    def next_ready(self, execution_id: ExecutionId, types: Sequence[TaskType] | None = None) -> datetime | None:
        """When the next task of one run that waits for its time may be started; of these types alone if given."""
        ...

    def count_published(self, execution_id: ExecutionId) -> int:
        """How many tasks of a run the queue was told of and nobody has taken."""
        ...

    def published_before(self, time: datetime, limit: int) -> Sequence[Task]:
        """PUBLISHED since before then, and not taken."""
        ...

    def published_by_lapsed(self, beat_before: datetime) -> Sequence[Task]:
        """PUBLISHED by a process that is silent since then and not yet known to be gone."""
        ...

    def held_by_lapsed(self, beat_before: datetime) -> Sequence[Task]:
        """IN_PROGRESS with a worker that is gone or silent since then."""
        ...

    def held_by(self, worker_id: WorkerId) -> Sequence[Task]: ...


class Executions(Protocol):
    def add(self, execution: Execution) -> None: ...

    def save(self, execution: Execution) -> None: ...

    def get(self, execution_id: ExecutionId) -> Execution | None: ...

    def hold(self, execution_ids: Collection[ExecutionId]) -> None:
        """Nobody else absorbs for these runs, or ends them, before we are done."""
        ...

    def open_of(self, seller_id: SellerId) -> Execution | None: ...

    def pending(self) -> Sequence[Execution]:
        """Those that wait to be started, oldest first."""
        ...

    def running(self) -> Sequence[Execution]:
        """All that are RUNNING, oldest first."""
        ...

    def at_work(self) -> Sequence[Execution]:
        """Those of the running that are not paused."""
        ...


class ExecutionQueries(Protocol):
    """Read-only lists of runs, for people."""

    def newest(
        self, *, seller_id: SellerId | None, status: ExecutionStatus | None, limit: int
    ) -> Sequence[Execution]: ...

    def page(
        self, *, seller_id: SellerId | None, status: ExecutionStatus | None, cursor: Cursor | None, limit: int
    ) -> Page[Execution]:
        """Newest first, behind a cursor."""
        ...


class NoteKind(StrEnum):
    """What is noted of a run: how many parts were judged, which fields changed, what could not be read (each with its
    number); items on the list that are others'; why it is paused; tasks whose answer could not be read, as
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
        """Every kind is there, if only empty."""
        ...

    def add(self, execution_id: ExecutionId, notes: Mapping[tuple[NoteKind, str], int]) -> None:
        """Adds to the numbers that are there."""
        ...

    def clear(self, execution_id: ExecutionId, kind: NoteKind) -> int: ...

    def remove(self, execution_id: ExecutionId, notes: Collection[tuple[NoteKind, str]]) -> None: ...

    def rechecks(self) -> Sequence[TaskId]:
        """Tasks of running executions that are noted as RECHECK."""
        ...

    def paused_without_recheck(self) -> Sequence[ExecutionId]:
        """Running executions that are paused, have unread tasks, and none of them noted as RECHECK."""
        ...


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
        """Also revives one that was given up for dead: what it held then meets the guard of its tasks."""
        ...

    def leave(self, worker_id: WorkerId, now: datetime) -> None: ...

    def bury(self, beat_before: datetime, now: datetime) -> int:
        """Workers silent since then are gone, and with them their leases of jobs."""
        ...


class Dues(Protocol):
    """When the next of each kind of work is due, for loops that sleep until then. None: there is none."""

    def start(self, now: datetime) -> datetime | None:
        """The first time after `now` at which a schedule is to run, before the seller's own moment is added."""
        ...

    def heartbeat(self, worker_id: WorkerId) -> datetime | None:
        """The oldest heartbeat of the other processes that have not ended, or ended and still hold something."""
        ...

    def deadline(self) -> datetime | None:
        """The first deadline of a run that is going."""
        ...

    def forgotten_us(self) -> int | None:
        """When the oldest permit without an answer counts as forgotten, by the boot's clock."""
        ...

    def behind_failed(self) -> datetime | None:
        """The first time at which a message behind one that failed for good would be looked at."""
        ...

    def suspended_until(self) -> datetime | None:
        """When the first suspended agent may come back."""
        ...

    def renewal(self) -> datetime | None:
        """When the first token is to be renewed."""
        ...

    def has_unjudged(self) -> bool:
        """Whether changes wait for the judgement of a run that has ended."""
        ...


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
    def dues(self) -> Dues: ...
