"""Why? From a product, a task, a run or an event: what led to it and what came of it."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from sellerwatch.reports.trace import TraceKind, TraceView, why
from sellerwatch.web.console.page_request import Viewer, number_of
from sellerwatch.web.console.rendering import PageRoute, show

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/why/{kind}/{name}")
async def why_page(kind: TraceKind, name: str, visit: Viewer) -> Response:
    version = number_of(visit.asked("version")) or None
    trace = await visit.operations.ask(why, name, version)
    return show(visit, "why.html", trace=trace, back=_page(trace))


def _page(trace: TraceView) -> str:
    match trace.kind:
        case TraceKind.PRODUCT:
            return f"/products/{trace.id}"
        case TraceKind.RUN:
            return f"/executions/{trace.id}"
        case TraceKind.EVENT:
            return f"/outbox/{trace.id}"
        case _:
            return "/tasks"
