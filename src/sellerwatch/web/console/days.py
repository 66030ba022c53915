"""Days in charts: products, tasks, success, latency and delivery, of one seller or of all together."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence

from fastapi import APIRouter
from starlette.responses import Response

from sellerwatch.kernel.ids import SellerId
from sellerwatch.reports.day_metrics import DayMetricsView, daily_metrics
from sellerwatch.web.console.page_request import Viewer
from sellerwatch.web.console.rendering import PageRoute, show
from sellerwatch.web.console.tables import Chart, Filter

router = APIRouter(route_class=PageRoute, include_in_schema=False)

#: Ranges that can be chosen, in days; the first is shown without a choice.
RANGES = (30, 7, 90, 365)

Read = Callable[[DayMetricsView], float | None]


@router.get("/days")
async def days(visit: Viewer) -> Response:
    seller, chosen = visit.asked("seller").strip(), visit.asked("days")
    length = next((each for each in RANGES if str(each) == chosen), RANGES[0])
    last = visit.now.astimezone(visit.zone).date()
    first = last - dt.timedelta(days=length - 1)
    wanted = SellerId.parse(seller) if seller else None
    found = await visit.operations.ask(daily_metrics, wanted, first, last, visit.zone)
    return show(
        visit,
        "days.html",
        charts=charts(since_first(found.content)),
        fields=[
            Filter("seller", "col.seller_id", seller),
            Filter("days", "days.range", str(length), [(str(each), f"days.of.{each}") for each in RANGES]),
        ],
    )


def since_first(found: Sequence[DayMetricsView]) -> Sequence[DayMetricsView]:
    """Leave out the days before anything happened."""
    began = next((at for at, day in enumerate(found) if _has_anything(day)), len(found))
    return found[began:]


def _has_anything(day: DayMetricsView) -> bool:
    return bool(day.requests or day.task_stats.total or day.delivered_events)


def charts(found: Sequence[DayMetricsView]) -> list[Chart]:
    """Return a chart of each kind of numbers. Days without tasks have no success rate, those without answers no
    latency."""
    x = [dt.datetime.combine(dt.date.fromisoformat(day.date), dt.time(), dt.UTC).timestamp() for day in found]

    def chart(name: str, unit: str, *series: tuple[str, str, Read], most: float | None = None) -> Chart:
        read = [(f"chart.{label}", tone, [value(day) for day in found]) for label, tone, value in series]
        return Chart(name, f"days.{name}", x, read, unit=f"unit.{unit}", is_daily=True, most=most)

    return [
        chart(
            "products",
            "products",
            ("new", "ok", lambda day: day.products.new),
            ("changed", "accent", lambda day: day.products.changed),
            ("removed", "bad", lambda day: day.products.removed),
        ),
        chart(
            "tasks",
            "tasks",
            ("completed", "ok", lambda day: day.task_stats.completed),
            ("failed", "bad", lambda day: day.task_stats.failed),
            ("in_progress", "warn", lambda day: day.task_stats.in_progress),
        ),
        chart(
            "success",
            "percent",
            ("rate", "accent", lambda day: day.success_rate if day.task_stats.total else None),
            most=100,
        ),
        chart(
            "latency",
            "ms",
            ("p50", "ok", lambda day: day.latency_ms.p50),
            ("p95", "warn", lambda day: day.latency_ms.p95),
            ("p99", "bad", lambda day: day.latency_ms.p99),
        ),
        chart(
            "delivery",
            "seconds",
            ("p50", "ok", lambda day: day.change_to_delivery_seconds.p50),
            ("p95", "warn", lambda day: day.change_to_delivery_seconds.p95),
            ("p99", "bad", lambda day: day.change_to_delivery_seconds.p99),
        ),
    ]
