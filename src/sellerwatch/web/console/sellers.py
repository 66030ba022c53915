"""Sellers: the list, registering one, and one seller with its schedule, its runs and its products."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter
from starlette.responses import Response

from sellerwatch.catalog.product_views import ProductView
from sellerwatch.catalog.queries import ProductFilter, list_products
from sellerwatch.crawling.views import ListedExecutionView
from sellerwatch.kernel.errors import SellerwatchError
from sellerwatch.kernel.ids import SellerId
from sellerwatch.kernel.store import StoreFailed
from sellerwatch.operations import sellers as operations
from sellerwatch.operations.sellers import ListedSellerView, SellerDetailView
from sellerwatch.reports.dashboard import FreshnessState
from sellerwatch.schedules.interval import CrawlingInterval, IntervalUnit
from sellerwatch.sellers import commands
from sellerwatch.sellers.seller import SellerStatus
from sellerwatch.web.api.errors import status_of
from sellerwatch.web.api.run_start import start_run
from sellerwatch.web.console import tables
from sellerwatch.web.console.page_request import Admin, Viewer
from sellerwatch.web.console.rendering import PageRoute, go, show
from sellerwatch.web.console.run_tables import runs_table
from sellerwatch.web.console.tables import Chart, Confirm, Filter, Table, seller_page

router = APIRouter(route_class=PageRoute, include_in_schema=False)

#: Runs of the chart, and those of them and the products that are listed.
MOST_RUNS, MOST_LISTED = 60, 10
COLUMNS = ("seller", "name", "status", "freshness", "read", "interval", "next", "products", "waits")


def number_of(text: str, otherwise: int = 0) -> int:
    """A number of a form; what is none is left to the rule it is given to."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else otherwise


@router.get("/sellers")
async def sellers(visit: Viewer) -> Response:
    search, status, fresh = visit.asked("search"), visit.asked("status"), visit.asked("fresh")
    wanted = SellerStatus(status) if status in list(SellerStatus) else None
    freshness = FreshnessState(fresh) if fresh in list(FreshnessState) else None
    page = number_of(visit.asked("page"))
    found = await visit.operations.ask(operations.list_sellers, wanted, page, visit.rows, search or None, freshness)
    table = Table(
        "sellers",
        [f"col.{name}" for name in COLUMNS],
        [_row(seller) for seller in found.content],
        "sellers.none_found" if search or status or fresh else "sellers.empty",
        next=visit.link(page=str(page + 1)) if page + 1 < found.total_pages else None,
        caption="nav.sellers",
    )
    fields = [
        Filter("search", "filter.search", search),
        Filter("status", "col.status", status, [(s, f"status.{s}") for s in SellerStatus]),
        Filter("fresh", "col.freshness", fresh, [(s, f"fresh.{s}") for s in FreshnessState]),
    ]
    return show(
        visit,
        "list.html",
        title="nav.sellers",
        lead="sellers.lead",
        table=table,
        fields=fields,
        live="execution seller schedule",
        buttons=[("/sellers/new", "sellers.register")],
    )


def _row(seller: ListedSellerView) -> Sequence[tables.Cell]:
    return (
        tables.text(seller.seller_id, seller_page(seller.seller_id)),
        tables.text(seller.name),
        tables.pill(seller.status),
        tables.pill(seller.freshness.state, "fresh"),
        tables.when(seller.freshness.fresh_as_of),
        tables.said(f"every.{seller.interval.unit}", n=seller.interval.amount),
        tables.when(seller.next_run_at),
        tables.number(seller.total_product_count),
        tables.sentence(None if seller.open_execution is None else seller.open_execution.cause),
    )


@router.get("/sellers/new")
async def register_form(visit: Admin) -> Response:
    return show(visit, "register.html", problem=None, given={"amount": "1", "unit": "DAYS"})


@router.post("/sellers/new")
async def register_seller(visit: Admin) -> Response:
    given = visit.form
    try:
        made = await visit.operations.run(
            commands.register_seller,
            SellerId.parse(given.get("seller_id", "").strip()),
            given.get("name", ""),
            CrawlingInterval.parse(number_of(given.get("amount", "")), given.get("unit", "")),
            crawl_now=bool(given.get("crawl_now")),
        )
    except StoreFailed:
        raise
    except SellerwatchError as error:
        status = status_of(type(error))
        return show(visit, "register.html", status=status, problem=visit.refusal(error), given=given)
    return go(visit, seller_page(made.seller_id), "sellers.registered", name=made.name)


@router.get("/sellers/{seller_id}")
async def seller_details(seller_id: str, visit: Viewer) -> Response:
    wanted, session = SellerId.parse(seller_id), visit.operations
    seller = await session.ask(operations.show_seller, wanted, MOST_RUNS)
    products = await session.ask(list_products, ProductFilter(wanted), None, MOST_LISTED)
    more = f"/executions?seller={wanted}" if len(seller.executions) > MOST_LISTED else None
    return show(
        visit,
        "seller.html",
        seller=seller,
        runs=runs_table(seller.executions[:MOST_LISTED], more),
        history=_history(seller.executions),
        products=_products(seller, products.content),
    )


def _history(runs: Sequence[ListedExecutionView]) -> Chart:
    """Return a chart of the runs that ended: how long each took, and how many of its tasks failed."""
    ended = [
        (run.started_at, round(run.took_seconds, 1), float(run.failed_tasks))
        for run in reversed(runs)
        if run.started_at is not None and run.took_seconds is not None
    ]
    return Chart(
        "history",
        "seller.history",
        [started_at.timestamp() for started_at, _, _ in ended],
        [
            ("chart.seconds", "accent", [seconds for _, seconds, _ in ended]),
            ("chart.failed", "bad", [failed for _, _, failed in ended]),
        ],
    )


def _products(seller: SellerDetailView, products: Sequence[ProductView]) -> Table:
    return Table(
        "products",
        ("col.item", "col.name", "col.status", "col.version", "col.updated"),
        [
            (
                tables.text(product.item_no, f"/products/{product.item_no}"),
                tables.text(product.name),
                tables.pill(product.state),
                tables.number(product.version),
                tables.when(product.updated_at),
            )
            for product in products
        ],
        "seller.no_products",
        next=f"/products?seller={seller.seller_id}" if seller.products.present > len(products) else None,
        caption="nav.products",
    )


@router.post("/sellers/{seller_id}/crawl")
async def crawl_now(seller_id: str, visit: Admin) -> Response:
    """Start a run and go to watch it."""
    started = await start_run(visit.parts, SellerId.parse(seller_id), visit.actor)
    page = f"/executions/{started.execution_id}"
    if started.task_count is None:
        return go(visit, page, "sellers.queued")
    return go(visit, page, "sellers.started", n=started.task_count)


@router.post("/sellers/{seller_id}/activate")
async def activate(seller_id: str, visit: Admin) -> Response:
    wanted = SellerId.parse(seller_id)
    await visit.operations.run(commands.activate_seller, wanted)
    return go(visit, seller_page(wanted), "sellers.activated", seller=wanted)


@router.get("/sellers/{seller_id}/deactivate")
async def confirm_deactivate(seller_id: str, visit: Admin) -> Response:
    wanted, session = SellerId.parse(seller_id), visit.operations
    seller = await session.ask(operations.show_seller, wanted)
    would = await session.with_dry_run(True).run(operations.deactivate_seller, wanted, session.rules)
    run = would.ended_execution
    left = 0 if run is None else run.cancelled_tasks + run.tasks_in_flight
    confirm = Confirm(
        "deactivate.title",
        seller_page(wanted, "/deactivate"),
        "deactivate.button",
        [
            ("deactivate.what", {"seller": seller.name}),
            ("deactivate.no_run" if run is None else "deactivate.run", {"n": left}),
            ("deactivate.products", {"n": seller.products.present}),
        ],
        seller_page(wanted),
        facts={"seller": wanted},
    )
    return show(visit, "confirm.html", confirm=confirm)


@router.post("/sellers/{seller_id}/deactivate")
async def deactivate(seller_id: str, visit: Admin) -> Response:
    wanted, session = SellerId.parse(seller_id), visit.operations
    done = await session.run(operations.deactivate_seller, wanted, session.rules)
    cancelled = 0 if done.ended_execution is None else done.ended_execution.cancelled_tasks
    return go(visit, seller_page(wanted), "sellers.deactivated", seller=wanted, n=cancelled)


@router.get("/sellers/{seller_id}/interval")
async def interval_form(seller_id: str, visit: Admin) -> Response:
    wanted = SellerId.parse(seller_id)
    seller = await visit.operations.ask(operations.show_seller, wanted)
    confirm = Confirm(
        "interval.title",
        seller_page(wanted, "/interval"),
        "interval.button",
        [("interval.what", {})],
        seller_page(wanted),
        fields=[
            Filter("amount", "interval.amount", str(seller.interval.amount), kind="number"),
            Filter("unit", "interval.unit", seller.interval.unit, [(u, f"unit.{u}") for u in IntervalUnit]),
        ],
        danger=False,
        facts={"seller": wanted},
    )
    return show(visit, "confirm.html", confirm=confirm)


@router.post("/sellers/{seller_id}/interval")
async def change_interval(seller_id: str, visit: Admin) -> Response:
    wanted = SellerId.parse(seller_id)
    interval = CrawlingInterval.parse(number_of(visit.form.get("amount", "")), visit.form.get("unit", ""))
    await visit.operations.run(commands.change_interval, wanted, interval)
    return go(visit, seller_page(wanted), "sellers.interval_changed", seller=wanted)
