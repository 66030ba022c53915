"""What changed, by kind: the entries of the feed, and what a run found.

An entry of the history is several changes: one for each field, and one without a field for a product that is new or
gone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sellerwatch.catalog.differences import Change, ChangeKind
from sellerwatch.catalog.product import ProductEvent
from sellerwatch.kernel.errors import Invalid
from sellerwatch.kernel.ids import ExecutionId, ItemNo, SellerId

_WHOLE = {ProductEvent.CREATED: ChangeKind.NEW, ProductEvent.DELETED: ChangeKind.GONE}


def kinds_and_fields(event: ProductEvent, changes: Iterable[Change]) -> list[tuple[ChangeKind, str | None]]:
    """Return the kind and the field of each change in an entry of the history."""
    whole = _WHOLE.get(event)
    return [(change.kind, change.field) for change in changes] if whole is None else [(whole, None)]


@dataclass(frozen=True, slots=True)
class ListedChange:
    """A change as the feed lists it. Products that are new or gone have no field and no values."""

    item_no: ItemNo
    name: str | None
    seller_id: SellerId
    kind: ChangeKind
    field: str | None
    before: Any
    after: Any
    at: datetime
    execution_id: ExecutionId | None


@dataclass(frozen=True, slots=True)
class ChangeFilter:
    """Which changes: those from `since` on and before `until`."""

    seller_id: SellerId | None = None
    kinds: Collection[ChangeKind] = ()
    item_no: ItemNo | None = None
    execution_id: ExecutionId | None = None
    since: datetime | None = None
    until: datetime | None = None


class FoundKind(StrEnum):
    """What a run found a product to be. Products that are new in a run are not counted as changed too."""

    NEW = "new"
    CHANGED = "changed"
    GONE = "gone"
    UNCHANGED = "unchanged"


@dataclass(eq=False)
class RunNeeded(Invalid):
    """What a run found was asked for, and no run was named."""

    found: str


@dataclass(frozen=True, slots=True)
class FoundFilter:
    """The products that a run found to be of a kind. Unchanged ones are known until a later run lists them."""

    execution_id: ExecutionId
    kind: FoundKind

    @classmethod
    def of(cls, execution_id: ExecutionId | None, kind: FoundKind | None) -> FoundFilter | None:
        """Return what was asked for; of a run without a kind, its changed products."""
        if execution_id is None:
            if kind is not None:
                raise RunNeeded(found=kind)
            return None
        return cls(execution_id, kind or FoundKind.CHANGED)


@dataclass(frozen=True, slots=True)
class FoundProducts:
    """Products of a run: announced as new, as changed, as gone, and read whole without a difference."""

    new: int = 0
    changed: int = 0
    gone: int = 0
    unchanged: int = 0
