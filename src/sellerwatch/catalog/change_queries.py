"""The feed of changes: what changed, by seller, product, kind and time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from sellerwatch.catalog.changes import ChangeFilter, ListedChange
from sellerwatch.catalog.differences import ChangeKind
from sellerwatch.catalog.ports import CatalogTx
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.paging import decode_cursor, page_view
from sellerwatch.kernel.views import About, CursorPageView, View
from sellerwatch.sellers.queries import require_seller

CHANGES = "changes"


@dataclass(frozen=True)
class ListedChangeView(View):
    """A change of a product. `field`, `before` and `after` are null for a product that is new or gone."""

    item_no: Annotated[int, About(example=900000001)]
    name: str | None
    seller_id: Annotated[str, About(example="seller_12345")]
    kind: Annotated[ChangeKind, About(example="price")]
    field: Annotated[str | None, About(example="prices.selling")]
    before: Annotated[Any, About(example=600000)]
    after: Annotated[Any, About(example=590000)]
    at: Annotated[datetime, About("When it was found.")]
    execution_id: Annotated[str | None, About("The run that found it.")]

    @classmethod
    def of(cls, change: ListedChange) -> ListedChangeView:
        return cls(**{name: getattr(change, name) for name in cls.__dataclass_fields__})


def list_changes(
    tx: CatalogTx, _: OperationContext, choice: ChangeFilter, cursor: str | None, size: int
) -> CursorPageView[ListedChangeView]:
    """List changes, newest first. A page may be short and not the last: only `next: null` is the end."""
    require_seller(tx, choice.seller_id)
    page = tx.changes.page(choice, decode_cursor(CHANGES, cursor), size)
    return page_view(CHANGES, page, ListedChangeView.of)
