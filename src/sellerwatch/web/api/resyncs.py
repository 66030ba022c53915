"""/api/v1/resyncs: how far resyncs are, and the end of one. `POST /api/v1/products/resync` asks for one."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from sellerwatch.catalog import resync_queries
from sellerwatch.catalog.resync import ResyncStatus
from sellerwatch.catalog.resync_queries import ResyncDetailView, ResyncView
from sellerwatch.kernel.ids import ResyncId
from sellerwatch.kernel.views import CursorPageView
from sellerwatch.operations import resyncs
from sellerwatch.operations.resyncs import CancelledResyncView
from sellerwatch.web.api.authorization import AdminSession, ViewerSession
from sellerwatch.web.api.cursors import CursorParameter, DryRun, SellerFilter, seller_of
from sellerwatch.web.api.errors import refusals
from sellerwatch.web.api.models import PageSize
from sellerwatch.web.api.view_route import ViewRoute

router = APIRouter(prefix="/resyncs", tags=["resyncs"], route_class=ViewRoute)

ResyncPath = Annotated[str, Path(alias="resyncId", max_length=100, examples=["0198c0de-0000-7000-8009-000000000001"])]


@router.get("", responses=refusals(404))
async def list_resyncs(
    session: ViewerSession,
    seller_id: SellerFilter = None,
    status: Annotated[ResyncStatus | None, Query()] = None,
    cursor: CursorParameter = None,
    size: PageSize = 20,
) -> CursorPageView[ResyncView]:
    """List resyncs, newest first."""
    return await session.ask(resync_queries.list_resyncs, seller_of(seller_id), status, cursor, size)


@router.get("/{resyncId}", responses=refusals(404))
async def get_resync(resync_id: ResyncPath, session: ViewerSession) -> ResyncDetailView:
    """Show a resync: how many snapshots are written, and how many of them wait for the receiver."""
    return await session.ask(resync_queries.show_resync, ResyncId.parse(resync_id))


@router.post("/{resyncId}/cancel", responses=refusals(404, 409))
async def cancel_resync(resync_id: ResyncPath, session: AdminSession, dry_run: DryRun = False) -> CancelledResyncView:
    """End a resync before all its snapshots are written. Those that are written are delivered."""
    return await session.run(resyncs.cancel_resync, ResyncId.parse(resync_id), dry_run=dry_run)
