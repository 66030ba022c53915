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
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, TypeVar

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
from sellerwatch.marketplaces.mustit.contract import (
    LARGEST,
    AverageDay,
    BannersModule,
    DetailBody,
    DetailInfoModule,
    EntryBody,
    InfoModule,
    OptionBody,
    PageBody,
    ShippingBody,
    ShippingItem,
    ShippingModule,
)
from sellerwatch.marketplaces.mustit.json_values import InvalidValue, UnrelatedAnswer, decode, read_as
from sellerwatch.marketplaces.ports import ListEntry, ListPage

Module = TypeVar("Module")

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

_WHOLE_NUMBER = re.compile(r"[0-9]+")
_MOST_DIGITS = 18

_same_seller = lru_cache(1024)(SellerId.parse)


def read_list(body: bytes, size: int, most: int = MAX_LIST_TOTAL) -> ListPage:
    """Read a list page that was requested with at most `size` entries. Of duplicate products the first counts.

    A total above `most` and a page with more entries than requested are refused: both decide how many tasks a run gets.
    """
    entries: dict[int, ListEntry] = {}
    try:
        page = read_as(decode(body), PageBody)
        total, items = page.count, page.items
        if total < 0:
            raise InvalidValue("count", "NEGATIVE", value=total)
        if total > most:
            raise InvalidValue("count", "ABOVE_MOST", value=total, most=most)
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
        modules = _modules(read_as(decode(body), DetailBody))
        if INFO not in modules:
            raise InvalidValue(INFO, "MISSING")
        for type_ in (INFO, DETAIL_INFO):
            _must_be_about(item_no, modules.get(type_), type_)
        info = _read_module(modules, INFO, InfoModule)
        more = _read_module(modules, DETAIL_INFO, DetailInfoModule)
        banners = _read_module(modules, BANNERS, BannersModule)
        return DetailFacts(
            item_no,
            _seller_id(info),
            info.item_name or "",
            Brand(info.brand_code, info.brand_name or "", info.brand_name_kr or None),
            _categories(info),
            Prices(info.normal_price, info.selling_price, info.discount_price, info.discount_rate),
            info.stock,
            info.is_sold_out,
            more.item_status or None,
            more.origin_country or None,
            _shipping(_read_module(modules, SHIPPING, ShippingModule)),
            _each_once(banners.images),
            more.description_mark_up or "",
        )
    except InvalidValue as wrong:
        raise _unparsable(DETAIL, wrong) from None


def read_options(body: bytes, item_no: ItemNo) -> OptionFacts:
    """Read the options of `item_no`, sorted by number. No option is valid: sold out, or a product without options."""
    options: dict[int, Option] = {}
    try:
        for index, option in enumerate(_options(decode(body), item_no)):
            number = option.option_no
            if option.item_no != item_no:
                raise _other_item(option.item_no, item_no).under(f"[{index}]")
            if number in options:
                raise InvalidValue(f"[{index}].optionNo", "VALUE_TWICE", value=number)
            guide = option.size_guide or None
            options[number] = Option(number, option.color or "", option.size or "", option.stock, guide)
    except InvalidValue as wrong:
        raise _unparsable(OPTIONS, wrong) from None
    return OptionFacts(tuple(options.values()))


def _unparsable(endpoint: str, wrong: InvalidValue) -> Unparsable:
    return Unparsable(endpoint, wrong.problem, isinstance(wrong, UnrelatedAnswer))


def _entry(value: Any) -> ListFacts:
    entry = read_as(value, EntryBody)
    # A title may occur twice.
    tags = tuple([tag.title or "" for tag in entry.tag_list or ()])
    return ListFacts(ItemNo(entry.item_no), _each_once(entry.image_url_list), tags)


def _each_once(texts: Iterable[str] | None) -> tuple[str, ...]:
    """Return texts in order, unchanged, each once."""
    return tuple(dict.fromkeys(texts or ()))


def _raw(entry: Any) -> bytes:
    """Return the entry as it came, volatile fields included, without spaces."""
    try:
        return orjson.dumps(entry)
    except TypeError:  # orjson reads deeper nests than it writes
        raise InvalidValue("", "TOO_DEEP") from None


def _modules(detail: DetailBody) -> dict[str, Any]:
    """Return the data of the modules that are read, by type."""
    read = [module for module in detail.module_list if module.type in MODULES_READ]
    found = {module.type: module.data for module in read}
    if len(found) < len(read):
        types = [module.type for module in read]
        kind = next(each for each in types if types.count(each) > 1)
        raise InvalidValue(kind, "TWICE")
    return found


def _read_module(modules: dict[str, Any], type_: str, kind: type[Module]) -> Module:
    """Return the data of a module; without the module, its blanks."""
    if type_ not in modules:
        return kind()
    try:
        return read_as(modules[type_], kind)
    except InvalidValue as wrong:
        raise wrong.under(type_ if wrong.where else f"{type_}.data") from None


def _options(values: Any, item_no: ItemNo) -> list[OptionBody]:
    """Return all options at once, and only if one is wrong look for the first: a good answer costs one call."""
    try:
        return read_as(values, list[OptionBody])
    except InvalidValue:
        for index, value in enumerate(values if type(values) is list else ()):
            place = f"[{index}]"
            _must_be_about(item_no, value, place)
            try:
                read_as(value, OptionBody)
            except InvalidValue as wrong:
                raise wrong.under(place) from None
        raise


def _must_be_about(item_no: ItemNo, value: Any, place: str) -> None:
    """Refuse what is about another item, whatever else may be wrong with it."""
    number = value.get("itemNo") if type(value) is dict else None
    if type(number) is int and number != item_no and 0 < number <= LARGEST:
        raise _other_item(number, item_no).under(place)


def _other_item(found: int, asked: ItemNo) -> InvalidValue:
    return UnrelatedAnswer("itemNo", "OTHER_ITEM", value=found, asked=int(asked))


def _seller_id(info: InfoModule) -> SellerId:
    try:
        return _same_seller(info.seller_id or "")
    except InvalidSellerId:
        raise InvalidValue("sellerId", "INVALID_SELLER").under(INFO) from None


def _categories(info: InfoModule) -> tuple[Category, ...]:
    """Return the levels that are present, widest first; a level without code and name is absent."""
    levels = (
        ("header", info.header_category_code, info.header_category),
        ("large", info.large_category_code, info.large_category),
        ("medium", info.medium_category_code, info.medium_category),
        ("small", info.small_category_code, info.small_category),
    )
    return tuple([Category(level, code or "", name or "") for level, code, name in levels if code or name])


def _shipping(module: ShippingModule) -> Shipping | None:
    """Return the first item of the type SHIPPING; None without one."""
    for index, value in enumerate(module.items or ()):
        try:
            item = read_as(value, ShippingItem)
            if item.type == "SHIPPING":
                return _shipping_data(item.data)
        except InvalidValue as wrong:
            raise wrong.under(f"{SHIPPING}.items[{index}]") from None
    return None


def _shipping_data(data: Any) -> Shipping:
    try:
        read = read_as(data, ShippingBody)
        days = None if read.average_delivery_day is None else _average_days(read.average_delivery_day)
    except InvalidValue as wrong:
        raise wrong.under("data") from None
    return Shipping(read.shipping_type or "", read.shipping_fee, read.shipping_fee_type or "", days)


def _average_days(day: AverageDay) -> int | None:
    """Return the first whole number in focusText, else in text; None without one."""
    found = _WHOLE_NUMBER.search(day.focus_text or "") or _WHOLE_NUMBER.search(day.text or "")
    if found is None:
        return None
    if len(found.group()) > _MOST_DIGITS:
        raise InvalidValue("averageDeliveryDay", "TOO_MANY_DIGITS", digits=len(found.group()))
    return int(found.group())
