"""What a crawl needs of the store: the other features' tables and its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from sellerwatch.agents.ports import AgentsTx
from sellerwatch.catalog.ports import Products
from sellerwatch.crawling.execution import Execution, ExecutionStatus
from sellerwatch.crawling.task import Task, TaskStatus
from sellerwatch.kernel.ids import ExecutionId, ItemNo, SellerId, TaskId, WorkerId
from sellerwatch.outbox.message import OutboxKind
from sellerwatch.outbox.ports import OutboxTx, OutboxView
from sellerwatch.sellers.ports import SellersTx


class Tasks(Protocol):
    def add(self, tasks: Iterable[Task]) -> int:
        """Add those whose product has none of that type in this run yet; says how many that were."""
        ...

    def get(self, task_id: TaskId) -> Task | None: ...

    def get_many(self, task_ids: Sequence[TaskId]) -> dict[TaskId, Task]: ...

    def save(self, tasks: Iterable[Task], now: datetime) -> None: ...

    def ready(self, execution_id: ExecutionId, now: datetime, limit: int) -> Sequence[Task]:
        """Tasks of one run that may be started now, earliest first."""
        ...

    def next_ready(self, execution_id: ExecutionId) -> datetime | None:
        """When the next task of one run that waits for its time may be started."""
        ...

    def open_items(self, execution_id: ExecutionId, items: Sequence[ItemNo]) -> dict[ItemNo, int]:
        """How many tasks of each of these products are not over in this run."""
        ...

    def count_lists(self, execution_id: ExecutionId) -> int:
        """List tasks made in this run so far."""
        ...

    def held_by_lapsed(self, beat_before: datetime) -> Sequence[Task]:
        """IN_PROGRESS with a worker that is gone or silent since then."""
        ...

    def held_by(self, worker_id: WorkerId) -> Sequence[Task]: ...

    def open_of(self, execution_id: ExecutionId, statuses: Sequence[TaskStatus]) -> Sequence[Task]: ...

    def newest(
        self,
        *,
        execution_id: ExecutionId | None,
        seller_id: SellerId | None,
        status: TaskStatus | None,
        limit: int,
    ) -> Sequence[Task]: ...

    def errors(self, execution_id: ExecutionId, limit: int) -> Sequence[tuple[str, int]]:
        """Why tasks of a run failed, each message with how many it hit; most frequent first."""
        ...

    def tally(self, execution_id: ExecutionId) -> dict[tuple[str, str], int]:
        """How many tasks of each (type, status)."""
        ...


class Executions(Protocol):
    def add(self, execution: Execution) -> None: ...

    def save(self, execution: Execution) -> None: ...

    def get(self, execution_id: ExecutionId) -> Execution | None: ...

    def open_of(self, seller_id: SellerId) -> Execution | None: ...

    def running(self) -> Sequence[Execution]:
        """All that are RUNNING, oldest first."""
        ...

    def newest(
        self, *, seller_id: SellerId | None, status: ExecutionStatus | None, limit: int
    ) -> Sequence[Execution]: ...


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
        """Workers silent since then are gone."""
        ...


class Leases(Protocol):
    """What must be done by one process at a time."""

    def take(self, job: str, owner: str, until: datetime, now: datetime) -> bool: ...

    def finish(self, job: str, owner: str, now: datetime, error: str | None = None) -> None: ...

    def last_finished(self, job: str) -> datetime | None: ...


class Overrides(Protocol):
    """Settings an operator changed while it ran; kept over restarts."""

    def all(self) -> dict[str, str]: ...

    def set(self, name: str, value: str, by: str, now: datetime) -> None: ...

    def unset(self, name: str) -> bool: ...


class CrawlTx(SellersTx, AgentsTx, OutboxTx, Protocol):
    @property
    def tasks(self) -> Tasks: ...

    @property
    def executions(self) -> Executions: ...

    @property
    def products(self) -> Products: ...

    def outbox_view(self, kind: OutboxKind) -> OutboxView: ...

    @property
    def workers(self) -> Workers: ...

    @property
    def leases(self) -> Leases: ...

    @property
    def overrides(self) -> Overrides: ...
