"""productData: the product in an event, with the meaning of each field.

These types describe the JSON as it goes over the wire. `facts.py` makes it, and the type checker holds it to them. The
schemas of events, `docs/events.md` and OpenAPI are generated from here. A field that is removed or gets another type
needs a new `SCHEMA_VERSION`.
"""

from __future__ import annotations

from typing import Annotated, TypedDict

from sellerwatch.kernel.views import About


class BrandData(TypedDict):
    """The brand of a product."""

    code: Annotated[int | None, About("The marketplace's number of the brand.", 133, null="if it gives none")]
    name: Annotated[str, About("Its name in Latin letters; empty if the marketplace gives none.", "STONE ISLAND")]
    nameKr: Annotated[str | None, About("Its name in Korean.", "스톤아일랜드", null="if the marketplace gives none")]


class CategoryData(TypedDict):
    """One level of the category that a product is in."""

    level: Annotated[str, About("`header`, `large`, `medium` or `small`, the widest first.", "large")]
    code: Annotated[str, About("The marketplace's code of the category; may be empty.", "15")]
    name: Annotated[str, About("Its name; may be empty.", "의류")]


class PricesData(TypedDict):
    """The prices of a product."""

    normal: Annotated[int, About("The price before any discount.", 1075000, "won")]
    selling: Annotated[int, About("The seller's price.", 600000, "won")]
    discount: Annotated[int, About("The price after the marketplace's discount.", 545600, "won")]
    rate: Annotated[int, About("The discount that the marketplace shows.", 49, "percent")]


class ShippingData(TypedDict):
    """How a product is shipped."""

    type: Annotated[str, About("The marketplace's word for where it is shipped from.", "DOMESTIC")]
    fee: Annotated[int, About("The shipping fee; 0 is free.", 0, "won")]
    feeType: Annotated[str, About("The marketplace's word for who pays when.", "FREE")]
    averageDays: Annotated[
        int | None, About("How long delivery takes.", 1, "days", "if the marketplace gives no number")
    ]


class OptionData(TypedDict):
    """One variant of a product that can be bought."""

    optionNo: Annotated[int, About("The marketplace's number of the option; needs 64 bits.", 4134224619)]
    color: Annotated[str, About("Its colour; may be empty.", "")]
    size: Annotated[str, About("Its size; may be empty.", "US 4")]
    stock: Annotated[int, About("How many can be bought.", 1, "pieces")]
    sizeGuide: Annotated[str | None, About("The seller's words on its size.", "어깨 45cm", null="if there are none")]


class DetailData(TypedDict):
    """The fields of productData that come before the images."""

    itemNo: Annotated[int, About("The marketplace's number of the product: it identifies the product.", 900000001)]
    sellerId: Annotated[str, About("The seller who sells it.", "seller_12345")]
    name: Annotated[str, About("The product's name.", "울 코트")]
    brand: Annotated[BrandData, About("The brand.")]
    categories: Annotated[list[CategoryData], About("The levels that the product has, the widest first.")]
    prices: Annotated[PricesData, About("The prices.")]
    stock: Annotated[int, About("How many can be bought in all.", 3, "pieces")]
    soldOut: Annotated[bool, About("Whether the marketplace shows it as sold out.", False)]
    itemStatus: Annotated[str | None, About("Its condition.", "새상품", null="if the marketplace gives none")]
    originCountry: Annotated[str | None, About("Where it was made.", "이탈리아", null="if the marketplace gives none")]
    shipping: Annotated[ShippingData | None, About("How it is shipped.", null="if the marketplace does not say")]


class ProductData(DetailData):
    """A whole product."""

    images: Annotated[
        list[str],
        About("Addresses of the images, as the marketplace gives them: the list's, then the detail's, each once."),
    ]
    descriptionHtml: Annotated[str, About("The seller's description as HTML; do not trust it.", "<p>cotton</p>")]
    options: Annotated[list[OptionData], About("The options by `optionNo`; empty if there are none.")]
    tags: Annotated[list[str], About("The labels that the marketplace's list shows, in its order.")]
