"""The API and the console as one ASGI app. Everything it needs is passed in; nothing is opened here."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.routing import iter_route_contexts

from sellerwatch.kernel.views import camel_case
from sellerwatch.web.api import (
    agents,
    audit,
    auth,
    changes,
    crawling_metrics,
    event_schemas,
    events,
    executions,
    health,
    internal,
    limits,
    marketplace,
    metrics,
    outbox,
    plan,
    products,
    quarantine,
    removals,
    resends,
    resyncs,
    retention,
    schedules,
    sellers,
    status,
    tasks,
    tokens,
    users,
    why,
)
from sellerwatch.web.api.authorization import is_signed
from sellerwatch.web.api.context import Parts
from sellerwatch.web.api.description import describe
from sellerwatch.web.api.errors import answer_refusals, refusals
from sellerwatch.web.api.idempotency import IdempotencyMiddleware
from sellerwatch.web.api.proxies import ForwardedMiddleware, TrustedProxies
from sellerwatch.web.api.read_throttle import ReadThrottle
from sellerwatch.web.api.request_guard import RateAllowance, RequestGuard
from sellerwatch.web.console.app import add_console

ROUTERS = (
    auth.router,
    users.router,
    tokens.router,
    sellers.router,
    changes.router,
    crawling_metrics.router,
    plan.router,
    executions.router,
    tasks.router,
    products.router,
    outbox.router,
    resends.router,
    agents.router,
    agents.status_router,
    limits.router,
    marketplace.router,
    quarantine.router,
    removals.router,
    resyncs.router,
    schedules.router,
    audit.router,
    retention.router,
    status.attention_router,
    status.router,
    why.router,
    events.router,
)
SAID = "Keeps a product server in step with marketplace sellers. Refusals have one shape; times are ISO-8601 in UTC."


def make_app(parts: Parts) -> FastAPI:
    app, routed = _bare(), _routed()
    app.router.routes += routed.router.routes
    app.openapi = routed.openapi  # type: ignore[method-assign]
    app.state.parts = parts
    app.state.stream = events.Stream(parts)
    answer_refusals(app)
    app.add_middleware(IdempotencyMiddleware, parts=parts)
    app.add_middleware(ReadThrottle, clock=parts.clock, is_busy=lambda: parts.service.worker.is_busy)
    allowance = RateAllowance(parts.settings.api_requests_per_minute, parts.clock)
    app.add_middleware(RequestGuard, allowance=allowance, is_signed=is_signed)
    app.state.monitor = metrics.Monitor(parts.clock)
    app.add_middleware(metrics.Meter, monitor=app.state.monitor, clock=parts.clock, templates=_templates())
    app.add_middleware(ForwardedMiddleware, trusted=TrustedProxies(parts.settings.trusted_proxies))
    return app


def _bare() -> FastAPI:
    return FastAPI(
        title="Sellerwatch",
        version=version("sellerwatch"),
        description=SAID,
        docs_url=None,
        openapi_url=None,
        redoc_url=None,
        # A redirect would be built from the Host header, which anybody may write.
        redirect_slashes=False,
        generate_unique_id_function=lambda route: camel_case(route.name),
    )


@cache
def _templates() -> dict[Any, str]:
    """Return the template of each route's path by the function that serves it."""
    contexts = iter_route_contexts(_routed().router.routes)
    return {context.endpoint: context.path_format or "none" for context in contexts}


@cache
def _routed() -> FastAPI:
    """Every address, once for a process: what each takes and tells is worked out from its types, which takes a tenth of
    a second, and is the same whatever it is served from."""
    app = _bare()
    api = APIRouter(prefix="/api/v1", responses=refusals(400, 401, 403, 413, 429, 500, 503))
    for router in ROUTERS:
        api.include_router(router)
    app.include_router(api)
    for router in (internal.router, event_schemas.router, health.router, metrics.router):
        app.include_router(router)
    add_console(app)
    describe(app)
    return app
