"""Retry-After: seconds or a date; absent, negative and rubbish are none; huge is a day."""

from __future__ import annotations

from datetime import timedelta
from email.utils import format_datetime

import pytest
from tests.builders import DAY, HOUR, MINUTE, NOW

from sellerwatch.kernel.retry_after import retry_after

WHOLE = NOW.replace(microsecond=0)


@pytest.mark.parametrize(
    ("header", "wait"),
    [
        ("120", 2 * MINUTE),
        (" 120 ", 2 * MINUTE),
        ("0.5", timedelta(seconds=0.5)),
        ("86401", DAY),
        ("9" * 400, DAY),
        (format_datetime(WHOLE + HOUR, usegmt=True), HOUR),
        (format_datetime(WHOLE + 400 * DAY, usegmt=True), DAY),
        ("Sun, 15 Nov 2026 07:04:05 -0000", HOUR),
    ],
)
def test_seconds_or_a_date_are_a_wait_of_at_most_the_longest(header: str, wait: timedelta) -> None:
    assert retry_after(header, WHOLE, DAY) == wait


@pytest.mark.parametrize(
    "header",
    [None, "", " ", "0", "-1", "-" + "9" * 400, "soon", "nan", "1 2 3", format_datetime(WHOLE - HOUR, usegmt=True)],
)
def test_absent_negative_past_or_rubbish_says_nothing(header: str | None) -> None:
    assert retry_after(header, WHOLE, DAY) is None
