"""/api/v1/changes: what changed, by seller, product, kind, run and time."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from sellerwatch.catalog import change_queries
from sellerwatch.catalog.change_queries import ListedChangeView
from sellerwatch.catalog.changes import ChangeFilter
from sellerwatch.catalog.differences import ChangeKind
from sellerwatch.kernel.ids import ExecutionId, ItemNo
from sellerwatch.kernel.views import CursorPageView
from sellerwatch.web.api.authorization import ViewerSession
from sellerwatch.web.api.cursors import CursorParameter, SellerFilter, Since, Until, seller_of, utc
from sellerwatch.web.api.errors import refusals
from sellerwatch.web.api.models import PageSize
from sellerwatch.web.api.view_route import ViewRoute

router = APIRouter(prefix="/changes", tags=["changes"], route_class=ViewRoute)

Kinds = Annotated[list[ChangeKind] | None, Query(alias="kind", max_length=20, description="One or more kinds.")]
Item = Annotated[int | None, Query(alias="itemNo", ge=1, le=ItemNo.LARGEST)]
Run = Annotated[str | None, Query(alias="executionId", max_length=100, description="Only what this run found.")]


@router.get("", responses=refusals(404))
async def list_changes(
    session: ViewerSession,
    seller_id: SellerFilter = None,
    kinds: Kinds = None,
    item_no: Item = None,
    execution_id: Run = None,
    since: Since = None,
    until: Until = None,
    cursor: CursorParameter = None,
    size: PageSize = 20,
) -> CursorPageView[ListedChangeView]:
    """Changes, newest first, each with its kind and its value before and after."""
    choice = ChangeFilter(
        seller_id=seller_of(seller_id),
        kinds=tuple(kinds or ()),
        item_no=None if item_no is None else ItemNo(item_no),
        execution_id=None if execution_id is None else ExecutionId.parse(execution_id),
        since=utc(since),
        until=utc(until),
    )
    return await session.ask(change_queries.list_changes, choice, cursor, size)
