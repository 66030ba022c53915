"""The fields in Mustit's answers: which are volatile, and which the contract has.

Facts are picked by name, so neither list decides what a product is. `VOLATILE` lists what must never be a fact; a test
checks the parser against it. `unknown_fields` finds what the contract does not have, for the drift report: a redesign
shows there first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sellerwatch.marketplaces.mustit.parse import BANNERS, DETAIL, DETAIL_INFO, INFO, LIST, OPTIONS, SHIPPING

VOLATILE: Mapping[str, tuple[str, ...]] = {
    LIST: ("webSpacingInfo", "likeStatus", "likeImageUrl"),
    DETAIL: (
        "SellerModule",
        "CatalogModule",
        "PromotionBannerModule",
        "NonMemberBannerModule",
        "PurchaseBenefitModule",
        "bottom",
        "nextApiUrl",
    ),
    OPTIONS: (),
}
"""By endpoint: fields of a list entry; modules and top-level fields of a detail. They change without the product."""


@dataclass(frozen=True, slots=True)
class Fields:
    """The names of an object's fields, and of some of them what is known inside. Arrays are looked through. `by_type`:
    the object is `{"type": ..., "data": ...}`, and the names are those of the types."""

    names: frozenset[str]
    inside: Mapping[str, Fields]
    by_type: bool = False


def _fields(*names: str, by_type: bool = False, **inside: Fields) -> Fields:
    return Fields(frozenset(" ".join((*names, *inside)).split()), inside, by_type)


_INFO = _fields(
    "sellerNo sellerId itemNo itemName brandName brandNameKr brandCode headerCategoryCode headerCategory"
    " largeCategoryCode largeCategory mediumCategoryCode mediumCategory smallCategoryCode smallCategory"
    " normalPrice sellingPrice discountPrice discountRate stock isSoldOut"
)
_SHIPPING = _fields("shippingType shippingFee shippingFeeType", averageDeliveryDay=_fields("text focusText"))
_MODULES = _fields(
    "TabListModule LazyComponent",
    *(name for name in VOLATILE[DETAIL] if name.endswith("Module")),
    by_type=True,
    **{
        BANNERS: _fields("images timesales"),
        INFO: _INFO,
        SHIPPING: _fields(items=_fields(by_type=True, SHIPPING=_SHIPPING)),
        DETAIL_INFO: _fields("itemNo itemStatus originCountry shippingLocation descriptionMarkUp"),
    },
)
_ENTRY = _fields(
    "itemNo name brandName imageUrlList landingUrl price originalPrice normalPrice discountRate appPrice"
    " appDiscountRate tagList",
    *VOLATILE[LIST],
)

KNOWN: Mapping[str, Fields] = {
    LIST: _fields("count indexName groupResult", items=_ENTRY),
    DETAIL: _fields("bottom nextApiUrl", moduleList=_MODULES),
    OPTIONS: _fields("optionNo itemNo color size shippingType stock sizeGuide"),
}


def unknown_fields(endpoint: str, value: Any) -> tuple[str, ...]:
    """Return the paths in a decoded answer that the contract does not have: `items[].newField`,
    `moduleList[].NewModule`.

    Sorted, each once. Any value may be passed: a wrong type is the parser's concern.
    """
    return tuple(sorted(set(_unknown(KNOWN[endpoint], value, ""))))


def _unknown(known: Fields, value: Any, place: str) -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            yield from _unknown(known, each, f"{place}[]")
    elif isinstance(value, dict):
        fields = {str(value.get("type")): value.get("data")} if known.by_type else value
        path = f"{place}." if place else ""
        for name in fields.keys() - known.names:
            yield f"{path}{name}"
        for name in fields.keys() & known.inside.keys():
            yield from _unknown(known.inside[name], fields[name], f"{path}{name}")
