"""A seller: registered, renamed never, crawled while ACTIVE."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.builders import LATER, NOW, SELLER, a_seller

from sellerwatch.kernel.errors import Conflict, IllegalMove, Invalid
from sellerwatch.schedules.interval import CrawlingInterval
from sellerwatch.sellers.seller import (
    InvalidProductCount,
    InvalidSellerName,
    Seller,
    SellerExists,
    SellerInactive,
    SellerStatus,
)

WEEKLY = CrawlingInterval.of_days(7)


def test_a_registered_seller_is_active_and_has_no_products_yet() -> None:
    seller = Seller.register(SELLER, "Stone Shop", WEEKLY, NOW)
    assert seller == Seller(
        seller_id=SELLER,
        name="Stone Shop",
        interval=WEEKLY,
        status=SellerStatus.ACTIVE,
        total_product_count=0,
        created_at=NOW,
        updated_at=NOW,
    )
    assert seller.is_active


def test_a_seller_is_crawled_daily_unless_something_else_is_said() -> None:
    seller = Seller.register(SELLER, "Stone Shop", None, NOW)
    assert seller.interval == CrawlingInterval.of_days(1)
    assert seller.crawling_interval_days == 1


def test_an_hourly_seller_has_no_interval_in_days() -> None:
    assert a_seller(interval=CrawlingInterval.of_hours(6)).crawling_interval_days is None


def test_a_name_is_trimmed() -> None:
    assert Seller.register(SELLER, "  Stone Shop ", None, NOW).name == "Stone Shop"


@pytest.mark.parametrize("name", ["x", "스톤", "x" * 200, " " * 300 + "x"])
def test_a_name_has_1_to_200_characters(name: str) -> None:
    assert Seller.register(SELLER, name, None, NOW).name == name.strip()


@pytest.mark.parametrize("name", ["", "   ", "\n", "x" * 201])
def test_a_blank_or_overlong_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidSellerName) as refusal:
        Seller.register(SELLER, name, None, NOW)
    assert isinstance(refusal.value, Invalid)
    assert refusal.value.code == "INVALID_SELLER_NAME"
    assert refusal.value.facts == {"longest": 200}
    assert str(refusal.value) == "A seller's name must be 1 to 200 characters."


def test_update_interval_changes_the_interval_and_moves_updated_at() -> None:
    changed = a_seller().update_interval(WEEKLY, LATER)
    assert (changed.interval, changed.updated_at, changed.created_at) == (WEEKLY, LATER, NOW)
    assert changed.crawling_interval_days == 7


def test_deactivate_and_activate_move_updated_at() -> None:
    gone = a_seller().deactivate(LATER)
    assert (gone.status, gone.updated_at) == (SellerStatus.INACTIVE, LATER)
    back = gone.activate(LATER + (LATER - NOW))
    assert (back.status, back.updated_at) == (SellerStatus.ACTIVE, LATER + (LATER - NOW))


@pytest.mark.parametrize(
    ("status", "verb", "act", "sentence"),
    [
        (
            SellerStatus.ACTIVE,
            "activate",
            lambda s: s.activate(LATER),
            "The seller seller_12345 is ACTIVE; to activate it must be INACTIVE or ARCHIVED.",
        ),
        (
            SellerStatus.INACTIVE,
            "deactivate",
            lambda s: s.deactivate(LATER),
            "The seller seller_12345 is INACTIVE; to deactivate it must be ACTIVE.",
        ),
        (
            SellerStatus.INACTIVE,
            "update_interval",
            lambda s: s.update_interval(WEEKLY, LATER),
            None,
        ),
    ],
)
def test_what_is_there_already_or_not_allowed_is_refused(
    status: SellerStatus, verb: str, act: Callable[[Seller], Seller], sentence: str | None
) -> None:
    seller = a_seller(status=status)
    with pytest.raises(IllegalMove) as refusal:
        act(seller)
    assert refusal.value.verb == verb
    assert sentence is None or str(refusal.value) == sentence
    assert seller == a_seller(status=status)


@pytest.mark.parametrize("count", [0, 1, 52_345])
def test_update_total_product_count_moves_updated_at(count: int) -> None:
    counted = a_seller().update_total_product_count(count, LATER)
    assert (counted.total_product_count, counted.updated_at) == (count, LATER)


def test_an_inactive_seller_can_still_be_counted() -> None:
    assert a_seller(status=SellerStatus.INACTIVE).update_total_product_count(3, LATER).total_product_count == 3


def test_a_negative_product_count_is_refused() -> None:
    with pytest.raises(InvalidProductCount) as refusal:
        a_seller().update_total_product_count(-1, LATER)
    assert refusal.value.facts == {"given": -1}
    assert str(refusal.value) == "A product count cannot be negative (-1)."


def test_an_inactive_seller_is_not_crawled() -> None:
    a_seller().must_be_active()
    with pytest.raises(SellerInactive) as refusal:
        a_seller(status=SellerStatus.INACTIVE).must_be_active()
    assert isinstance(refusal.value, Conflict)
    assert refusal.value.code == "SELLER_INACTIVE"
    assert str(refusal.value) == "The seller seller_12345 is INACTIVE and is not crawled; activate it first."


def test_a_second_seller_of_the_same_id_is_a_conflict() -> None:
    error = SellerExists(seller_id=SELLER)
    assert isinstance(error, Conflict)
    assert str(error) == "The seller seller_12345 is already registered."
