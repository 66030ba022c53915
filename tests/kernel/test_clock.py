"""The machine's clock, and seconds as dates."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from sellerwatch.kernel.clock import EPOCH, SystemClock, from_timestamp


def test_now_is_aware_utc() -> None:
    assert SystemClock().now().tzinfo is UTC


def test_monotonic_never_goes_back() -> None:
    clock = SystemClock()
    first = clock.monotonic()
    assert clock.monotonic() >= first


async def test_sleep_lets_time_pass() -> None:
    clock = SystemClock()
    before = clock.monotonic()
    await clock.sleep(0.002)
    assert clock.monotonic() > before


@pytest.mark.parametrize(
    ("seconds", "date"),
    [
        (0, EPOCH),
        (0.000001, EPOCH + timedelta(microseconds=1)),
        (1794719045.123456, datetime(2026, 11, 15, 5, 4, 5, 123456, tzinfo=UTC)),
        (-1.5, datetime(1969, 12, 31, 23, 59, 58, 500000, tzinfo=UTC)),
    ],
)
def test_a_timestamp_is_exact_to_the_microsecond(seconds: float, date: datetime) -> None:
    assert from_timestamp(seconds) == date
