"""/actuator/health: liveness, readiness, and the state of each part.

- Liveness (restart the process?) checks nothing but this process.
- Readiness (send it work?) checks what this process needs for its own role: database, schema, free disk space, and the
  loops that it runs itself. An `api` is ready without a worker.
- The whole (alert somebody?) checks the service, by the registry of checks (`reports/checks.py`): whether any process
  crawls and starts runs, events that are not delivered, a pool whose breaker is open, a marketplace that does not
  answer or is paused.

A part that cannot be read is down. Every caller sees up or down; a caller with a valid token sees the numbers too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

from fastapi import APIRouter, Request, Response
from pydantic import Field

from sellerwatch.compose.database import schema_head
from sellerwatch.kernel.clock import stamp
from sellerwatch.kernel.errors import SellerwatchError
from sellerwatch.reports.checks import ServicePart, service_part_names
from sellerwatch.reports.queries import read_service_parts
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
#: How old what other servers answered may be for a caller without a token.
OUTSIDE_SECONDS = 10.0
#: The scheduler looks every 10 s at least; after this long without a look it hangs.
SCHEDULER_SILENT = 30.0


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
class PartHealth:
    """The state of one part."""

    name: str
    up: bool
    details: dict[str, Any] = field(default_factory=dict)


def _answers(down: str) -> dict[int | str, dict[str, Any]]:
    return {503: {"model": Health, "description": down}, **refusals(400, 401, 413, 429, 500)}


#: A token is optional.
OPTIONAL_TOKEN: dict[str, Any] = {"security": [{}, {"HTTPBearer": []}]}

router = APIRouter(prefix="/actuator/health", tags=["health"], route_class=StrictRoute)


@router.get("", responses=_answers("Some part is down"), openapi_extra=OPTIONAL_TOKEN, response_model_exclude_none=True)
async def show_health(request: Request, response: Response) -> Health:
    """Every part of the service, up or down; 503 when one is down."""
    return await _answer(request, response, find_all)


@router.get(
    "/readiness", responses=_answers("Not ready"), openapi_extra=OPTIONAL_TOKEN, response_model_exclude_none=True
)
async def show_readiness(request: Request, response: Response) -> Health:
    """Whether this process can do the work of its role: 503 when it cannot."""
    return await _answer(request, response, find_own)


@router.get("/liveness", responses=refusals(400, 413, 429, 500), response_model_exclude_none=True)
async def show_liveness() -> Health:
    """Whether the process answers; nothing else is checked."""
    return Health(status=Status.UP)


async def _answer(request: Request, response: Response, find: Callable[[Parts], Awaitable[list[PartHealth]]]) -> Health:
    has_token = await caller_of(request) is not None
    found = await find(parts_of(request)) if has_token else await _find_for_anybody(request, find)
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


async def _find_for_anybody(request: Request, find: Callable[[Parts], Awaitable[list[PartHealth]]]) -> list[PartHealth]:
    """Return findings for a caller without a token: other servers are asked at most once in `OUTSIDE_SECONDS`, however
    often anybody asks, because AWS takes money for each request."""
    parts, state = parts_of(request), request.app.state
    now = parts.clock.monotonic()
    kept: tuple[float, Mapping[str, PartHealth]] = getattr(state, "outside", (-OUTSIDE_SECONDS, {}))
    if now - kept[0] >= OUTSIDE_SECONDS or find is not find_all:
        found = await find(parts)
        if find is find_all:
            state.outside = now, {one.name: one for one in found if one.name in parts.service.outside}
        return found
    return _joined([*await _service_parts(parts, asks_queue=False), *kept[1].values()])


async def find_all(parts: Parts) -> list[PartHealth]:
    """Check every part of the service; nothing is cached."""
    service_parts, outside = await asyncio.gather(
        _service_parts(parts),
        asyncio.gather(*(_outside(name, check) for name, check in parts.service.outside.items())),
    )
    return _joined([*service_parts, *outside])


async def _service_parts(parts: Parts, *, asks_queue: bool = True) -> list[PartHealth]:
    revision, service = await _service(parts, asks_queue=asks_queue)
    return [
        PartHealth("database", service is not None),
        _schema(revision),
        *map(_part, service if service is not None else _unread(parts)),
        *_own_loops(parts),
    ]


async def find_own(parts: Parts) -> list[PartHealth]:
    """Check what this process needs for its own role."""
    revision, service = await _service(parts, asks_queue=False)
    disk = [part for part in service or () if part.name == "disk"]
    return _joined(
        [PartHealth("database", service is not None), _schema(revision), *map(_part, disk), *_own_loops(parts)]
    )


async def _service(parts: Parts, *, asks_queue: bool = True) -> tuple[str | None, list[ServicePart] | None]:
    session = parts.session("health", "en")
    check_context = await parts.check_context(asks_queue=asks_queue)
    found = await _read(session.ask(read_service_parts, check_context), "the database")
    if found is None:
        return None, None
    revision, service = found
    return revision, [part for part in service if _is_shown(parts, part.name)]


def _unread(parts: Parts) -> list[ServicePart]:
    """Return the parts whose state only the database knows, all as down."""
    return [ServicePart(name, False, {}) for name in service_part_names() if name != "disk" and _is_shown(parts, name)]


def _is_shown(parts: Parts, name: str) -> bool:
    """Where others start the runs there is no scheduler to look at."""
    return name != "scheduler" or parts.service.schedules


def _joined(findings: Iterable[PartHealth]) -> list[PartHealth]:
    """A part that is looked at in several places is up when it is up in all of them."""
    by_name: dict[str, PartHealth] = {}
    for one in findings:
        other = by_name.get(one.name)
        by_name[one.name] = (
            one if other is None else PartHealth(one.name, one.up and other.up, {**other.details, **one.details})
        )
    return list(by_name.values())


def _part(part: ServicePart) -> PartHealth:
    shown = {name: stamp(value) if isinstance(value, datetime) else value for name, value in part.details.items()}
    return PartHealth(part.name, part.is_up, shown)


async def _read(answer: Coroutine[Any, Any, T], what: str) -> T | None:
    try:
        async with asyncio.timeout(TIMEOUT):
            return await answer
    except Exception:
        log.exception("health: cannot read", extra={"part": what})
        return None


def _schema(current: str | None) -> PartHealth:
    head = schema_head()
    return PartHealth("schema", current == head, {"current": current, "needed": head})


def _own_loops(parts: Parts) -> Iterator[PartHealth]:
    """The loops that this process runs: it has begun, and its scheduler has looked at the schedule lately."""
    service = parts.service
    if ProcessRole.WORKER in service.roles:
        yield PartHealth("worker", service.begun.is_set() and not service.stop.is_set())
    if ProcessRole.SCHEDULER in service.roles and service.schedules and service.store.commits is None:
        turned = service.last_ended.get("start_due")
        ago = None if turned is None else parts.clock.monotonic() - turned
        is_up = ago is not None and ago < SCHEDULER_SILENT
        yield PartHealth("scheduler", is_up, {"lastTurnSecondsAgo": None if ago is None else round(ago, 1)})


async def _outside(name: str, check: Callable[[], Awaitable[object]]) -> PartHealth:
    """Check another server. Without it the API answers, but less work is done."""
    try:
        async with asyncio.timeout(TIMEOUT):
            await check()
    except (SellerwatchError, TimeoutError) as refusal:
        problem = str(refusal) or f"no answer within {TIMEOUT:g} s"
        log.warning("health: a server cannot be used", extra={"part": name, "problem": problem})
        return PartHealth(name, up=False, details={"problem": problem})
    return PartHealth(name, up=True)


def _status(up: bool) -> Status:
    return Status.UP if up else Status.DOWN
