"""A product of a seller: which of its parts were seen, its events, and whether it was deleted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Self

from msgspec import Struct, structs

from sellerwatch.kernel.errors import Conflict, NotFound
from sellerwatch.kernel.ids import ExecutionId, ItemNo, ProductId, SellerId
from sellerwatch.kernel.lifecycle import Lifecycle


class PartType(StrEnum):
    """The parts of a product, one for each endpoint of the marketplace."""

    MINISHOP = "MINISHOP"
    DETAIL = "DETAIL"
    OPTION = "OPTION"


class ProductState(StrEnum):
    """Derived from the three hashes and `deleted_at`; never stored."""

    INCOMPLETE = "INCOMPLETE"
    COMPLETE = "COMPLETE"
    DELETED = "DELETED"


PRODUCT_LIFE = Lifecycle(
    noun="product",
    first=ProductState.INCOMPLETE,
    moves={
        (ProductState.INCOMPLETE, "see_part"): ProductState.INCOMPLETE,
        (ProductState.INCOMPLETE, "complete"): ProductState.COMPLETE,
        (ProductState.COMPLETE, "see_part"): ProductState.COMPLETE,
        (ProductState.COMPLETE, "delete"): ProductState.DELETED,
        (ProductState.INCOMPLETE, "archive"): ProductState.DELETED,
        (ProductState.COMPLETE, "archive"): ProductState.DELETED,
        (ProductState.DELETED, "see_part"): ProductState.DELETED,
        (ProductState.DELETED, "return"): ProductState.COMPLETE,
        (ProductState.COMPLETE, "send_snapshot"): ProductState.COMPLETE,
        (ProductState.DELETED, "send_snapshot"): ProductState.DELETED,
    },
    resting=frozenset({ProductState.DELETED}),
)


class ProductEvent(StrEnum):
    CREATED = "PRODUCT_CREATED"
    UPDATED = "PRODUCT_UPDATED"
    DELETED = "PRODUCT_DELETED"
    SNAPSHOT = "PRODUCT_SNAPSHOT"


@dataclass(eq=False)
class ProductNotFound(NotFound):
    product: str


@dataclass(eq=False)
class ForeignProduct(Conflict):
    """An item that belongs to another seller: it stays with its owner."""

    item_no: int
    seller_id: str
    owner: str


@dataclass(eq=False)
class EventOutOfOrder(Conflict):
    """An event that the state of the product does not allow: it would say something untrue."""

    item_no: int
    event: str
    state: str
    version: int


def has_changed(old: str | None, new: str | None) -> bool:
    """Return whether two hashes differ. Two absent hashes are equal."""
    return old != new


#: Characters of a name that are kept for searching.
LONGEST_NAME = 255


class Product(Struct, frozen=True):
    """A product is complete once all three parts have been seen. `version` counts its events, across deletions.

    `is_changed`: a part changed since the last event, so that event is out of date.
    """

    product_id: ProductId
    item_no: ItemNo
    seller_id: SellerId
    created_at: datetime
    updated_at: datetime
    minishop_hash: str | None = None
    detail_hash: str | None = None
    option_hash: str | None = None
    is_changed: bool = False
    version: int = 0
    missing_runs: int = 0
    last_seen_at: datetime | None = None
    last_seen_execution: ExecutionId | None = None
    deleted_at: datetime | None = None
    name: str | None = None

    @classmethod
    def create(cls, product_id: ProductId, item_no: ItemNo, seller_id: SellerId, now: datetime) -> Self:
        return cls(product_id=product_id, item_no=item_no, seller_id=seller_id, created_at=now, updated_at=now)

    @property
    def is_complete(self) -> bool:
        return None not in (self.minishop_hash, self.detail_hash, self.option_hash)

    @property
    def is_deleted(self) -> bool:
        return self.deleted_at is not None

    @property
    def state(self) -> ProductState:
        if self.is_deleted:
            return ProductState.DELETED
        return ProductState.COMPLETE if self.is_complete else ProductState.INCOMPLETE

    def hash_of(self, part: PartType) -> str | None:
        if part is PartType.MINISHOP:
            return self.minishop_hash
        return self.detail_hash if part is PartType.DETAIL else self.option_hash

    def see_part(self, part: PartType, digest: str, now: datetime) -> tuple[Product, bool]:
        """Return the product with the hash of this part, and whether the hash is new."""
        if not has_changed(self.hash_of(part), digest):
            return self, False
        if part is PartType.MINISHOP:
            return structs.replace(self, minishop_hash=digest, is_changed=True, updated_at=now), True
        if part is PartType.DETAIL:
            return structs.replace(self, detail_hash=digest, is_changed=True, updated_at=now), True
        return structs.replace(self, option_hash=digest, is_changed=True, updated_at=now), True

    def be_listed(self, execution_id: ExecutionId, now: datetime) -> Product:
        """Return the product as listed in this run: it is not missing, whatever earlier runs lacked."""
        return structs.replace(self, last_seen_at=now, last_seen_execution=execution_id, missing_runs=0)

    def belong_to(self, owner: SellerId, now: datetime) -> Product:
        """Return the product with the owner that its detail names. Until then the seller that lists it is the owner."""
        return self if owner == self.seller_id else structs.replace(self, seller_id=owner, updated_at=now)

    def with_name(self, name: str) -> Product:
        """Return the product with the name of its event, by which it can be searched."""
        return self if self.name == name[:LONGEST_NAME] else structs.replace(self, name=name[:LONGEST_NAME])

    def due_event(self) -> ProductEvent | None:
        """Return the event that is due; None for an incomplete product and where nothing changed."""
        if not self.is_complete:
            return None
        if self.version == 0 or self.is_deleted:
            return ProductEvent.CREATED
        return ProductEvent.UPDATED if self.is_changed else None

    def mark_unchanged(self, now: datetime) -> Product:
        """Return the product as equal to its last event: it changed back, or was merged into it."""
        return structs.replace(self, is_changed=False, updated_at=now)

    def withdraw_event(self, now: datetime) -> Product:
        """Return the product without its last event, which was never sent: its version is free again."""
        if self.version < 2:
            raise EventOutOfOrder(self.item_no, "withdrawing an event", self.state, self.version)
        return structs.replace(self, version=self.version - 1, is_changed=False, updated_at=now)

    def announce(self, event: ProductEvent, now: datetime, floor: int = 0) -> Product:
        """Return the product after one more event. Its version is above `floor`, by which versions of before a restore
        are passed over."""
        creates = event is ProductEvent.CREATED
        if event is ProductEvent.SNAPSHOT or not self.is_complete or creates != (self.version == 0 or self.is_deleted):
            raise EventOutOfOrder(self.item_no, event, self.state, self.version)
        fields = {"version": max(self.version, floor) + 1, "is_changed": False, "updated_at": now}
        if event is ProductEvent.DELETED:
            # Without hashes a product that comes back is incomplete until all its parts were read again.
            return structs.replace(
                self, deleted_at=now, minishop_hash=None, detail_hash=None, option_hash=None, **fields
            )
        return structs.replace(self, deleted_at=None, missing_runs=0, **fields)

    def archive(self, now: datetime) -> Product:
        """Return the product as deleted without an event: its seller was removed, and the receiver is not told."""
        PRODUCT_LIFE.after(self.state, "archive", self.item_no)
        return structs.replace(
            self,
            deleted_at=now,
            minishop_hash=None,
            detail_hash=None,
            option_hash=None,
            is_changed=False,
            updated_at=now,
        )

    def send_snapshot(self, now: datetime, floor: int = 0) -> Product:
        """Return the product after a snapshot of it: one event more, and nothing else. What changed since the last
        event and is not announced yet is announced as before."""
        if self.version == 0:
            raise EventOutOfOrder(self.item_no, ProductEvent.SNAPSHOT, self.state, self.version)
        return structs.replace(self, version=max(self.version, floor) + 1, updated_at=now)

    def miss(self, now: datetime) -> Product:
        """Return the product as missing from one more complete list."""
        return structs.replace(self, missing_runs=self.missing_runs + 1, updated_at=now)


class PartName(StrEnum):
    """The names of the parts in commands and URLs."""

    LIST = "list"
    DETAIL = "detail"
    OPTIONS = "options"


PARTS = {PartName.LIST: PartType.MINISHOP, PartName.DETAIL: PartType.DETAIL, PartName.OPTIONS: PartType.OPTION}
NAMES = {part: name for name, part in PARTS.items()}


@dataclass(eq=False)
class BodyNotFound(NotFound):
    """A body that was never stored, or whose retention time is over."""

    item_no: int
    part: str
    kept: int
