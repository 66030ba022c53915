"""Every change has a kind that people look for, and a field that products have in common."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from tests.builders import detail_facts, list_facts, option_facts, whole_of

from sellerwatch.catalog.differences import Change, ChangeKind, differences
from sellerwatch.catalog.facts import BLANK
from sellerwatch.catalog.quarantine import DriftRules

from .states import states

OPTION = {"optionNo": 17, "color": "", "size": "M", "stock": 1, "sizeGuide": None}


@pytest.mark.parametrize(
    ("field", "before", "after", "kind", "general"),
    [
        ("prices.selling", 1, 2, "price", "prices.selling"),
        ("prices.rate", 1, 2, "price", "prices.rate"),
        ("prices", None, {"selling": 1}, "price", "prices"),
        ("stock", 1, 2, "stock", "stock"),
        ("soldOut", False, True, "sold_out", "soldOut"),
        ("soldOut", True, False, "back_in_stock", "soldOut"),
        ("options[17].stock", 1, 0, "stock", "options[].stock"),
        ("options[17]", None, OPTION, "option_added", "options[]"),
        ("options[17]", OPTION, None, "option_removed", "options[]"),
        ("options[4134224619].size", "M", "L", "option_changed", "options[].size"),
        ("options[17].sizeGuide", None, "x", "option_changed", "options[].sizeGuide"),
        ("images", [], ["a"], "image", "images"),
        ("name", "a", "b", "text", "name"),
        ("descriptionHtml", "a", "b", "text", "descriptionHtml"),
        ("tags", [], ["a"], "tag", "tags"),
        ("itemStatus", None, "새상품", "attribute", "itemStatus"),
        ("originCountry", None, "한국", "attribute", "originCountry"),
        ("brand.name", "a", "b", "brand", "brand.name"),
        ("brand.nameKr", None, "가", "brand", "brand.nameKr"),
        ("brand.code", 1, 2, "brand", "brand.code"),
        ("categories", [], [{}], "category", "categories"),
        ("shipping.fee", 0, 2500, "shipping", "shipping.fee"),
        ("shipping", None, {"fee": 0}, "shipping", "shipping"),
        ("a field of tomorrow", 1, 2, "attribute", "a field of tomorrow"),
    ],
)
def test_a_change_has_its_kind(field: str, before: Any, after: Any, kind: str, general: str) -> None:
    change = Change(field, before, after)
    assert (change.kind, change.general_field) == (kind, general)


@given(states, states)
def test_whatever_differs_has_a_kind_and_no_members_number(before: dict[str, Any], after: dict[str, Any]) -> None:
    for change in differences(before, after):
        assert change.kind in ChangeKind
        assert "[" not in change.general_field.replace("[]", "")


def test_every_kind_is_there_in_the_life_of_a_product() -> None:
    data = whole_of(list_facts(), detail_facts(), option_facts())
    met = {change.kind for change in differences(BLANK, data)} | {change.kind for change in differences(data, BLANK)}
    whole = {ChangeKind.NEW, ChangeKind.GONE}
    assert set(ChangeKind) - met == whole | {ChangeKind.OPTION_CHANGED, ChangeKind.SOLD_OUT}


def test_prices_and_stock_do_not_raise_a_case_by_default() -> None:
    changes = [
        Change("prices.selling", 1, 2),
        Change("options[17].stock", 1, 2),
        Change("soldOut", False, True),
        Change("options[18].size", "M", "L"),
        Change("options[19].size", "M", "L"),
        Change("name", "a", "b"),
    ]
    assert DriftRules().counted_fields(changes) == {"options[].size", "name"}
    assert DriftRules(exempt=frozenset()).counted_fields(changes) >= {"prices.selling", "options[].stock", "soldOut"}
