"""The three parts of a product as facts: just the fields that productData is made of, typed and normalised.

A parser picks them as typed values; from then on a part is what it `NormalizedPart` in the shape of the wire.

What is not a fact is no change: view counts, positions and other volatile fields never reach this module, because a
marketplace's parser picks facts and leaves the rest. `null`, `""` and absent follow one rule (spec, decisions): text
that is always there is `""` when missing, optional text is None.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import orjson

from sellerwatch.kernel.fast_values import quick
from sellerwatch.kernel.ids import ItemNo, SellerId

#: Salts the hashes of bodies: raise it when the parser reads more or other facts from the same body, and every body is
#: read once more.
PARSER_VERSION = b"1:"

_option_no = attrgetter("option_no")


@quick
@dataclass(frozen=True, slots=True)
class ListFacts:
    """A product's own entry on a list page. Names and prices come from the detail, so that no change lacks a field."""

    item_no: ItemNo
    images: tuple[str, ...]
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Brand:
    code: int | None
    name: str
    name_kr: str | None


@dataclass(frozen=True, slots=True)
class Category:
    level: str
    code: str
    name: str


@quick
@dataclass(frozen=True, slots=True)
class Prices:
    normal: int
    selling: int
    discount: int
    rate: int


@dataclass(frozen=True, slots=True)
class Shipping:
    type: str
    fee: int
    fee_type: str
    average_days: int | None


@quick
@dataclass(frozen=True, slots=True)
class DetailFacts:
    item_no: ItemNo
    seller_id: SellerId
    name: str
    brand: Brand
    categories: tuple[Category, ...]
    prices: Prices
    stock: int
    sold_out: bool
    item_status: str | None
    origin_country: str | None
    shipping: Shipping | None
    images: tuple[str, ...]
    description_html: str


@quick
@dataclass(frozen=True, slots=True)
class Option:
    option_no: int
    color: str
    size: str
    stock: int
    size_guide: str | None


@quick
@dataclass(frozen=True, slots=True)
class OptionFacts:
    """Sorted by option number: their order on the wire means nothing."""

    options: tuple[Option, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", tuple(sorted(self.options, key=_option_no)))


Facts = ListFacts | DetailFacts | OptionFacts


@quick
@dataclass(frozen=True, slots=True)
class NormalizedPart:
    """What one part says of the product, as JSON in the shape of the wire: written once, while its facts are at hand,
    then digested, compared and told as it is.

    Two parts have images (options have none), which are told as one list: so these stand apart, `head` comes before
    them and `tail` behind. Of a detail, also what the product is called and whose it is.
    """

    head: bytes
    images: tuple[str, ...] | None
    tail: bytes
    name: str = ""
    owner: SellerId | None = None

    @classmethod
    def of(cls, facts: Facts) -> NormalizedPart:
        if isinstance(facts, ListFacts):
            return cls(b"", facts.images, _members({"tags": facts.tags}))
        if isinstance(facts, OptionFacts):
            return cls(b"", None, _members(_options_data(facts)))
        tail = _members({"descriptionHtml": facts.description_html})
        return cls(_members(_detail_data(facts)), facts.images, tail, facts.name, facts.seller_id)

    @property
    def digest(self) -> str:
        """MD5 over the canonical form. Not a secret: it only has to differ when the facts do."""
        return hashlib.md5(self._text, usedforsecurity=False).hexdigest()

    def read(self) -> dict[str, Any]:
        data: dict[str, Any] = orjson.loads(self._text)
        return data

    @property
    def _text(self) -> bytes:
        images = b"" if self.images is None else b'"images":%b' % orjson.dumps(self.images)
        return b"{%b}" % b",".join(filter(None, (self.head, images, self.tail)))


def body_hash(body: bytes) -> str:
    """An equal body read by the same parser has equal facts: then it need not be read.

    Processors have had SHA-1 built in for years: it takes half of what MD5 does, without them as much. 128 bits of it.
    """
    return hashlib.sha1(PARSER_VERSION + body, usedforsecurity=False).hexdigest()[:32]


def product_json(listed: NormalizedPart, detail: NormalizedPart, options: NormalizedPart) -> bytes:
    """The one normalised product, in the shape and order of the wire (spec, event): put together from what its parts
    said, with nothing written again but the images."""
    images = orjson.dumps(list(dict.fromkeys((*(listed.images or ()), *(detail.images or ())))))
    return b'{%b,"images":%b,%b,%b,%b}' % (detail.head, images, detail.tail, options.tail, listed.tail)


def _members(data: Mapping[str, Any]) -> bytes:
    """An object's members without what is around them."""
    return orjson.dumps(data)[1:-1]


def _options_data(facts: OptionFacts) -> dict[str, Any]:
    return {
        "options": [
            {"optionNo": o.option_no, "color": o.color, "size": o.size, "stock": o.stock, "sizeGuide": o.size_guide}
            for o in facts.options
        ]
    }


def _detail_data(detail: DetailFacts) -> dict[str, Any]:
    """What comes before the images."""
    shipping = detail.shipping
    return {
        "itemNo": detail.item_no,
        "sellerId": detail.seller_id,
        "name": detail.name,
        "brand": {"code": detail.brand.code, "name": detail.brand.name, "nameKr": detail.brand.name_kr},
        "categories": [{"level": c.level, "code": c.code, "name": c.name} for c in detail.categories],
        "prices": {
            "normal": detail.prices.normal,
            "selling": detail.prices.selling,
            "discount": detail.prices.discount,
            "rate": detail.prices.rate,
        },
        "stock": detail.stock,
        "soldOut": detail.sold_out,
        "itemStatus": detail.item_status,
        "originCountry": detail.origin_country,
        "shipping": None
        if shipping is None
        else {
            "type": shipping.type,
            "fee": shipping.fee,
            "feeType": shipping.fee_type,
            "averageDays": shipping.average_days,
        },
    }


#: A product of which nothing is known: where its history begins.
BLANK: Mapping[str, Any] = {
    **dict.fromkeys(("itemNo", "sellerId", "name", "brand", "categories", "prices", "stock", "soldOut", "itemStatus")),
    **dict.fromkeys(("originCountry", "shipping", "images", "descriptionHtml")),
    "options": [],
    "tags": None,
}
