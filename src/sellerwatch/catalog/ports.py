"""What the catalogue needs of the store, and of a marketplace to read stored bodies again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from sellerwatch.catalog.facts import DetailFacts, ListFacts, OptionFacts
from sellerwatch.catalog.product import PartType, Product
from sellerwatch.kernel.ids import ExecutionId, ItemNo, ProductId, SellerId


@dataclass(frozen=True, slots=True)
class RawPart:
    """A body as it came; a new one is kept only when the part changed."""

    product_id: ProductId
    part: PartType
    digest: str
    body: bytes
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ProductCounts:
    """How many products a seller has with us. `present` leaves out the deleted ones; `complete` is of the present."""

    present: int
    complete: int
    deleted: int


class Products(Protocol):
    def of_items(self, items: Sequence[ItemNo]) -> dict[ItemNo, Product]: ...

    def add(self, products: Iterable[Product]) -> None: ...

    def save(self, products: Iterable[Product]) -> None: ...

    def keep_raw(self, parts: Iterable[RawPart]) -> None: ...

    def latest_raw(self, product_id: ProductId) -> dict[PartType, bytes]:
        """The body of each part that was seen last."""
        ...

    def count_seen(self, seller_id: SellerId, execution_id: ExecutionId) -> int:
        """Products of this seller that stood on a list page of this run."""
        ...

    def count(self, seller_id: SellerId | None = None) -> int: ...

    def counts(self, seller_id: SellerId) -> ProductCounts: ...


class Reader(Protocol):
    """Reads the three bodies: the pure half of a marketplace."""

    def read_entry(self, raw: bytes) -> ListFacts: ...

    def read_detail(self, body: bytes, item_no: ItemNo) -> DetailFacts: ...

    def read_options(self, body: bytes, item_no: ItemNo) -> OptionFacts: ...
