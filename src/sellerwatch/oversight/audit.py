"""The audit trail: who changed what, and how it was before and after.

An entry is written in the transaction of the change, with the activity that followers of the service see of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sellerwatch.kernel.activity import Activity

if TYPE_CHECKING:
    from sellerwatch.oversight.ports import AuditTx


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


def record_audit(tx: AuditTx, entry: AuditEntry) -> None:
    """Record a change in the transaction that makes it. Changes of users are on the audit trail only."""
    tx.audit.record(entry)
    if entry.subject_type != "user":
        data = {"actor": entry.actor, "note": entry.note}
        tx.activity.add(Activity(entry.at, entry.action, entry.subject_type, entry.subject_id, data))
