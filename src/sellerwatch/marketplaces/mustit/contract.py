"""The fields of Mustit's answers that are read, as types: what is required, what may be null or absent.

Other fields are left out, whatever they contain; `fields.py` has all names of the contract. Nothing is coerced: `"3"`
is no number and `true` is no 1. A shop that changes its types has changed their meaning, and guessing would send wrong
products on.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

LARGEST = 2**63 - 1
SMALLEST = -(2**63)

#: Any whole number of 64 bits, sign included.
Whole = Annotated[int, Meta(ge=SMALLEST, le=LARGEST)]
#: A number that identifies something.
Positive = Annotated[int, Meta(ge=1, le=LARGEST)]
#: Null is the empty text. A field without a default has to be there: if it is not, the answer was redesigned.
Text = str | None


class PageBody(Struct, frozen=True):
    count: Whole
    items: list[Any]


class TagBody(Struct, frozen=True):
    title: Text


class EntryBody(Struct, frozen=True, rename="camel"):
    item_no: Positive
    #: No fact, the detail's name counts; but an entry without one is not the contract's.
    name: Text
    image_url_list: list[str] | None = None
    tag_list: list[TagBody] | None = None


class ModuleBody(Struct, frozen=True):
    """A module of a detail. The data of those that are not read may be anything: some have an array."""

    type: str
    data: Any = UNSET


class DetailBody(Struct, frozen=True, rename="camel"):
    module_list: list[ModuleBody]


class InfoModule(Struct, frozen=True, rename="camel"):
    item_no: Positive
    seller_id: Text
    item_name: Text
    normal_price: Whole
    selling_price: Whole
    discount_price: Whole
    discount_rate: Whole
    stock: Whole
    is_sold_out: bool
    brand_name: Text = None
    brand_name_kr: Text = None
    brand_code: Whole | None = None
    header_category_code: Text = None
    header_category: Text = None
    large_category_code: Text = None
    large_category: Text = None
    medium_category_code: Text = None
    medium_category: Text = None
    small_category_code: Text = None
    small_category: Text = None


class BannersModule(Struct, frozen=True):
    images: list[str] | None = None


class DetailInfoModule(Struct, frozen=True, rename="camel"):
    item_no: Positive | UnsetType = UNSET
    item_status: Text = None
    origin_country: Text = None
    description_mark_up: Text = None


class ShippingModule(Struct, frozen=True):
    items: list[Any] | None = None


class ShippingItem(Struct, frozen=True):
    type: Any = None
    data: Any = UNSET


class AverageDay(Struct, frozen=True, rename="camel"):
    focus_text: Text = None
    text: Text = None


class ShippingBody(Struct, frozen=True, rename="camel"):
    shipping_fee: Whole
    shipping_type: Text = None
    shipping_fee_type: Text = None
    average_delivery_day: AverageDay | None = None


class OptionBody(Struct, frozen=True, rename="camel"):
    option_no: Positive
    item_no: Positive
    stock: Whole
    color: Text = None
    size: Text = None
    size_guide: Text = None
