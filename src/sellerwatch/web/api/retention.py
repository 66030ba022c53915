"""/api/v1/retention: rows that are too old to be kept."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from fastapi import APIRouter, Request

from sellerwatch.compose.rules import retention_rules
from sellerwatch.operations.retention import RetentionView, list_retention
from sellerwatch.web.api.authorization import ViewerSession
from sellerwatch.web.api.context import parts_of
from sellerwatch.web.api.view_route import ViewRoute

router = APIRouter(prefix="/retention", tags=["status"], route_class=ViewRoute)


@router.get("")
async def show_retention(session: ViewerSession, request: Request) -> RetentionView:
    """What is too old to be kept and goes within the hour, by table, and about how much room that frees."""
    settings = parts_of(request).settings
    return await session.ask(list_retention, retention_rules(settings), ZoneInfo(settings.timezone))
