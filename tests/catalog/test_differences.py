"""What changed, field by field, as the event says it."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import an_option, detail_facts, list_facts, option_facts, whole_of

from sellerwatch.catalog.differences import Change, differences
from sellerwatch.catalog.facts import Brand, Category, Prices, Shipping


def data(**changes: Any) -> dict[str, Any]:
    return whole_of(list_facts(), detail_facts(**changes), option_facts())


def with_options(*options: Any) -> dict[str, Any]:
    return whole_of(list_facts(), detail_facts(), replace(option_facts(), options=options))


def test_equal_states_have_no_differences() -> None:
    assert differences(data(), data()) == []


def test_a_change_inside_an_object_names_its_path() -> None:
    prices = Prices(normal=1075000, selling=590000, discount=545600, rate=49)
    assert differences(data(), data(prices=prices)) == [Change("prices.selling", 600000, 590000)]


def test_the_example_of_the_specification() -> None:
    before = with_options(an_option(4134224619, stock=1))
    prices = Prices(normal=1075000, selling=590000, discount=545600, rate=49)
    after = whole_of(list_facts(), detail_facts(prices=prices), option_facts(an_option(4134224619, stock=0)))
    assert [asdict(change) for change in differences(before, after)] == [
        {"field": "prices.selling", "before": 600000, "after": 590000},
        {"field": "options[4134224619].stock", "before": 1, "after": 0},
    ]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"name": "x"}, Change("name", "반팔 티셔츠", "x")),
        ({"stock": 0}, Change("stock", 3, 0)),
        ({"sold_out": True}, Change("soldOut", False, True)),
        ({"item_status": None}, Change("itemStatus", "새상품", None)),
        ({"origin_country": "한국"}, Change("originCountry", "이탈리아", "한국")),
        ({"description_html": ""}, Change("descriptionHtml", "<p>cotton</p>", "")),
        ({"brand": Brand(code=133, name="STONE ISLAND", name_kr=None)}, Change("brand.nameKr", "스톤아일랜드", None)),
        (
            {"shipping": Shipping(type="DOMESTIC", fee=0, fee_type="FREE", average_days=None)},
            Change("shipping.averageDays", 1, None),
        ),
        (
            {"shipping": None},
            Change("shipping", {"type": "DOMESTIC", "fee": 0, "feeType": "FREE", "averageDays": 1}, None),
        ),
    ],
)
def test_each_field_is_told_before_and_after(change: dict[str, Any], expected: Change) -> None:
    assert differences(data(), data(**change)) == [expected]


def test_an_object_that_appears_has_no_before() -> None:
    (change,) = differences(data(shipping=None), data())
    assert (change.field, change.before) == ("shipping", None)
    assert change.after["feeType"] == "FREE"


def test_an_added_option_has_no_before() -> None:
    (change,) = differences(with_options(an_option(1)), with_options(an_option(1), an_option(2)))
    assert change == Change(
        "options[2]", None, {"optionNo": 2, "color": "", "size": "US 4", "stock": 1, "sizeGuide": None}
    )


def test_a_removed_option_has_no_after() -> None:
    (change,) = differences(with_options(an_option(1), an_option(2)), with_options(an_option(2)))
    assert change == Change(
        "options[1]", {"optionNo": 1, "color": "", "size": "US 4", "stock": 1, "sizeGuide": None}, None
    )


def test_options_are_compared_by_number_and_told_in_its_order() -> None:
    before = with_options(an_option(10, stock=1), an_option(9, stock=1), an_option(2, stock=1))
    after = with_options(an_option(2, stock=5), an_option(10, stock=6), an_option(11, stock=1))
    assert [change.field for change in differences(before, after)] == [
        "options[2].stock",
        "options[9]",
        "options[10].stock",
        "options[11]",
    ]


def test_the_order_of_options_is_no_change() -> None:
    assert differences(with_options(an_option(1), an_option(2)), with_options(an_option(2), an_option(1))) == []


def test_the_last_option_that_goes_is_told_as_that_option() -> None:
    assert [change.field for change in differences(with_options(an_option(1)), with_options())] == ["options[1]"]


def test_images_tags_and_categories_change_as_whole_lists() -> None:
    before = data()
    after = whole_of(
        list_facts(images=("n",), tags=()),
        detail_facts(categories=(Category(level="header", code="M", name="남성"),)),
        option_facts(),
    )
    changes = {change.field: change for change in differences(before, after)}
    assert list(changes) == ["categories", "images", "tags"]
    assert changes["tags"] == Change("tags", ["new", "sale"], [])
    assert changes["images"].before == before["images"]
    assert changes["categories"].after == [{"level": "header", "code": "M", "name": "남성"}]


def test_the_order_of_images_is_a_change() -> None:
    before = whole_of(list_facts(images=("a", "b")), detail_facts(images=()), option_facts())
    after = whole_of(list_facts(images=("b", "a")), detail_facts(images=()), option_facts())
    assert differences(before, after) == [Change("images", ["a", "b"], ["b", "a"])]


def test_a_field_the_old_state_did_not_know_is_told_when_it_has_a_value() -> None:
    assert differences({}, {"name": "x", "itemStatus": None}) == [Change("name", None, "x")]
    assert differences({"gone": 1}, {}) == [Change("gone", 1, None)]


STATES = st.builds(
    lambda name, stock, tags, options, shipping: whole_of(
        list_facts(tags=tuple(tags)),
        detail_facts(name=name, stock=stock, **({} if shipping else {"shipping": None})),
        replace(option_facts(), options=tuple(an_option(n, stock=s) for n, s in sorted(options.items()))),
    ),
    name=st.sampled_from(["a", "b"]),
    stock=st.integers(0, 2),
    tags=st.lists(st.sampled_from("xyz"), max_size=2),
    options=st.dictionaries(st.integers(1, 4), st.integers(0, 2)),
    shipping=st.booleans(),
)


def patched(state: dict[str, Any], changes: list[Change]) -> dict[str, Any]:
    """What a receiver that only reads `changes` would have."""
    options = {option["optionNo"]: dict(option) for option in state["options"]}
    result = {name: dict(value) if isinstance(value, dict) else value for name, value in state.items()}
    for change in changes:
        if change.field.startswith("options["):
            number, _, field = change.field.removeprefix("options[").partition("]")
            if field:
                options[int(number)][field.removeprefix(".")] = change.after
            elif change.after is None:
                del options[int(number)]
            else:
                options[int(number)] = change.after
        elif "." in change.field:
            outer, inner = change.field.split(".")
            result[outer][inner] = change.after
        else:
            result[change.field] = change.after
    return {**result, "options": [options[number] for number in sorted(options)]}


@given(before=STATES, after=STATES)
def test_the_changes_lead_from_the_one_state_to_the_other_and_back(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    there = differences(before, after)
    assert patched(before, there) == after
    assert (there == []) == (before == after)
    back = differences(after, before)
    assert {(c.field, repr(c.before), repr(c.after)) for c in there} == {
        (c.field, repr(c.after), repr(c.before)) for c in back
    }
