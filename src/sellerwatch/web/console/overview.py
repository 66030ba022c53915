"""The first page: what needs a person, how fresh every seller is, what runs, and how pool and outbox are."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from sellerwatch.reports.checks import Severity
from sellerwatch.reports.overview import ServiceStatusView, service_status
from sellerwatch.web.console import tables
from sellerwatch.web.console.page_request import Viewer
from sellerwatch.web.console.rendering import PageRoute, show
from sellerwatch.web.console.tables import Table, seller_page

router = APIRouter(route_class=PageRoute, include_in_schema=False)

TONES = {Severity.ERROR: "bad", Severity.WARNING: "warn"}


@router.get("/")
async def overview(visit: Viewer) -> Response:
    service = await visit.operations.ask(service_status, await visit.parts.check_context())
    return show(
        visit,
        "overview.html",
        service=service,
        attention=[(each.actions[0].page, TONES[each.severity], each.sentence) for each in service.attention],
        sellers=_sellers(service),
        blames=_blames(service),
        endpoints=_endpoints(service),
    )


def _sellers(status: ServiceStatusView) -> Table:
    return Table(
        "freshness",
        ("col.seller", "col.freshness", "col.in_time", "col.read", "col.interval", "col.next", "col.products"),
        [
            (
                tables.text(seller.name, seller_page(seller.seller_id)),
                tables.pill(seller.freshness.state, "fresh"),
                tables.raw(seller.freshness.percent_in_time),
                tables.when(seller.freshness.oldest_part_at),
                tables.said(f"every.{seller.interval.unit}", n=seller.interval.amount),
                tables.when(seller.next_run_at),
                tables.number(seller.total_product_count),
            )
            for seller in status.stalest_sellers
        ],
        "sellers.empty",
        caption="overview.freshness",
        next="/sellers" if status.sellers.total > len(status.stalest_sellers) else None,
    )


def _endpoints(status: ServiceStatusView) -> Table:
    """Endpoints that do not answer, with the cause and the next probe."""
    return Table(
        "endpoints",
        ("col.endpoint", "col.circuit", "col.cause", "col.away_since", "col.next_probe"),
        [
            (
                tables.said(f"endpoint.{each.endpoint}"),
                tables.pill(each.state, "circuit"),
                tables.text(each.reason),
                tables.when(each.since),
                tables.when(each.not_before),
            )
            for each in status.marketplace.away
        ],
        "marketplace.calm",
        caption="overview.marketplace",
    )


def _blames(status: ServiceStatusView) -> Table:
    return Table(
        "blame",
        ("col.blame", "col.failures"),
        [(tables.pill(each.blame, "blame"), tables.number(each.count)) for each in status.failures],
        "overview.no_failures",
        caption="overview.blame",
    )
