"""Pausing and resuming requests to the marketplace, from the overview or from a seller's page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import APIRouter
from starlette.responses import Response

from sellerwatch.kernel.ids import SellerId
from sellerwatch.operations import marketplace
from sellerwatch.operations.marketplace import ChangedPauseView
from sellerwatch.web.console.page_request import Admin, Visit
from sellerwatch.web.console.rendering import PageRoute, ask_first, go
from sellerwatch.web.console.tables import Sentence, seller_page

router = APIRouter(route_class=PageRoute, include_in_schema=False)


def _seller(given: str) -> SellerId | None:
    """Return the seller whose requests are meant; None for all requests."""
    return SellerId.parse(given) if given else None


def _back(seller_id: SellerId | None) -> str:
    return "/" if seller_id is None else seller_page(seller_id)


async def _confirm(visit: Visit, verb: str, operation: Callable[..., Awaitable[ChangedPauseView]]) -> Response:
    seller_id = _seller(visit.asked("seller"))
    would = await operation(visit.operations.with_dry_run(True), seller_id)
    sentences: list[Sentence] = [
        (f"marketplace.{verb}_what", {}),
        (f"marketplace.{verb}_runs", {"n": would.executions}),
        (f"marketplace.{verb}_then", {}),
    ]
    return ask_first(
        visit,
        f"marketplace.{verb}_title_{'all' if seller_id is None else 'seller'}",
        f"marketplace.{verb}",
        sentences,
        _back(seller_id),
        hidden={"seller": seller_id or ""},
        danger=verb == "pause",
        seller=seller_id,
    )


async def _change(visit: Visit, verb: str, operation: Callable[..., Awaitable[ChangedPauseView]]) -> Response:
    seller_id = _seller(visit.form.get("seller", ""))
    await operation(visit.operations, seller_id)
    return go(visit, _back(seller_id), f"marketplace.{verb}_done")


@router.get("/marketplace/pause")
async def confirm_pause(visit: Admin) -> Response:
    return await _confirm(visit, "pause", marketplace.pause_requests)


@router.post("/marketplace/pause")
async def pause(visit: Admin) -> Response:
    return await _change(visit, "pause", marketplace.pause_requests)


@router.get("/marketplace/resume")
async def confirm_resume(visit: Admin) -> Response:
    return await _confirm(visit, "resume", marketplace.resume_requests)


@router.post("/marketplace/resume")
async def resume(visit: Admin) -> Response:
    return await _change(visit, "resume", marketplace.resume_requests)
