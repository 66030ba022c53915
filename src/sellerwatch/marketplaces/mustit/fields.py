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
class Typed:
    """An array of `{"type": ..., "data": ...}`; each type has its own fields."""

    types: Mapping[str, Shape | None]


Shape = Mapping[str, "Shape | Typed | None"]
"""Field names, each with what is known inside it; None: its inside does not matter. Arrays are looked through."""


def _names(names: str) -> dict[str, Shape | Typed | None]:
    return dict.fromkeys(names.split())


_INFO = _names(
    "sellerNo sellerId itemNo itemName brandName brandNameKr brandCode headerCategoryCode headerCategory"
    " largeCategoryCode largeCategory mediumCategoryCode mediumCategory smallCategoryCode smallCategory"
    " normalPrice sellingPrice discountPrice discountRate stock isSoldOut"
)
_SHIPPING = _names("shippingType shippingFee shippingFeeType") | {"averageDeliveryDay": _names("text focusText")}
_MODULES: dict[str, Shape | None] = {
    BANNERS: _names("images timesales"),
    INFO: _INFO,
    SHIPPING: {"items": Typed({"SHIPPING": _SHIPPING})},
    DETAIL_INFO: _names("itemNo itemStatus originCountry shippingLocation descriptionMarkUp"),
    "TabListModule": None,
    "LazyComponent": None,
    **dict.fromkeys(name for name in VOLATILE[DETAIL] if name.endswith("Module")),
}
_ENTRY = _names(
    "itemNo name brandName imageUrlList landingUrl price originalPrice normalPrice discountRate appPrice"
    " appDiscountRate tagList"
) | dict.fromkeys(VOLATILE[LIST])

KNOWN: Mapping[str, Shape] = {
    LIST: _names("count indexName groupResult") | {"items": _ENTRY},
    DETAIL: {"moduleList": Typed(_MODULES), "bottom": None, "nextApiUrl": None},
    OPTIONS: _names("optionNo itemNo color size shippingType stock sizeGuide"),
}


#: Stands for a field that the contract does not have; None is one that it has and whose inside does not matter.
_NOT_THERE: Shape = {}


def unknown_fields(endpoint: str, value: Any) -> tuple[str, ...]:
    """Return the paths in a decoded answer that the contract does not have: `items[].newField`,
    `moduleList[].NewModule`.

    Sorted, each once. Any value may be passed: a wrong type is the parser's concern.
    """
    return tuple(sorted(set(_unknown(KNOWN[endpoint], value, ""))))


def _unknown(shape: Shape | Typed, value: Any, place: str) -> Iterator[str]:
    if isinstance(value, list):
        place = f"{place}[]"
        for each in value:
            yield from _unknown(shape, each, place)
    elif isinstance(value, dict):
        known, fields = (shape.types, _by_type(value)) if isinstance(shape, Typed) else (shape, value)
        for name, inside in fields.items():
            deeper = known.get(name, _NOT_THERE)
            if deeper is not None:
                path = f"{place}.{name}" if place else name
                yield from (path,) if deeper is _NOT_THERE else _unknown(deeper, inside, path)


def _by_type(module: Mapping[str, Any]) -> Mapping[str, Any]:
    return {str(module.get("type")): module.get("data")}
