"""Queries over resyncs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from sellerwatch.catalog.ports import CatalogTx
from sellerwatch.catalog.resync import Resync, ResyncNotFound, ResyncStatus
from sellerwatch.kernel.ids import ResyncId, SellerId
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.paging import decode_cursor, page_view
from sellerwatch.kernel.views import About, CursorPageView, View, shared_fields
from sellerwatch.sellers.queries import require_seller

RESYNCS = "resyncs"


@dataclass(frozen=True)
class ResyncView(View):
    """A resync: `written` of `total` snapshots are written. COMPLETED: all are, and they are delivered as any event."""

    resync_id: Annotated[str, About(example="0198c0de-0000-7000-8009-000000000001")]
    seller_id: Annotated[str | None, About("Null: of all sellers.", "seller_12345")]
    since: Annotated[datetime | None, About("Only products with an event that was delivered since then.")]
    status: ResyncStatus
    total: Annotated[int, About("Products that it is about.", 20000)]
    written: Annotated[int, About("Snapshots that are written.", 12000)]
    progress_rate: Annotated[float, About("Written snapshots in percent.", 60.0)]
    requested_by: str
    created_at: datetime
    ended_at: datetime | None
    ended_by: Annotated[str | None, About("Who cancelled it.")]

    @classmethod
    def of(cls, resync: Resync) -> ResyncView:
        return cls(**resync_fields(resync))


@dataclass(frozen=True)
class ResyncDetailView(ResyncView):
    """A resync with what the receiver has not accepted yet."""

    waiting: Annotated[int, About("Snapshots of its sellers on their way. While many wait, no more are written.", 30)]


def list_resyncs(
    tx: CatalogTx,
    _: OperationContext,
    seller_id: SellerId | None,
    status: ResyncStatus | None,
    cursor: str | None,
    size: int,
) -> CursorPageView[ResyncView]:
    """List resyncs, newest first."""
    require_seller(tx, seller_id)
    position = decode_cursor(RESYNCS, cursor)
    page = tx.resyncs.page(seller_id=seller_id, status=status, cursor=position, limit=size)
    return page_view(RESYNCS, page, ResyncView.of)


def show_resync(tx: CatalogTx, _: OperationContext, resync_id: ResyncId) -> ResyncDetailView:
    """Show a resync: how many snapshots are written, and how many of them wait for the receiver."""
    return resync_detail(tx, find_resync(tx, resync_id))


def find_resync(tx: CatalogTx, resync_id: ResyncId) -> Resync:
    """Return a resync; refuse an id that no resync has."""
    resync = tx.resyncs.get(resync_id)
    if resync is None:
        raise ResyncNotFound(resync_id=resync_id)
    return resync


def resync_detail(tx: CatalogTx, resync: Resync) -> ResyncDetailView:
    return ResyncDetailView(**resync_fields(resync), waiting=tx.resyncs.waiting(resync.seller_id))


def resync_fields(resync: Resync) -> dict[str, Any]:
    """Return the fields of a `ResyncView`."""
    rate = round(100.0 * resync.written / resync.total, 2) if resync.total else 100.0
    return shared_fields(ResyncView, resync) | {"progress_rate": rate}
