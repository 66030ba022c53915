"""When a schedule runs: spread over sellers, in its rhythm, and once for all the times a stop had missed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import DAY, HOUR, MINUTE, NOW, SECOND, a_schedule

from sellerwatch.kernel.ids import SellerId
from sellerwatch.schedules.interval import CrawlingInterval
from sellerwatch.schedules.next_run import NEXT_STARTS, DueRun, due_at, late_tick, next_starts, spread, starts_at, tick
from sellerwatch.schedules.schedule import Schedule

HOURLY = CrawlingInterval.of_hours(1)

intervals = st.builds(CrawlingInterval.of_days, st.integers(1, 30)) | st.builds(
    CrawlingInterval.of_hours, st.integers(1, 23)
)
seller_ids = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=20).map(SellerId)


def hourly(seller: str = "seller_12345") -> Schedule:
    return a_schedule(interval=HOURLY, seller_id=SellerId(seller), next_run_at=NOW)


@settings(deadline=None, derandomize=True, database=None)
@given(seller_id=seller_ids, interval=intervals)
def test_a_sellers_own_moment_is_within_5_minutes_or_a_tenth_of_the_interval(
    seller_id: SellerId, interval: CrawlingInterval
) -> None:
    own = spread(a_schedule(seller_id=seller_id, interval=interval))
    assert timedelta(0) <= own < min(5 * MINUTE, interval.length / 10)


def test_the_moment_is_the_same_on_every_machine_and_after_every_restart() -> None:
    # Written down: a hash that Python salts anew in every process would move every seller with each restart.
    found = [spread(hourly(seller)) for seller in ("seller_12345", "seller_1", "가게")]
    assert found == [
        timedelta(seconds=283, microseconds=536278),
        timedelta(seconds=181, microseconds=140737),
        timedelta(seconds=225, microseconds=88469),
    ]


def test_the_moment_follows_the_seller_not_the_schedules_row() -> None:
    assert spread(a_schedule(1, seller_id=SellerId("x"))) == spread(a_schedule(2, seller_id=SellerId("x")))


def test_a_thousand_sellers_do_not_start_in_the_same_second() -> None:
    moments = [spread(a_schedule(seller_id=SellerId(f"seller_{number}"))) for number in range(1000)]
    in_a_minute = [sum(minute * MINUTE <= moment < (minute + 1) * MINUTE for moment in moments) for minute in range(5)]
    assert all(150 <= number <= 250 for number in in_a_minute)


def test_a_run_is_due_at_its_sellers_own_moment_and_not_before() -> None:
    schedule = hourly()
    own = NOW + spread(schedule)
    assert tick(schedule, NOW - SECOND) is None
    assert tick(schedule, NOW) is None
    assert tick(schedule, own - timedelta(microseconds=1)) is None
    assert tick(schedule, own) == DueRun(skipped=0, next_run_at=NOW + HOUR)


@pytest.mark.parametrize("missed", [0, 1, 2, 23, 1000])
def test_after_a_stop_there_is_one_run_and_the_other_times_are_counted_as_skipped(missed: int) -> None:
    found = tick(hourly(), NOW + missed * HOUR + 59 * MINUTE)
    assert found == DueRun(skipped=missed, next_run_at=NOW + (missed + 1) * HOUR)


def test_the_catch_up_run_does_not_wait_for_the_sellers_moment_again() -> None:
    assert tick(hourly(), NOW + HOUR) == DueRun(skipped=1, next_run_at=NOW + 2 * HOUR)


@settings(deadline=None, derandomize=True, database=None)
@given(interval=intervals, late=st.timedeltas(timedelta(0), 400 * DAY))
def test_the_rhythm_is_kept_however_late_it_is(interval: CrawlingInterval, late: timedelta) -> None:
    schedule = a_schedule(interval=interval, next_run_at=NOW)
    found = tick(schedule, NOW + late)
    if late < spread(schedule):
        assert found is None
        return
    assert found is not None
    assert (found.next_run_at - NOW) % interval.length == timedelta(0)
    assert NOW + late < found.next_run_at <= NOW + late + interval.length
    assert found.skipped == (found.next_run_at - NOW) // interval.length - 1
    after = schedule.ran(found.next_run_at, NOW + late)
    assert tick(after, NOW + late) is None, "caught up twice"


def test_one_that_is_switched_off_is_never_due() -> None:
    off, _ = hourly().deactivate(NOW)
    assert tick(off, NOW + 1000 * DAY) is None


def test_one_whose_scheduler_could_not_be_told_still_runs_here() -> None:
    assert tick(hourly().fail(NOW), NOW + 30 * MINUTE) == DueRun(skipped=0, next_run_at=NOW + HOUR)


def test_where_another_scheduler_starts_them_only_what_is_long_overdue_is_ours() -> None:
    assert late_tick(hourly(), NOW + 6 * MINUTE) is None
    assert late_tick(hourly(), NOW + 6 * MINUTE + SECOND) == DueRun(0, NOW + HOUR + 6 * MINUTE + SECOND)
    assert late_tick(hourly(), NOW + 3 * HOUR) == DueRun(3, NOW + 4 * HOUR)
    off, _ = hourly().deactivate(NOW)
    assert late_tick(off, NOW + DAY) is None


def test_a_run_that_waits_to_be_started_is_the_next_start_and_keeps_the_rhythm_of_those_after_it() -> None:
    waiting = replace(hourly(), waiting_start=NOW - 5 * MINUTE)
    assert starts_at(waiting) == NOW - 5 * MINUTE
    assert next_starts(waiting) == [NOW - 5 * MINUTE, *next_starts(hourly())[: NEXT_STARTS - 1]]
    assert due_at(waiting) == due_at(hourly()) == starts_at(hourly()) == NOW + spread(hourly())
