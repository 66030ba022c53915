"""/api/internal: what the scheduler outside calls, by an API key."""

from __future__ import annotations

from fastapi import APIRouter, Request
from pydantic import Field, StrictStr

from sellerwatch.crawling.start_due import note_started
from sellerwatch.crawling.trigger import trigger
from sellerwatch.kernel.ids import SellerId
from sellerwatch.web.api.errors import refusals
from sellerwatch.web.api.parts import parts_of
from sellerwatch.web.api.sellers import Started
from sellerwatch.web.api.shapes import Given
from sellerwatch.web.api.who import Internal

router = APIRouter(prefix="/api/internal", tags=["internal"], responses=refusals(400, 401, 413, 429, 500, 503))


class TriggerBody(Given):
    seller_id: StrictStr = Field(examples=["seller_12345"])


@router.post("/crawling/trigger", responses=refusals(404, 409, 502))
async def trigger_crawling(body: TriggerBody, request: Request, _: Internal) -> Started:
    """Start a run of a seller, as the scheduler does when its time has come."""
    parts = parts_of(request)
    seller_id = SellerId.parse(body.seller_id)
    started = await trigger(parts.service.crawl, seller_id, "scheduler")
    if parts.service.late_only:
        await note_started(parts.service.crawl, seller_id)
    parts.service.nudge()
    return Started(execution_id=started.execution_id, task_count=started.task_count)
