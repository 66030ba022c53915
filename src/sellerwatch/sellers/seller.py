"""A seller of the marketplace that we keep in step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Self

from sellerwatch.kernel.errors import Conflict, Invalid, NotFound
from sellerwatch.kernel.ids import SellerId
from sellerwatch.kernel.lifecycle import Lifecycle
from sellerwatch.schedules.interval import CrawlingInterval


class SellerStatus(StrEnum):
    ACTIVE = "ACTIVE"
    INACTIVE = "INACTIVE"
    ARCHIVED = "ARCHIVED"


SELLER_LIFE = Lifecycle(
    noun="seller",
    first=SellerStatus.ACTIVE,
    moves={
        (SellerStatus.ACTIVE, "deactivate"): SellerStatus.INACTIVE,
        (SellerStatus.INACTIVE, "activate"): SellerStatus.ACTIVE,
        (SellerStatus.ACTIVE, "update_interval"): SellerStatus.ACTIVE,
        (SellerStatus.ACTIVE, "archive"): SellerStatus.ARCHIVED,
        (SellerStatus.INACTIVE, "archive"): SellerStatus.ARCHIVED,
        (SellerStatus.ARCHIVED, "activate"): SellerStatus.ACTIVE,
    },
    resting=frozenset({SellerStatus.INACTIVE, SellerStatus.ARCHIVED}),
)

LONGEST_NAME = 200


@dataclass(eq=False)
class SellerNotFound(NotFound):
    seller_id: str


@dataclass(eq=False)
class SellerExists(Conflict):
    seller_id: str


@dataclass(eq=False)
class SellerInactive(Conflict):
    """An INACTIVE seller is not crawled."""

    seller_id: str


@dataclass(eq=False)
class InvalidSellerName(Invalid):
    longest: int


@dataclass(eq=False)
class InvalidProductCount(Invalid):
    given: int


@dataclass(frozen=True)
class Seller:
    """Who is crawled and how often. INACTIVE and ARCHIVED: not crawled, and its schedule is INACTIVE with it.

    ARCHIVED: it was removed with its products; lists leave it out unless it is asked for.
    """

    seller_id: SellerId
    name: str
    interval: CrawlingInterval
    status: SellerStatus
    total_product_count: int
    created_at: datetime
    updated_at: datetime

    @classmethod
    def register(cls, seller_id: SellerId, name: str, interval: CrawlingInterval | None, now: datetime) -> Self:
        trimmed = name.strip()
        if not trimmed or len(trimmed) > LONGEST_NAME:
            raise InvalidSellerName(longest=LONGEST_NAME)
        return cls(
            seller_id=SellerId.parse_new(seller_id),
            name=trimmed,
            interval=interval or CrawlingInterval.of_days(1),
            status=SELLER_LIFE.first,
            total_product_count=0,
            created_at=now,
            updated_at=now,
        )

    @property
    def expression(self) -> str:
        """Return its interval as the papers write it: `rate(1 day)`."""
        return self.interval.expression

    @property
    def crawling_interval_days(self) -> int | None:
        return self.interval.days

    @property
    def is_active(self) -> bool:
        return self.status is SellerStatus.ACTIVE

    def must_be_active(self) -> None:
        if not self.is_active:
            raise SellerInactive(seller_id=self.seller_id)

    def update_interval(self, interval: CrawlingInterval, now: datetime) -> Seller:
        status = SELLER_LIFE.after(self.status, "update_interval", self.seller_id)
        return replace(self, status=status, interval=interval, updated_at=now)

    def activate(self, now: datetime) -> Seller:
        return replace(self, status=SELLER_LIFE.after(self.status, "activate", self.seller_id), updated_at=now)

    def deactivate(self, now: datetime) -> Seller:
        return replace(self, status=SELLER_LIFE.after(self.status, "deactivate", self.seller_id), updated_at=now)

    def archive(self, now: datetime) -> Seller:
        return replace(self, status=SELLER_LIFE.after(self.status, "archive", self.seller_id), updated_at=now)

    def update_total_product_count(self, count: int, now: datetime) -> Seller:
        if count < 0:
            raise InvalidProductCount(given=count)
        return replace(self, total_product_count=count, updated_at=now)
