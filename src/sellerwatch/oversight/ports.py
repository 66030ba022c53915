"""What oversight needs of the store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from sellerwatch.kernel.activity import ActivityLog
from sellerwatch.kernel.paging import Cursor, Page
from sellerwatch.oversight.audit import AuditEntry


@dataclass(frozen=True)
class AuditFilter:
    """Which entries: every field that is given narrows it."""

    subject_type: str | None = None
    subject_id: str | None = None
    actor: str | None = None
    action: str | None = None
    since: datetime | None = None
    until: datetime | None = None


class AuditTrail(Protocol):
    """Append-only: no method changes or removes an entry."""

    def record(self, entry: AuditEntry) -> None: ...

    def get(self, entry_id: int) -> AuditEntry | None: ...

    def newest(
        self, *, limit: int, subject_type: str | None = None, subject_id: str | None = None, actor: str | None = None
    ) -> Sequence[AuditEntry]: ...

    def page(self, choice: AuditFilter, cursor: Cursor | None, limit: int) -> Page[AuditEntry]:
        """Newest first, behind a cursor."""


class AuditTx(Protocol):
    @property
    def audit(self) -> AuditTrail: ...

    @property
    def activity(self) -> ActivityLog: ...
