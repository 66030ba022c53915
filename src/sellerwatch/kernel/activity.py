"""What happens, as it happens: rows that whoever watches follows by their number. Written in the transaction that did
it, so that nothing is told that was rolled back; kept for days, not for ever (the audit trail is)."""

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
        """Only if nothing of this kind was told of this subject within that time; says whether it was."""
        ...

    def after(self, number: int, limit: int) -> Sequence[tuple[int, Activity]]:
        """What came behind a number, in order, each with its own."""
        ...

    def span(self) -> tuple[int, int]:
        """The lowest number still there and the highest ever given; 0 where there is none."""
        ...

    def forget(self, before: datetime, limit: int) -> int: ...
