"""What resends need of the store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from sellerwatch.kernel.ids import OutboxId, ResendId
from sellerwatch.kernel.paging import Cursor, Page
from sellerwatch.outbox.resend import Resend, ResendAnswer, ResendChoice, ResendCounts, ResendStatus, ResentEvent


class Resends(Protocol):
    def add(self, resend: Resend) -> None: ...

    def save(self, resend: Resend) -> None: ...

    def get(self, resend_id: ResendId) -> Resend | None: ...

    def running(self) -> Sequence[ResendId]:
        """Return the resends that are not over, oldest first."""
        ...

    def page(self, status: ResendStatus | None, cursor: Cursor | None, limit: int) -> Page[Resend]:
        """Return the next entries behind a cursor, newest first."""
        ...

    def counts(self, choice: ResendChoice) -> ResendCounts:
        """Count the delivered events of a choice."""
        ...

    def next_events(self, resend: Resend, limit: int) -> Sequence[tuple[int, OutboxId]]:
        """Return the next events that were not tried yet, each with its row, in the order of the outbox."""
        ...

    def witness(self, besides: Sequence[OutboxId]) -> OutboxId | None:
        """Return the newest delivered event that is none of these."""
        ...

    def has_due_events(self, now: datetime) -> bool:
        """Return whether an event waits to be delivered for the first time."""
        ...


class ResentEvents(Protocol):
    """The last try of each event of a resend that was tried."""

    def save(self, events: Sequence[ResentEvent]) -> None: ...

    def due(self, resend_id: ResendId, now: datetime, limit: int) -> Sequence[ResentEvent]:
        """Return events that are to be tried again now, the one that has waited longest first."""
        ...

    def next_try_at(self, resend_id: ResendId) -> datetime | None:
        """Return when the next event is tried again; None when none is."""
        ...

    def page(
        self, resend_id: ResendId, answer: ResendAnswer | None, cursor: Cursor | None, limit: int
    ) -> Page[ResentEvent]:
        """Return the next entries behind a cursor, newest first."""
        ...

    def forget(self, before: datetime, limit: int) -> int:
        """Delete at most `limit` tries made before then, of resends that are over; return how many."""
        ...


class ResendTx(Protocol):
    @property
    def resends(self) -> Resends: ...

    @property
    def resent_events(self) -> ResentEvents: ...
