"""/actuator/health: whether it lives, whether it can be given work, and how each part of it is.

Three questions for three askers. Liveness (restart it?) looks at nothing but this process. Readiness (send it work?)
looks at what every request needs: database, schema, room on the disk, a worker that is heard of, a scheduler that
turns. The whole (call somebody?) also looks at what is wrong though requests are answered: events that do not arrive, a
pool whose breaker is open, a marketplace that does not answer or is paused. What cannot be read is down: a monitor that
says nothing would be taken for good news.

Everybody may ask and is told up or down; whoever has a valid token is told the numbers too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import Field

from sellerwatch.agents.marketplace_status import MarketplaceStatus, marketplace_status
from sellerwatch.compose.database import disk_left, schema_head
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.clock import stamp
from sellerwatch.kernel.errors import SellerwatchError
from sellerwatch.reports.service_counts import ServiceHealth
from sellerwatch.service.service import Role
from sellerwatch.web.api.authorization import caller_of
from sellerwatch.web.api.context import Parts, parts_of
from sellerwatch.web.api.errors import refusals
from sellerwatch.web.api.models import ResponseModel

log = logging.getLogger(__name__)

#: A database that takes longer than this to answer is not there for anybody else either.
PATIENCE = 5.0
LEAST_DISK = 50_000_000
#: The scheduler turns every 10 s at least, however far its next start is; this long without a turn it hangs.
SCHEDULER_SILENT = 30.0
#: So many sweeps of the outbox without a due event leaving.
SWEEPS = 3


class Status(StrEnum):
    UP = "UP"
    DOWN = "DOWN"


class Component(ResponseModel):
    status: Status
    details: dict[str, Any] | None = Field(None, description="Only for whoever sends a valid token.")


class Health(ResponseModel):
    status: Status = Field(examples=["UP"])
    components: dict[str, Component] | None = None


@dataclass(frozen=True)
class Finding:
    """How a part is. `ready`: without it no request can be served."""

    name: str
    up: bool
    ready: bool = True
    details: dict[str, Any] = field(default_factory=dict)


def _answers(down: str) -> dict[int | str, dict[str, Any]]:
    return {503: {"model": Health, "description": down}, **refusals(400, 401, 413, 429, 500)}


#: A token is welcome, not needed.
WELCOME: dict[str, Any] = {"security": [{}, {"HTTPBearer": []}]}

router = APIRouter(prefix="/actuator/health", tags=["health"])


@router.get("", responses=_answers("Some part is down"), openapi_extra=WELCOME, response_model_exclude_none=True)
async def health(request: Request, response: Response) -> Health:
    """Every part, up or down; 503 when one is down."""
    return await _told(request, response, lambda finding: True)


@router.get("/readiness", responses=_answers("Not ready"), openapi_extra=WELCOME, response_model_exclude_none=True)
async def readiness(request: Request, response: Response) -> Health:
    """Whether it can be given work: 503 when it cannot."""
    return await _told(request, response, lambda finding: finding.ready)


@router.get("/liveness", responses=refusals(400, 413, 429, 500), response_model_exclude_none=True)
async def liveness() -> Health:
    """Whether the process answers at all; nothing else is looked at."""
    return Health(status=Status.UP)


async def _told(request: Request, response: Response, chosen: Callable[[Finding], bool]) -> Health:
    parts = parts_of(request)
    known = await caller_of(request) is not None
    found = [finding for finding in await look(parts) if chosen(finding)]
    whole = all(finding.up for finding in found)
    if not whole:
        response.status_code = 503
    return Health(
        status=_status(whole),
        components={
            finding.name: Component(status=_status(finding.up), details=finding.details if known else None)
            for finding in found
        },
    )


async def look(parts: Parts) -> list[Finding]:
    """Every part as it is now; nothing is remembered from an earlier look."""
    vitals, marketplace = await _read(parts), await _read_marketplace(parts)
    outside = await asyncio.gather(*(_outside(name, ask) for name, ask in parts.service.outside.items()))
    # A part that is ours and another server's is up when both are.
    ours = [
        Finding("database", vitals is not None),
        _schema(vitals),
        _disk(parts),
        _worker(parts, vitals),
        *((_scheduler(parts, vitals),) if parts.service.schedules else ()),
        _outbox(parts, vitals),
        _breaker(vitals),
        _marketplace(marketplace),
    ]
    others = {finding.name: finding for finding in outside}
    both = [_together(finding, others.pop(finding.name, None)) for finding in ours]
    return [*both, *others.values()]


def _together(ours: Finding, other: Finding | None) -> Finding:
    if other is None:
        return ours
    return Finding(ours.name, ours.up and other.up, ours.ready and other.ready, {**ours.details, **other.details})


async def _read(parts: Parts) -> ServiceHealth | None:
    now, silent = parts.clock.now(), parts.service.crawl.visibility
    try:
        async with asyncio.timeout(PATIENCE):
            return await parts.read(lambda tx: tx.counts.vitals(now, silent))
    except Exception:
        log.exception("the database cannot be read")
        return None


async def _read_marketplace(parts: Parts) -> MarketplaceStatus | None:
    try:
        async with asyncio.timeout(PATIENCE):
            return await parts.read(marketplace_status)
    except Exception:
        log.exception("the state of the marketplace cannot be read")
        return None


def _schema(vitals: ServiceHealth | None) -> Finding:
    head = schema_head()
    current = None if vitals is None else vitals.revision
    return Finding("schema", current == head, details={"current": current, "needed": head})


def _disk(parts: Parts) -> Finding:
    try:
        left = disk_left(parts.settings)
    except OSError:
        log.exception("the disk cannot be looked at")
        return Finding("disk", up=False)
    return Finding("disk", left is None or left >= LEAST_DISK, details={"freeBytes": left, "neededBytes": LEAST_DISK})


def _worker(parts: Parts, vitals: ServiceHealth | None) -> Finding:
    beat = None if vitals is None or vitals.beat_at is None else stamp(vitals.beat_at)
    workers = 0 if vitals is None else vitals.workers
    silent = parts.service.crawl.visibility.total_seconds()
    return Finding(
        "worker", workers > 0, details={"workers": workers, "lastBeatAt": beat, "silentAfterSeconds": silent}
    )


def _scheduler(parts: Parts, vitals: ServiceHealth | None) -> Finding:
    """Our own by its turns; others by their hearts."""
    if Role.SCHEDULER not in parts.service.roles:
        schedulers = 0 if vitals is None else vitals.schedulers
        return Finding("scheduler", schedulers > 0, details={"schedulers": schedulers})
    turned = parts.service.turns.get("start_due")
    ago = None if turned is None else parts.clock.monotonic() - turned
    return Finding(
        "scheduler",
        ago is not None and ago < SCHEDULER_SILENT,
        details={"lastTurnSecondsAgo": None if ago is None else round(ago, 1)},
    )


def _outbox(parts: Parts, vitals: ServiceHealth | None) -> Finding:
    """Late is an event that is due and does not leave; without a receiver events wait, which is as it should be."""
    if vitals is None:
        return Finding("outbox", up=False, ready=False)
    now, delivery = parts.clock.now(), parts.service.deliveries[0]
    lag = timedelta(0) if vitals.oldest_due is None else now - vitals.oldest_due
    longest = timedelta(seconds=SWEEPS * parts.settings.outbox_interval_seconds)
    details = {"lagSeconds": round(lag.total_seconds(), 1), "receiver": delivery.has_receiver}
    return Finding("outbox", not delivery.has_receiver or lag <= longest, ready=False, details=details)


def _breaker(vitals: ServiceHealth | None) -> Finding:
    state = None if vitals is None else vitals.breaker
    up = state is not None and state != CircuitState.OPEN
    return Finding("breaker", up, ready=False, details={"state": state})


def _marketplace(found: MarketplaceStatus | None) -> Finding:
    """Down while an endpoint does not answer or all requests are paused: products are not read then. A seller that is
    paused alone does not count."""
    if found is None:
        return Finding("marketplace", up=False, ready=False)
    state = "PAUSED" if found.is_paused else "OPEN" if found.away else "CLOSED"
    details = {
        "state": state,
        "circuits": {each.endpoint.value: each.state.value for each in found.endpoints},
        "pausedBy": None if found.pause is None else found.pause.paused_by,
        "pausedSellers": len(found.seller_pauses),
    }
    return Finding("marketplace", state == "CLOSED", ready=False, details=details)


async def _outside(name: str, ask: Callable[[], Awaitable[object]]) -> Finding:
    """A server of others: without it the API answers all the same, but less is done."""
    try:
        async with asyncio.timeout(PATIENCE):
            await ask()
    except (SellerwatchError, TimeoutError) as refusal:
        problem = str(refusal) or f"no answer within {PATIENCE:g} s"
        log.warning("a server is not well", extra={"part": name, "problem": problem})
        return Finding(name, up=False, ready=False, details={"problem": problem})
    return Finding(name, up=True, ready=False)


def _status(up: bool) -> Status:
    return Status.UP if up else Status.DOWN
