"""What can be seen of sellers."""

from __future__ import annotations

from sellerwatch.kernel.ids import SellerId
from sellerwatch.sellers.ports import SellersTx
from sellerwatch.sellers.seller import SellerNotFound


def require_seller(tx: SellersTx, seller_id: SellerId | None) -> None:
    """Refuse a filter by a seller that does not exist: it is a typing mistake, not an empty list."""
    if seller_id is not None and tx.sellers.get(seller_id) is None:
        raise SellerNotFound(seller_id=seller_id)
