"""The audit trail: who changed what, and how it was before and after. Written in the transaction of the change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class AuditEntry:
    """`actor` is the surface and the user: `cli:minji`, `api:ops@example`, `scheduler`."""

    at: datetime
    actor: str
    action: str
    subject_type: str
    subject_id: str
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    note: str | None = None
    #: Its number in the trail; 0 until it is written.
    entry_id: int = field(default=0, compare=False)
