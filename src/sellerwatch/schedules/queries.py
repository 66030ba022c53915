"""Queries over schedules: when sellers are crawled next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Self

from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.views import About, NumberedPageView, View, shared_fields
from sellerwatch.schedules.interval import CrawlingInterval, IntervalUnit
from sellerwatch.schedules.next_run import next_starts, starts_at
from sellerwatch.schedules.ports import SchedulesTx
from sellerwatch.schedules.schedule import Schedule, ScheduleStatus


@dataclass(frozen=True)
class IntervalView(View):
    """How often a seller is crawled."""

    amount: Annotated[int, About(example=6)]
    unit: IntervalUnit

    @classmethod
    def of(cls, interval: CrawlingInterval) -> IntervalView:
        return cls(interval.amount, interval.unit)


@dataclass(frozen=True)
class ScheduleView(View):
    """When a seller is crawled, and what the scheduler knows of it."""

    schedule_id: str
    seller_id: Annotated[str, About(example="seller_12345")]
    status: ScheduleStatus
    interval: IntervalView
    schedule_rule: str
    schedule_expression: Annotated[str, About(example="rate(1 day)")]
    next_run_at: Annotated[
        datetime | None,
        About("When the next run starts: spread over sellers; for a run that could not be started, its next try."),
    ]
    next_starts: Annotated[Sequence[datetime], About("The next five starts.")]
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, schedule: Schedule, **more: Any) -> Self:
        """Return the view of a schedule; `more` are the fields that a subclass adds."""
        return cls(
            **shared_fields(ScheduleView, schedule)
            | {
                "interval": IntervalView.of(schedule.interval),
                "next_run_at": starts_at(schedule),
            },
            schedule_rule=schedule.rule,
            schedule_expression=schedule.expression,
            next_starts=next_starts(schedule),
            **more,
        )


def list_schedules(tx: SchedulesTx, _: OperationContext, page: int, size: int) -> NumberedPageView[ScheduleView]:
    """List schedules with their next starts, by seller."""
    found, total = tx.schedules.page(offset=page * size, limit=size)
    return NumberedPageView.of([ScheduleView.of(schedule) for schedule in found], page, size, total)
