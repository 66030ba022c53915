"""What people and callers see of runs and tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from sellerwatch.crawling.execution import Execution, ExecutionStatus
from sellerwatch.crawling.task import Purpose, Task, TaskStatus, TaskType
from sellerwatch.kernel.bulk import BulkResultView
from sellerwatch.kernel.failure import Failure, FailureCode
from sellerwatch.kernel.failure_view import FailureCountView, FailureView, WaitingView, error_message, note_view
from sellerwatch.kernel.ids import ExecutionId
from sellerwatch.kernel.views import About, View, shared_fields

AN_EXECUTION_ID = "0198c0de-0000-7000-8002-000000000001"
A_TASK_ID = "0198c0de-0000-7000-8001-000000000001"
A_SELLER_ID = "seller_12345"

DryRunField = Annotated[bool, About("True where nothing was changed: the answer says what would happen.")]


@dataclass(frozen=True)
class FoundProductsView(View):
    """Products of a run: first seen whole, changed, deleted, and wholly read without any difference."""

    new: int
    changed: int
    gone: int
    unchanged: int


@dataclass(frozen=True)
class ExecutionView(View):
    """A run. Rates are in percent: of all its tasks, and of those that are over.

    A PENDING run waits until the marketplace says how many products there are: `failure` is why the last try did not
    succeed, `nextStartAt` when the next one is made.
    """

    execution_id: Annotated[str, About(example=AN_EXECUTION_ID)]
    schedule_id: str
    seller_id: Annotated[str, About(example=A_SELLER_ID)]
    status: ExecutionStatus
    total_tasks_created: int
    completed_tasks: int
    failed_tasks: int
    list_total: Annotated[int | None, About("Products the seller has according to the marketplace.")]
    refreshed_products: Annotated[
        int | None, About("Of a run that reads single products again: how many. Null: it reads the whole seller.")
    ]
    products: Annotated[FoundProductsView | None, About("What it found; in lists null until the run has ended.")]
    progress_rate: Annotated[float, About(example=42.5)]
    success_rate: Annotated[float, About(example=99.8)]
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    deadline_at: datetime | None
    start_tries: Annotated[int, About("Tries to start it that did not succeed.")]
    next_start_at: datetime | None
    error_message: Annotated[str | None, About("The failure as a sentence in the caller's language.")]
    failure: FailureView | None

    @classmethod
    def of(cls, run: Execution, language: str) -> ExecutionView:
        return cls(**execution_fields(run, language))

    @property
    def ended_tasks(self) -> int:
        return self.completed_tasks + self.failed_tasks

    @property
    def is_open(self) -> bool:
        return self.status in (ExecutionStatus.PENDING, ExecutionStatus.RUNNING)

    @property
    def took_seconds(self) -> float | None:
        """From start to end; None for a run that has not both behind it."""
        if self.started_at is None or self.completed_at is None:
            return None
        return (self.completed_at - self.started_at).total_seconds()


#: Causes of waiting with which a run is shown as paused.
_PAUSES = frozenset({FailureCode.MARKETPLACE_PAUSED, FailureCode.RUN_PAUSED})


@dataclass(frozen=True)
class ListedExecutionView(ExecutionView):
    """A run, and why it makes no progress where it waits."""

    waiting: WaitingView | None

    @classmethod
    def of_waiting(cls, run: Execution, cause: Failure | None, language: str) -> ListedExecutionView:
        return cls(**execution_fields(run, language), waiting=WaitingView.of(cause, language))

    @property
    def shown_status(self) -> str:
        """PAUSED for a run that is paused by a person or by unreadable answers; else its status."""
        return "PAUSED" if self.waiting is not None and self.waiting.code in _PAUSES else self.status

    @property
    def cause(self) -> str | None:
        """Why it waits or failed, as a sentence."""
        return self.error_message if self.waiting is None else self.waiting.message


@dataclass(frozen=True)
class OpenExecutionView(View):
    """The run of a seller that is in progress, or that waits to be started (PENDING)."""

    execution_id: Annotated[str, About(example=AN_EXECUTION_ID)]
    status: ExecutionStatus
    progress_rate: Annotated[float, About(example=42.5)]
    start_tries: Annotated[int, About("Tries to start it that did not succeed.")]
    next_start_at: Annotated[datetime | None, About("When a PENDING run is tried again.")]
    waiting: Annotated[WaitingView | None, About("Why it makes no progress.")]

    @classmethod
    def of(cls, run: Execution, cause: Failure | None, language: str) -> OpenExecutionView:
        return cls(
            **shared_fields(cls, run) | {"progress_rate": round(run.progress_rate, 2)},
            waiting=WaitingView.of(cause, language),
        )

    @property
    def shown_status(self) -> str:
        """PAUSED for a run that is paused by a person or by unreadable answers; else its status."""
        return "PAUSED" if self.waiting is not None and self.waiting.code in _PAUSES else self.status

    @property
    def cause(self) -> str | None:
        """Why it waits, as a sentence."""
        return None if self.waiting is None else self.waiting.message


@dataclass(frozen=True)
class StartedExecutionView(View):
    """A run that was started. `taskCount` is the number of its list pages; null while it waits to be started."""

    execution_id: Annotated[str, About(example=AN_EXECUTION_ID)]
    task_count: int | None
    status: ExecutionStatus

    @classmethod
    def of(cls, execution_id: ExecutionId, task_count: int | None) -> StartedExecutionView:
        return cls(execution_id, task_count, ExecutionStatus.PENDING if task_count is None else ExecutionStatus.RUNNING)


@dataclass(frozen=True)
class ChangedFieldView(View):
    """A field that a run found changed, and in how many products."""

    part: Annotated[str, About(example="DETAIL")]
    field: Annotated[str, About(example="prices.selling")]
    products: int


@dataclass(frozen=True)
class UnreadableView(View):
    """Why answers could not be read, and how many. `problem` and `message` are the same text."""

    problem: str
    message: str
    count: int


@dataclass(frozen=True)
class ExecutionDetailView(ListedExecutionView):
    """A run as it is now. `tasks` counts by type and state; `paused` says why it waits; at `recheckAt` a few of the
    unreadable answers are read again, and it goes on once they are readable."""

    tasks: Annotated[
        Mapping[str, Mapping[str, int]], About(example={"PRODUCT_DETAIL": {"COMPLETED": 40, "WAITING": 2}})
    ]
    errors: Sequence[FailureCountView]
    paused: str | None
    recheck_at: Annotated[datetime | None, About("When a paused run reads a few unreadable answers again.")]
    judged: Mapping[str, int]
    changed_fields: Sequence[ChangedFieldView]
    unreadable: Sequence[UnreadableView]
    foreign_items: int

    def count_tasks(self, *statuses: TaskStatus) -> int:
        """Return how many of its tasks are in one of these states."""
        return sum(
            number for by_status in self.tasks.values() for status, number in by_status.items() if status in statuses
        )


@dataclass(frozen=True)
class CancelledExecutionView(ExecutionView):
    """A run that was ended. With `dryRun` it is shown as it is, with the tasks that would be cancelled."""

    dry_run: DryRunField
    cancelled_tasks: int
    tasks_in_flight: Annotated[int, About("Tasks in progress: they finish, and their answers are still used.")]


@dataclass(frozen=True)
class RetriedExecutionView(ExecutionView):
    """A run whose failed tasks were reopened. With `dryRun` it is shown as it is."""

    dry_run: DryRunField
    reopened_tasks: int


@dataclass(frozen=True)
class TaskView(View):
    """One request to be made for a run, and what became of it."""

    task_id: Annotated[str, About(example=A_TASK_ID)]
    execution_id: str
    seller_id: Annotated[str, About(example=A_SELLER_ID)]
    task_type: TaskType
    purpose: Purpose
    item_no: int | None
    page_no: int | None
    request_url: str
    status: TaskStatus
    retry_count: int
    requests_made: int
    lost_leases: int
    error_message: Annotated[str | None, About("The failure as a sentence in the caller's language.")]
    failure: FailureView | None
    note: Annotated[str | None, About("What a completed task left out, as a sentence in the caller's language.")]
    note_code: Annotated[str | None, About(example="STILL_ANSWERS")]
    created_at: datetime
    available_at: datetime | None
    published_at: datetime | None
    started_at: datetime | None
    completed_at: datetime | None
    worker_id: str | None
    agent: Annotated[int | None, About("Number of the agent that made its last request.")]

    @classmethod
    def of(cls, task: Task, language: str) -> TaskView:
        return cls(**task_fields(task, language))


@dataclass(frozen=True)
class RetriedTaskView(TaskView):
    """A task that was reopened. With `dryRun` it is shown as it is."""

    dry_run: DryRunField


@dataclass(frozen=True, kw_only=True)
class RetriedTasksView(BulkResultView):
    """What became of several failed tasks. `tasks` were reopened or, with `dryRun`, would be; `next` is the cursor of
    the other tasks of the choice."""

    tasks: int
    by_seller: Mapping[str, int]
    by_type: Mapping[str, int]
    next: str | None


def execution_fields(run: Execution, language: str) -> dict[str, Any]:
    """Return the fields that every view of a run has."""
    return shared_fields(ExecutionView, run) | {
        "products": found_products(run),
        "progress_rate": round(run.progress_rate, 2),
        "success_rate": round(run.success_rate, 2),
        "error_message": error_message(run.failure, language),
        "failure": FailureView.of(run.failure),
    }


def found_products(run: Execution) -> FoundProductsView | None:
    """Return what a run found; None before it has ended, and for runs of earlier versions."""
    counts = (run.new_products, run.changed_products, run.gone_products, run.unchanged_products)
    new, changed, gone, unchanged = (number or 0 for number in counts)
    return None if None in counts else FoundProductsView(new, changed, gone, unchanged)


def task_fields(task: Task, language: str) -> dict[str, Any]:
    """Return the fields that every view of a task has."""
    note = note_view(task.note, language)
    return shared_fields(TaskView, task) | {
        "error_message": error_message(task.failure, language),
        "failure": FailureView.of(task.failure),
        "note": note["note"],
        "note_code": note["noteCode"],
        "agent": task.agent_row,
    }


@dataclass(frozen=True)
class StatusAgesView(View):
    """Tasks in one status by the time since they were made."""

    status: TaskStatus
    total: Annotated[int, About(example=120)]
    oldest_at: datetime | None
    under10_minutes: int
    under1_hour: Annotated[int, About("Of 10 minutes or older.")]
    under1_day: Annotated[int, About("Of an hour or older.")]
    older: int


@dataclass(frozen=True)
class TaskAgesView(View):
    content: Sequence[StatusAgesView]
