"""/api/v1/status and /api/v1/attention: what runs, what is stuck and why, and what needs a person."""

from __future__ import annotations

from fastapi import APIRouter, Request

from sellerwatch.reports.attention import AttentionListView, list_attention
from sellerwatch.reports.overview import ServiceStatusView, service_status
from sellerwatch.web.api.authorization import ViewerSession
from sellerwatch.web.api.context import parts_of
from sellerwatch.web.api.view_route import ViewRoute

router = APIRouter(prefix="/status", tags=["status"], route_class=ViewRoute)
attention_router = APIRouter(prefix="/attention", tags=["status"], route_class=ViewRoute)


@router.get("")
async def show_status(session: ViewerSession, request: Request) -> ServiceStatusView:
    """The whole service at one moment: runs, marketplace, pool, outbox, sellers, and what needs a person."""
    return await session.ask(service_status, await parts_of(request).check_context())


@attention_router.get("")
async def show_attention(session: ViewerSession, request: Request) -> AttentionListView:
    """Everything that needs a person: one entry for each cause, worst first, with what helps."""
    return await session.ask(list_attention, await parts_of(request).check_context())
