"""Which case a suspicious part falls under."""

from __future__ import annotations

import pytest
from tests.builders import NOW, SELLER, execution_id, product_id

from sellerwatch.catalog.product import PartType
from sellerwatch.catalog.quarantine import Case, CaseKind

SHARE, UNREADABLE = CaseKind.SHARE, CaseKind.UNREADABLE


@pytest.mark.parametrize(
    ("kind", "part", "field", "covers"),
    [
        (SHARE, PartType.DETAIL, "prices.selling", True),
        (SHARE, PartType.OPTION, "prices.selling", False),
        (SHARE, PartType.DETAIL, "brand.name", False),
        (UNREADABLE, PartType.DETAIL, "prices.selling", False),
    ],
)
def test_a_case_covers_parts_of_its_type_that_changed_in_its_field(
    kind: CaseKind, part: PartType, field: str, *, covers: bool
) -> None:
    case = Case(product_id(), SELLER, execution_id(), part, kind, field, NOW, NOW)  # type: ignore[arg-type]
    assert case.covers(PartType.DETAIL, ["title", "prices.selling"]) is covers
