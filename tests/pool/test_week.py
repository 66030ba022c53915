"""The benchmark's own reports, small enough for every day: the pool uses its budget up and never goes over it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from benchmarks.pool import Count, day, permits, week

from sellerwatch.agents.limits import Limits


def test_ten_agents_use_the_whole_budget_of_a_day_and_nothing_over_it() -> None:
    report = week(agents=10, days=1)
    assert report.budget == 10 * 80 * 24
    assert report.over == 0
    assert report.share >= 0.99
    assert report.closest_us >= 1_050_000
    assert report.is_good
    assert "share used" in str(report)


@pytest.mark.parametrize("seed", [1, 2])
def test_other_limits_are_used_up_just_as_well(seed: int) -> None:
    limits = Limits(window_limit=7, window=timedelta(minutes=10), per_second=0.2, margin=timedelta(milliseconds=10))
    report = week(agents=3, days=0.5, seed=seed, limits=limits)
    assert (report.over, report.is_good) == (0, True)


def test_the_count_of_the_report_would_notice() -> None:
    count = Count(Limits(window_limit=2, window=timedelta(seconds=10)))
    for second in (0, 4, 10, 12, 14):
        count.arrive(second * 1_000_000)
    assert (count.made, count.over, count.closest) == (5, 2, 2_000_000)


def test_durable_permits_are_measured_beside_the_ones_in_memory() -> None:
    report = permits(claims=5, rounds=1, agents=10)
    assert all(rate > 0 for rate in (*report.durable, *report.whole, *report.in_memory))
    assert "moving window in memory" in str(report)


def test_a_small_day_of_everything() -> None:
    report = day(sellers=2, products=20, hours=2)
    assert (report.products, report.stale, report.over) == (40, 0, 0)
    assert report.succeeded >= 0.95
    assert report.longest_way is not None
    assert report.longest_way <= timedelta(hours=2)
    assert report.is_good
