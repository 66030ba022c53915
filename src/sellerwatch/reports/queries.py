"""What can be seen across features: the progress of runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from sellerwatch.crawling.queries import find_execution
from sellerwatch.kernel.ids import ExecutionId
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.views import About, View
from sellerwatch.reports.ports import ReportsTx

#: Steps of a run that are read for its progress.
MOST_STEPS = 4000


@dataclass(frozen=True)
class ProgressStepView(View):
    """How far a run was at a moment."""

    at: datetime
    completed_tasks: int
    failed_tasks: int
    total_tasks: int

    @property
    def ended_tasks(self) -> int:
        return self.completed_tasks + self.failed_tasks


@dataclass(frozen=True)
class ExecutionProgressView(View):
    """The last steps of a run, in order. They are deleted some days after the run."""

    content: Annotated[Sequence[ProgressStepView], About("Oldest first.")]


def show_execution_progress(tx: ReportsTx, _: OperationContext, execution_id: ExecutionId) -> ExecutionProgressView:
    """Show how far a run was, step by step."""
    find_execution(tx, execution_id)
    steps = tx.dashboard.progress(execution_id, MOST_STEPS)
    return ExecutionProgressView([ProgressStepView(step.at, step.completed, step.failed, step.total) for step in steps])
