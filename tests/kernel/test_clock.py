"""The machine's clock, and seconds as dates."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sellerwatch.kernel import clock as clock_module
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


def test_all_clocks_of_one_boot_agree() -> None:
    one, other = SystemClock(), SystemClock()
    assert one.boot_id == other.boot_id
    assert one.monotonic() <= other.monotonic() <= one.monotonic()


def test_where_the_boot_has_no_name_a_process_counts_as_a_boot_of_its_own_that_begins_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # What it finds of others counts as answered at its second 0: that must not be when the machine was booted.
    monkeypatch.setattr(clock_module, "_boot_id", lambda: "")
    clock = SystemClock()
    assert clock.boot_id.startswith("process-")
    assert clock.boot_id != SystemClock().boot_id
    assert 0 <= clock.monotonic() < 1


def test_a_boot_id_that_cannot_be_read_is_no_id(tmp_path: Path) -> None:
    assert clock_module._boot_id(tmp_path / "none") == ""
