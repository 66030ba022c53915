"""What can be done with sellers needs of the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sellerwatch.kernel.ids import SellerId
from sellerwatch.outbox.ports import OutboxTx
from sellerwatch.schedules.ports import Schedules
from sellerwatch.sellers.seller import Seller, SellerStatus


class Sellers(Protocol):
    def get(self, seller_id: SellerId) -> Seller | None: ...

    def add(self, seller: Seller) -> None: ...

    def save(self, seller: Seller) -> None: ...

    def page(
        self, *, status: SellerStatus | None, offset: int, limit: int, search: str | None = None
    ) -> tuple[Sequence[Seller], int]:
        """By seller id, and how many there are in all. `search` is a piece of the id or of the name. Archived ones only
        where `status` says so."""


class SellersTx(OutboxTx, Protocol):
    @property
    def sellers(self) -> Sellers: ...

    @property
    def schedules(self) -> Schedules: ...
