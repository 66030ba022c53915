"""/api/internal: what the scheduler outside calls, by an API key."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from fastapi import APIRouter, Request, Response
from pydantic import Field, StrictStr

from sellerwatch.crawling.start_due import note_started
from sellerwatch.crawling.trigger import Triggered, request_run, start
from sellerwatch.kernel.ids import ExecutionId, SellerId
from sellerwatch.web.api.authorization import Internal
from sellerwatch.web.api.context import Parts, parts_of
from sellerwatch.web.api.errors import refusals
from sellerwatch.web.api.models import RequestModel
from sellerwatch.web.api.sellers import Started

log = logging.getLogger(__name__)

#: API destinations of EventBridge give up after 5 seconds.
ANSWER_WITHIN = 3.0

router = APIRouter(prefix="/api/internal", tags=["internal"], responses=refusals(400, 401, 413, 429, 500, 503))


class TriggerBody(RequestModel):
    seller_id: StrictStr = Field(examples=["seller_12345"])


@router.post("/crawling/trigger", responses=refusals(404, 409) | {202: {"model": Started}})
async def trigger_crawling(body: TriggerBody, request: Request, response: Response, _: Internal) -> Started:
    """Start a run of a seller, as the scheduler does when its time has come. Answers within 4 seconds: a run that
    cannot be started yet is answered with 202 and `taskCount` null, and starts when the marketplace says how many
    products there are."""
    parts, seller_id = parts_of(request), SellerId.parse(body.seller_id)
    crawl = parts.service.crawl
    execution_id = await request_run(crawl, seller_id, "scheduler")
    if parts.service.late_only:
        await note_started(crawl, seller_id)
    starting = asyncio.create_task(_start(parts, execution_id, seller_id))
    done, _waiting = await asyncio.wait({starting}, timeout=ANSWER_WITHIN)
    if not done:
        parts.service.starting.add(starting)
        starting.add_done_callback(partial(_ended, parts, seller_id))
        started = Triggered(execution_id, None)
    else:
        started = starting.result()
    if started.task_count is None:
        response.status_code = 202
    return Started.of(started)


async def _start(parts: Parts, execution_id: ExecutionId, seller_id: SellerId) -> Triggered:
    started = await start(parts.service.crawl, execution_id, seller_id)
    parts.service.nudge()
    return started


def _ended(parts: Parts, seller_id: SellerId, starting: asyncio.Task[Triggered]) -> None:
    parts.service.starting.discard(starting)
    if not starting.cancelled() and (problem := starting.exception()) is not None:
        log.warning("a run that took its time was not started", extra={"seller": seller_id, "problem": str(problem)})
