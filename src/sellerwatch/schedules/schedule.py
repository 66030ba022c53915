"""When a seller is crawled, and what is sent about it to the scheduler, ours or EventBridge."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Self

from sellerwatch.kernel.ids import ScheduleId, SellerId
from sellerwatch.kernel.lifecycle import Lifecycle
from sellerwatch.schedules.interval import CrawlingInterval


class ScheduleStatus(StrEnum):
    ACTIVE = "ACTIVE"
    INACTIVE = "INACTIVE"
    FAILED = "FAILED"


SCHEDULE_LIFE = Lifecycle(
    noun="schedule",
    first=ScheduleStatus.ACTIVE,
    moves={
        (ScheduleStatus.ACTIVE, "update_interval"): ScheduleStatus.ACTIVE,
        (ScheduleStatus.ACTIVE, "deactivate"): ScheduleStatus.INACTIVE,
        (ScheduleStatus.INACTIVE, "activate"): ScheduleStatus.ACTIVE,
        (ScheduleStatus.ACTIVE, "fail"): ScheduleStatus.FAILED,
        (ScheduleStatus.INACTIVE, "fail"): ScheduleStatus.FAILED,
        (ScheduleStatus.FAILED, "fail"): ScheduleStatus.FAILED,
        (ScheduleStatus.FAILED, "activate"): ScheduleStatus.ACTIVE,
        (ScheduleStatus.FAILED, "deactivate"): ScheduleStatus.INACTIVE,
    },
    resting=frozenset(),
)


class ScheduleEventType(StrEnum):
    REGISTERED = "SCHEDULE_REGISTERED"
    UPDATED = "SCHEDULE_UPDATED"
    ACTIVATED = "SCHEDULE_ACTIVATED"
    DEACTIVATED = "SCHEDULE_DEACTIVATED"


@dataclass(frozen=True)
class ScheduleEvent:
    """What happened to a schedule; becomes a row of the scheduler outbox in the same transaction."""

    type: ScheduleEventType
    schedule: Schedule


@dataclass(frozen=True)
class Schedule:
    """One per seller. `next_run_at` is what the embedded scheduler goes by; EventBridge keeps its own time.

    FAILED means that the scheduler did not take a message: the seller may run on an old rule or on none. It ends when
    the scheduler takes one (`acknowledge`). `waiting_start` is when a run that is due and could not be
    started is tried again; the execution keeps it, so it is only read here.
    """

    schedule_id: ScheduleId
    seller_id: SellerId
    interval: CrawlingInterval
    status: ScheduleStatus
    next_run_at: datetime | None
    created_at: datetime
    updated_at: datetime
    waiting_start: datetime | None = None

    @classmethod
    def create(
        cls, schedule_id: ScheduleId, seller_id: SellerId, interval: CrawlingInterval, now: datetime
    ) -> tuple[Self, ScheduleEvent]:
        """ACTIVE; the first run is due one interval later, as EventBridge does it."""
        made = cls(
            schedule_id=schedule_id,
            seller_id=seller_id,
            interval=interval,
            status=SCHEDULE_LIFE.first,
            next_run_at=now + interval.length,
            created_at=now,
            updated_at=now,
        )
        return made, ScheduleEvent(ScheduleEventType.REGISTERED, made)

    @property
    def rule(self) -> str:
        return f"mustit-crawler-{self.seller_id}"

    @property
    def expression(self) -> str:
        return self.interval.expression

    @property
    def length(self) -> timedelta:
        """How long its interval is."""
        return self.interval.length

    def update_interval(self, interval: CrawlingInterval, now: datetime) -> tuple[Schedule, ScheduleEvent]:
        """Only while ACTIVE. The next run counts from now: a shorter interval takes effect at once."""
        moved = self._move("update_interval", now, interval=interval, next_run_at=now + interval.length)
        return moved, ScheduleEvent(ScheduleEventType.UPDATED, moved)

    def activate(self, now: datetime) -> tuple[Schedule, ScheduleEvent]:
        moved = self._move("activate", now, next_run_at=now + self.length)
        return moved, ScheduleEvent(ScheduleEventType.ACTIVATED, moved)

    def deactivate(self, now: datetime) -> tuple[Schedule, ScheduleEvent]:
        moved = self._move("deactivate", now, next_run_at=None)
        return moved, ScheduleEvent(ScheduleEventType.DEACTIVATED, moved)

    def fail(self, now: datetime) -> Schedule:
        """Return the schedule after the scheduler refused a message for good."""
        return self._move("fail", now)

    def acknowledge(self, now: datetime) -> Schedule:
        """Return the schedule after the scheduler took a message: a FAILED one is ACTIVE or INACTIVE again."""
        if self.status is not ScheduleStatus.FAILED:
            return self
        return self._move("deactivate" if self.next_run_at is None else "activate", now)

    def ran(self, next_run_at: datetime, now: datetime) -> Schedule:
        """Return the schedule after a run was started or skipped, due again at `next_run_at`; one without a next run is
        returned as it is."""
        if self.next_run_at is None:
            return self
        return replace(self, next_run_at=next_run_at, updated_at=now)

    def is_due(self, now: datetime) -> bool:
        return self.status is not ScheduleStatus.INACTIVE and self.next_run_at is not None and self.next_run_at <= now

    def _move(self, verb: str, now: datetime, **changed: object) -> Schedule:
        status = SCHEDULE_LIFE.after(self.status, verb, self.seller_id)
        return replace(self, status=status, updated_at=now, **changed)  # type: ignore[arg-type]
