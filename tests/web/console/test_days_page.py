"""The page of days: what its charts are made of."""

from __future__ import annotations

import datetime as dt

from sellerwatch.kernel.ids import SellerId
from sellerwatch.reports.day_metrics import DayMetrics, DayMetricsView
from sellerwatch.web.console.days import charts, since_first

from .conftest import Console

ONE = SellerId("seller_1")
FIRST = dt.date(2026, 11, 1)


def a_day(number: int, **given: object) -> DayMetricsView:
    day = DayMetrics(seller_id=ONE, day=FIRST + dt.timedelta(days=number), **given)  # type: ignore[arg-type]
    return DayMetricsView.of_day(day, ONE)


def test_charts_begin_with_the_first_day_on_which_something_happened() -> None:
    found = [a_day(0), a_day(1, requests=3, completed_tasks=3), a_day(2)]
    assert [day.date for day in since_first(found)] == ["2026-11-02", "2026-11-03"]
    assert since_first([a_day(0)]) == []


def test_each_chart_has_its_numbers_its_unit_and_no_point_where_nothing_was_measured() -> None:
    busy = a_day(0, completed_tasks=9, failed_tasks=1, new_products=2, latency={"50": 9}, delivery={"5": 1})
    made = {chart.name: chart for chart in charts([busy, a_day(1)])}
    values = {name: [list(each) for _, _, each in chart.series] for name, chart in made.items()}
    assert values == {
        "products": [[2, 0], [0, 0], [0, 0]],
        "tasks": [[9, 0], [1, 0], [0, 0]],
        "success": [[90.0, None]],
        "latency": [[50, None]] * 3,
        "delivery": [[5, None]] * 3,
    }
    assert {name: chart.unit for name, chart in made.items()} == {
        "products": "unit.products",
        "tasks": "unit.tasks",
        "success": "unit.percent",
        "latency": "unit.ms",
        "delivery": "unit.seconds",
    }
    assert made["success"].most == 100
    # A day stands for itself in every zone.
    assert made["tasks"].x == [dt.datetime(2026, 11, day, tzinfo=dt.UTC).timestamp() for day in (1, 2)]


def test_one_day_is_a_chart_and_none_is_not() -> None:
    assert all(chart.has_data for chart in charts([a_day(0, completed_tasks=1, latency={"50": 1}, delivery={"5": 1})]))
    assert not any(chart.has_data for chart in charts([]))


async def test_the_page_says_so_while_nothing_was_crawled_and_refuses_a_seller_that_is_not_there(
    console: Console,
) -> None:
    page = await console.viewer.see("/days")
    assert "There is no data yet." in page.words
    assert (await console.viewer.see("/days?seller=nobody")).status == 404
