"""/api/internal: what the scheduler outside calls, by an API key."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from functools import partial

from fastapi import APIRouter, Request
from pydantic import Field, StrictStr

from sellerwatch.crawling.start_due import note_started
from sellerwatch.crawling.trigger import Triggered, trigger
from sellerwatch.kernel.errors import Unavailable
from sellerwatch.kernel.ids import SellerId
from sellerwatch.web.api.errors import refusals
from sellerwatch.web.api.parts import Parts, parts_of
from sellerwatch.web.api.sellers import Started
from sellerwatch.web.api.shapes import Given
from sellerwatch.web.api.who import Internal

log = logging.getLogger(__name__)

#: API destinations of EventBridge give up after 5 seconds.
ANSWER_WITHIN = 3.0
ASK_AGAIN = 10.0

router = APIRouter(prefix="/api/internal", tags=["internal"], responses=refusals(400, 401, 413, 429, 500, 503))


class TriggerBody(Given):
    seller_id: StrictStr = Field(examples=["seller_12345"])


@dataclass(eq=False)
class StillAsking(Unavailable):
    """The marketplace takes its time to say how many products a seller has."""

    seller_id: str
    seconds: float

    @property
    def retry_after(self) -> float:  # type: ignore[override]
        return self.seconds


@router.post("/crawling/trigger", responses=refusals(404, 409, 502))
async def trigger_crawling(body: TriggerBody, request: Request, _: Internal) -> Started:
    """Start a run of a seller, as the scheduler does when its time has come. Answers within 4 seconds: one that takes
    longer to start is answered with 503 and starts all the same, so that asking again meets 409."""
    parts, seller_id = parts_of(request), SellerId.parse(body.seller_id)
    starting = asyncio.create_task(_start(parts, seller_id))
    done, _waiting = await asyncio.wait({starting}, timeout=ANSWER_WITHIN)
    if not done:
        parts.service.starting.add(starting)
        starting.add_done_callback(partial(_ended, parts, seller_id))
        raise StillAsking(seller_id=seller_id, seconds=ASK_AGAIN)
    started = starting.result()
    return Started(execution_id=started.execution_id, task_count=started.task_count)


async def _start(parts: Parts, seller_id: SellerId) -> Triggered:
    started = await trigger(parts.service.crawl, seller_id, "scheduler")
    if parts.service.late_only:
        await note_started(parts.service.crawl, seller_id)
    parts.service.nudge()
    return started


def _ended(parts: Parts, seller_id: SellerId, starting: asyncio.Task[Triggered]) -> None:
    parts.service.starting.discard(starting)
    if not starting.cancelled() and (problem := starting.exception()) is not None:
        log.warning("a run that took its time was not started", extra={"seller": seller_id, "problem": str(problem)})
