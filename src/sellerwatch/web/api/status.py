"""/api/v1/status: what runs, what is stuck and why, and what needs a person."""

from __future__ import annotations

from fastapi import APIRouter, Request

from sellerwatch.reports.overview import ServiceStatusView, service_status
from sellerwatch.web.api.authorization import ViewerSession
from sellerwatch.web.api.context import parts_of
from sellerwatch.web.api.view_route import ViewRoute

router = APIRouter(prefix="/status", tags=["status"], route_class=ViewRoute)


@router.get("")
async def show_status(session: ViewerSession, request: Request) -> ServiceStatusView:
    """The whole service at one moment: runs, marketplace, pool, outbox, sellers, and what needs a person."""
    has_receiver = parts_of(request).service.deliveries[0].has_receiver
    return await session.ask(service_status, session.pool, has_receiver)
