"""The lists of fields: what is volatile never reaches a fact, what is new is noticed."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from tests.marketplaces.bodies import INFO, ITEM_NO, SHIPPING, a_detail, a_page, an_entry, an_option, changed, encoded

from sellerwatch.kernel.ids import ItemNo
from sellerwatch.marketplaces.mustit.fields import VOLATILE, unknown_fields
from sellerwatch.marketplaces.mustit.parse import MODULES_READ, read_detail, read_entry

ANYTHING = [None, 7, "x", [1], {"itemNo": 5, "itemName": "x"}]


@pytest.mark.parametrize("value", ANYTHING)
@pytest.mark.parametrize("field", VOLATILE["list"])
def test_a_volatile_field_of_an_entry_is_never_a_fact(field: str, value: Any) -> None:
    assert read_entry(encoded(an_entry() | {field: value})) == read_entry(encoded(an_entry()))


@pytest.mark.parametrize("value", ANYTHING)
@pytest.mark.parametrize("name", VOLATILE["detail"])
def test_a_volatile_module_or_field_of_a_detail_is_never_a_fact(name: str, value: Any) -> None:
    detail = a_detail()
    if name.endswith("Module"):
        detail["moduleList"].insert(0, {"type": name, "data": value})
    else:
        detail[name] = value
    assert read_detail(encoded(detail), ItemNo(ITEM_NO)) == read_detail(encoded(a_detail()), ItemNo(ITEM_NO))


def test_no_module_that_is_read_is_volatile() -> None:
    assert not MODULES_READ & set(VOLATILE["detail"])


def test_what_a_redesign_of_the_volatile_lists_forgets_would_show_here() -> None:
    """The contract's own words, so that a field dropped from the list is noticed."""
    assert set(VOLATILE["list"]) == {"webSpacingInfo", "likeStatus", "likeImageUrl"}
    assert {"SellerModule", "CatalogModule", "PurchaseBenefitModule", "bottom", "nextApiUrl"} < set(VOLATILE["detail"])


@pytest.mark.parametrize(
    ("endpoint", "value"), [("list", a_page(an_entry())), ("detail", a_detail()), ("options", [an_option()])]
)
def test_the_contracts_examples_have_nothing_unknown(endpoint: str, value: Any) -> None:
    assert unknown_fields(endpoint, orjson.loads(encoded(value))) == ()


@pytest.mark.parametrize(
    ("endpoint", "value", "found"),
    [
        ("list", a_page(an_entry() | {"grade": 1}, an_entry() | {"grade": 2}), ("items[].grade",)),
        ("list", a_page() | {"page": 1}, ("page",)),
        ("detail", changed(a_detail(), (*INFO, "salePrice"), 1), ("moduleList[].ProductInfoModule.salePrice",)),
        (
            "detail",
            changed(a_detail(), (*SHIPPING, "items"), [{"type": "RETURN", "data": {}}]),
            ("moduleList[].ShippingModule.items[].RETURN",),
        ),
        ("detail", changed(a_detail(), ("moduleList", 4, "type"), "VideoModule"), ("moduleList[].VideoModule",)),
        ("options", [an_option() | {"b": 1, "a": 1}], ("[].a", "[].b")),
        ("options", {"message": "moved"}, ("message",)),
        ("detail", 7, ()),
        ("list", {"items": "x"}, ()),
    ],
)
def test_what_the_contract_does_not_have_is_named_by_its_path(
    endpoint: str, value: Any, found: tuple[str, ...]
) -> None:
    assert unknown_fields(endpoint, value) == found
