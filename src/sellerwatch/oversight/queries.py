"""What can be seen of the audit trail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from sellerwatch.kernel.errors import NotFound
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.paging import decode_cursor, page_view
from sellerwatch.kernel.views import About, CursorPageView, View
from sellerwatch.oversight.audit import AuditEntry
from sellerwatch.oversight.ports import AuditFilter, AuditTx

AUDIT = "audit"


@dataclass(eq=False)
class AuditEntryNotFound(NotFound):
    """No entry of the audit trail has that number."""

    entry: int


@dataclass(frozen=True)
class AuditEntryView(View):
    """One change: who made it, to what, and how that was before and after."""

    entry_id: Annotated[int, About("The entry's number in the trail.", 42)]
    at: datetime
    actor: Annotated[str, About(example="api:ops@example")]
    action: Annotated[str, About(example="seller.deactivate")]
    subject_type: Annotated[str, About(example="seller")]
    subject_id: Annotated[str, About(example="seller_12345")]
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    note: str | None

    @classmethod
    def of(cls, entry: AuditEntry) -> AuditEntryView:
        return cls(**vars(entry))


def list_audit(
    tx: AuditTx, _: OperationContext, chosen: AuditFilter, cursor: str | None, size: int
) -> CursorPageView[AuditEntryView]:
    """List what was done, newest first. A page may be short and not the last: only `next: null` is the end."""
    return page_view(AUDIT, tx.audit.page(chosen, decode_cursor(AUDIT, cursor), size), AuditEntryView.of)


def show_audit_entry(tx: AuditTx, _: OperationContext, entry_id: int) -> AuditEntryView:
    """Show one change."""
    entry = tx.audit.get(entry_id)
    if entry is None:
        raise AuditEntryNotFound(entry=entry_id)
    return AuditEntryView.of(entry)
