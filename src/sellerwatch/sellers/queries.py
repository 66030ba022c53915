"""What can be seen of a seller alone. Its runs and products are in `operations/sellers.py`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Self

from sellerwatch.kernel.ids import SellerId
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.views import About, View
from sellerwatch.schedules.next_run import Timed, starts_at
from sellerwatch.schedules.queries import IntervalView, ScheduleView
from sellerwatch.schedules.schedule import Schedule
from sellerwatch.sellers.ports import SellersTx
from sellerwatch.sellers.seller import Seller, SellerNotFound, SellerStatus


@dataclass(frozen=True)
class SellerView(View):
    """A seller, how often it is crawled, and when next."""

    seller_id: Annotated[str, About(example="seller_12345")]
    name: Annotated[str, About(example="럭셔리하우스")]
    status: SellerStatus
    crawling_interval_days: Annotated[int | None, About("Null for an interval in hours.", 1)]
    interval: IntervalView
    total_product_count: Annotated[int, About("Products the seller has according to the marketplace.")]
    next_run_at: Annotated[datetime | None, About("When the next run starts; null for an INACTIVE seller.")]
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, seller: Seller, schedule: Timed, /, **more: Any) -> Self:
        """Return the view of a seller; `more` are the fields that a subclass adds."""
        return cls(
            seller_id=seller.seller_id,
            name=seller.name,
            status=seller.status,
            crawling_interval_days=seller.crawling_interval_days,
            interval=IntervalView.of(seller.interval),
            total_product_count=seller.total_product_count,
            next_run_at=starts_at(schedule),
            created_at=seller.created_at,
            updated_at=seller.updated_at,
            **more,
        )

    @property
    def is_active(self) -> bool:
        return self.status is SellerStatus.ACTIVE


def show_schedule(tx: SellersTx, _: OperationContext, seller_id: SellerId) -> ScheduleView:
    """Show when a seller is crawled next."""
    return ScheduleView.of(find_seller(tx, seller_id)[1])


def find_seller(tx: SellersTx, seller_id: SellerId) -> tuple[Seller, Schedule]:
    """Return a seller and its schedule; raise where there is none of that id."""
    seller, schedule = tx.sellers.get(seller_id), tx.schedules.of_seller(seller_id)
    if seller is None or schedule is None:
        raise SellerNotFound(seller_id=seller_id)
    return seller, schedule


def require_seller(tx: SellersTx, seller_id: SellerId | None) -> None:
    """Refuse a filter by a seller that does not exist: it is a typing mistake, not an empty list."""
    if seller_id is not None and tx.sellers.get(seller_id) is None:
        raise SellerNotFound(seller_id=seller_id)
