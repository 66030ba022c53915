"""What people and callers see of a product: its state, events, held parts, bodies, history and differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import orjson

from sellerwatch.catalog.differences import Change, ChangeKind
from sellerwatch.catalog.ports import HistoryEntry, StoredBody
from sellerwatch.catalog.product import NAMES, PartName, PartType, Product, ProductEvent, ProductState
from sellerwatch.catalog.quarantine import HeldPart, HeldStatus
from sellerwatch.kernel.views import About, View, shared_fields
from sellerwatch.outbox.message import Message, MessageStatus


@dataclass(frozen=True)
class ProductView(View):
    """A product. `name`, `sellingPrice` and `stock` are those of its last event."""

    item_no: Annotated[int, About(example=900000001)]
    product_id: str
    seller_id: Annotated[str, About(example="seller_12345")]
    state: ProductState
    name: Annotated[str | None, About(example="울 코트")]
    selling_price: Annotated[int | None, About(example=590000)]
    stock: int | None
    version: Annotated[int, About("How many events the product has had.")]
    is_changed: Annotated[bool, About("A part changed since the last event.")]
    minishop_hash: str | None
    detail_hash: str | None
    option_hash: str | None
    missing_runs: Annotated[int, About("Complete lists in a row without the product.")]
    last_seen_at: datetime | None
    last_seen_execution: str | None
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None
    product_data: Annotated[
        Mapping[str, Any] | None,
        About("Of the last event. In a list only with `updatedSince`, else null.", shape="ProductData"),
    ]


def product_fields(
    product: Product, data: Mapping[str, Any], product_data: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the fields of a `ProductView` from a product and its productData, which is shown whole if given again."""
    fields, prices = shared_fields(ProductView, product), data.get("prices") or {}
    last = {"name": data.get("name"), "selling_price": prices.get("selling"), "stock": data.get("stock")}
    return fields | last | {"product_data": product_data}


@dataclass(frozen=True)
class ProductEventView(View):
    """An event about the product."""

    outbox_id: str
    event_type: Annotated[str, About(example="PRODUCT_UPDATED")]
    version: int
    status: MessageStatus
    retry_count: Annotated[int, About("Failed deliveries so far.")]
    held_by: Annotated[str | None, About("The failed event of the product that this one waits for.")]
    error_message: str | None
    created_at: datetime
    sent_at: datetime | None

    @classmethod
    def of(cls, message: Message, held_by: str | None) -> ProductEventView:
        return cls(held_by=held_by, **shared_fields(cls, message))


@dataclass(frozen=True)
class HeldPartView(View):
    """A newer part that is held: it is not in the catalogue."""

    item_no: int
    part: Annotated[PartType, About(example="DETAIL")]
    status: HeldStatus
    case_id: Annotated[str | None, About("The quarantine case; null while its run is still being checked.")]
    execution_id: str
    hash: str
    held_since: datetime

    @classmethod
    def of(cls, held: HeldPart) -> HeldPartView:
        return cls(held_since=held.created_at, **shared_fields(cls, held))


@dataclass(frozen=True)
class StoredPartView(View):
    """The newest stored body of a part, without the body."""

    part: PartName
    hash: str
    stored_at: datetime


@dataclass(frozen=True)
class StoredBodyView(StoredPartView):
    """A body as the marketplace answered it: its JSON, or text where it is no JSON."""

    body: Any

    @classmethod
    def of(cls, stored: StoredBody) -> StoredBodyView:
        return cls(NAMES[stored.part], stored.digest, stored.created_at, _json_or_text(stored.body))


@dataclass(frozen=True)
class StoredBodiesView(View):
    """Stored bodies of a product, by part, newest first."""

    item_no: int
    content: Sequence[StoredBodyView]


@dataclass(frozen=True)
class ProductDetailView(ProductView):
    """A product with everything about it."""

    product_data: Annotated[
        Mapping[str, Any] | None,
        About("From the stored bodies; with a `problem`, or deleted: of the last event.", shape="ProductData"),
    ]
    problem: Annotated[str | None, About("Why the parser of this version cannot read a stored body.")]
    last_event: ProductEventView | None
    held: Sequence[HeldPartView]
    seller_name: str | None
    events: Annotated[Sequence[ProductEventView], About("The last events, newest first.")]
    stored_parts: Sequence[StoredPartView]


@dataclass(frozen=True)
class ChangeView(View):
    """One field with its value before and after."""

    field: Annotated[str, About(example="prices.selling")]
    kind: Annotated[ChangeKind, About(example="price")]
    before: Annotated[Any, About(example=600000)]
    after: Annotated[Any, About(example=590000)]

    @classmethod
    def of(cls, change: Change) -> ChangeView:
        return cls(change.field, change.kind, change.before, change.after)


@dataclass(frozen=True)
class HistoryEntryView(View):
    """One state of a product, as its differences from the state before. Without an `outboxId` it has no event."""

    at: datetime
    event_type: ProductEvent
    version: int
    execution_id: str | None
    outbox_id: str | None
    changes: Sequence[ChangeView]

    @classmethod
    def of(cls, entry: HistoryEntry) -> HistoryEntryView:
        return cls(
            at=entry.created_at,
            event_type=entry.event,
            version=entry.version,
            execution_id=entry.execution_id,
            outbox_id=entry.outbox_id,
            changes=[ChangeView.of(change) for change in entry.changes],
        )


@dataclass(frozen=True)
class ProductHistoryView(View):
    """The states of a product, oldest first."""

    item_no: int
    state: ProductState
    content: Sequence[HistoryEntryView]


@dataclass(frozen=True)
class ProductDiffView(View):
    """The differences between two versions of a product."""

    item_no: int
    state: ProductState
    from_version: int
    to_version: int
    changes: Sequence[ChangeView]


def _json_or_text(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return body.decode("utf-8", "replace")
