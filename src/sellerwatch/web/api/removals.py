"""/api/v1/removals: products that disappeared from a seller's list, too many at once, held for a decision."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import Field, StrictInt

from sellerwatch.catalog import removal_queries
from sellerwatch.catalog.removal import RemovalStatus
from sellerwatch.catalog.removal_queries import RemovalDetailView, RemovalView
from sellerwatch.kernel.ids import RemovalId
from sellerwatch.kernel.views import CursorPageView
from sellerwatch.operations import removals
from sellerwatch.operations.catalog_changes import MOST_STEPS
from sellerwatch.operations.removals import ConfirmedRemovalView, RefusedRemovalView
from sellerwatch.web.api.authorization import AdminSession, ViewerSession
from sellerwatch.web.api.cursors import CursorParameter, DryRun, SellerFilter, seller_of
from sellerwatch.web.api.errors import refusals
from sellerwatch.web.api.models import PageSize, RequestModel
from sellerwatch.web.api.view_route import ViewRoute

router = APIRouter(prefix="/removals", tags=["removals"], route_class=ViewRoute)

RemovalPath = Annotated[str, Path(alias="removalId", max_length=100, examples=["0198c0de-0000-7000-8009-000000000001"])]


class ConfirmBody(RequestModel):
    steps: StrictInt = Field(default=10, ge=1, le=MOST_STEPS, description="Of 100 products each.", examples=[10])


@router.get("", responses=refusals(404))
async def list_removals(
    session: ViewerSession,
    seller_id: SellerFilter = None,
    status: Annotated[RemovalStatus | None, Query()] = None,
    cursor: CursorParameter = None,
    size: PageSize = 20,
) -> CursorPageView[RemovalView]:
    """List removals, newest first."""
    return await session.ask(removal_queries.list_removals, seller_of(seller_id), status, cursor, size)


@router.get("/{removalId}", responses=refusals(404))
async def show_removal(removal_id: RemovalPath, session: ViewerSession) -> RemovalDetailView:
    """Show a removal: how many products were missing, how many still are, and the first of them."""
    return await session.ask(removal_queries.show_removal, RemovalId.parse(removal_id))


@router.post("/{removalId}/confirm", responses=refusals(404, 409))
async def confirm_removal(
    removal_id: RemovalPath, session: AdminSession, body: ConfirmBody | None = None, dry_run: DryRun = False
) -> ConfirmedRemovalView:
    """Write a PRODUCT_DELETED event for each product that is still missing. Products seen again stay as they are."""
    steps = (body or ConfirmBody()).steps
    return await removals.confirm_removal(session, RemovalId.parse(removal_id), steps=steps, dry_run=dry_run)


@router.post("/{removalId}/refuse", responses=refusals(404, 409))
async def refuse_removal(removal_id: RemovalPath, session: AdminSession, dry_run: DryRun = False) -> RefusedRemovalView:
    """Refuse that the products are gone: no event is written. The next list that lacks them holds them again."""
    return await session.run(removals.refuse_removal, RemovalId.parse(removal_id), dry_run=dry_run)
