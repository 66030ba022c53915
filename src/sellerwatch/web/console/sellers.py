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
from sellerwatch.operations.seller_import import import_sellers
from sellerwatch.operations.seller_removal import remove_seller
from sellerwatch.operations.sellers import ListedSellerView
from sellerwatch.reports.freshness import FreshnessState
from sellerwatch.schedules.interval import CrawlingInterval, IntervalUnit
from sellerwatch.sellers import commands
from sellerwatch.sellers.import_rows import read_rows
from sellerwatch.sellers.seller import SellerStatus
from sellerwatch.web.api.errors import status_of
from sellerwatch.web.api.run_start import start_run
from sellerwatch.web.api.sellers import REMOVAL_STEPS
from sellerwatch.web.console import tables
from sellerwatch.web.console.page_request import Admin, Viewer, number_of, one_of
from sellerwatch.web.console.rendering import PageRoute, ask_first, go, show, show_list
from sellerwatch.web.console.run_tables import RUNS
from sellerwatch.web.console.tables import Chart, Columns, Filter, Sentence, Table, seller_page

router = APIRouter(route_class=PageRoute, include_in_schema=False)

#: Runs of the chart, and those of them and the products that are listed.
MOST_RUNS, MOST_LISTED = 60, 10
SELLERS: Columns[ListedSellerView] = {
    "seller": lambda seller: tables.text(seller.seller_id, seller_page(seller.seller_id)),
    "name": lambda seller: tables.text(seller.name),
    "status": lambda seller: tables.pill(seller.status),
    "freshness": lambda seller: tables.pill(seller.freshness.state, "fresh"),
    "in_time": lambda seller: tables.raw(seller.freshness.percent_in_time),
    "read": lambda seller: tables.when(seller.freshness.fresh_as_of),
    "interval": lambda seller: tables.said(f"every.{seller.interval.unit}", n=seller.interval.amount),
    "next": lambda seller: tables.when(seller.next_run_at),
    "products": lambda seller: tables.number(seller.total_product_count),
    "waits": lambda seller: tables.sentence(seller.open_execution.cause if seller.open_execution else None),
}
PRODUCTS: Columns[ProductView] = {
    "item": lambda product: tables.text(product.item_no, f"/products/{product.item_no}"),
    "name": lambda product: tables.text(product.name),
    "status": lambda product: tables.pill(product.state),
    "version": lambda product: tables.number(product.version),
    "updated": lambda product: tables.when(product.updated_at),
}


@router.get("/sellers")
async def sellers(visit: Viewer) -> Response:
    search, status, fresh = visit.asked("search"), visit.asked("status"), visit.asked("fresh")
    wanted, freshness = one_of(SellerStatus, status), one_of(FreshnessState, fresh)
    page = number_of(visit.asked("page"))
    found = await visit.operations.ask(operations.list_sellers, wanted, page, visit.rows, search or None, freshness)
    return show_list(
        visit,
        "sellers",
        found.content,
        SELLERS,
        fields=[
            Filter("search", "filter.search", search),
            Filter("status", "col.status", status, [(s, f"status.{s}") for s in SellerStatus]),
            Filter("fresh", "col.freshness", fresh, [(s, f"fresh.{s}") for s in FreshnessState]),
        ],
        next_=visit.link(page=str(page + 1)) if page + 1 < found.total_pages else None,
        live="execution seller schedule",
        buttons=[("/sellers/new", "sellers.register"), ("/sellers/import", "sellers.import")],
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


@router.get("/sellers/import")
async def import_form(visit: Admin) -> Response:
    return show(visit, "import.html", rows="", found=None)


@router.post("/sellers/import")
async def import_file(visit: Admin) -> Response:
    """Say what would be done with the rows that were pasted; do it with the second button."""
    given, is_check = visit.form.get("rows", ""), "import" not in visit.form
    rows = read_rows(given, is_csv=not given.lstrip().startswith("{"))
    found = await import_sellers(visit.operations.with_dry_run(is_check), rows)
    if is_check or found.refused:
        return show(visit, "import.html", rows=given, found=found)
    return go(visit, "/sellers", "sellers.imported", n=len(found.added))


@router.post("/sellers/{seller_id:path}/crawl")
async def crawl_now(seller_id: str, visit: Admin) -> Response:
    """Start a run and go to watch it."""
    started = await start_run(visit.parts, SellerId.parse(seller_id), visit.actor)
    page = f"/executions/{started.execution_id}"
    if started.task_count is None:
        return go(visit, page, "sellers.queued")
    return go(visit, page, "sellers.started", n=started.task_count)


@router.post("/sellers/{seller_id:path}/activate")
async def activate(seller_id: str, visit: Admin) -> Response:
    wanted = SellerId.parse(seller_id)
    await visit.operations.run(commands.activate_seller, wanted)
    return go(visit, seller_page(wanted), "sellers.activated", seller=wanted)


@router.get("/sellers/{seller_id:path}/deactivate")
async def confirm_deactivate(seller_id: str, visit: Admin) -> Response:
    wanted, session = SellerId.parse(seller_id), visit.operations
    seller = await session.ask(operations.show_seller, wanted)
    would = await session.with_dry_run(True).run(operations.deactivate_seller, wanted, session.rules)
    run = would.ended_execution
    left = 0 if run is None else run.cancelled_tasks + run.tasks_in_flight
    sentences: list[Sentence] = [
        ("deactivate.what", {"seller": seller.name}),
        ("deactivate.no_run" if run is None else "deactivate.run", {"n": left}),
        ("deactivate.products", {"n": seller.products.present}),
    ]
    return ask_first(visit, "deactivate.title", "deactivate.button", sentences, seller_page(wanted), seller=wanted)


@router.post("/sellers/{seller_id:path}/deactivate")
async def deactivate(seller_id: str, visit: Admin) -> Response:
    wanted, session = SellerId.parse(seller_id), visit.operations
    done = await session.run(operations.deactivate_seller, wanted, session.rules)
    cancelled = 0 if done.ended_execution is None else done.ended_execution.cancelled_tasks
    return go(visit, seller_page(wanted), "sellers.deactivated", seller=wanted, n=cancelled)


@router.get("/sellers/{seller_id:path}/remove")
async def confirm_remove(seller_id: str, visit: Admin) -> Response:
    wanted, session = SellerId.parse(seller_id), visit.operations
    would = await remove_seller(session.with_dry_run(True), wanted, tell_receiver=True)
    sentences: list[Sentence] = [
        ("seller_remove.what", {"seller": would.name, "n": would.removed}),
        ("seller_remove.events", {"n": would.events}),
    ]
    fields = [Filter("tell_receiver", "seller_remove.tell", "", [("1", "seller_remove.tell_yes")])]
    page = seller_page(wanted)
    return ask_first(
        visit, "seller_remove.title", "seller_remove.button", sentences, page, fields=fields, seller=wanted
    )


@router.post("/sellers/{seller_id:path}/remove")
async def remove(seller_id: str, visit: Admin) -> Response:
    wanted, tell_receiver = SellerId.parse(seller_id), bool(visit.form.get("tell_receiver"))
    done = await remove_seller(visit.operations, wanted, tell_receiver=tell_receiver, steps=REMOVAL_STEPS)
    key = "sellers.partly_removed" if done.left else "sellers.removed"
    return go(visit, seller_page(wanted), key, seller=wanted, n=done.removed, events=done.events)


@router.get("/sellers/{seller_id:path}/interval")
async def interval_form(seller_id: str, visit: Admin) -> Response:
    wanted = SellerId.parse(seller_id)
    seller = await visit.operations.ask(operations.show_seller, wanted)
    return ask_first(
        visit,
        "interval.title",
        "interval.button",
        [("interval.what", {})],
        seller_page(wanted),
        fields=[
            Filter("amount", "interval.amount", str(seller.interval.amount), kind="number"),
            Filter("unit", "interval.unit", seller.interval.unit, [(u, f"unit.{u}") for u in IntervalUnit]),
        ],
        danger=False,
        seller=wanted,
    )


@router.post("/sellers/{seller_id:path}/interval")
async def change_interval(seller_id: str, visit: Admin) -> Response:
    wanted = SellerId.parse(seller_id)
    interval = CrawlingInterval.parse(number_of(visit.form.get("amount", "")), visit.form.get("unit", ""))
    await visit.operations.run(commands.change_interval, wanted, interval)
    return go(visit, seller_page(wanted), "sellers.interval_changed", seller=wanted)


# An id may contain slashes: the paths above come first.
@router.get("/sellers/{seller_id:path}")
async def seller_details(seller_id: str, visit: Viewer) -> Response:
    wanted, session = SellerId.parse(seller_id), visit.operations
    seller = await session.ask(operations.show_seller, wanted, MOST_RUNS)
    products = (await session.ask(list_products, ProductFilter(wanted), None, MOST_LISTED)).content
    runs, all_runs = seller.executions[:MOST_LISTED], f"/executions?seller={wanted}"
    all_products = f"/products?seller={wanted}" if seller.products.present > len(products) else None
    return show(
        visit,
        "seller.html",
        seller=seller,
        runs=Table.of(
            "executions",
            runs,
            RUNS,
            "executions.empty",
            caption="nav.executions",
            next_=all_runs if len(seller.executions) > MOST_LISTED else None,
        ),
        history=_history(seller.executions),
        products=Table.of(
            "products", products, PRODUCTS, "seller.no_products", caption="nav.products", next_=all_products
        ),
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
