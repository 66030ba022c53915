"""Starting a run for a caller who does not wait long: the run is written first, so its start is not lost."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from sellerwatch.crawling.trigger import Triggered, request_run, start
from sellerwatch.crawling.views import StartedExecutionView
from sellerwatch.kernel.ids import ExecutionId, SellerId
from sellerwatch.web.api.context import Parts

log = logging.getLogger(__name__)

#: API destinations of EventBridge give up after 5 seconds, and a person does not wait much longer.
ANSWER_WITHIN = 3.0


async def start_run(parts: Parts, seller_id: SellerId, actor: str) -> StartedExecutionView:
    """Start a run, and return within 4 seconds. One that takes longer to start is returned as waiting (`task_count` is
    None) and starts in the background."""
    return await finish_start(parts, await request_run(parts.service.crawl, seller_id, actor), seller_id)


async def finish_start(parts: Parts, execution_id: ExecutionId, seller_id: SellerId) -> StartedExecutionView:
    """As `start_run`, for a run that is written already."""
    starting = asyncio.create_task(_start(parts, execution_id, seller_id))
    done, _waiting = await asyncio.wait({starting}, timeout=ANSWER_WITHIN)
    if done:
        return StartedExecutionView.of(execution_id, starting.result().task_count)
    parts.service.starting.add(starting)
    starting.add_done_callback(partial(_ended, parts, seller_id))
    return StartedExecutionView.of(execution_id, None)


async def _start(parts: Parts, execution_id: ExecutionId, seller_id: SellerId) -> Triggered:
    started = await start(parts.service.crawl, execution_id, seller_id)
    parts.service.nudge()
    return started


def _ended(parts: Parts, seller_id: SellerId, starting: asyncio.Task[Triggered]) -> None:
    parts.service.starting.discard(starting)
    if not starting.cancelled() and (problem := starting.exception()) is not None:
        log.warning("a run that took its time was not started", extra={"seller": seller_id, "problem": str(problem)})
