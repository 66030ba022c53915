"""/api/v1/resends: how far resends are, the answers, the end of one. `POST /api/v1/outbox/resend` asks for one."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from sellerwatch.kernel.ids import ResendId
from sellerwatch.kernel.views import CursorPageView
from sellerwatch.operations import resends
from sellerwatch.operations.resends import CancelledResendView
from sellerwatch.outbox import resend_queries
from sellerwatch.outbox.resend import ResendAnswer, ResendStatus
from sellerwatch.outbox.resend_queries import ResendAnswerView, ResendView
from sellerwatch.web.api.authorization import AdminSession, ViewerSession
from sellerwatch.web.api.cursors import CursorParameter, DryRun
from sellerwatch.web.api.errors import refusals
from sellerwatch.web.api.models import PageSize
from sellerwatch.web.api.view_route import ViewRoute

router = APIRouter(prefix="/resends", tags=["resends"], route_class=ViewRoute)

ResendPath = Annotated[str, Path(alias="resendId", max_length=100, examples=["0198c0de-0000-7000-800b-000000000001"])]


@router.get("")
async def list_resends(
    session: ViewerSession,
    status: Annotated[ResendStatus | None, Query()] = None,
    cursor: CursorParameter = None,
    size: PageSize = 20,
) -> CursorPageView[ResendView]:
    """List resends, newest first."""
    return await session.ask(resend_queries.list_resends, status, cursor, size)


@router.get("/{resendId}", responses=refusals(404))
async def get_resend(resend_id: ResendPath, session: ViewerSession) -> ResendView:
    """Show a resend: how many events were sent again, and how they were answered."""
    return await session.ask(resend_queries.show_resend, ResendId.parse(resend_id))


@router.get("/{resendId}/answers", responses=refusals(404))
async def list_resend_answers(
    resend_id: ResendPath,
    session: ViewerSession,
    answer: Annotated[ResendAnswer | None, Query()] = None,
    cursor: CursorParameter = None,
    size: PageSize = 20,
) -> CursorPageView[ResendAnswerView]:
    """List what the receiver answered to each event of a resend, newest first."""
    return await session.ask(resend_queries.list_resend_answers, ResendId.parse(resend_id), answer, cursor, size)


@router.post("/{resendId}/cancel", responses=refusals(404, 409))
async def cancel_resend(resend_id: ResendPath, session: AdminSession, dry_run: DryRun = False) -> CancelledResendView:
    """End a resend before all its events were sent."""
    return await session.run(resends.cancel_resend, ResendId.parse(resend_id), dry_run=dry_run)
