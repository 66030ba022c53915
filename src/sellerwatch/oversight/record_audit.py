"""Write an entry of the audit trail, and the activity that those who follow the service see of it."""

from __future__ import annotations

from sellerwatch.kernel.activity import Activity
from sellerwatch.oversight.audit import AuditEntry
from sellerwatch.oversight.ports import AuditTx


def record_audit(tx: AuditTx, entry: AuditEntry) -> None:
    """Record a change in the transaction that makes it. Changes of users are on the audit trail only."""
    tx.audit.record(entry)
    if entry.subject_type != "user":
        data = {"actor": entry.actor, "note": entry.note}
        tx.activity.add(Activity(entry.at, entry.action, entry.subject_type, entry.subject_id, data))
