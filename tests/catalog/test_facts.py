"""Facts become a digest and the productData of the wire (spec/event.md)."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import orjson
import pytest
from msgspec import structs
from tests.builders import an_option, detail_facts, digest_of, list_facts, option_facts, whole_of

from sellerwatch.catalog.facts import Brand, Category, DetailFacts, Facts, Prices
from sellerwatch.kernel.ids import ItemNo, SellerId


def data(**changes: Any) -> dict[str, Any]:
    """productData of the usual product with some facts of its detail changed."""
    return whole_of(list_facts(), detail_facts(**changes), option_facts())


def test_product_data_is_what_the_specification_shows() -> None:
    assert data() == {
        "itemNo": 900000001,
        "sellerId": "seller_12345",
        "name": "반팔 티셔츠",
        "brand": {"code": 133, "name": "STONE ISLAND", "nameKr": "스톤아일랜드"},
        "categories": [
            {"level": "header", "code": "M", "name": "남성"},
            {"level": "large", "code": "M01", "name": "의류"},
            {"level": "medium", "code": "M0101", "name": "상의"},
            {"level": "small", "code": "M010101", "name": "티셔츠"},
        ],
        "prices": {"normal": 1075000, "selling": 600000, "discount": 545600, "rate": 49},
        "stock": 3,
        "soldOut": False,
        "itemStatus": "새상품",
        "originCountry": "이탈리아",
        "shipping": {"type": "DOMESTIC", "fee": 0, "feeType": "FREE", "averageDays": 1},
        "images": ["https://img.example/1.jpg", "https://img.example/2.jpg"],
        "descriptionHtml": "<p>cotton</p>",
        "options": [
            {"optionNo": 4134224619, "color": "", "size": "US 4", "stock": 1, "sizeGuide": None},
            {"optionNo": 4134224620, "color": "", "size": "US 6", "stock": 2, "sizeGuide": None},
        ],
        "tags": ["new", "sale"],
    }


def test_the_fields_go_in_the_order_of_the_wire() -> None:
    assert list(data()) == [
        "itemNo",
        "sellerId",
        "name",
        "brand",
        "categories",
        "prices",
        "stock",
        "soldOut",
        "itemStatus",
        "originCountry",
        "shipping",
        "images",
        "descriptionHtml",
        "options",
        "tags",
    ]


def test_product_data_survives_json() -> None:
    assert orjson.loads(orjson.dumps(data())) == data()


def test_images_are_the_lists_then_the_details_each_once_in_order_and_untouched() -> None:
    listed = list_facts(images=("//b?x=1", "http://a", "//b?x=1"))
    detail = detail_facts(images=("c", "http://a", "d"))
    assert whole_of(listed, detail, option_facts())["images"] == ["//b?x=1", "http://a", "c", "d"]


def test_tags_are_the_lists_titles_in_order() -> None:
    assert whole_of(list_facts(tags=("z", "a")), detail_facts(), option_facts())["tags"] == ["z", "a"]


def test_absent_levels_of_categories_are_left_out() -> None:
    only = (Category(level="header", code="W", name="여성"),)
    assert data(categories=only)["categories"] == [{"level": "header", "code": "W", "name": "여성"}]


def test_what_is_optional_is_null() -> None:
    bare = data(item_status=None, origin_country=None, shipping=None, brand=Brand(code=None, name="", name_kr=None))
    assert (bare["itemStatus"], bare["originCountry"], bare["shipping"]) == (None, None, None)
    assert bare["brand"] == {"code": None, "name": "", "nameKr": None}


def test_a_product_without_options_has_an_empty_list() -> None:
    assert whole_of(list_facts(), detail_facts(), replace(option_facts(), options=()))["options"] == []


@pytest.mark.parametrize(
    ("facts", "digest"),
    [
        (list_facts(), "9137bede18391a65b4c36341ad33b478"),
        (detail_facts(), "51016350e0e714fbb50c15904ccb902e"),
        (option_facts(), "c68d6d29f48176fdc61f90ca8bf7f3f8"),
    ],
)
def test_the_digest_of_known_facts_never_changes_between_runs_or_versions(facts: Facts, digest: str) -> None:
    # Stored digests are compared with new ones: one that moved would make every product of every seller change.
    assert digest_of(facts) == digest


def test_options_are_sorted_by_number_however_they_came() -> None:
    numbers = whole_of(list_facts(), detail_facts(), option_facts(an_option(2), an_option(1)))["options"]
    assert [option["optionNo"] for option in numbers] == [1, 2]


def test_the_order_in_which_options_came_does_not_change_the_digest() -> None:
    one, other = an_option(1), an_option(2)
    assert digest_of(option_facts(one, other)) == digest_of(option_facts(other, one))


OTHER: dict[str, Any] = {
    "item_no": ItemNo(1),
    "seller_id": SellerId("other"),
    "name": "other",
    "brand": Brand(code=1, name="B", name_kr=None),
    "categories": (),
    "prices": Prices(normal=1, selling=1, discount=0, rate=0),
    "stock": 4,
    "sold_out": True,
    "item_status": None,
    "origin_country": "",
    "shipping": None,
    "images": (),
    "description_html": "",
}


@pytest.mark.parametrize("field", [f.name for f in structs.fields(DetailFacts)])
def test_every_fact_of_the_detail_counts(field: str) -> None:
    assert digest_of(detail_facts(**{field: OTHER[field]})) != digest_of(detail_facts())


@pytest.mark.parametrize("change", [{"images": ()}, {"tags": ("sale", "new")}])
def test_every_fact_of_the_list_counts(change: dict[str, Any]) -> None:
    assert digest_of(list_facts(**change)) != digest_of(list_facts())


@pytest.mark.parametrize("change", [{"color": "x"}, {"size": ""}, {"stock": 0}, {"size_guide": ""}])
def test_every_fact_of_an_option_counts(change: dict[str, Any]) -> None:
    assert digest_of(option_facts(an_option(1, **change))) != digest_of(option_facts(an_option(1)))


def test_null_and_empty_text_are_two_things_so_the_parser_must_choose_one() -> None:
    assert digest_of(detail_facts(item_status=None)) != digest_of(detail_facts(item_status=""))


def test_a_digest_is_the_md5_of_the_json_of_the_part() -> None:
    canonical = b'{"options":[{"optionNo":1,"color":"","size":"US 4","stock":1,"sizeGuide":null}]}'
    assert digest_of(option_facts(an_option(1))) == hashlib.md5(canonical, usedforsecurity=False).hexdigest()
