"""The three parts of a product as facts: the fields that productData is made of, typed and normalised.

A parser picks the facts of a body as typed values; a `NormalizedPart` holds them as the JSON that events carry, which
`product_data.py` describes.

Only facts can change: view counts, positions and other volatile fields never reach this module, because the parser of a
marketplace leaves them out. `null`, `""` and absent follow one rule: required text is `""` when missing, optional text
is None.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import orjson
from msgspec import Struct, to_builtins

from sellerwatch.catalog.product_data import ProductData
from sellerwatch.kernel.ids import ItemNo, SellerId

#: Salt of the hashes of bodies. Raise it when the parser reads other facts from the same body: every body is then read
#: again.
PARSER_VERSION = b"1:"

_option_no = attrgetter("option_no")


class ListFacts(Struct, frozen=True, rename="camel"):
    """The entry of a product on a list page. Names and prices come from the detail, so that both change together."""

    item_no: ItemNo
    images: tuple[str, ...]
    tags: tuple[str, ...]


class Brand(Struct, frozen=True, rename="camel"):
    code: int | None
    name: str
    name_kr: str | None


class Category(Struct, frozen=True, rename="camel"):
    level: str
    code: str
    name: str


class Prices(Struct, frozen=True, rename="camel"):
    normal: int
    selling: int
    discount: int
    rate: int


class Shipping(Struct, frozen=True, rename="camel"):
    type: str
    fee: int
    fee_type: str
    average_days: int | None


class DetailFacts(Struct, frozen=True, rename="camel"):
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


class Option(Struct, frozen=True, rename="camel"):
    option_no: int
    color: str
    size: str
    stock: int
    size_guide: str | None


@dataclass(frozen=True, slots=True)
class OptionFacts:
    """The options sorted by number: the order in which they arrive means nothing."""

    options: tuple[Option, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", tuple(sorted(self.options, key=_option_no)))


Facts = ListFacts | DetailFacts | OptionFacts


class NormalizedPart(Struct, frozen=True):
    """The facts of one part as the JSON that events carry: written once, then hashed, compared and sent as it is.

    List entries and details both have images, which productData joins in one list. So the images are kept apart: `head`
    comes before them, `tail` after them. A detail also has the name and the owner of the product.
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
            return cls(b"", None, _members({"options": to_builtins(facts.options)}))
        # Its fields are those of productData, in the same order.
        data = to_builtins(facts)
        del data["images"]
        tail = _members({"descriptionHtml": data.pop("descriptionHtml")})
        return cls(_members(data), facts.images, tail, facts.name, facts.seller_id)

    @property
    def digest(self) -> str:
        """MD5 over the JSON. It protects nothing: it only has to differ when the facts differ."""
        return hashlib.md5(self._text, usedforsecurity=False).hexdigest()

    def read(self) -> dict[str, Any]:
        data: dict[str, Any] = orjson.loads(self._text)
        return data

    @property
    def _text(self) -> bytes:
        images = b"" if self.images is None else b'"images":%b' % orjson.dumps(self.images)
        return b"{%b}" % b",".join(filter(None, (self.head, images, self.tail)))


def body_hash(body: bytes) -> str:
    """Return the hash of a body. A body with an equal hash need not be read: the same parser finds the same facts.

    SHA-1, cut to 128 bits: processors with instructions for it need half the time of MD5, others the same.
    """
    return hashlib.sha1(PARSER_VERSION + body, usedforsecurity=False).hexdigest()[:32]


def product_json(listed: NormalizedPart, detail: NormalizedPart, options: NormalizedPart) -> bytes:
    """Return productData as JSON, put together from its parts. Only the images are serialised again."""
    images = orjson.dumps(list(dict.fromkeys((*(listed.images or ()), *(detail.images or ())))))
    return b'{%b,"images":%b,%b,%b,%b}' % (detail.head, images, detail.tail, options.tail, listed.tail)


def _members(data: Mapping[str, Any]) -> bytes:
    """Return the members of a JSON object without its braces."""
    return orjson.dumps(data)[1:-1]


#: The empty product with which a history begins.
BLANK: Mapping[str, Any] = {**dict.fromkeys(ProductData.__annotations__), "options": []}
