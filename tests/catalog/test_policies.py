"""Field policies: which differences are not worth an event."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sellerwatch.catalog.differences import Change
from sellerwatch.catalog.policies import NO_POLICIES, InvalidPolicy, Policies, Tolerance, parse_policies


def matters(text: str, field: str, before: Any, after: Any) -> bool:
    return parse_policies(text).matter([Change(field, before, after)])


def test_without_policies_every_difference_matters_and_none_does_not() -> None:
    assert NO_POLICIES.matter([Change("stock", 1, 2)])
    assert not NO_POLICIES.matter([])
    assert parse_policies("") == parse_policies(" , ,") == NO_POLICIES


def test_they_are_read_with_any_spaces_and_in_any_case_of_ignore() -> None:
    assert parse_policies("prices.rate=ignore, stock = 2 ,prices.selling= 1.5%,tags=IGNORE") == Policies(
        {
            "prices.rate": None,
            "stock": Tolerance(2, percent=False),
            "prices.selling": Tolerance(1.5, percent=True),
            "tags": None,
        }
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("stock", "FIELD=ignore, FIELD=5 or FIELD=5%"),
        ("=5", "FIELD=ignore, FIELD=5 or FIELD=5%"),
        ("stock=", "FIELD=ignore, FIELD=5 or FIELD=5%"),
        ("tags=ignore,stock=much", "much is neither ignore nor a number"),
        ("stock=5 %%", "neither ignore nor a number"),
        ("stock=-1", "-1 is no number from 0"),
        ("stock=nan", "nan is no number from 0"),
        ("stock=inf%", "inf% is no number from 0"),
    ],
)
def test_one_that_cannot_be_followed_is_refused_by_name(text: str, problem: str) -> None:
    with pytest.raises(InvalidPolicy, match="is not a field policy") as refusal:
        parse_policies(text)
    assert problem in str(refusal.value)
    assert refusal.value.policy in text


def test_an_ignored_field_never_matters_whatever_it_was() -> None:
    assert not matters("itemStatus=ignore", "itemStatus", "새상품", None)
    assert matters("itemStatus=ignore", "originCountry", "이탈리아", None)


def test_a_field_covers_what_is_inside_it_and_not_its_namesakes() -> None:
    assert not matters("prices=ignore", "prices.selling", 1, 2)
    assert not matters("prices=ignore", "prices", None, {"selling": 1})
    assert not matters("options=ignore", "options[17].stock", 1, 2)
    assert not matters("options=ignore", "options[17]", None, {"optionNo": 17})
    assert not matters("options[].stock=ignore", "options[17].stock", 1, 2)
    assert matters("options[].stock=ignore", "options[17].size", "S", "M")
    assert matters("stock=ignore", "options[17].stock", 1, 2)
    assert matters("name=ignore", "brand.name", "A", "B")
    assert matters("brand.name=ignore", "brand.nameKr", "가", "나")


def test_the_first_policy_that_fits_decides() -> None:
    assert matters("prices.rate=1, prices=ignore", "prices.rate", 10, 12)
    assert not matters("prices=ignore, prices.rate=1", "prices.rate", 10, 12)


@pytest.mark.parametrize(
    ("text", "before", "after", "expected"),
    [
        ("stock=2", 10, 12, False),
        ("stock=2", 12, 10, False),
        ("stock=2", 10, 13, True),
        ("stock=0", 10, 11, True),
        ("stock=10%", 100, 110, False),
        ("stock=10%", 110, 100, False),
        ("stock=10%", 100, 111, True),
        ("stock=10%", 100, 89, True),
        ("stock=10%", 0, 1, True),
        ("stock=10%", -100, -110, False),
        ("stock=2", None, 1, True),
        ("stock=2", 1, None, True),
        ("stock=2", "1", "2", True),
        ("stock=2", True, False, True),
    ],
)
def test_a_number_may_move_within_its_tolerance(text: str, before: Any, after: Any, expected: bool) -> None:
    assert matters(text, "stock", before, after) is expected


def test_one_difference_outside_makes_all_of_them_matter() -> None:
    policies = parse_policies("stock=2, prices.rate=ignore")
    within = [Change("stock", 1, 2), Change("prices.rate", 1, 99)]
    assert not policies.matter(within)
    assert policies.matter([*within, Change("name", "a", "b")])


@given(st.integers(-(10**9), 10**9), st.integers(-(10**9), 10**9), st.integers(0, 10**6))
def test_an_absolute_tolerance_is_the_distance_both_ways(before: int, after: int, amount: int) -> None:
    assert matters(f"stock={amount}", "stock", before, after) is (abs(before - after) > amount)
    assert matters(f"stock={amount}", "stock", after, before) is matters(f"stock={amount}", "stock", before, after)
