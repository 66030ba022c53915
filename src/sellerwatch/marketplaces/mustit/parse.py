"""Mustit's three answers as facts. Pure: bytes in, facts out, or `Unparsable` with the field and the problem.

Only what productData is made of is picked, so a volatile field cannot become a change (`fields.py` lists them). The
contract says what is required, and what null, "" and absent mean:

- a list entry needs itemNo and name; a detail needs ProductInfoModule with its names and numbers; an option needs
  optionNo, itemNo and stock. Other modules may be missing: their facts are then blank.
- an answer about another item than the requested one is refused: stored, it would overwrite the right one.
- a list's total and the number of its entries are bounded: tasks are made of them.
- a duplicate of what must be unique (a module, an optionNo) is refused: the order means nothing, so choosing one of the
  two would turn a new order into a change.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import orjson

from sellerwatch.catalog.facts import (
    Brand,
    Category,
    DetailFacts,
    ListFacts,
    Option,
    OptionFacts,
    Prices,
    Shipping,
)
from sellerwatch.catalog.ports import Unparsable
from sellerwatch.kernel.ids import InvalidSellerId, ItemNo, SellerId
from sellerwatch.marketplaces.mustit.json_values import (
    InvalidValue,
    Json,
    UnrelatedAnswer,
    array,
    as_array,
    as_object,
    decode,
    inner,
    optional_text,
    optional_whole,
    positive,
    required_text,
    text,
    texts,
    truth,
    whole,
)
from sellerwatch.marketplaces.ports import ListEntry, ListPage

#: Default of the setting MAX_LIST_TOTAL.
MAX_LIST_TOTAL = 1_000_000

LIST = "list"
DETAIL = "detail"
OPTIONS = "options"

BANNERS = "ProductBannersModule"
INFO = "ProductInfoModule"
SHIPPING = "ShippingModule"
DETAIL_INFO = "ProductDetailInfoModule"
MODULES_READ = frozenset({BANNERS, INFO, SHIPPING, DETAIL_INFO})

_LEVELS = tuple((level, f"{level}CategoryCode", f"{level}Category") for level in ("header", "large", "medium", "small"))
_WHOLE_NUMBER = re.compile(r"[0-9]+")
_MOST_DIGITS = 18
_NOTHING: Json = {}

# A shop has few brands, categories and ways of shipping: looking one up costs a quarter of making it again.
_same_brand = lru_cache(1024)(Brand)
_same_category = lru_cache(4096)(Category)
_same_shipping = lru_cache(1024)(Shipping)
_same_seller = lru_cache(1024)(SellerId.parse)


def read_list(body: bytes, size: int, most: int = MAX_LIST_TOTAL) -> ListPage:
    """Read a list page that was requested with at most `size` entries. Of duplicate products the first counts.

    A total above `most` and a page with more entries than requested are refused: both decide how many tasks a run gets.
    """
    entries: dict[int, ListEntry] = {}
    try:
        page = as_object(decode(body))
        total = whole(page, "count")
        if total < 0:
            raise InvalidValue("count", "NEGATIVE", value=total)
        if total > most:
            raise InvalidValue("count", "ABOVE_MOST", value=total, most=most)
        items = array(page, "items")
        if len(items) > size:
            raise InvalidValue("items", "TOO_MANY_ENTRIES", entries=len(items), asked=size)
        for index, value in enumerate(items):
            try:
                facts = _entry(value)
                if facts.item_no not in entries:
                    entries[facts.item_no] = ListEntry(facts, _raw(value))
            except InvalidValue as wrong:
                raise wrong.under(f"items[{index}]") from None
    except InvalidValue as wrong:
        raise _unparsable(LIST, wrong) from None
    return ListPage(total, tuple(entries.values()))


def read_entry(raw: bytes) -> ListFacts:
    """Read one product's entry, as `ListEntry.raw` stores it."""
    try:
        return _entry(decode(raw))
    except InvalidValue as wrong:
        raise _unparsable(LIST, wrong) from None


def read_detail(body: bytes, item_no: ItemNo) -> DetailFacts:
    """Read the detail of `item_no`; its modules may come in any order."""
    try:
        modules = _modules(as_object(decode(body)))
        info, more = modules.get(INFO), modules.get(DETAIL_INFO, _NOTHING)
        if info is None:
            raise InvalidValue(INFO, "MISSING")
        _be_about(item_no, info, INFO)
        if "itemNo" in more:
            _be_about(item_no, more, DETAIL_INFO)
        return DetailFacts(
            item_no,
            _seller_id(info),
            required_text(info, "itemName", INFO),
            _brand(info),
            _categories(info),
            _prices(info),
            whole(info, "stock", INFO),
            truth(info, "isSoldOut", INFO),
            optional_text(more, "itemStatus", DETAIL_INFO),
            optional_text(more, "originCountry", DETAIL_INFO),
            _shipping(modules.get(SHIPPING, _NOTHING)),
            texts(modules.get(BANNERS, _NOTHING), "images", BANNERS),
            text(more, "descriptionMarkUp", DETAIL_INFO),
        )
    except InvalidValue as wrong:
        raise _unparsable(DETAIL, wrong) from None


def read_options(body: bytes, item_no: ItemNo) -> OptionFacts:
    """Read the options of `item_no`, sorted by number. No option is valid: sold out, or a product without options."""
    options: dict[int, Option] = {}
    try:
        for index, value in enumerate(as_array(decode(body))):
            try:
                option = _option(value, item_no)
                if option.option_no in options:
                    raise InvalidValue("optionNo", "VALUE_TWICE", value=option.option_no)
            except InvalidValue as wrong:
                raise wrong.under(f"[{index}]") from None
            options[option.option_no] = option
    except InvalidValue as wrong:
        raise _unparsable(OPTIONS, wrong) from None
    return OptionFacts(tuple(options.values()))


def _unparsable(endpoint: str, wrong: InvalidValue) -> Unparsable:
    return Unparsable(endpoint, wrong.problem, isinstance(wrong, UnrelatedAnswer))


def _entry(value: Any) -> ListFacts:
    entry = as_object(value)
    number = ItemNo(positive(entry, "itemNo"))
    required_text(entry, "name")  # no fact, the detail's name counts; but an entry without one is not the contract's
    return ListFacts(number, texts(entry, "imageUrlList"), _tags(entry))


def _tags(entry: Json) -> tuple[str, ...]:
    """Return the titles, in order; a title may occur twice."""
    if entry.get("tagList") is None:
        return ()
    titles = []
    for index, tag in enumerate(array(entry, "tagList")):
        try:
            titles.append(required_text(as_object(tag), "title"))
        except InvalidValue as wrong:
            raise wrong.under(f"tagList[{index}]") from None
    return tuple(titles)


def _raw(entry: Json) -> bytes:
    """Return the entry as it came, volatile fields included, without spaces."""
    try:
        return orjson.dumps(entry)
    except TypeError:  # orjson reads deeper nests than it writes
        raise InvalidValue("", "TOO_DEEP") from None


def _modules(detail: Json) -> dict[str, Json]:
    """Return the modules that are read, by type. Others may contain anything: some have an array for data."""
    found: dict[str, Json] = {}
    for index, module in enumerate(array(detail, "moduleList")):
        kind = module.get("type") if type(module) is dict else None
        if type(kind) is not str:
            place = f"moduleList[{index}]"
            required_text(as_object(module, place), "type", place)
            raise InvalidValue(f"{place}.type", "MISTYPED", found="null", wanted="string")
        if kind in MODULES_READ:
            if kind in found:
                raise InvalidValue(kind, "TWICE")
            found[kind] = inner(module, "data", kind)
    return found


def _be_about(item_no: ItemNo, data: Json, place: str = "") -> None:
    number = positive(data, "itemNo", place)
    if number != item_no:
        raise UnrelatedAnswer("itemNo", "OTHER_ITEM", value=number, asked=int(item_no)).under(place)


def _seller_id(info: Json) -> SellerId:
    try:
        return _same_seller(required_text(info, "sellerId", INFO))
    except InvalidSellerId:
        raise InvalidValue("sellerId", "INVALID_SELLER").under(INFO) from None


def _brand(info: Json) -> Brand:
    return _same_brand(
        optional_whole(info, "brandCode", INFO),
        text(info, "brandName", INFO),
        optional_text(info, "brandNameKr", INFO),
    )


def _categories(info: Json) -> tuple[Category, ...]:
    """Return the levels that are present, widest first; a level without code and name is absent."""
    found = []
    for level, code_field, name_field in _LEVELS:
        code, name = text(info, code_field, INFO), text(info, name_field, INFO)
        if code or name:
            found.append(_same_category(level, code, name))
    return tuple(found)


def _prices(info: Json) -> Prices:
    return Prices(
        whole(info, "normalPrice", INFO),
        whole(info, "sellingPrice", INFO),
        whole(info, "discountPrice", INFO),
        whole(info, "discountRate", INFO),
    )


def _shipping(module: Json) -> Shipping | None:
    """Return the first item of the type SHIPPING; None without one."""
    if module.get("items") is None:
        return None
    for index, value in enumerate(array(module, "items", SHIPPING)):
        try:
            item = as_object(value)
            if item.get("type") == "SHIPPING":
                data = inner(item, "data")
                return _same_shipping(
                    text(data, "shippingType", "data"),
                    whole(data, "shippingFee", "data"),
                    text(data, "shippingFeeType", "data"),
                    _average_days(data),
                )
        except InvalidValue as wrong:
            raise wrong.under(f"{SHIPPING}.items[{index}]") from None
    return None


def _average_days(data: Json) -> int | None:
    """Return the first whole number in focusText, else in text; None without one."""
    if data.get("averageDeliveryDay") is None:
        return None
    day, place = inner(data, "averageDeliveryDay", "data"), "data.averageDeliveryDay"
    found = _WHOLE_NUMBER.search(text(day, "focusText", place)) or _WHOLE_NUMBER.search(text(day, "text", place))
    if found is None:
        return None
    if len(found.group()) > _MOST_DIGITS:
        raise InvalidValue(place, "TOO_MANY_DIGITS", digits=len(found.group()))
    return int(found.group())


def _option(value: Any, item_no: ItemNo) -> Option:
    option = as_object(value)
    number = positive(option, "optionNo")
    _be_about(item_no, option)
    return Option(
        number, text(option, "color"), text(option, "size"), whole(option, "stock"), optional_text(option, "sizeGuide")
    )
