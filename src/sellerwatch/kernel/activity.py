"""Activity: what happens, as rows that the event stream follows by their number.

Written in the transaction that did it, so that nothing is shown that was rolled back; kept for days, unlike the audit
trail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol


@dataclass(frozen=True)
class Activity:
    """`kind` is for machines (`execution.completed`); the subject is what it happened to."""

    at: datetime
    kind: str
    subject_type: str | None = None
    subject_id: str | None = None
    data: Mapping[str, Any] | None = None


class ActivityLog(Protocol):
    def add(self, activity: Activity) -> None: ...

    def add_unless_lately(self, activity: Activity, within: timedelta) -> bool:
        """Add it unless there is one of this kind and subject within that time; return whether it was added."""

    def after(self, number: int, limit: int) -> Sequence[tuple[int, Activity]]:
        """Return the activities after a number, in order, each with its number."""

    def span(self) -> tuple[int, int]:
        """Return the lowest number still stored and the highest ever given; 0 where there is none."""

    def forget(self, before: datetime, limit: int) -> int: ...
