"""/api/v1/removals: more products gone from a seller's list than a shop loses by itself; a person decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field, StrictInt

from sellerwatch.catalog.product import Product
from sellerwatch.catalog.queries import look_at_removal
from sellerwatch.catalog.removal import REMOVAL_LIFE, Removal, RemovalReason, RemovalStatus
from sellerwatch.kernel.ids import RemovalId
from sellerwatch.kernel.paging import decode_cursor
from sellerwatch.operations.catalog import Confirmed, confirm_removal, refuse_removal
from sellerwatch.operations.ports import ServiceTx
from sellerwatch.web.api.authorization import Admin, Viewer
from sellerwatch.web.api.context import Desk, parts_of
from sellerwatch.web.api.cursors import CursorParameter, DryRun, SellerFilter, cursor_page, known_seller, seller_of
from sellerwatch.web.api.errors import refusals
from sellerwatch.web.api.models import CursorPage, PageSize, RequestModel, ResponseModel, Stamp

router = APIRouter(prefix="/removals", tags=["removals"])

LIST = "removals"
#: Products that are named; of the others there is the number.
MOST_ITEMS = 20
#: Steps of 100 products that one call may take.
MOST_STEPS = 50
AN_ID = "0198c0de-0000-7000-8009-000000000001"

RemovalPath = Annotated[str, Path(alias="removalId", max_length=100, examples=[AN_ID])]


class RemovalShown(ResponseModel):
    """`missing` of `told` products were lacking from a whole list."""

    removal_id: str = Field(examples=[AN_ID])
    seller_id: str = Field(examples=["seller_12345"])
    execution_id: str
    reason: RemovalReason
    status: RemovalStatus
    told: int
    missing: int
    unseen_since: Stamp
    created_at: Stamp
    decided_at: Stamp | None
    decided_by: str | None

    @classmethod
    def of(cls, removal: Removal) -> RemovalShown:
        return cls(**vars(removal))


class MissingProduct(ResponseModel):
    item_no: int = Field(examples=[900000001])
    name: str | None = Field(examples=["울 코트"])
    last_seen_at: Stamp | None


class RemovalDetail(RemovalShown):
    still_missing: int
    items: list[MissingProduct] = Field(description="The first of those still missing.")


class ConfirmBody(RequestModel):
    steps: StrictInt = Field(default=10, ge=1, le=MOST_STEPS, description="Of 100 products each.", examples=[10])


class ConfirmedRemoval(RemovalDetail):
    """`removed` were told as gone; where `stillMissing` are left, ask again."""

    dry_run: bool
    removed: int


@router.get("", responses=refusals(404))
async def list_removals(
    request: Request,
    _: Viewer,
    seller_id: SellerFilter = None,
    status: Annotated[RemovalStatus | None, Query()] = None,
    cursor: CursorParameter = None,
    size: PageSize = 20,
) -> CursorPage[RemovalShown]:
    """Held removals and what became of earlier ones, newest first."""
    wanted, position = seller_of(seller_id), decode_cursor(LIST, cursor)

    def work(tx: ServiceTx) -> CursorPage[RemovalShown]:
        known_seller(tx, wanted)
        piece = tx.removals.page(seller_id=wanted, status=status, cursor=position, limit=size)
        return cursor_page(LIST, piece, RemovalShown.of)

    return await parts_of(request).read(work)


@router.get("/{removalId}", responses=refusals(404))
async def get_removal(removal_id: RemovalPath, request: Request, _: Viewer) -> RemovalDetail:
    """One removal: what the list lacked, how many are still missing, and the first of them."""
    wanted = RemovalId.parse(removal_id)
    found = await parts_of(request).read(lambda tx: look_at_removal(tx, wanted, MOST_ITEMS))
    return RemovalDetail(**_looked_at(*found))


@router.post("/{removalId}/confirm", responses=refusals(404, 409))
async def confirm(
    removal_id: RemovalPath,
    request: Request,
    caller: Admin,
    body: ConfirmBody | None = None,
    dry_run: DryRun = False,
) -> ConfirmedRemoval:
    """Tell the products of a removal as gone, some steps at a time. Those that were seen again are not touched."""
    wanted, parts, steps = RemovalId.parse(removal_id), parts_of(request), (body or ConfirmBody()).steps
    found = await parts.read(lambda tx: look_at_removal(tx, wanted, MOST_ITEMS))
    REMOVAL_LIFE.after(found[0].status, "confirm", wanted)
    if dry_run:
        return ConfirmedRemoval(**_looked_at(*found), dry_run=True, removed=0)

    def work(tx: ServiceTx, desk: Desk) -> Confirmed:
        rules = parts.service.crawl.rules
        return confirm_removal(tx, wanted, rules, actor=desk.actor, ids=desk.ids, now=desk.now)

    removed, left = 0, 1
    while left and steps:
        step = await parts.change(caller.actor, work)
        removed, left, steps = removed + len(step.removed), step.left, steps - 1
    found = await parts.read(lambda tx: look_at_removal(tx, wanted, MOST_ITEMS))
    return ConfirmedRemoval(**_looked_at(*found), dry_run=False, removed=removed)


@router.post("/{removalId}/refuse", responses=refusals(404, 409))
async def refuse(removal_id: RemovalPath, request: Request, caller: Admin) -> RemovalShown:
    """Say that the products are not gone: nothing is told. If the next whole list lacks them too, it is asked again."""
    wanted = RemovalId.parse(removal_id)

    def work(tx: ServiceTx, desk: Desk) -> Removal:
        return refuse_removal(tx, wanted, actor=desk.actor, now=desk.now)

    return RemovalShown.of(await parts_of(request).change(caller.actor, work))


def _looked_at(removal: Removal, still: int, first: Sequence[tuple[Product, str | None]]) -> dict[str, Any]:
    items = [MissingProduct(item_no=p.item_no, name=name, last_seen_at=p.last_seen_at) for p, name in first]
    return vars(removal) | {"still_missing": still, "items": items}
