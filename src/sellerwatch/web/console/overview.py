"""The first page: what needs a person, how fresh every seller is, what runs, and how pool and outbox are."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from sellerwatch.agents.marketplace_status import EndpointView
from sellerwatch.reports.overview import BlameCountView, SellerFreshnessView, service_status
from sellerwatch.reports.severity import Severity
from sellerwatch.web.console import tables
from sellerwatch.web.console.page_request import Viewer
from sellerwatch.web.console.rendering import PageRoute, show
from sellerwatch.web.console.tables import Columns, Table, seller_page

router = APIRouter(route_class=PageRoute, include_in_schema=False)

TONES = {Severity.ERROR: "bad", Severity.WARNING: "warn"}
SELLERS: Columns[SellerFreshnessView] = {
    "seller": lambda seller: tables.text(seller.name, seller_page(seller.seller_id)),
    "freshness": lambda seller: tables.pill(seller.freshness.state, "fresh"),
    "in_time": lambda seller: tables.raw(seller.freshness.percent_in_time),
    "read": lambda seller: tables.when(seller.freshness.oldest_part_at),
    "interval": lambda seller: tables.said(f"every.{seller.interval.unit}", n=seller.interval.amount),
    "next": lambda seller: tables.when(seller.next_run_at),
    "products": lambda seller: tables.number(seller.total_product_count),
}
BLAMES: Columns[BlameCountView] = {
    "blame": lambda failures: tables.pill(failures.blame, "blame"),
    "failures": lambda failures: tables.number(failures.count),
}
ENDPOINTS: Columns[EndpointView] = {
    "endpoint": lambda endpoint: tables.said(f"endpoint.{endpoint.endpoint}"),
    "circuit": lambda endpoint: tables.pill(endpoint.state, "circuit"),
    "cause": lambda endpoint: tables.text(endpoint.reason),
    "away_since": lambda endpoint: tables.when(endpoint.since),
    "next_probe": lambda endpoint: tables.when(endpoint.not_before),
}


@router.get("/")
async def overview(visit: Viewer) -> Response:
    service = await visit.operations.ask(service_status, await visit.parts.check_context())
    stalest = service.stalest_sellers
    return show(
        visit,
        "overview.html",
        service=service,
        attention=[(each.actions[0].page, TONES[each.severity], each.sentence) for each in service.attention],
        sellers=Table.of(
            "freshness",
            stalest,
            SELLERS,
            "sellers.empty",
            caption="overview.freshness",
            next_="/sellers" if service.sellers.total > len(stalest) else None,
        ),
        blames=Table.of("blame", service.failures, BLAMES, "overview.no_failures", caption="overview.blame"),
        endpoints=Table.of(
            "endpoints", service.marketplace.away, ENDPOINTS, "marketplace.calm", caption="overview.marketplace"
        ),
    )
