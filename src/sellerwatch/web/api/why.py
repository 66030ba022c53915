"""/api/v1/why: the trace of a product, a task, a run or an event."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from sellerwatch.reports.trace import TraceView, why
from sellerwatch.web.api.authorization import ViewerSession
from sellerwatch.web.api.errors import refusals
from sellerwatch.web.api.view_route import ViewRoute

router = APIRouter(prefix="/why", tags=["why"], route_class=ViewRoute)


@router.get("/{id}", responses=refusals(404))
async def show_trace(
    session: ViewerSession,
    given: Annotated[
        str,
        Path(alias="id", max_length=100, description="An item number, or the id of a task, a run or an event."),
    ],
    version: Annotated[int | None, Query(ge=1, description="Of a product; left out: the last one.")] = None,
) -> TraceView:
    """Everything that led to one product, task, run or event, and what came of it."""
    return await session.ask(why, given, version)
