"""Queries of the console's overview. Each reads a bounded number of rows, whatever the size of the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from sellerwatch.crawling.execution import Execution
from sellerwatch.crawling.task import Task
from sellerwatch.kernel.failure import Blame
from sellerwatch.kernel.ids import ExecutionId, ItemNo, SellerId
from sellerwatch.schedules.interval import CrawlingInterval
from sellerwatch.schedules.next_run import starts_at
from sellerwatch.schedules.outlook import ExpectedRuns, requests_of
from sellerwatch.schedules.schedule import ScheduleStatus
from sellerwatch.sellers.seller import SellerStatus


@dataclass(frozen=True, slots=True)
class SellerTimes:
    """A seller, how often it is crawled, when next, and when its last complete run began."""

    seller_id: SellerId
    name: str
    status: SellerStatus
    interval: CrawlingInterval
    products: int
    schedule: ScheduleStatus | None
    next_run_at: datetime | None
    fresh_as_of: datetime | None
    open_run: ExecutionId | None
    waiting_start: datetime | None = None

    @property
    def length(self) -> timedelta:
        """How long its interval is."""
        return self.interval.length

    def expected_runs(self, page_size: int, unread: int = 0) -> ExpectedRuns:
        """What its runs will ask for; of a seller that was never read, as if it had `unread` products."""
        products = unread if self.fresh_as_of is None and not self.products else self.products
        return ExpectedRuns(self.seller_id, starts_at(self), self.length, requests_of(products, page_size))


@dataclass(frozen=True, slots=True)
class Needs:
    """What waits for a person. `open_cases` are those that pause no run; `lost_tasks` are tasks whose worker vanished
    again and again, of sellers without a later run that completed."""

    failed_events: int
    open_cases: int
    held_removals: int
    failed_schedules: int
    lost_tasks: int
    paused_runs: int


@dataclass(frozen=True, slots=True)
class RunProgress:
    """How far a run was at a moment."""

    at: datetime
    completed: int
    failed: int
    total: int


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as the log has it."""

    at: datetime
    status: int | None
    milliseconds: int | None
    succeeded: bool
    too_many: bool


class DashboardQueries(Protocol):
    def freshness(self, seller_ids: Sequence[SellerId] | None = None) -> Sequence[SellerTimes]:
        """Return every seller, or these, by id."""
        ...

    def needs(self, since: datetime) -> Needs:
        """Count what needs an operator. Tasks count if they were created since then; the rest always counts."""
        ...

    def failed_runs(self, limit: int) -> Sequence[Execution]:
        """Return runs that failed as a whole, newest first."""
        ...

    def failures(self, since: datetime, limit: int) -> Mapping[Blame, int]:
        """Count the newest failed tasks since then by whose fault it was."""
        ...

    def progress(self, execution_id: ExecutionId, limit: int) -> Sequence[RunProgress]:
        """Return the last steps of a run, in order; they are deleted some days after it."""
        ...

    def asked(self, agent_row: int, since: datetime, until: datetime, limit: int) -> Sequence[Asked]:
        """Return the requests of an agent, in order."""
        ...

    def tasks_of_item(self, execution_id: ExecutionId, item_no: ItemNo) -> Sequence[Task]: ...
