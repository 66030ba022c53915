"""/schemas/events: the JSON Schema of each event type, for receivers; without a login."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path

from sellerwatch.catalog.event_schemas import event_schema
from sellerwatch.web.api.errors import refusals
from sellerwatch.web.api.view_route import StrictRoute

router = APIRouter(prefix="/schemas/events", tags=["schemas"], route_class=StrictRoute)

TypePath = Annotated[str, Path(alias="eventType", max_length=50, examples=["PRODUCT_UPDATED"])]


@router.get("/{eventType}.json", responses=refusals(404))
async def show_event_schema(event_type: TypePath) -> dict[str, Any]:
    """Send the JSON Schema (2020-12) of an event type."""
    return event_schema(event_type)
