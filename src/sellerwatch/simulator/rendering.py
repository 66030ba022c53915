"""Bodies of the marketplace's three endpoints, as bytes.

The simulator must never be the bottleneck of a benchmark: the expensive stable pieces of a product are encoded once per
revision and kept, and the volatile ones are put between them on each call.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from sellerwatch.simulator import words
from sellerwatch.simulator.product import SimulatedOption, SimulatedProduct
from sellerwatch.simulator.recent import LruCache
from sellerwatch.simulator.rng import seeded_rng

_CACHE_BYTES = 256 * 1024 * 1024
_ORDERS = 64
_LIKE_IMAGE = "https://static.example.test/like"
_SPACINGS = ("odd", "even")

_GROUPS = orjson.dumps(
    {
        "brandGroupResult": [{"brandCode": b.code, "brandName": b.name} for b in words.BRANDS[:5]],
        "headerCategoryGroupResult": [{"code": code, "name": name} for code, name in words.HEADERS],
        "colorGroupResult": [],
    }
)
_PAGE = b'{"count":%d,"indexName":"item-search-v3","groupResult":' + _GROUPS + b',"items":[%b]}'

_SELLER = b'{"type":"SellerModule","data":{"sellerNo":%d,"reviewCount":%d,"likeCount":%d,"satisfaction":%d}}'
_CATALOG = b'{"type":"CatalogModule","data":{"catalogNo":%d,"lowestPrice":%d,"items":[{"sellerNo":%d,"price":"%d"}]}}'
_PROMOTION = b'{"type":"PromotionBannerModule","data":[{"bannerNo":%d,"imageUrl":"https://static.example.test/promotion/%d.png"}]}'
_NON_MEMBER = b'{"type":"NonMemberBannerModule","data":{"bannerNo":%d,"text":"Join now, %d KRW off"}}'
_BENEFIT = b'{"type":"PurchaseBenefitModule","data":{"point":%d,"cards":[{"cardNo":%d,"discount":%d}]}}'
_DETAIL = (
    b'{"moduleList":[%b],"bottom":{"likeCount":%d,"isLike":%b},"nextApiUrl":"/v1/item/%d/detail/bottom?requestId=%d"}'
)
_LAZY = b'{"type":"LazyComponent","data":{"componentName":"RecommendItems","height":480}}'
_TABS = orjson.dumps({"type": "TabListModule", "data": [{"title": "상품정보"}, {"title": "리뷰"}, {"title": "문의"}]})
_MODULES = 11
_INFO_START = b'{"type":"ProductInfoModule"'


@dataclass(frozen=True, slots=True)
class Redesign:
    """A redesign of ProductInfoModule by the shop: fields renamed, and numbers that became text."""

    renamed: dict[str, str] = field(default_factory=lambda: {"itemName": "productTitle", "sellingPrice": "salePrice"})
    as_text: tuple[str, ...] = ("stock",)

    def apply(self, info: dict[str, Any]) -> dict[str, Any]:
        return {
            self.renamed.get(name, name): str(value) if name in self.as_text else value for name, value in info.items()
        }


def without_module(detail: bytes, name: str = "ProductInfoModule") -> bytes:
    """Return a detail's body without its module of this type."""
    read = orjson.loads(detail)
    read["moduleList"] = [module for module in read["moduleList"] if module["type"] != name]
    return orjson.dumps(read)


class Renderer:
    """Renders products, with volatile fields varying on each call, or (`volatile=False`) constant.

    Without volatility equal facts give equal bytes: a benchmark of unchanged recrawls needs that. A like, a banner or a
    review count is drawn from `seed` in the order of the calls, so the same calls give the same bytes in any process.
    """

    def __init__(self, seed: int | str = 0, volatile: bool = True, cache_bytes: int = _CACHE_BYTES) -> None:
        self._volatile = volatile
        self._rng = seeded_rng(seed, "rendering")
        self._pieces: LruCache[tuple[str, int], tuple[int, tuple[bytes, ...]]] = LruCache(cache_bytes)
        self._orders = [self._rng.sample(range(_MODULES), _MODULES) for _ in range(_ORDERS)]
        self._redesign: Redesign | None = None
        self._redesigned: Collection[str] | None = None

    def redesign(self, redesign: Redesign | None, sellers: Collection[str] | None = None) -> None:
        """Redesign the details of these sellers (None: all); without a redesign, undo it."""
        self._redesign = redesign
        self._redesigned = sellers
        self._pieces.clear()

    def list_page(self, count: int, products: Sequence[SimulatedProduct]) -> bytes:
        """Return a page with these products, of a seller that has `count` of them."""
        entries = [self._entry(product) for product in products]
        if not self._volatile:
            tail = _like(False, 0, _SPACINGS[0])
            return _PAGE % (count, b",".join([entry + tail for entry in entries]))
        bits = self._rng.getrandbits
        tails = [_like(not bits(4), bits(8), _SPACINGS[at % 2]) for at in range(len(entries))]
        return _PAGE % (count, b",".join(map(bytes.__add__, entries, tails)))

    def detail(self, product: SimulatedProduct, *, without_info: bool = False) -> bytes:
        """Return the detail, its modules in varying order; `without_info` leaves its ProductInfoModule out."""
        stable = self._stable_modules(product)
        no = product.item_no
        if without_info:
            kept = [module for module in stable if not module.startswith(_INFO_START)]
            return _DETAIL % (b",".join(kept), 0, b"false", no, 0)
        if not self._volatile:
            return _DETAIL % (b",".join(stable + _volatile_modules(product, 0)), 0, b"false", no, 0)
        rng = self._rng.getrandbits(30)
        modules = stable + _volatile_modules(product, rng)
        order = self._orders[rng % _ORDERS]
        body = b",".join([modules[at] for at in order])
        return _DETAIL % (body, rng % 977, b"false" if rng % 9 else b"true", no, rng)

    def options(self, product: SimulatedProduct) -> bytes:
        """Return the options as a bare array, in varying order."""
        pieces = self._option_pieces(product)
        if self._volatile and len(pieces) > 1:
            pieces = tuple(self._rng.sample(pieces, len(pieces)))
        return b"[%b]" % b",".join(pieces)

    def keep_all(self) -> None:
        """Keep every encoded piece: the memory of all bodies."""
        self._pieces.keep_all()

    def prepare(self, product: SimulatedProduct) -> None:
        """Encode the stable pieces of a product before the first request for it."""
        self._entry(product)
        self._stable_modules(product)
        self._option_pieces(product)

    def _entry(self, product: SimulatedProduct) -> bytes:
        kept = self._pieces.get(("entry", product.item_no))
        if kept is not None and kept[0] == product.revision:
            return kept[1][0]
        return self._keep("entry", product, (orjson.dumps(_list_entry(product))[:-1],))[0]

    def _stable_modules(self, product: SimulatedProduct) -> tuple[bytes, ...]:
        kept = self._pieces.get(("detail", product.item_no))
        if kept is not None and kept[0] == product.revision:
            return kept[1]
        info = _info(product)
        if self._redesign and (self._redesigned is None or product.seller_id in self._redesigned):
            info = self._redesign.apply(info)
        modules = (_banners(product), _module("ProductInfoModule", info), _shipping(product), _detail_info(product))
        return self._keep("detail", product, (*map(_encoded, modules), _TABS, _LAZY))

    def _option_pieces(self, product: SimulatedProduct) -> tuple[bytes, ...]:
        kept = self._pieces.get(("options", product.item_no))
        if kept is not None and kept[0] == product.revision:
            return kept[1]
        pieces = tuple(_encoded(_option(product, option)) for option in product.options)
        return self._keep("options", product, pieces)

    def _keep(self, kind: str, product: SimulatedProduct, pieces: tuple[bytes, ...]) -> tuple[bytes, ...]:
        self._pieces.put((kind, product.item_no), (product.revision, pieces), sum(map(len, pieces)) + 256)
        return pieces


def _like(liked: bool, version: int, spacing: str) -> bytes:
    """Return the volatile end of a list entry."""
    return b',"likeStatus":%b,"likeImageUrl":"%b/%d.png","webSpacingInfo":"%b"}' % (
        b"true" if liked else b"false",
        _LIKE_IMAGE.encode(),
        version,
        spacing.encode(),
    )


def _volatile_modules(product: SimulatedProduct, rng: int) -> tuple[bytes, ...]:
    """Return the modules that are not about the product itself; 30 bits of `rng` vary all of them."""
    price = product.prices.discount
    return (
        _SELLER % (product.seller_no, rng % 99_991, rng % 997, 90 + rng % 11),
        _CATALOG % (product.item_no % 7919, price + rng % 50_021, rng % 613, price + rng % 70_001),
        _PROMOTION % (rng % 89, rng % 1009),
        _NON_MEMBER % (rng % 83, 1_000 + rng % 9_001),
        _BENEFIT % (rng % 10_007, rng % 13, rng % 15_013),
    )


def _list_entry(product: SimulatedProduct) -> dict[str, Any]:
    """Return a list entry without its volatile end. Prices are text with thousands commas."""
    prices = product.prices
    return {
        "itemNo": product.item_no,
        "name": product.list_name,
        "brandName": product.brand.name,
        "imageUrlList": product.list_images,
        "landingUrl": f"https://m.example.test/product/product_detail/{product.item_no}",
        "price": f"{prices.discount:,}",
        "originalPrice": f"{prices.normal:,}",
        "normalPrice": f"{prices.normal:,}",
        "discountRate": str(prices.rate),
        "appPrice": f"{prices.discount:,}",
        "appDiscountRate": str(prices.rate),
        "tagList": [{"title": tag, "textColor": "#888888", "backgroundColor": "#f5f5f5"} for tag in product.tags],
    }


def _encoded(value: object) -> bytes:
    """Return JSON to keep. It is copied, because orjson's bytes hold a buffer several times their size."""
    return memoryview(orjson.dumps(value)).tobytes()


def _module(kind: str, data: object) -> dict[str, Any]:
    return {"type": kind, "data": data}


def _banners(product: SimulatedProduct) -> dict[str, Any]:
    return _module("ProductBannersModule", {"images": product.detail_images, "timesales": []})


def _info(product: SimulatedProduct) -> dict[str, Any]:
    prices = product.prices
    info: dict[str, Any] = {
        "sellerNo": product.seller_no,
        "sellerId": product.seller_id,
        "itemNo": product.item_no,
        "itemName": product.name,
        "brandName": product.brand.name,
        **_optional(product, "brandNameKr", product.brand.name_kr),
        "brandCode": product.brand.code,
    }
    for category in product.categories:
        info[f"{category.level}CategoryCode"] = category.code
        info[f"{category.level}Category"] = category.name
    return info | {
        "normalPrice": prices.normal,
        "sellingPrice": prices.selling,
        "discountPrice": prices.discount,
        "discountRate": prices.rate,
        "stock": product.stock,
        "isSoldOut": product.sold_out,
    }


def _shipping(product: SimulatedProduct) -> dict[str, Any]:
    shipping = product.shipping
    data: dict[str, Any] = {
        "shippingType": shipping.type,
        "shippingFee": shipping.fee,
        "shippingFeeType": shipping.fee_type,
    }
    day = shipping.delivery_day
    if day is not None:
        data["averageDeliveryDay"] = {"text": day.text, "focusText": day.focus_text}
    return _module("ShippingModule", {"items": [_module("SHIPPING", data)]})


def _detail_info(product: SimulatedProduct) -> dict[str, Any]:
    data = {
        "itemNo": product.item_no,
        **_optional(product, "itemStatus", product.item_status),
        **_optional(product, "originCountry", product.origin_country),
        "shippingLocation": product.shipping.location,
        "descriptionMarkUp": product.description.html(),
    }
    return _module("ProductDetailInfoModule", data)


def _option(product: SimulatedProduct, option: SimulatedOption) -> dict[str, Any]:
    return {
        "optionNo": option.option_no,
        "itemNo": product.item_no,
        "color": option.color,
        "size": option.size,
        "shippingType": "NONE",
        "stock": option.stock,
        "sizeGuide": option.size_guide,
    }


def _optional(product: SimulatedProduct, name: str, value: str | None) -> dict[str, str | None]:
    """Return a field of optional text. An empty one is null, "" or left out, depending on the product."""
    if value:
        return {name: value}
    blanks: tuple[dict[str, str | None], ...] = ({name: None}, {name: ""}, {})
    return blanks[product.item_no % len(blanks)]
