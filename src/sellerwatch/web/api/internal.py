"""/api/internal: what the scheduler outside calls, by an API key."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from pydantic import Field, StrictStr

from sellerwatch.crawling.start_due import note_started
from sellerwatch.crawling.trigger import request_run
from sellerwatch.crawling.views import StartedExecutionView
from sellerwatch.kernel.ids import SellerId
from sellerwatch.web.api.authorization import Internal
from sellerwatch.web.api.context import parts_of
from sellerwatch.web.api.errors import refusals
from sellerwatch.web.api.models import RequestModel
from sellerwatch.web.api.run_start import finish_start
from sellerwatch.web.api.view_route import StrictRoute

router = APIRouter(
    prefix="/api/internal",
    tags=["internal"],
    responses=refusals(400, 401, 413, 429, 500, 503),
    route_class=StrictRoute,
)


class TriggerBody(RequestModel):
    seller_id: StrictStr = Field(examples=["seller_12345"])


@router.post("/crawling/trigger", responses=refusals(404, 409) | {202: {"model": StartedExecutionView}})
async def trigger_crawling(
    body: TriggerBody, request: Request, response: Response, _: Internal
) -> StartedExecutionView:
    """Start a run of a seller, as the scheduler does when its time has come. Answers within 4 seconds: a run that
    cannot be started yet is answered with 202 and `taskCount` null, and starts when the marketplace says how many
    products there are."""
    parts, seller_id = parts_of(request), SellerId.parse(body.seller_id)
    crawl = parts.service.crawl
    execution_id = await request_run(crawl, seller_id, "scheduler")
    if parts.service.late_only:
        await note_started(crawl, seller_id)
    started = await finish_start(parts, execution_id, seller_id)
    if started.task_count is None:
        response.status_code = 202
    return started
