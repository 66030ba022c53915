"""Sellers: the list, registering one, and one seller with its schedule, its runs and its products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fastapi import APIRouter
from starlette.responses import Response

from sellerwatch.agents.marketplace_status import marketplace_status
from sellerwatch.agents.ports import Pause
from sellerwatch.catalog.ports import ProductCounts
from sellerwatch.catalog.product import Product
from sellerwatch.catalog.queries import last_event_data
from sellerwatch.crawling.commands import Cancelled, deactivate_seller
from sellerwatch.crawling.execution import Execution
from sellerwatch.crawling.waiting import causes_of_waiting
from sellerwatch.kernel.errors import SellerwatchError
from sellerwatch.kernel.failure import Failure
from sellerwatch.kernel.ids import ExecutionId, SellerId
from sellerwatch.kernel.store import StoreFailed
from sellerwatch.operations.ports import ServiceTx
from sellerwatch.reports.dashboard import Freshness
from sellerwatch.schedules.interval import CrawlingInterval, IntervalUnit
from sellerwatch.schedules.missed import next_starts, starts_at
from sellerwatch.schedules.schedule import Schedule
from sellerwatch.sellers import commands as seller_commands
from sellerwatch.sellers.commands import run_now
from sellerwatch.sellers.seller import Seller, SellerNotFound, SellerStatus
from sellerwatch.web.api.context import Desk
from sellerwatch.web.api.errors import status_of
from sellerwatch.web.api.run_start import start_run
from sellerwatch.web.console import tables
from sellerwatch.web.console.overview import fresh_state
from sellerwatch.web.console.page_request import Admin, Viewer, Visit
from sellerwatch.web.console.rendering import PageRoute, go, show
from sellerwatch.web.console.tables import Chart, Confirm, Filter, Table, seller_page

router = APIRouter(route_class=PageRoute, include_in_schema=False)

MOST_RUNS = 60
MOST_PRODUCTS = 10
#: Sellers looked at where a list is narrowed by how fresh they are, which no index knows.
MOST_SELLERS = 5000
COLUMNS = (
    "col.seller",
    "col.name",
    "col.status",
    "col.freshness",
    "col.read",
    "col.interval",
    "col.next",
    "col.products",
    "col.waits",
)


def number_of(text: str, otherwise: int = 0) -> int:
    """A number of a form; what is none is left to the rule it is given to."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else otherwise


@router.get("/sellers")
async def sellers(visit: Viewer) -> Response:
    search, status, fresh = visit.asked("search"), visit.asked("status"), visit.asked("fresh")
    wanted = SellerStatus(status) if status in list(SellerStatus) else None
    page = number_of(visit.asked("page"))

    def work(tx: ServiceTx) -> tuple[list[Freshness], bool, Mapping[ExecutionId, Failure]]:
        size = MOST_SELLERS if fresh else visit.rows
        found, total = tx.sellers.page(
            status=wanted, offset=0 if fresh else page * size, limit=size, search=search or None
        )
        known = tx.dashboard.freshness([seller.seller_id for seller in found])
        kept = [one for one in known if not fresh or fresh_state(one, visit.now) == fresh]
        return kept, not fresh and (page + 1) * size < total, _waiting(tx, kept)

    found, more, waiting = await visit.read(work)
    table = Table(
        "sellers",
        COLUMNS,
        [_row(seller, visit, waiting) for seller in found],
        "sellers.none_found" if search or status or fresh else "sellers.empty",
        next=visit.link(page=str(page + 1)) if more else None,
        caption="nav.sellers",
    )
    fields = [
        Filter("search", "filter.search", search),
        Filter("status", "col.status", status, [(s, f"status.{s}") for s in SellerStatus]),
        Filter("fresh", "col.freshness", fresh, [(s, f"fresh.{s}") for s in ("fresh", "late", "never", "off")]),
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


def _waiting(tx: ServiceTx, sellers: Sequence[Freshness]) -> Mapping[ExecutionId, Failure]:
    """Why the open runs of these sellers make no progress."""
    runs = [tx.executions.get(seller.open_run) for seller in sellers if seller.open_run is not None]
    return causes_of_waiting(tx, [run for run in runs if run is not None])


def _row(seller: Freshness, visit: Visit, waiting: Mapping[ExecutionId, Failure]) -> Sequence[tables.Cell]:
    now, cause = visit.now, None if seller.open_run is None else waiting.get(seller.open_run)
    return (
        tables.text(seller.seller_id, seller_page(seller.seller_id)),
        tables.text(seller.name),
        tables.pill(seller.status),
        tables.pill(fresh_state(seller, now), "fresh"),
        tables.when(seller.fresh_as_of),
        tables.said(f"every.{seller.interval.unit}", n=seller.interval.amount),
        tables.when(starts_at(seller)),
        tables.number(seller.products),
        tables.sentence(visit.failure(cause)),
    )


@router.get("/sellers/new")
async def register_form(visit: Admin) -> Response:
    return show(visit, "register.html", problem=None, given={"amount": "1", "unit": "DAYS"})


@router.post("/sellers/new")
async def register_seller(visit: Admin) -> Response:
    given = visit.form
    try:
        seller_id = SellerId.parse(given.get("seller_id", "").strip())
        interval = CrawlingInterval.parse(number_of(given.get("amount", "")), given.get("unit", ""))

        def work(tx: ServiceTx, desk: Desk) -> Seller:
            made = seller_commands.register(
                tx, seller_id, given.get("name", ""), interval, actor=desk.actor, ids=desk.ids, now=desk.now
            )
            if given.get("crawl_now"):
                run_now(tx, seller_id, actor=desk.actor, now=desk.now)
            return made

        made = await visit.change(work)
    except StoreFailed:
        raise
    except SellerwatchError as error:
        status = status_of(type(error))
        return show(visit, "register.html", status=status, problem=visit.refusal(error), given=given)
    return go(visit, seller_page(made.seller_id), "sellers.registered", name=made.name)


@dataclass(frozen=True)
class Seen:
    seller: Seller
    freshness: Freshness
    schedule: Schedule | None
    runs: Sequence[Execution]
    waiting: Mapping[ExecutionId, Failure]
    counts: ProductCounts
    products: Sequence[tuple[Product, str | None]]
    held: str | None
    cases: int
    pause: Pause | None
    is_everything_paused: bool


def _look(tx: ServiceTx, seller_id: SellerId) -> Seen:
    seller = tx.sellers.get(seller_id)
    if seller is None:
        raise SellerNotFound(seller_id=seller_id)
    held, marketplace = tx.removals.held_of(seller_id), marketplace_status(tx)
    runs = tx.execution_queries.newest(seller_id=seller_id, status=None, limit=MOST_RUNS)
    shown = tx.product_queries.page(seller_id=seller_id, state=None, cursor=None, limit=MOST_PRODUCTS).content
    return Seen(
        seller=seller,
        freshness=tx.dashboard.freshness([seller_id])[0],
        schedule=tx.schedules.of_seller(seller_id),
        runs=runs,
        waiting=causes_of_waiting(tx, runs),
        counts=tx.product_queries.counts(seller_id),
        products=[(product, last_event_data(tx, product).get("name")) for product in shown],
        held=None if held is None else held.removal_id,
        cases=len(tx.quarantine.open_cases(seller_id)),
        pause=marketplace.pause_of(seller_id),
        is_everything_paused=marketplace.is_paused,
    )


@router.get("/sellers/{seller_id}")
async def show_seller(seller_id: str, visit: Viewer) -> Response:
    wanted = SellerId.parse(seller_id)
    seen = await visit.read(lambda tx: _look(tx, wanted))
    return show(
        visit,
        "seller.html",
        seen=seen,
        state=fresh_state(seen.freshness, visit.now),
        starts=[] if seen.schedule is None else next_starts(seen.schedule),
        runs=runs_table(
            visit, seen.runs[:10], seen.waiting, f"/executions?seller={wanted}" if len(seen.runs) > 10 else None
        ),
        history=_history(seen.runs),
        products=_products(seen, wanted),
    )


def runs_table(
    visit: Visit,
    runs: Sequence[Execution],
    waiting: Mapping[ExecutionId, Failure],
    next_: str | None = None,
    empty: str = "executions.empty",
) -> Table:
    return Table(
        "executions",
        (
            "col.run",
            "col.seller",
            "col.status",
            "col.progress",
            "col.failures",
            "col.products",
            "col.began",
            "col.took",
            "col.cause",
            "col.next_try",
        ),
        [
            (
                tables.code(run.execution_id, f"/executions/{run.execution_id}"),
                tables.text(run.seller_id, seller_page(run.seller_id)),
                tables.pill(run.status),
                tables.bar(run.ended, run.total_tasks_created),
                tables.number(run.failed_tasks),
                tables.number(run.list_total),
                tables.when(run.started_at or run.created_at),
                took(run),
                tables.sentence(visit.failure(waiting.get(run.execution_id) or run.failure)),
                tables.when(run.next_start_at),
            )
            for run in runs
        ],
        empty,
        next=next_,
        caption="nav.executions",
    )


def took(run: Execution) -> tables.Cell:
    if run.started_at is None or run.completed_at is None:
        return tables.text(None)
    return tables.said("seconds", n=round((run.completed_at - run.started_at).total_seconds(), 1))


def _history(runs: Sequence[Execution]) -> Chart:
    ended = [run for run in reversed(runs) if run.started_at is not None and run.completed_at is not None]
    return Chart(
        "history",
        "seller.history",
        [run.started_at.timestamp() for run in ended if run.started_at],
        [
            ("chart.seconds", "accent", [_seconds(run) for run in ended]),
            ("chart.failed", "bad", [float(run.failed_tasks) for run in ended]),
        ],
    )


def _seconds(run: Execution) -> float | None:
    if run.started_at is None or run.completed_at is None:
        return None
    return round((run.completed_at - run.started_at).total_seconds(), 1)


def _products(seen: Seen, seller_id: SellerId) -> Table:
    return Table(
        "products",
        ("col.item", "col.name", "col.status", "col.version", "col.updated"),
        [
            (
                tables.text(product.item_no, f"/products/{product.item_no}"),
                tables.text(name),
                tables.pill(product.state),
                tables.number(product.version),
                tables.when(product.updated_at),
            )
            for product, name in seen.products
        ],
        "seller.no_products",
        next=f"/products?seller={seller_id}" if seen.counts.present > len(seen.products) else None,
        caption="nav.products",
    )


@router.post("/sellers/{seller_id}/crawl")
async def crawl_now(seller_id: str, visit: Admin) -> Response:
    """Start a run and go to watch it."""
    started = await start_run(visit.parts, SellerId.parse(seller_id), visit.actor)
    if started.task_count is None:
        return go(visit, f"/executions/{started.execution_id}", "sellers.queued")
    return go(visit, f"/executions/{started.execution_id}", "sellers.started", n=started.task_count)


@router.post("/sellers/{seller_id}/activate")
async def activate(seller_id: str, visit: Admin) -> Response:
    wanted = SellerId.parse(seller_id)

    def work(tx: ServiceTx, desk: Desk) -> Seller:
        return seller_commands.activate(tx, wanted, actor=desk.actor, ids=desk.ids, now=desk.now)

    await visit.change(work)
    return go(visit, seller_page(wanted), "sellers.activated", seller=wanted)


@router.get("/sellers/{seller_id}/deactivate")
async def confirm_deactivate(seller_id: str, visit: Admin) -> Response:
    wanted = SellerId.parse(seller_id)

    def work(tx: ServiceTx) -> tuple[Seller, Execution | None, ProductCounts]:
        seller = tx.sellers.get(wanted)
        if seller is None:
            raise SellerNotFound(seller_id=wanted)
        return seller, tx.executions.open_of(wanted), tx.product_queries.counts(wanted)

    seller, going, counts = await visit.read(work)
    left = 0 if going is None else going.total_tasks_created - going.ended
    return _confirm(
        visit,
        Confirm(
            "deactivate.title",
            seller_page(wanted, "/deactivate"),
            "deactivate.button",
            [
                ("deactivate.what", {"seller": seller.name}),
                ("deactivate.run" if going else "deactivate.no_run", {"n": left}),
                ("deactivate.products", {"n": counts.present}),
            ],
            seller_page(wanted),
            facts={"seller": wanted},
        ),
    )


@router.post("/sellers/{seller_id}/deactivate")
async def deactivate(seller_id: str, visit: Admin) -> Response:
    wanted, rules = SellerId.parse(seller_id), visit.parts.service.crawl.rules

    def work(tx: ServiceTx, desk: Desk) -> tuple[Seller, Cancelled | None]:
        return deactivate_seller(tx, wanted, rules, actor=desk.actor, ids=desk.ids, now=desk.now)

    _, ended = await visit.change(work)
    return go(
        visit, seller_page(wanted), "sellers.deactivated", seller=wanted, n=0 if ended is None else ended.cancelled
    )


@router.get("/sellers/{seller_id}/interval")
async def interval_form(seller_id: str, visit: Admin) -> Response:
    wanted = SellerId.parse(seller_id)
    seller = await visit.read(lambda tx: tx.sellers.get(wanted))
    if seller is None:
        raise SellerNotFound(seller_id=wanted)
    return _confirm(
        visit,
        Confirm(
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
        ),
    )


@router.post("/sellers/{seller_id}/interval")
async def change_interval(seller_id: str, visit: Admin) -> Response:
    wanted = SellerId.parse(seller_id)
    interval = CrawlingInterval.parse(number_of(visit.form.get("amount", "")), visit.form.get("unit", ""))

    def work(tx: ServiceTx, desk: Desk) -> Seller:
        return seller_commands.update_interval(tx, wanted, interval, actor=desk.actor, ids=desk.ids, now=desk.now)

    await visit.change(work)
    return go(visit, seller_page(wanted), "sellers.interval_changed", seller=wanted)


def _confirm(visit: Visit, confirm: Confirm) -> Response:
    return show(visit, "confirm.html", confirm=confirm)
