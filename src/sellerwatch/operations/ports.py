"""The whole store, as operations that span features and the service see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from sellerwatch.oversight.retention import OldRows
from sellerwatch.reports.ports import ReportsTx


class Invariant(StrEnum):
    """What must hold in a database, worst first."""

    INTEGRITY = "integrity"
    VERSIONS = "versions"
    LAST_EVENT = "last_event"
    ORDER_OF_EVENTS = "order_of_events"
    BUDGETS = "budgets"
    RUN_COUNTS = "run_counts"
    OPEN_RUNS = "open_runs"
    TASKS_OF_ENDED_RUNS = "tasks_of_ended_runs"
    TASKS_WITHOUT_WORKER = "tasks_without_worker"


@dataclass(frozen=True)
class BrokenInvariant:
    """`count` places where it does not hold; one of them is `example`."""

    invariant: Invariant
    count: int
    example: str


class Invariants(Protocol):
    """A look at every row: minutes in a large database."""

    def broken(self, tasks_since: datetime) -> Sequence[BrokenInvariant]:
        """Return what does not hold. Runs that ended before `tasks_since` may lack tasks."""


class ServiceTx(ReportsTx, Protocol):
    """Every table."""

    @property
    def old_rows(self) -> OldRows: ...

    @property
    def invariants(self) -> Invariants: ...
