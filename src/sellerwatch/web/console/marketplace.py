"""Pausing and resuming requests to the marketplace, from the overview or from a seller's page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import APIRouter
from starlette.responses import Response

from sellerwatch.kernel.ids import SellerId
from sellerwatch.operations import marketplace
from sellerwatch.operations.marketplace import ChangedPauseView
from sellerwatch.web.console.page_request import Admin, Visit
from sellerwatch.web.console.rendering import PageRoute, go, show
from sellerwatch.web.console.tables import Confirm, seller_page

router = APIRouter(route_class=PageRoute, include_in_schema=False)


def _seller(given: str) -> SellerId | None:
    """Return the seller whose requests are meant; None for all requests."""
    return SellerId.parse(given) if given else None


def _back(seller_id: SellerId | None) -> str:
    return "/" if seller_id is None else seller_page(seller_id)


async def _confirm(visit: Visit, verb: str, operation: Callable[..., Awaitable[ChangedPauseView]]) -> Response:
    seller_id = _seller(visit.asked("seller"))
    would = await operation(visit.operations.with_dry_run(True), seller_id)
    scope = "all" if seller_id is None else "seller"
    return show(
        visit,
        "confirm.html",
        confirm=Confirm(
            f"marketplace.{verb}_title_{scope}",
            f"/marketplace/{verb}",
            f"marketplace.{verb}",
            [
                (f"marketplace.{verb}_what", {}),
                (f"marketplace.{verb}_runs", {"n": would.executions}),
                (f"marketplace.{verb}_then", {}),
            ],
            _back(seller_id),
            hidden={"seller": seller_id or ""},
            danger=verb == "pause",
            facts={} if seller_id is None else {"seller": seller_id},
        ),
    )


@router.get("/marketplace/pause")
async def confirm_pause(visit: Admin) -> Response:
    return await _confirm(visit, "pause", marketplace.pause_requests)


@router.post("/marketplace/pause")
async def pause(visit: Admin) -> Response:
    seller_id = _seller(visit.form.get("seller", ""))
    await marketplace.pause_requests(visit.operations, seller_id)
    return go(visit, _back(seller_id), "marketplace.pause_done")


@router.get("/marketplace/resume")
async def confirm_resume(visit: Admin) -> Response:
    return await _confirm(visit, "resume", marketplace.resume_requests)


@router.post("/marketplace/resume")
async def resume(visit: Admin) -> Response:
    seller_id = _seller(visit.form.get("seller", ""))
    await marketplace.resume_requests(visit.operations, seller_id)
    return go(visit, _back(seller_id), "marketplace.resume_done")
