"""/api/v1/limits: what agents and the marketplace as a whole may be asked, changed while the service runs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import Field, StrictFloat, StrictInt

from sellerwatch.agents import commands, queries
from sellerwatch.agents.commands import ChangedLimitView
from sellerwatch.agents.queries import LimitsView
from sellerwatch.web.api.authorization import DryRunSession, ViewerSession
from sellerwatch.web.api.errors import refusals
from sellerwatch.web.api.models import RequestModel
from sellerwatch.web.api.view_route import ViewRoute

router = APIRouter(prefix="/limits", tags=["limits"], route_class=ViewRoute)

NamePath = Annotated[str, Path(alias="name", min_length=1, max_length=100, examples=["WINDOW_LIMIT"])]


class LimitBody(RequestModel):
    value: StrictInt | StrictFloat = Field(examples=[60])


@router.get("")
async def list_limits(session: ViewerSession) -> LimitsView:
    """Each limit: its value in force, whether it was changed at run time, and what it means."""
    return await session.ask(queries.list_limits, session.limits)


@router.put("/{name}", responses=refusals(409))
async def set_limit(session: DryRunSession, name: NamePath, body: LimitBody) -> ChangedLimitView:
    """Change a limit. It is kept over restarts; running services apply it within a minute."""
    return await session.run(commands.set_limit, session.limits, name, str(body.value))


@router.delete("/{name}", responses=refusals(409))
async def unset_limit(session: DryRunSession, name: NamePath) -> ChangedLimitView:
    """Take a change back: the limit is what the environment, the file or the default says."""
    return await session.run(commands.unset_limit, session.limits, name)
