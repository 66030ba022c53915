"""/api/v1/limits: what agents and the marketplace as a whole may be asked, changed while the service runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from pydantic import Field, StrictFloat, StrictInt

from sellerwatch.agents import commands
from sellerwatch.operations.ports import ServiceTx
from sellerwatch.settings.faults import Fault, InvalidSettings
from sellerwatch.settings.limits import InForce, limit_checked, limit_name
from sellerwatch.settings.load import tuned
from sellerwatch.settings.model import TUNABLE, Settings
from sellerwatch.web.api.authorization import Admin, Viewer
from sellerwatch.web.api.context import Desk, Parts, parts_of
from sellerwatch.web.api.errors import refusals
from sellerwatch.web.api.models import RequestModel, ResponseModel

router = APIRouter(prefix="/limits", tags=["limits"])

NamePath = Annotated[str, Path(alias="name", min_length=1, max_length=100, examples=["WINDOW_LIMIT"])]


class LimitShown(ResponseModel):
    """`configured` is what holds without the change; null is: not limited."""

    name: str = Field(examples=["WINDOW_LIMIT"])
    value: float | None = Field(examples=[60])
    is_overridden: bool
    configured: float | None
    meaning: str


class FaultShown(ResponseModel):
    name: str
    problem: str


class LimitsShown(ResponseModel):
    """`faults`: changes that have become wrong and are left out."""

    content: list[LimitShown]
    faults: list[FaultShown]


class LimitBody(RequestModel):
    value: StrictInt | StrictFloat = Field(examples=[60])


class ChangedLimit(ResponseModel):
    name: str
    before: float | None
    after: float | None
    taken_over_within_seconds: float


@router.get("")
async def list_limits(request: Request, _: Viewer) -> LimitsShown:
    """Each limit: its value in force, whether it was changed at run time, and what it means."""
    parts = parts_of(request)

    def work(tx: ServiceTx) -> LimitsShown:
        overrides = _tunable(tx.overrides.all())
        faults: tuple[Fault, ...] = ()
        try:
            held = tuned(parts.settings, overrides)
        except InvalidSettings as invalid:
            held, faults, overrides = parts.settings, invalid.faults, {}
        return LimitsShown(
            content=[
                LimitShown(
                    name=name.upper(),
                    value=getattr(held, name),
                    is_overridden=name in overrides,
                    configured=getattr(parts.settings, name),
                    meaning=Settings.model_fields[name].description or "",
                )
                for name in TUNABLE
            ],
            faults=[FaultShown(name=fault.name, problem=fault.problem) for fault in faults],
        )

    return await parts.read(work)


@router.put("/{name}", responses=refusals(409))
async def set_limit(name: NamePath, body: LimitBody, request: Request, caller: Admin) -> ChangedLimit:
    """Change a limit. It is kept over restarts; running services take it over at their next tending turn."""
    known, parts, value = limit_name(name), parts_of(request), str(body.value)
    check = limit_checked(known, value, _in_force(parts))

    def work(tx: ServiceTx, desk: Desk) -> tuple[Any, Any]:
        return commands.set_limit(tx, known, value, check, actor=desk.actor, now=desk.now)

    return _changed(parts, known, *await parts.change(caller.actor, work))


@router.delete("/{name}", responses=refusals(409))
async def unset_limit(name: NamePath, request: Request, caller: Admin) -> ChangedLimit:
    """Take a change back: the limit is what the environment, the file or the default says."""
    known, parts = limit_name(name), parts_of(request)

    def work(tx: ServiceTx, desk: Desk) -> tuple[Any, Any]:
        return commands.unset_limit(tx, known, _in_force(parts), actor=desk.actor, now=desk.now)

    return _changed(parts, known, *await parts.change(caller.actor, work))


def _in_force(parts: Parts) -> InForce:
    return lambda overrides: tuned(parts.settings, _tunable(overrides)).model_dump()


def _tunable(overrides: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in overrides.items() if name in TUNABLE}


def _changed(parts: Parts, name: str, before: Any, after: Any) -> ChangedLimit:
    within = min(parts.settings.tending_interval_seconds, parts.settings.visibility_seconds)
    return ChangedLimit(name=name.upper(), before=before, after=after, taken_over_within_seconds=within)
