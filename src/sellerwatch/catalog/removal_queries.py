"""Queries over removals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from sellerwatch.catalog.ports import CatalogTx
from sellerwatch.catalog.queries import last_event_data
from sellerwatch.catalog.removal import Removal, RemovalNotFound, RemovalReason, RemovalStatus
from sellerwatch.kernel.ids import RemovalId, SellerId
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.paging import decode_cursor, page_view
from sellerwatch.kernel.views import About, CursorPageView, View
from sellerwatch.sellers.queries import require_seller

REMOVALS = "removals"
#: Products that are named; `stillMissing` counts all of them.
MOST_ITEMS = 20


@dataclass(frozen=True)
class RemovalView(View):
    """A removal: `missing` of the `told` products of a seller were not on its complete list."""

    removal_id: Annotated[str, About(example="0198c0de-0000-7000-8009-000000000001")]
    seller_id: Annotated[str, About(example="seller_12345")]
    execution_id: str
    reason: RemovalReason
    status: RemovalStatus
    told: Annotated[int, About("Products of the seller that had an event and were not deleted.")]
    missing: int
    unseen_since: datetime
    created_at: datetime
    decided_at: datetime | None
    decided_by: str | None

    @classmethod
    def of(cls, removal: Removal) -> RemovalView:
        return cls(**vars(removal))


@dataclass(frozen=True)
class MissingProductView(View):
    """A product that is still missing."""

    item_no: Annotated[int, About(example=900000001)]
    name: Annotated[str | None, About(example="울 코트")]
    version: int
    last_seen_at: datetime | None


@dataclass(frozen=True)
class RemovalDetailView(RemovalView):
    """A removal with the products it is about."""

    still_missing: int
    items: Annotated[Sequence[MissingProductView], About("The first of those still missing.")]


def list_removals(
    tx: CatalogTx,
    _: OperationContext,
    seller_id: SellerId | None,
    status: RemovalStatus | None,
    cursor: str | None,
    size: int,
) -> CursorPageView[RemovalView]:
    """List removals, newest first."""
    require_seller(tx, seller_id)
    position = decode_cursor(REMOVALS, cursor)
    page = tx.removals.page(seller_id=seller_id, status=status, cursor=position, limit=size)
    return page_view(REMOVALS, page, RemovalView.of)


def show_removal(tx: CatalogTx, _: OperationContext, removal_id: RemovalId) -> RemovalDetailView:
    """Show a removal: how many products were missing, how many still are, and the first of them."""
    return RemovalDetailView(**removal_fields(tx, find_removal(tx, removal_id)))


def find_removal(tx: CatalogTx, removal_id: RemovalId) -> Removal:
    """Return a removal; refuse an id that no removal has."""
    removal = tx.removals.get(removal_id)
    if removal is None:
        raise RemovalNotFound(removal_id=removal_id)
    return removal


def removal_fields(tx: CatalogTx, removal: Removal) -> dict[str, Any]:
    """Return the fields of a `RemovalDetailView`."""
    first = tx.products.unseen_since(removal.seller_id, removal.unseen_since, MOST_ITEMS)
    return vars(removal) | {
        "still_missing": tx.products.count_unseen_since(removal.seller_id, removal.unseen_since),
        "items": [
            MissingProductView(each.item_no, last_event_data(tx, each).get("name"), each.version, each.last_seen_at)
            for each in first
        ],
    }
