"""/metrics: numbers for Prometheus. Those of the tables are read from one consistent view when they are requested;
those of this process are counted as they happen.

It needs a viewer's token or an internal key. It is not open to local callers: behind a proxy every request is local,
and the numbers are confidential (how many sellers, how much of the budget is left).

A read that fails is a failed scrape (503), never zeros: Prometheus then says that the target is down.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Request, Response
from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.reports.day_metrics import DELIVERY_BOUNDS, LATENCY_BOUNDS
from sellerwatch.reports.queries import MetricsSnapshot, read_metrics
from sellerwatch.web.api.authorization import Watcher
from sellerwatch.web.api.context import Parts, parts_of
from sellerwatch.web.api.errors import refusals
from sellerwatch.web.api.view_route import StrictRoute

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from sellerwatch.kernel.clock import Clock

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
#: An answer is cached for this many seconds, or this many times as long as counting took: scraping costs at most 5 %.
CACHE_SECONDS, CACHE_TIMES = 5.0, 20.0
LATENCIES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Monitor(Collector):
    """This process's own counters, and the last numbers of the tables. Each app has one: the module has no state."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._registry = CollectorRegistry()
        self._answers = Counter(
            "sellerwatch_http_requests", "Answers of the API.", ("method", "route", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "sellerwatch_http_request_seconds",
            "From a request to the begin of its answer.",
            ("route",),
            buckets=LATENCIES,
            registry=self._registry,
        )
        ProcessCollector(registry=self._registry)
        self._cached: tuple[float, MetricsSnapshot] | None = None
        self._parts: Parts | None = None
        self._registry.register(self)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        self._answers.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    async def page(self, parts: Parts) -> bytes:
        self._parts = parts
        began = self._clock.monotonic()
        if self._cached is None or self._cached[0] <= began:
            session = parts.session("metrics", "en")
            snapshot = await session.ask(read_metrics, session.pool, ZoneInfo(parts.settings.timezone))
            now = self._clock.monotonic()
            self._cached = now + max(CACHE_SECONDS, CACHE_TIMES * (now - began)), snapshot
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Return what the registry shows; nothing before the tables were first read."""
        if self._cached is None or self._parts is None:
            return
        yield from _tables(self._cached[1])
        yield from _process(self._parts)


def _tables(snapshot: MetricsSnapshot) -> Iterator[Metric]:
    t = snapshot.counts
    yield _gauge("tasks", "Tasks by type and state.", ("type", "status"), t.tasks)
    yield _gauge("executions", "Runs by state, refreshes of single products included.", ("status",), t.executions)
    yield _gauge("sellers", "Sellers by state.", ("status",), t.sellers)
    yield _gauge("products", "Products by state.", ("state",), t.products)
    yield _gauge("outbox_messages", "Messages by outbox and state.", ("outbox", "status"), t.outbox)
    yield _gauge("outbox_lag_seconds", "Age of the oldest message that has not arrived.", ("outbox",), t.outbox_lag)
    yield _gauge("agents", "Agents by state.", ("status",), t.agents)
    yield _gauge("circuits", "Agents' circuits by state.", ("state",), t.circuits)
    breaker = {str(state): float(state == snapshot.breaker) for state in CircuitState}
    yield _gauge("pool_breaker", "1 for the state the pool's breaker is in.", ("state",), breaker)
    circuits = {
        (each.endpoint.value, str(state)): float(state is each.state)
        for each in snapshot.marketplace.endpoints
        for state in CircuitState
    }
    yield _gauge("marketplace_circuit", "1 for the state an endpoint's circuit is in.", ("endpoint", "state"), circuits)
    states = {str(state): float(number) for state, number in snapshot.freshness.items()}
    yield _gauge("sellers_by_freshness", "Sellers by how fresh they are.", ("state",), states)
    yield _gauge("seller_fresh_share", "Share of a seller's products read in time.", ("seller",), snapshot.shares)
    yield _gauge(
        "seller_undelivered", "Events of a seller that wait for more than 60 s.", ("seller",), snapshot.undelivered
    )
    yield _histogram("request_seconds", "Requests to the marketplace.", snapshot.latency, LATENCY_BOUNDS, 1000)
    yield _histogram(
        "change_to_delivery_seconds", "From a change to its delivery.", snapshot.delivery, DELIVERY_BOUNDS, 1
    )
    yield CounterMetricFamily(
        "sellerwatch_budget_repairs", "Budgets that were wrong and were repaired.", value=t.repairs
    )
    backup = snapshot.backup
    if backup is not None and backup.made_at is not None:
        yield GaugeMetricFamily(
            "sellerwatch_last_backup_timestamp_seconds",
            "When the last good backup was made.",
            value=backup.made_at.timestamp(),
        )
        yield GaugeMetricFamily(
            "sellerwatch_last_backup_bytes", "Size of the last good backup.", value=backup.bytes or 0
        )
    for name, help_text, value in (
        ("marketplace_paused", "1 while all requests to the marketplace are paused.", snapshot.marketplace.is_paused),
        ("marketplace_paused_sellers", "Sellers paused alone.", len(snapshot.marketplace.seller_pauses)),
        ("permits_used", "Requests in the agents' windows.", snapshot.permits_used),
        ("permits_left", "Requests the agents' windows have room for.", snapshot.permits_left),
        ("quarantine_cases_open", "Cases that wait for an operator.", t.quarantine),
        ("removals_held", "Removals that wait for an operator.", t.removals),
        ("workers", "Processes that have not left.", t.workers),
    ):
        yield GaugeMetricFamily(f"sellerwatch_{name}", help_text, value=value)


def _process(parts: Parts) -> Iterator[Metric]:
    progress = parts.service.progress
    for name, help_text, value in (
        ("tasks_completed", "Tasks this process completed.", progress.completed),
        ("tasks_failed", "Tasks this process saw fail for good.", progress.failed),
        ("tasks_again", "Tasks this process put back for another try.", progress.again),
        ("products_added", "Products this process found.", progress.products),
        ("events_made", "Events this process made.", progress.events),
    ):
        yield CounterMetricFamily(f"sellerwatch_process_{name}", help_text, value=value)
    ended = CounterMetricFamily(
        "sellerwatch_process_messages", "Tries of messages this process ended.", labels=("outbox", "outcome")
    )
    for outbox, delivery in zip(("product", "scheduler"), parts.service.deliveries, strict=False):
        for outcome in ("delivered", "retried", "failed"):
            ended.add_metric((outbox, outcome), getattr(delivery, outcome))
    yield ended


def _gauge(
    name: str, help_text: str, labels: tuple[str, ...], values: Mapping[str, float] | Mapping[tuple[str, str], float]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"sellerwatch_{name}", help_text, labels=labels)
    for label, value in values.items():
        family.add_metric((label,) if isinstance(label, str) else label, value)
    return family


def _histogram(
    name: str, help_text: str, buckets: Mapping[str, int], bounds: Sequence[int], per_second: int
) -> HistogramMetricFamily:
    """Days add up, so a bucket never falls. The sum of the values is not kept."""
    total, found = 0, []
    for bound in bounds:
        total += buckets.get(str(bound), 0)
        found.append((f"{bound / per_second:g}", total))
    found.append(("+Inf", sum(buckets.values())))
    family = HistogramMetricFamily(f"sellerwatch_{name}", help_text)
    family.add_metric((), found, None)
    return family


class Meter:
    """Count every answer and how long it took to begin. This is the outermost layer, so that early refusals count."""

    def __init__(self, app: ASGIApp, monitor: Monitor, clock: Clock, templates: Mapping[Any, str]) -> None:
        self._app, self._monitor, self._clock, self._templates = app, monitor, clock, templates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, method = self._clock.monotonic(), _method(scope)

        async def listen(message: Message) -> None:
            if message["type"] == "http.response.start":
                took = self._clock.monotonic() - began
                # The template of the route, never the path that was sent: each path would become a series.
                route = self._templates.get(scope.get("endpoint"), "none")
                self._monitor.count(method, route, message["status"], took)
            await send(message)

        await self._app(scope, receive, listen)


def _method(scope: Scope) -> str:
    """Return a known method, or `other`: callers may send any word, and each would become a series."""
    known = ("GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS")
    return scope["method"] if scope["method"] in known else "other"


router = APIRouter(tags=["metrics"], route_class=StrictRoute)


@router.get(
    "/metrics",
    response_class=Response,
    responses={
        200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Prometheus text format"},
        **refusals(400, 401, 413, 429, 500, 503),
    },
)
async def show_metrics(request: Request, _: Watcher) -> Response:
    """Numbers of everything, for Prometheus."""
    parts = parts_of(request)
    monitor: Monitor = request.app.state.monitor
    return Response(await monitor.page(parts), media_type=CONTENT_TYPE)
