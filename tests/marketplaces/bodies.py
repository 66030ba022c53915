"""The contract's own examples as Python values, for tests to break in one place at a time."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from sellerwatch.catalog.ports import Unparsable
from sellerwatch.kernel.ids import ItemNo

ITEM_NO = 900000001
ITEM = ItemNo(ITEM_NO)
DROP: Any = object()
"""As a new value: take the field away."""
BLANKS = [None, "", DROP]


def an_entry(number: int = ITEM_NO) -> dict[str, Any]:
    return {
        "itemNo": number,
        "name": "반팔 티셔츠",
        "brandName": "STONE ISLAND",
        "imageUrlList": ["https://img.example/1.jpg", "https://img.example/2.jpg"],
        "landingUrl": "https://m.example/1",
        "price": "545,600",
        "originalPrice": "1,075,000",
        "normalPrice": "1,075,000",
        "discountRate": "49",
        "appPrice": "545,600",
        "appDiscountRate": "49",
        "tagList": [{"title": "무료배송", "textColor": "#888888"}, {"title": "sale", "textColor": "#888888"}],
        "likeStatus": False,
        "likeImageUrl": "https://img.example/like.png",
        "webSpacingInfo": "odd",
    }


def a_page(*entries: Any) -> dict[str, Any]:
    return {"count": 3464, "indexName": "i", "groupResult": {"brandGroupResult": []}, "items": list(entries)}


def a_detail() -> dict[str, Any]:
    info = {
        "sellerNo": 678,
        "sellerId": "seller_12345",
        "itemNo": ITEM_NO,
        "itemName": "반팔 티셔츠",
        "brandName": "STONE ISLAND",
        "brandNameKr": "스톤아일랜드",
        "brandCode": 133,
        "headerCategoryCode": "M",
        "headerCategory": "남성",
        "largeCategoryCode": "15",
        "largeCategory": "의류",
        "mediumCategoryCode": "15r02",
        "mediumCategory": "상의",
        "smallCategoryCode": "15r02s01",
        "smallCategory": "티셔츠",
        "normalPrice": 1075000,
        "sellingPrice": 600000,
        "discountPrice": 545600,
        "discountRate": 49,
        "stock": 3,
        "isSoldOut": False,
    }
    shipping = {
        "shippingType": "DOMESTIC",
        "shippingFee": 0,
        "shippingFeeType": "FREE",
        "averageDeliveryDay": {"text": "평균 3일 이내 발송", "focusText": "1일"},
    }
    more = {
        "itemNo": ITEM_NO,
        "itemStatus": "새상품",
        "originCountry": "이탈리아",
        "shippingLocation": "서울",
        "descriptionMarkUp": "<p>cotton</p>",
    }
    modules: list[Any] = [
        {"type": "ProductBannersModule", "data": {"images": ["https://img.example/1.jpg"], "timesales": []}},
        {"type": "ProductInfoModule", "data": info},
        {"type": "ShippingModule", "data": {"items": [{"type": "SHIPPING", "data": shipping}]}},
        {"type": "ProductDetailInfoModule", "data": more},
        {"type": "SellerModule", "data": {"reviewCount": 12}},
        {"type": "PromotionBannerModule", "data": [{"bannerNo": 1}]},
        {"type": "LazyComponent", "data": {}},
    ]
    return {"moduleList": modules, "bottom": {"likeCount": 0, "isLike": False}, "nextApiUrl": "/v1/item/900000001"}


def an_option(number: int = 4134224619) -> dict[str, Any]:
    return {
        "optionNo": number,
        "itemNo": ITEM_NO,
        "color": "",
        "size": "US 4",
        "shippingType": "NONE",
        "stock": 1,
        "sizeGuide": None,
    }


BANNERS, INFO, SHIPPING, DETAIL_INFO = (("moduleList", at, "data") for at in range(4))
SHIPPING_DATA = (*SHIPPING, "items", 0, "data")
DAY = (*SHIPPING_DATA, "averageDeliveryDay")


def changed(value: Any, path: tuple[str | int, ...], new: Any) -> Any:
    """`value` with what stands at `path` replaced, or taken away."""
    *parents, last = path
    at = value
    for step in parents:
        at = at[step]
    if new is DROP:
        del at[last]
    else:
        at[last] = new
    return value


def encoded(value: Any) -> bytes:
    return value if isinstance(value, bytes) else orjson.dumps(value)


def why_not(read: Any, *given: Any) -> str:
    """Endpoint and problem of the refusal that must come."""
    with pytest.raises(Unparsable) as refused:
        read(*given)
    return f"{refused.value.endpoint}: {refused.value.problem}"
