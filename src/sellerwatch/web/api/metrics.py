"""/metrics: numbers for Prometheus. Those of the tables are read in one view when they are asked for; those of this
process are counted as they happen.

It needs a viewer's token or an internal key. It could be left open to the machine itself, but behind a proxy everybody
comes from the machine itself, and the numbers are the business: how many sellers, how much of the budget is left.

A read that fails is a failed scrape (503), never zeros: Prometheus then says that the target is down.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response
from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from sellerwatch.agents.marketplace_status import MarketplaceStatus, marketplace_status
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.clock import moment
from sellerwatch.operations.ports import ServiceTx
from sellerwatch.reports.service_counts import ServiceCounts
from sellerwatch.web.api.authorization import Watcher
from sellerwatch.web.api.context import Parts, parts_of
from sellerwatch.web.api.errors import refusals

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from sellerwatch.kernel.clock import Clock

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
#: An answer is kept for so many seconds, or for so many times as long as it took to count: scraping costs at most 5 %.
KEPT_SECONDS, KEPT_TIMES = 5.0, 20.0
LATENCIES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True)
class Snapshot:
    """The tables at one moment."""

    tallies: ServiceCounts
    breaker: str
    permits_used: int
    permits_left: int
    marketplace: MarketplaceStatus


class Monitor(Collector):
    """This process's own counters, and the last look at the tables. One for each app: no state of the module's."""

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
        self._kept: tuple[float, Snapshot] | None = None
        self._parts: Parts | None = None
        self._registry.register(self)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        self._answers.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    async def page(self, parts: Parts) -> bytes:
        self._parts = parts
        began = self._clock.monotonic()
        if self._kept is None or self._kept[0] <= began:
            snapshot = await look(parts)
            now = self._clock.monotonic()
            self._kept = now + max(KEPT_SECONDS, KEPT_TIMES * (now - began)), snapshot
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Asked by the registry; before the first look there is nothing to tell."""
        if self._kept is None or self._parts is None:
            return
        yield from _tables(self._kept[1])
        yield from _process(self._parts)


async def look(parts: Parts) -> Snapshot:
    at, limits = moment(parts.clock), parts.service.crawl.limits

    def work(tx: ServiceTx) -> Snapshot:
        windows = [standing.window for standing in tx.pool_report.standings(at, limits)]
        return Snapshot(
            tallies=tx.counts.tallies(at.now),
            breaker=tx.circuits.breaker().state,
            permits_used=sum(window.used for window in windows),
            permits_left=sum(window.left for window in windows),
            marketplace=marketplace_status(tx),
        )

    return await parts.read(work)


def _tables(snapshot: Snapshot) -> Iterator[Metric]:
    t = snapshot.tallies
    yield _gauge("tasks", "Tasks by type and state.", ("type", "status"), t.tasks)
    yield _gauge("executions", "Runs by state.", ("status",), t.executions)
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
    for name, said, value in (
        ("marketplace_paused", "1 while all requests to the marketplace are paused.", snapshot.marketplace.is_paused),
        ("marketplace_paused_sellers", "Sellers paused alone.", len(snapshot.marketplace.seller_pauses)),
        ("permits_used", "Requests in the agents' windows.", snapshot.permits_used),
        ("permits_left", "Requests the agents' windows have room for.", snapshot.permits_left),
        ("quarantine_cases_open", "Cases that wait for an operator.", t.quarantine),
        ("removals_held", "Removals that wait for an operator.", t.removals),
        ("workers", "Processes that have not left.", t.workers),
    ):
        yield GaugeMetricFamily(f"sellerwatch_{name}", said, value=value)


def _process(parts: Parts) -> Iterator[Metric]:
    progress = parts.service.progress
    for name, said, value in (
        ("tasks_completed", "Tasks this process completed.", progress.completed),
        ("tasks_failed", "Tasks this process saw fail for good.", progress.failed),
        ("tasks_again", "Tasks this process put back for another try.", progress.again),
        ("products_added", "Products this process found.", progress.products),
        ("events_made", "Events this process made.", progress.events),
    ):
        yield CounterMetricFamily(f"sellerwatch_process_{name}", said, value=value)
    ended = CounterMetricFamily(
        "sellerwatch_process_messages", "Tries of messages this process ended.", labels=("outbox", "outcome")
    )
    for outbox, delivery in zip(("product", "scheduler"), parts.service.deliveries, strict=False):
        for outcome in ("delivered", "retried", "failed"):
            ended.add_metric((outbox, outcome), getattr(delivery, outcome))
    yield ended


def _gauge(
    name: str, said: str, labels: tuple[str, ...], values: Mapping[str, float] | Mapping[tuple[str, str], float]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"sellerwatch_{name}", said, labels=labels)
    for of, value in values.items():
        family.add_metric((of,) if isinstance(of, str) else of, value)
    return family


class Meter:
    """Counts every answer and how long it took to begin; the outermost layer, so that refusals at the border count."""

    def __init__(self, app: ASGIApp, monitor: Monitor, clock: Clock) -> None:
        self._app, self._monitor, self._clock = app, monitor, clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, method = self._clock.monotonic(), _method(scope)

        async def listen(message: Message) -> None:
            if message["type"] == "http.response.start":
                took = self._clock.monotonic() - began
                self._monitor.count(method, _route(scope), message["status"], took)
            await send(message)

        await self._app(scope, receive, listen)


def _method(scope: Scope) -> str:
    """Anybody may send any word as a method; a monitor must not keep them all."""
    known = ("GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS")
    return scope["method"] if scope["method"] in known else "other"


def _route(scope: Scope) -> str:
    """The path as it is documented, never as it was sent: ids would make as many series as there are ids."""
    if "endpoint" not in scope:
        return "none"
    segments = scope["path"].split("/")
    for name, value in reversed(scope.get("path_params", {}).items()):
        place = len(segments) - 1 - segments[::-1].index(str(value)) if str(value) in segments else None
        if place is not None:
            segments[place] = f"{{{name}}}"
    return "/".join(segments)


router = APIRouter(tags=["metrics"])


@router.get(
    "/metrics",
    response_class=Response,
    responses={
        200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Prometheus text format"},
        **refusals(400, 401, 413, 429, 500, 503),
    },
)
async def metrics(request: Request, _: Watcher) -> Response:
    """Numbers of everything, for Prometheus."""
    parts = parts_of(request)
    monitor: Monitor = request.app.state.monitor
    return Response(await monitor.page(parts), media_type=CONTENT_TYPE)
