"""How often: days 1 to 30, hours 1 to 23, and how EventBridge is told."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from sellerwatch.kernel.errors import Invalid
from sellerwatch.schedules.interval import CrawlingInterval, IntervalUnit, InvalidInterval, UnknownUnit


@pytest.mark.parametrize("amount", range(1, 31))
def test_an_interval_in_days_goes_from_1_to_30(amount: int) -> None:
    interval = CrawlingInterval.of_days(amount)
    assert interval.length == timedelta(days=amount)
    assert interval.days == amount


@pytest.mark.parametrize("amount", range(1, 24))
def test_an_interval_in_hours_goes_from_1_to_23(amount: int) -> None:
    interval = CrawlingInterval.of_hours(amount)
    assert interval.length == timedelta(hours=amount)
    assert interval.days is None


@pytest.mark.parametrize(
    ("amount", "unit", "said", "most"),
    [
        (0, "DAYS", "days", 30),
        (31, "DAYS", "days", 30),
        (-1, "DAYS", "days", 30),
        (0, "HOURS", "hours", 23),
        (24, "HOURS", "hours", 23),
        (True, "DAYS", "days", 30),
        (1.0, "DAYS", "days", 30),
        ("1", "HOURS", "hours", 23),
        (None, "HOURS", "hours", 23),
    ],
)
def test_an_amount_out_of_range_is_refused_naming_the_range(amount: Any, unit: str, said: str, most: int) -> None:
    with pytest.raises(InvalidInterval) as refusal:
        CrawlingInterval.parse(amount, unit)
    assert isinstance(refusal.value, Invalid)
    assert refusal.value.code == "INVALID_INTERVAL"
    assert refusal.value.facts == {"amount": amount, "unit": said, "most": most}
    assert str(refusal.value) == f"A crawling interval in {said} must be a whole number from 1 to {most}, not {amount}."


@pytest.mark.parametrize("unit", ["DAYS", "days", "Days", "dAyS"])
def test_a_unit_is_read_without_regard_to_case(unit: str) -> None:
    assert CrawlingInterval.parse(7, unit) == CrawlingInterval(7, IntervalUnit.DAYS)


@pytest.mark.parametrize("unit", ["", "DAY", "MINUTES", "weeks", " DAYS"])
def test_any_other_unit_is_refused(unit: str) -> None:
    with pytest.raises(UnknownUnit) as refusal:
        CrawlingInterval.parse(1, unit)
    assert refusal.value.code == "UNKNOWN_UNIT"
    assert refusal.value.facts == {"given": unit}
    assert str(refusal.value) == f"The unit of an interval must be DAYS or HOURS, not '{unit}'."


@pytest.mark.parametrize(
    ("interval", "expression"),
    [
        (CrawlingInterval.of_days(1), "rate(1 day)"),
        (CrawlingInterval.of_days(7), "rate(7 days)"),
        (CrawlingInterval.of_days(30), "rate(30 days)"),
        (CrawlingInterval.of_hours(1), "rate(1 hour)"),
        (CrawlingInterval.of_hours(6), "rate(6 hours)"),
    ],
)
def test_the_expression_is_singular_for_one_because_eventbridge_refuses_rate_1_days(
    interval: CrawlingInterval, expression: str
) -> None:
    assert interval.expression == expression


@pytest.mark.parametrize(
    ("interval", "said"),
    [
        (CrawlingInterval.of_days(1), "every day"),
        (CrawlingInterval.of_days(2), "every 2 days"),
        (CrawlingInterval.of_hours(1), "every hour"),
        (CrawlingInterval.of_hours(12), "every 12 hours"),
    ],
)
def test_an_interval_says_itself_to_people(interval: CrawlingInterval, said: str) -> None:
    assert str(interval) == said


def test_a_day_is_not_written_as_24_hours_so_equal_intervals_are_equal() -> None:
    assert CrawlingInterval.of_days(1) == CrawlingInterval.parse(1, "days")
    assert CrawlingInterval.of_days(1) != CrawlingInterval.of_hours(1)
