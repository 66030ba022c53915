"""/api/v1/audit: who did what, when, and how it was before and after."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from sellerwatch.kernel.views import CursorPageView
from sellerwatch.oversight import queries
from sellerwatch.oversight.ports import AuditFilter
from sellerwatch.oversight.queries import AuditEntryView
from sellerwatch.web.api.authorization import ViewerSession
from sellerwatch.web.api.cursors import CursorParameter, Since, Until, utc
from sellerwatch.web.api.errors import refusals
from sellerwatch.web.api.models import PageSize
from sellerwatch.web.api.view_route import ViewRoute

router = APIRouter(prefix="/audit", tags=["audit"], route_class=ViewRoute)


@router.get("")
async def list_audit(
    session: ViewerSession,
    subject_type: Annotated[str | None, Query(alias="subjectType", max_length=50, examples=["seller"])] = None,
    subject_id: Annotated[str | None, Query(alias="subjectId", max_length=200)] = None,
    actor: Annotated[str | None, Query(max_length=200, examples=["scheduler"])] = None,
    action: Annotated[str | None, Query(max_length=100, examples=["execution.cancel"])] = None,
    since: Since = None,
    until: Until = None,
    cursor: CursorParameter = None,
    size: PageSize = 20,
) -> CursorPageView[AuditEntryView]:
    """What was done, newest first. A page may be short and not the last: only `next: null` is the end."""
    chosen = AuditFilter(subject_type, subject_id, actor, action, utc(since), utc(until))
    return await session.ask(queries.list_audit, chosen, cursor, size)


@router.get("/{entryId}", responses=refusals(404))
async def show_audit_entry(
    session: ViewerSession, entry_id: Annotated[int, Path(alias="entryId", ge=1, le=2**53)]
) -> AuditEntryView:
    """One change, by its number."""
    return await session.ask(queries.show_audit_entry, entry_id)
