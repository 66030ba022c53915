"""The coming day against the budget."""

from __future__ import annotations

from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from tests.builders import HOUR, SELLER

from sellerwatch.kernel.ids import SellerId
from sellerwatch.schedules.outlook import Due, coming_day, requests_of

#: On the hour, so that a whole one is left.
BEGIN = datetime.fromisoformat("2026-11-15T06:00:00+00:00")


def due(hours: float, requests: int) -> Due:
    return Due(BEGIN + hours * HOUR, SELLER, requests)


def test_a_run_asks_for_its_total_its_pages_and_two_parts_of_every_product() -> None:
    assert requests_of(0, 500) == 2
    assert requests_of(500, 500) == 2 + 1000
    assert requests_of(501, 500) == 3 + 1002


def test_what_does_not_fit_into_an_hour_is_carried_into_the_next() -> None:
    hours = coming_day([due(0.5, 250), due(2, 10)], 100, BEGIN)
    assert [(hour.asked, hour.carried, hour.over) for hour in hours[:4]] == [
        (250, 0, 150),
        (0, 150, 50),
        (10, 50, 0),
        (0, 0, 0),
    ]


def test_an_overdue_run_is_in_the_first_hour_and_of_that_only_the_rest_is_left() -> None:
    first = coming_day([due(-5, 10)], 100, BEGIN + timedelta(minutes=45))[0]
    assert (first.asked, first.room) == (10, 25)


@given(st.lists(st.tuples(st.floats(-10, 30), st.integers(0, 500)), max_size=20), st.integers(0, 400))
def test_no_request_is_lost_on_the_way(runs: list[tuple[float, int]], room: int) -> None:
    given_runs = [Due(BEGIN + at * HOUR, SellerId(f"s{n}"), requests) for n, (at, requests) in enumerate(runs)]
    hours = coming_day(given_runs, room, BEGIN)
    within = sum(run.requests for run in given_runs if run.at < BEGIN + 25 * HOUR)
    done = sum(min(hour.asked + hour.carried, hour.room) for hour in hours)
    assert done + hours[-1].over == within
    assert sum(hour.asked for hour in hours) == within
