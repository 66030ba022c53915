"""/api/v1/marketplace: whether requests to the marketplace are paused, and whether its endpoints answer."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body
from pydantic import Field, StrictStr

from sellerwatch.agents import marketplace_status
from sellerwatch.agents.marketplace_status import MarketplaceStatusView
from sellerwatch.kernel.ids import SellerId
from sellerwatch.operations.marketplace import ChangedPauseView, pause_requests, resume_requests
from sellerwatch.web.api.authorization import DryRunSession, ViewerSession
from sellerwatch.web.api.cursors import seller_of
from sellerwatch.web.api.errors import refusals
from sellerwatch.web.api.models import RequestModel
from sellerwatch.web.api.view_route import ViewRoute

router = APIRouter(prefix="/marketplace", tags=["marketplace"], route_class=ViewRoute)


class ScopeBody(RequestModel):
    """Without a seller: all requests."""

    seller_id: StrictStr | None = Field(None, max_length=100, examples=["seller_12345"])


Scope = Annotated[ScopeBody | None, Body()]


@router.get("/status")
async def show_marketplace(session: ViewerSession) -> MarketplaceStatusView:
    """What is paused and by whom, and for each endpoint its circuit, since when, why, and the next probe."""
    return await session.ask(marketplace_status.show_marketplace)


@router.post("/pause", responses=refusals(404, 409))
async def pause_marketplace(session: DryRunSession, body: Scope = None) -> ChangedPauseView:
    """Stop all requests to the marketplace, or those for one seller, in every process within a second and over
    restarts. Requests under way finish, tasks and starts wait; the time does not count for the deadlines of runs."""
    return await pause_requests(session, _seller(body))


@router.post("/resume", responses=refusals(404, 409))
async def resume_marketplace(session: DryRunSession, body: Scope = None) -> ChangedPauseView:
    """Let requests leave again. A pause of all requests and one of a seller are ended separately."""
    return await resume_requests(session, _seller(body))


def _seller(body: ScopeBody | None) -> SellerId | None:
    return None if body is None else seller_of(body.seller_id)
