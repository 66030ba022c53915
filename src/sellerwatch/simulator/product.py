"""A product of the simulated marketplace, and the productData that a product server should end up with.

A `SimulatedProduct` holds what the marketplace would have in its tables, blank fields included. `truth` returns the
productData expected for it. It is written from event.md alone and shares no code with the crawler's parser, so that the
two can catch each other's mistakes.
"""

import re
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from sellerwatch.simulator.random_text import random_html
from sellerwatch.simulator.rng import seeded_rng
from sellerwatch.simulator.words import PARAGRAPHS

_WHOLE_NUMBER = re.compile(r"[0-9]+")


@dataclass(frozen=True, slots=True)
class SimulatedBrand:
    code: int
    name: str
    name_kr: str | None


@dataclass(frozen=True, slots=True)
class SimulatedCategory:
    level: str
    code: str
    name: str


@dataclass(frozen=True, slots=True)
class SimulatedPrices:
    """The customer pays `discount`; the list shows it as `price`."""

    normal: int
    selling: int
    discount: int

    @property
    def rate(self) -> int:
        """Percent off the normal price, rounded down as shops do."""
        return (self.normal - self.discount) * 100 // self.normal if self.normal else 0


@dataclass(frozen=True, slots=True)
class DeliveryDay:
    text: str
    focus_text: str


@dataclass(frozen=True, slots=True)
class SimulatedShipping:
    type: str
    fee: int
    fee_type: str
    location: str
    delivery_day: DeliveryDay | None


@dataclass(frozen=True, slots=True)
class SimulatedOption:
    option_no: int
    color: str | None
    size: str | None
    stock: int
    size_guide: str | None


@dataclass(frozen=True, slots=True)
class Description:
    """A description by its recipe: the text is generated from `key` when it is needed.

    Descriptions are nine tenths of a product; stored as text, 200,000 products would need 3 GB.
    """

    key: str
    size: int
    """About how many bytes of UTF-8 the text has."""
    is_random: bool = False
    """Random words that no other product has, instead of paragraphs that many have."""

    def html(self) -> str:
        rng = seeded_rng(self.key)
        opening = f"<h2>{self.key}</h2>"
        if self.is_random:
            return opening + random_html(rng, self.size - len(opening))
        blocks, average = _blocks()
        return opening + "".join(rng.choices(blocks, k=max(1, (self.size - len(opening)) // average)))


@cache
def _blocks() -> tuple[tuple[str, ...], int]:
    """Return a few hundred distinct paragraphs, and their mean size in bytes."""
    blocks = tuple(text.replace("{n}", str(n)) for n in range(1000, 1032) for text in PARAGRAPHS)
    return blocks, sum(len(block.encode()) for block in blocks) // len(blocks)


@dataclass(frozen=True, slots=True)
class SimulatedProduct:
    """Everything about one product at one moment. `revision` rises with each change: renderings are cached by it."""

    item_no: int
    seller_id: str
    seller_no: int
    name: str
    brand: SimulatedBrand
    categories: tuple[SimulatedCategory, ...]
    prices: SimulatedPrices
    stock: int
    sold_out: bool
    item_status: str | None
    origin_country: str | None
    shipping: SimulatedShipping
    list_images: tuple[str, ...]
    detail_images: tuple[str, ...]
    description: Description
    options: tuple[SimulatedOption, ...]
    tags: tuple[str, ...]
    revision: int = 0

    @property
    def list_name(self) -> str:
        """The name on the list. For every tenth product it differs from the detail's, which counts."""
        return self.name if self.item_no % 10 else f"{self.brand.name} {self.name[:30]}"

    def with_options(self, options: tuple[SimulatedOption, ...]) -> "SimulatedProduct":
        """Return the product with these options and the sum of their stock."""
        stock = sum(option.stock for option in options)
        return replace(self, options=options, stock=stock, sold_out=stock == 0)


def truth(product: SimulatedProduct) -> dict[str, Any]:
    """Return the `productData` of event.md for this product."""
    return {
        "itemNo": product.item_no,
        "sellerId": product.seller_id,
        "name": product.name,
        "brand": {
            "code": product.brand.code,
            "name": product.brand.name,
            "nameKr": product.brand.name_kr or None,
        },
        "categories": [{"level": c.level, "code": c.code, "name": c.name} for c in product.categories],
        "prices": {
            "normal": product.prices.normal,
            "selling": product.prices.selling,
            "discount": product.prices.discount,
            "rate": product.prices.rate,
        },
        "stock": product.stock,
        "soldOut": product.sold_out,
        "itemStatus": product.item_status or None,
        "originCountry": product.origin_country or None,
        "shipping": {
            "type": product.shipping.type,
            "fee": product.shipping.fee,
            "feeType": product.shipping.fee_type,
            "averageDays": _average_days(product.shipping.delivery_day),
        },
        "images": list(dict.fromkeys(product.list_images + product.detail_images)),
        "descriptionHtml": product.description.html(),
        "options": [_option_truth(option) for option in sorted(product.options, key=lambda option: option.option_no)],
        "tags": list(product.tags),
    }


def _option_truth(option: SimulatedOption) -> dict[str, Any]:
    return {
        "optionNo": option.option_no,
        "color": option.color or "",
        "size": option.size or "",
        "stock": option.stock,
        "sizeGuide": option.size_guide or None,
    }


def _average_days(day: DeliveryDay | None) -> int | None:
    if day is None:
        return None
    found = _WHOLE_NUMBER.search(day.focus_text) or _WHOLE_NUMBER.search(day.text)
    return int(found.group()) if found else None
