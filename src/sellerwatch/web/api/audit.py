"""/api/v1/audit: who did what, when, and how it was before and after."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import Field

from sellerwatch.operations.ports import ServiceTx
from sellerwatch.oversight.audit import AuditEntry
from sellerwatch.oversight.ports import AuditFilter
from sellerwatch.web.api.authorization import Viewer
from sellerwatch.web.api.context import parts_of
from sellerwatch.web.api.cursors import CursorParameter, Since, Until, cursor_page, decode_cursor, utc
from sellerwatch.web.api.models import CursorPage, PageSize, ResponseModel, Stamp

router = APIRouter(prefix="/audit", tags=["audit"])

LIST = "audit"


class AuditEntryShown(ResponseModel):
    at: Stamp
    actor: str = Field(examples=["api:ops@example"])
    action: str = Field(examples=["seller.deactivate"])
    subject_type: str = Field(examples=["seller"])
    subject_id: str = Field(examples=["seller_12345"])
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    note: str | None

    @classmethod
    def of(cls, entry: AuditEntry) -> AuditEntryShown:
        return cls(**vars(entry))


@router.get("")
async def list_audit(
    request: Request,
    _: Viewer,
    subject_type: Annotated[str | None, Query(alias="subjectType", max_length=50, examples=["seller"])] = None,
    subject_id: Annotated[str | None, Query(alias="subjectId", max_length=200)] = None,
    actor: Annotated[str | None, Query(max_length=200, examples=["scheduler"])] = None,
    action: Annotated[str | None, Query(max_length=100, examples=["execution.cancel"])] = None,
    since: Since = None,
    until: Until = None,
    cursor: CursorParameter = None,
    size: PageSize = 20,
) -> CursorPage[AuditEntryShown]:
    """What was done, newest first. A slice may be short and not the last: only `next: null` is the end."""
    choice = AuditFilter(subject_type, subject_id, actor, action, utc(since), utc(until))
    place = decode_cursor(LIST, cursor)

    def work(tx: ServiceTx) -> CursorPage[AuditEntryShown]:
        return cursor_page(LIST, tx.audit.page(choice, place, size), AuditEntryShown.of)

    return await parts_of(request).read(work)
