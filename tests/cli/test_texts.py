"""The texts of commands: a family's own, the console's where it has none, and distances in time."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.builders import NOW

from sellerwatch.cli.texts import Texts


def test_a_key_that_the_family_lacks_is_the_consoles() -> None:
    assert Texts("errors", "en").columns("seller", "status") == ["Seller", "Status"]
    assert Texts("errors", "ko")("col.seller") == "판매자"


@pytest.mark.parametrize(
    ("before", "english", "korean"),
    [
        (timedelta(0), "now", "지금"),
        (timedelta(seconds=3), "3 s ago", "3초 전"),
        (timedelta(minutes=90), "2 h ago", "2시간 전"),
        (-timedelta(days=2), "in 2 d", "2일 후"),
    ],
)
def test_distances_in_time_are_worded_in_the_language(before: timedelta, english: str, korean: str) -> None:
    assert Texts("console", "en").ago(NOW - before, NOW) == english
    assert Texts("console", "ko").ago(NOW - before, NOW) == korean


def test_no_time_has_no_distance() -> None:
    assert Texts("console", "en").ago(None, NOW) is None
    assert Texts("console", "en").when(None, NOW) is None
    assert Texts("console", "en").when(NOW, NOW) == f"{NOW:%Y-%m-%d %H:%M:%S} UTC (now)"
