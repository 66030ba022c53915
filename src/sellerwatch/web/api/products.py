"""/api/v1/products: the catalogue, the history of its products, and the bodies they were read from."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path, Query, Response
from pydantic import Field, StrictStr

from sellerwatch.catalog import queries
from sellerwatch.catalog.changes import FoundFilter, FoundKind
from sellerwatch.catalog.product import PartName, ProductState
from sellerwatch.catalog.product_views import (
    ProductDetailView,
    ProductDiffView,
    ProductHistoryView,
    ProductView,
    StoredBodiesView,
)
from sellerwatch.catalog.queries import MOST_BODIES, ProductFilter
from sellerwatch.catalog.resync import ResyncChoice
from sellerwatch.kernel.ids import ExecutionId, ItemNo
from sellerwatch.kernel.views import CursorPageView
from sellerwatch.operations import refresh
from sellerwatch.operations.refresh import MOST_REFRESHED, RefreshView
from sellerwatch.operations.reparse import ReparseView
from sellerwatch.operations.reparse import reparse_products as reparse
from sellerwatch.operations.resyncs import StartedResyncView, start_resync
from sellerwatch.web.api.authorization import AdminSession, ViewerSession
from sellerwatch.web.api.cursors import (
    CursorParameter,
    DryRun,
    ExecutionFilter,
    ItemPath,
    SellerFilter,
    seller_of,
    utc,
)
from sellerwatch.web.api.errors import refusals
from sellerwatch.web.api.models import PageSize, RequestModel
from sellerwatch.web.api.view_route import ViewRoute

router = APIRouter(prefix="/products", tags=["products"], route_class=ViewRoute)

PartPath = Annotated[PartName, Path(alias="part", examples=["detail"])]
UpdatedSince = Annotated[
    datetime | None, Query(alias="updatedSince", description="Changed then or later; UTC unless it says otherwise.")
]
BodyNumber = Annotated[int, Query(alias="number", ge=1, le=MOST_BODIES, description="1 is the newest body.")]


@router.get("", responses=refusals(404))
async def list_products(
    session: ViewerSession,
    seller_id: SellerFilter = None,
    state: Annotated[ProductState | None, Query()] = None,
    search: Annotated[str | None, Query(min_length=1, max_length=100, description="A part of the name.")] = None,
    execution_id: ExecutionFilter = None,
    found: Annotated[
        FoundKind | None, Query(description="What this run found them to be; `changed` where it is left out.")
    ] = None,
    updated_since: UpdatedSince = None,
    cursor: CursorParameter = None,
    size: PageSize = 20,
) -> CursorPageView[ProductView]:
    """List products in the order they were first seen. A page may be short and not the last: only `next: null` is.

    With `updatedSince`: those that changed since then, in the order of their changes, deleted ones included, each with
    the productData of its last event. A product that changes while pages are read comes again. Changes of the last 30 s
    come later.
    """
    run = None if execution_id is None else ExecutionId.parse(execution_id)
    chosen = ProductFilter(seller_of(seller_id), state, search, FoundFilter.of(run, found), utc(updated_since))
    return await session.ask(queries.list_products, chosen, cursor, size)


@router.post("/reparse", responses=refusals(404))
async def reparse_products(
    session: AdminSession, seller_id: SellerFilter = None, dry_run: DryRun = False, cursor: CursorParameter = None
) -> ReparseView:
    """Read the stored bodies of the next 100 products again, and write an event for each that differs."""
    return await reparse(session, seller_of(seller_id), cursor=cursor, steps=1, dry_run=dry_run)


class ResyncBody(RequestModel):
    """Which products: of one seller or of all, and since when; without a body all."""

    seller_id: StrictStr | None = Field(None, max_length=100, examples=["seller_12345"])
    since: datetime | None = Field(
        None,
        strict=False,
        description="Only products with an event delivered since then.",
        examples=["2026-11-15T06:00:00Z"],
    )


@router.post("/resync", status_code=202, responses=refusals(404, 409))
async def resync_products(
    session: AdminSession, body: ResyncBody | None = None, dry_run: DryRun = False
) -> StartedResyncView:
    """Ask for a PRODUCT_SNAPSHOT event of each product that has had an event, deleted ones included.

    They are written as fast as the receiver accepts them: `GET /api/v1/resyncs/{resyncId}` says how far it is.
    """
    choice = ResyncChoice() if body is None else ResyncChoice(seller_of(body.seller_id), utc(body.since))
    return await session.run(start_resync, choice, dry_run=dry_run)


class RefreshBody(RequestModel):
    item_nos: list[Annotated[int, Field(ge=1, le=ItemNo.LARGEST)]] = Field(
        min_length=1, max_length=MOST_REFRESHED, examples=[[900000001]]
    )


@router.post("/refresh", status_code=202, responses=refusals(404, 409))
async def refresh_products(session: AdminSession, body: RefreshBody, dry_run: DryRun = False) -> RefreshView:
    """Read the detail and the options of single products again now, in a run of their own beside any other.

    It uses the ordinary budget. A product that is unknown or deleted is refused, and with it all others.
    """
    items = [ItemNo(item_no) for item_no in body.item_nos]
    return await session.run(refresh.refresh_products, items, session.rules, session.deadline, dry_run=dry_run)


@router.get("/{itemNo}", responses=refusals(404))
async def show_product(item_no: ItemPath, session: ViewerSession) -> ProductDetailView:
    """Show a product with its productData, its last events, and the parts that are held."""
    return await session.ask(queries.show_product, ItemNo(item_no), session.rules.marketplace)


@router.get("/{itemNo}/raw", responses=refusals(404))
async def show_product_bodies(item_no: ItemPath, session: ViewerSession, number: BodyNumber = 1) -> StoredBodiesView:
    """Show the stored body of each part."""
    return await session.ask(queries.product_bodies, ItemNo(item_no), [*PartName], number)


@router.get(
    "/{itemNo}/raw/{part}",
    responses={200: {"content": {"application/json": {}}, "description": "The body."}, **refusals(404)},
    response_class=Response,
)
async def download_product_body(
    item_no: ItemPath, part: PartPath, session: ViewerSession, number: BodyNumber = 1
) -> Response:
    """Send one stored body, byte for byte."""
    found = await session.ask(queries.raw_bodies, ItemNo(item_no), [part], number)
    return Response(found[0].body, media_type="application/json")


@router.get("/{itemNo}/history", responses=refusals(404))
async def show_product_history(item_no: ItemPath, session: ViewerSession) -> ProductHistoryView:
    """Show every state a product was found in: when, in which run, and what differed from the state before."""
    return await session.ask(queries.product_history, ItemNo(item_no))


@router.get("/{itemNo}/diff", responses=refusals(404))
async def show_product_diff(
    item_no: ItemPath,
    session: ViewerSession,
    from_version: Annotated[int | None, Query(alias="from", ge=0, le=2**31, description="0: from nothing.")] = None,
    to_version: Annotated[
        int | None, Query(alias="to", ge=1, le=2**31, description="Default: the current state.")
    ] = None,
) -> ProductDiffView:
    """Show the differences between two versions, by default those of the last change.

    With `to` alone from the version before it, with `from` alone to the current state.
    """
    return await session.ask(queries.product_diff, ItemNo(item_no), from_version, to_version)
