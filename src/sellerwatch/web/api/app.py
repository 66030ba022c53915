"""The API as an ASGI app. Everything it needs is passed in; nothing is opened here."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import APIRouter, FastAPI

from sellerwatch.web.api import (
    agents,
    audit,
    crawling_metrics,
    executions,
    internal,
    limits,
    outbox,
    products,
    quarantine,
    removals,
    schedules,
    sellers,
    tasks,
)
from sellerwatch.web.api.border import Allowance, Border
from sellerwatch.web.api.errors import answer_refusals, refusals
from sellerwatch.web.api.parts import Parts
from sellerwatch.web.api.turnstile import Turnstile

ROUTERS = (
    sellers.router,
    crawling_metrics.router,
    executions.router,
    tasks.router,
    products.router,
    outbox.router,
    agents.router,
    agents.status_router,
    limits.router,
    quarantine.router,
    removals.router,
    schedules.router,
    audit.router,
)
SAID = "Keeps a product server in step with marketplace sellers. Refusals have one shape; times are ISO-8601 in UTC."


def make_app(parts: Parts) -> FastAPI:
    app = FastAPI(
        title="Sellerwatch", version=version("sellerwatch"), description=SAID, docs_url="/docs", redoc_url=None
    )
    app.state.parts = parts
    answer_refusals(app)
    api = APIRouter(prefix="/api/v1", responses=refusals(400, 401, 403, 413, 429, 500, 503))
    for router in ROUTERS:
        api.include_router(router)
    app.include_router(api)
    app.include_router(internal.router)
    app.add_middleware(Turnstile, clock=parts.clock, is_busy=lambda: parts.service.worker.is_busy)
    app.add_middleware(Border, allowance=Allowance(parts.settings.api_requests_per_minute, parts.clock))
    return app
