"""Reading a list page: what counts, what is blank, and what is refused, by name."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from tests.marketplaces.bodies import (
    DROP,
    ITEM,
    a_page,
    an_entry,
    changed,
    encoded,
    why_not,
)

from sellerwatch.catalog.facts import ListFacts
from sellerwatch.marketplaces.mustit.parse import read_entry, read_list

DEEP_PAGE = encoded(a_page(an_entry() | {"x": "DEEP"})).replace(b'"DEEP"', b"[" * 300 + b"]" * 300)
"""Deeper than our JSON writer goes, though our reader can."""


def entry_with(field: str, new: Any) -> ListFacts:
    return read_entry(encoded(changed(an_entry(), (field,), new)))


def test_a_page_has_the_total_and_its_entries_in_order() -> None:
    page = read_list(encoded(a_page(an_entry(3), an_entry(1), an_entry(2))), 500)
    assert page.total == 3464
    assert [entry.facts.item_no for entry in page.entries] == [3, 1, 2]


def test_the_facts_of_an_entry_are_its_number_images_and_tag_titles() -> None:
    images = ("https://img.example/1.jpg", "https://img.example/2.jpg")
    assert read_entry(encoded(an_entry())) == ListFacts(ITEM, images, ("무료배송", "sale"))


def test_an_entry_is_kept_whole_as_it_came_with_its_volatile_fields() -> None:
    entry = read_list(encoded(a_page(an_entry())), 500).entries[0]
    assert orjson.loads(entry.raw) == an_entry()
    assert b", " not in entry.raw
    assert read_entry(entry.raw) == entry.facts


def test_of_a_product_that_stands_on_a_page_twice_the_first_entry_counts() -> None:
    second = an_entry(1) | {"imageUrlList": ["later"]}
    page = read_list(encoded(a_page(an_entry(1), an_entry(2), second)), 500)
    assert [entry.facts.item_no for entry in page.entries] == [1, 2]
    assert page.entries[0].facts.images[0] == "https://img.example/1.jpg"


def test_an_empty_page_is_a_page() -> None:
    assert read_list(encoded({"count": 0, "items": []}), 500).entries == ()


def test_the_total_alone_is_asked_with_a_page_of_one() -> None:
    assert read_list(encoded(a_page(an_entry())), 500).total == 3464


@pytest.mark.parametrize("nothing", [None, DROP, []])
@pytest.mark.parametrize(("field", "fact"), [("imageUrlList", "images"), ("tagList", "tags")])
def test_no_images_and_no_tags_are_empty_lists(field: str, fact: str, nothing: Any) -> None:
    assert getattr(entry_with(field, nothing), fact) == ()


def test_images_are_taken_exactly_as_given_each_once_in_their_order() -> None:
    assert entry_with("imageUrlList", ["b?w=1&h=2", "//a", "b?w=1&h=2", ""]).images == ("b?w=1&h=2", "//a", "")


def test_tag_titles_keep_their_order_and_their_blanks() -> None:
    assert entry_with("tagList", [{"title": "b"}, {"title": ""}, {"title": None}, {"title": "b"}]).tags == (
        "b",
        "",
        "",
        "b",
    )


def test_an_item_number_needs_64_bits() -> None:
    assert entry_with("itemNo", 2**63 - 1).item_no == 2**63 - 1


@pytest.mark.parametrize("blank", ["", None])
def test_a_blank_name_on_the_list_is_no_fault(blank: Any) -> None:
    assert entry_with("name", blank).item_no == ITEM


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "not JSON (it is empty)"),
        (b" \n", "not JSON (it is empty)"),
        (b"<html><head>", "not JSON (it begins with '<html><head>')"),
        (b"\n<!doctype html><html lang=ko>", "not JSON (it begins with '<!doctype html><html')"),
        (b'{"count": 3, "items": [{"item', "not JSON (broken at character 29)"),
        (b"\xff\xfe", "not JSON (it begins with '\ufffd\ufffd')"),
        ([], "an array, not an object"),
        (b"null", "null, not an object"),
        ({"items": []}, "count: missing"),
        ({"count": "3", "items": []}, "count: a string, not a number"),
        ({"count": -1, "items": []}, "count: -1, not a number from 0"),
        ({"count": 1_000_001, "items": []}, "count: 1000001, more than 1000000 (MAX_LIST_TOTAL)"),
        ({"count": 2**62, "items": []}, f"count: {2**62}, more than 1000000 (MAX_LIST_TOTAL)"),
        ({"count": 2**63, "items": []}, f"count: {2**63}, not a whole number of 64 bits"),
        ({"count": 1}, "items: missing"),
        ({"count": 1, "items": None}, "items: null, not an array"),
        ({"count": 1, "items": {}}, "items: an object, not an array"),
        (a_page(an_entry(), 7), "items[1]: a number, not an object"),
        (a_page(*[an_entry(n) for n in (1, 2, 3)], {"name": "x"}), "items[3].itemNo: missing"),
        (DEEP_PAGE, "items[0]: nested too deeply"),
    ],
)
def test_a_page_that_is_none_says_what_is_wrong_and_where(body: Any, problem: str) -> None:
    assert why_not(read_list, encoded(body), 500) == f"list: {problem}"


@pytest.mark.parametrize(
    ("field", "new", "problem"),
    [
        ("itemNo", DROP, "itemNo: missing"),
        ("itemNo", None, "itemNo: null, not a number"),
        ("itemNo", "900000001", "itemNo: a string, not a number"),
        ("itemNo", True, "itemNo: true or false, not a number"),
        ("itemNo", 1.5, "itemNo: 1.5, not a whole number of 64 bits"),
        ("itemNo", 2**63, "itemNo: 9223372036854775808, not a whole number of 64 bits"),
        ("itemNo", 0, "itemNo: 0, not a number from 1"),
        ("itemNo", -5, "itemNo: -5, not a number from 1"),
        ("name", DROP, "name: missing"),
        ("name", 7, "name: a number, not a string"),
        ("imageUrlList", "x", "imageUrlList: a string, not an array"),
        ("imageUrlList", ["x", None], "imageUrlList[1]: null, not a string"),
        ("tagList", {}, "tagList: an object, not an array"),
        ("tagList", False, "tagList: true or false, not an array"),
        ("tagList", [{"title": "a"}, "b"], "tagList[1]: a string, not an object"),
        ("tagList", [{}], "tagList[0].title: missing"),
        ("tagList", [{"title": 1}], "tagList[0].title: a number, not a string"),
    ],
)
def test_an_entry_that_is_wrong_names_its_field(field: str, new: Any, problem: str) -> None:
    entry = changed(an_entry(), (field,), new)
    assert why_not(read_entry, encoded(entry)) == f"list: {problem}"
    assert why_not(read_list, encoded(a_page(an_entry(5), entry)), 500) == f"list: items[1].{problem}"


def test_a_number_beyond_every_machine_word_is_refused() -> None:
    body = encoded(an_entry()).replace(b"900000001", b"9" * 40)
    assert why_not(read_entry, body) == "list: itemNo: 1e+40, not a whole number of 64 bits"


@pytest.mark.parametrize("size", [1, 3])
def test_a_page_with_more_entries_than_were_asked_for_is_refused(size: int) -> None:
    full = [an_entry(number) for number in range(1, size + 1)]
    assert len(read_list(encoded(a_page(*full)), size).entries) == size
    problem = why_not(read_list, encoded(a_page(*full, an_entry(99))), size)
    assert problem == f"list: items: {size + 1} entries, though {size} were asked for"


def test_the_largest_total_that_is_believed_is_a_parameter() -> None:
    assert read_list(encoded({"count": 7, "items": []}), 500, 7).total == 7
    problem = why_not(read_list, encoded({"count": 8, "items": []}), 500, 7)
    assert problem == "list: count: 8, more than 7 (MAX_LIST_TOTAL)"
