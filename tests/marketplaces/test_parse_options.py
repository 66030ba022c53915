"""Reading options: what counts, what is blank, and what is refused, by name."""

from __future__ import annotations

from typing import Any

import pytest
from tests.marketplaces.bodies import (
    BLANKS,
    DROP,
    ITEM,
    an_option,
    changed,
    encoded,
    why_not,
)

from sellerwatch.catalog.facts import Option
from sellerwatch.catalog.ports import Unparsable
from sellerwatch.marketplaces.mustit.parse import read_options


def option_with(field: str, new: Any) -> Option:
    return read_options(encoded([changed(an_option(), (field,), new)]), ITEM).options[0]


def test_options_are_sorted_by_their_number() -> None:
    facts = read_options(encoded([an_option(30), an_option(4134224619), an_option(2)]), ITEM)
    assert [option.option_no for option in facts.options] == [2, 30, 4134224619]


def test_an_option_gives_number_color_size_stock_and_guide() -> None:
    assert read_options(encoded([an_option()]), ITEM).options == (Option(4134224619, "", "US 4", 1, None),)


def test_no_options_is_data_and_not_an_error() -> None:
    assert read_options(b"[]", ITEM).options == ()


@pytest.mark.parametrize("blank", BLANKS)
def test_color_and_size_are_always_text_and_a_guide_is_optional(blank: Any) -> None:
    assert option_with("color", blank).color == ""
    assert option_with("size", blank).size == ""
    assert option_with("sizeGuide", blank).size_guide is None


def test_an_option_number_needs_64_bits() -> None:
    assert option_with("optionNo", 2**63 - 1).option_no == 2**63 - 1


@pytest.mark.parametrize(
    ("field", "new", "problem"),
    [
        ("optionNo", DROP, "optionNo: missing"),
        ("optionNo", "7", "optionNo: a string, not a number"),
        ("optionNo", 2**63, "optionNo: 9223372036854775808, not a whole number of 64 bits"),
        ("itemNo", DROP, "itemNo: missing"),
        ("itemNo", 5, "itemNo: 5, though 900000001 was asked for"),
        ("stock", None, "stock: null, not a number"),
        ("stock", False, "stock: true or false, not a number"),
        ("color", 3, "color: a number, not a string"),
        ("sizeGuide", {}, "sizeGuide: an object, not a string"),
    ],
)
def test_an_option_that_is_wrong_names_its_place_and_field(field: str, new: Any, problem: str) -> None:
    options = [an_option(1), an_option(2), changed(an_option(3), (field,), new)]
    assert why_not(read_options, encoded(options), ITEM) == f"options: [2].{problem}"


def test_options_of_another_item_are_unrelated_whatever_else_is_wrong() -> None:
    other = an_option(2) | {"itemNo": 5, "stock": "x"}
    with pytest.raises(Unparsable) as refused:
        read_options(encoded([an_option(1), other, an_option(3) | {"stock": None}]), ITEM)
    assert refused.value.is_garbled


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({}, "an object, not an array"),
        ([None], "[0]: null, not an object"),
        ([an_option(1), an_option(1)], "[1].optionNo: 1 comes twice"),
        (b"[{", "not JSON (broken at character 2)"),
    ],
)
def test_options_that_are_none_say_so(body: Any, problem: str) -> None:
    assert why_not(read_options, encoded(body), ITEM) == f"options: {problem}"
