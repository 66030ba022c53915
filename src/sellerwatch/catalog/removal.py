"""Removals: a product is deleted only on proof, and many at once only after an operator has confirmed it.

When a run has read the complete list of its seller, the detail of each missing product is requested once more. A 404
proves the deletion, and so does a second complete list without the product. If more products are missing than
`RemovalRules` allows, they are held as one removal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from sellerwatch.kernel.errors import NotFound
from sellerwatch.kernel.ids import ExecutionId, RemovalId, SellerId
from sellerwatch.kernel.lifecycle import Lifecycle

#: Complete lists in a row without a product that prove its deletion, whatever its detail says.
LISTS_WITHOUT = 2


class RemovalReason(StrEnum):
    MANY = "MANY"
    EMPTY_LIST = "EMPTY_LIST"


class RemovalStatus(StrEnum):
    HELD = "HELD"
    CONFIRMED = "CONFIRMED"
    REFUSED = "REFUSED"
    SUPERSEDED = "SUPERSEDED"


REMOVAL_LIFE = Lifecycle(
    noun="removal",
    first=RemovalStatus.HELD,
    moves={
        (RemovalStatus.HELD, "confirm"): RemovalStatus.CONFIRMED,
        (RemovalStatus.HELD, "refuse"): RemovalStatus.REFUSED,
        (RemovalStatus.HELD, "supersede"): RemovalStatus.SUPERSEDED,
    },
    resting=frozenset({RemovalStatus.CONFIRMED, RemovalStatus.REFUSED, RemovalStatus.SUPERSEDED}),
)


@dataclass(eq=False)
class RemovalNotFound(NotFound):
    removal_id: str


@dataclass(frozen=True, slots=True)
class RemovalRules:
    """More than `share` percent of a seller's products and more than `products` of them need an operator's decision."""

    share: int = 20
    products: int = 10

    def holds(self, missing: int, told: int, listed: int) -> RemovalReason | None:
        if listed == 0 and missing:
            return RemovalReason.EMPTY_LIST
        many = missing > self.products and missing * 100 > told * self.share
        return RemovalReason.MANY if many else None


@dataclass(frozen=True)
class Removal:
    """Missing products of a seller, held for a decision: those not seen since `unseen_since`. A product that is listed
    again is no longer part of it. `told` counts the seller's products that had an event."""

    removal_id: RemovalId
    seller_id: SellerId
    execution_id: ExecutionId
    reason: RemovalReason
    told: int
    missing: int
    unseen_since: datetime
    created_at: datetime
    status: RemovalStatus = REMOVAL_LIFE.first
    decided_at: datetime | None = None
    decided_by: str | None = None

    def decide(self, verb: str, by: str, now: datetime) -> Removal:
        return replace(
            self, status=REMOVAL_LIFE.after(self.status, verb, self.removal_id), decided_at=now, decided_by=by
        )
