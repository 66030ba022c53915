"""/actuator/health: liveness, readiness, and the state of each part.

- Liveness (restart the process?) checks nothing but this process.
- Readiness (send it work?) checks what every request needs: database, schema, free disk space, a worker with a
  heartbeat, a scheduler that runs.
- The whole (alert somebody?) also checks what is wrong although requests are answered: events that are not delivered, a
  pool whose breaker is open, a marketplace that does not answer or is paused.

A part that cannot be read is down. Every caller sees up or down; a caller with a valid token sees the numbers too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any, TypeVar

from fastapi import APIRouter, Request, Response
from pydantic import Field

from sellerwatch.agents.marketplace_status import MarketplaceStatusView, show_marketplace
from sellerwatch.compose.database import disk_left, schema_head
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.clock import stamp
from sellerwatch.kernel.errors import SellerwatchError
from sellerwatch.reports.queries import read_service_health
from sellerwatch.reports.service_counts import ServiceHealth
from sellerwatch.service.service import ProcessRole
from sellerwatch.web.api.authorization import caller_of
from sellerwatch.web.api.context import Parts, parts_of
from sellerwatch.web.api.errors import refusals
from sellerwatch.web.api.models import ResponseModel
from sellerwatch.web.api.view_route import StrictRoute

log = logging.getLogger(__name__)

T = TypeVar("T")

#: A part that takes longer than this to answer is down.
TIMEOUT = 5.0
LEAST_DISK = 50_000_000
#: The scheduler looks every 10 s at least; after this long without a look it hangs.
SCHEDULER_SILENT = 30.0
#: Intervals of the outbox after which a due event that was not sent is late.
INTERVALS = 3


class Status(StrEnum):
    UP = "UP"
    DOWN = "DOWN"


class Component(ResponseModel):
    status: Status
    details: dict[str, Any] | None = Field(None, description="Only for callers with a valid token.")


class Health(ResponseModel):
    status: Status = Field(examples=["UP"])
    components: dict[str, Component] | None = None


@dataclass(frozen=True)
class Finding:
    """The state of one part. `ready`: no request can be served without it."""

    name: str
    up: bool
    ready: bool = True
    details: dict[str, Any] = field(default_factory=dict)


def _answers(down: str) -> dict[int | str, dict[str, Any]]:
    return {503: {"model": Health, "description": down}, **refusals(400, 401, 413, 429, 500)}


#: A token is optional.
OPTIONAL_TOKEN: dict[str, Any] = {"security": [{}, {"HTTPBearer": []}]}

router = APIRouter(prefix="/actuator/health", tags=["health"], route_class=StrictRoute)


@router.get("", responses=_answers("Some part is down"), openapi_extra=OPTIONAL_TOKEN, response_model_exclude_none=True)
async def health(request: Request, response: Response) -> Health:
    """Every part, up or down; 503 when one is down."""
    return await _answer(request, response, lambda finding: True)


@router.get(
    "/readiness", responses=_answers("Not ready"), openapi_extra=OPTIONAL_TOKEN, response_model_exclude_none=True
)
async def readiness(request: Request, response: Response) -> Health:
    """Whether it can be given work: 503 when it cannot."""
    return await _answer(request, response, lambda finding: finding.ready)


@router.get("/liveness", responses=refusals(400, 413, 429, 500), response_model_exclude_none=True)
async def liveness() -> Health:
    """Whether the process answers; nothing else is checked."""
    return Health(status=Status.UP)


async def _answer(request: Request, response: Response, chosen: Callable[[Finding], bool]) -> Health:
    parts = parts_of(request)
    has_token = await caller_of(request) is not None
    found = [finding for finding in await find_all(parts) if chosen(finding)]
    is_up = all(finding.up for finding in found)
    if not is_up:
        response.status_code = 503
    return Health(
        status=_status(is_up),
        components={
            finding.name: Component(status=_status(finding.up), details=finding.details if has_token else None)
            for finding in found
        },
    )


async def find_all(parts: Parts) -> list[Finding]:
    """Check every part; nothing is cached."""
    session = parts.session("health", "en")
    health = await _read(session.ask(read_service_health, parts.service.crawl.visibility), "the database")
    marketplace = await _read(session.ask(show_marketplace), "the state of the marketplace")
    outside = await asyncio.gather(*(_outside(name, check) for name, check in parts.service.outside.items()))
    # A part that is partly ours and partly another server's is up when both are.
    ours = [
        Finding("database", health is not None),
        _schema(health),
        _disk(parts),
        _worker(parts, health),
        *((_scheduler(parts, health),) if parts.service.schedules else ()),
        _outbox(parts, health),
        _breaker(health),
        _marketplace(marketplace),
    ]
    others = {finding.name: finding for finding in outside}
    both = [_together(finding, others.pop(finding.name, None)) for finding in ours]
    return [*both, *others.values()]


def _together(ours: Finding, other: Finding | None) -> Finding:
    if other is None:
        return ours
    return Finding(ours.name, ours.up and other.up, ours.ready and other.ready, {**ours.details, **other.details})


async def _read(answer: Coroutine[Any, Any, T], what: str) -> T | None:
    try:
        async with asyncio.timeout(TIMEOUT):
            return await answer
    except Exception:
        log.exception("health: cannot read", extra={"part": what})
        return None


def _schema(health: ServiceHealth | None) -> Finding:
    head = schema_head()
    current = None if health is None else health.revision
    return Finding("schema", current == head, details={"current": current, "needed": head})


def _disk(parts: Parts) -> Finding:
    try:
        left = disk_left(parts.settings)
    except OSError:
        log.exception("the disk cannot be looked at")
        return Finding("disk", up=False)
    return Finding("disk", left is None or left >= LEAST_DISK, details={"freeBytes": left, "neededBytes": LEAST_DISK})


def _worker(parts: Parts, health: ServiceHealth | None) -> Finding:
    beat = None if health is None or health.beat_at is None else stamp(health.beat_at)
    workers = 0 if health is None else health.workers
    silent = parts.service.crawl.visibility.total_seconds()
    return Finding(
        "worker", workers > 0, details={"workers": workers, "lastBeatAt": beat, "silentAfterSeconds": silent}
    )


def _scheduler(parts: Parts, health: ServiceHealth | None) -> Finding:
    """Our own scheduler by its last look, others by their heartbeats."""
    if ProcessRole.SCHEDULER not in parts.service.roles:
        schedulers = 0 if health is None else health.schedulers
        return Finding("scheduler", schedulers > 0, details={"schedulers": schedulers})
    turned = parts.service.last_ended.get("start_due")
    ago = None if turned is None else parts.clock.monotonic() - turned
    return Finding(
        "scheduler",
        ago is not None and ago < SCHEDULER_SILENT,
        details={"lastTurnSecondsAgo": None if ago is None else round(ago, 1)},
    )


def _outbox(parts: Parts, health: ServiceHealth | None) -> Finding:
    """Down where a due event is not sent for long. Without a receiver events wait, which is not an error."""
    if health is None:
        return Finding("outbox", up=False, ready=False)
    now, delivery = parts.clock.now(), parts.service.deliveries[0]
    lag = timedelta(0) if health.oldest_due is None else now - health.oldest_due
    longest = timedelta(seconds=INTERVALS * parts.settings.outbox_interval_seconds)
    details = {"lagSeconds": round(lag.total_seconds(), 1), "receiver": delivery.has_receiver}
    return Finding("outbox", not delivery.has_receiver or lag <= longest, ready=False, details=details)


def _breaker(health: ServiceHealth | None) -> Finding:
    state = None if health is None else health.breaker
    up = state is not None and state != CircuitState.OPEN
    return Finding("breaker", up, ready=False, details={"state": state})


def _marketplace(found: MarketplaceStatusView | None) -> Finding:
    """Down while an endpoint does not answer or all requests are paused: products are not read then. The pause of one
    seller does not count."""
    if found is None:
        return Finding("marketplace", up=False, ready=False)
    state = "PAUSED" if found.paused else "OPEN" if found.away else "CLOSED"
    details = {
        "state": state,
        "circuits": {each.endpoint.value: each.state.value for each in found.circuits},
        "pausedBy": found.paused_by,
        "pausedSellers": len(found.sellers),
    }
    return Finding("marketplace", state == "CLOSED", ready=False, details=details)


async def _outside(name: str, check: Callable[[], Awaitable[object]]) -> Finding:
    """Check another server. Without it the API answers, but less work is done."""
    try:
        async with asyncio.timeout(TIMEOUT):
            await check()
    except (SellerwatchError, TimeoutError) as refusal:
        problem = str(refusal) or f"no answer within {TIMEOUT:g} s"
        log.warning("health: a server cannot be used", extra={"part": name, "problem": problem})
        return Finding(name, up=False, ready=False, details={"problem": problem})
    return Finding(name, up=True, ready=False)


def _status(up: bool) -> Status:
    return Status.UP if up else Status.DOWN
