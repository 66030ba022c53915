"""Sellers with their runs and products: list, show, deactivate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from sellerwatch.agents.marketplace_status import SellerPauseView, marketplace_status
from sellerwatch.crawling.absorb_batch import CrawlRules
from sellerwatch.crawling.commands import cancel, cancelled_view
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.crawling.queries import causes_of_waiting
from sellerwatch.crawling.views import CancelledExecutionView, ListedExecutionView, OpenExecutionView
from sellerwatch.kernel.failure import FailureCode
from sellerwatch.kernel.ids import SellerId
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.views import About, NumberedPageView, View
from sellerwatch.reports.dashboard import SellerTimes
from sellerwatch.reports.freshness import FreshnessState, FreshnessView, freshness_of, freshness_views
from sellerwatch.reports.ports import ReportsTx
from sellerwatch.schedules.queries import ScheduleView
from sellerwatch.sellers.commands import ChangedSellerView, stop_crawling
from sellerwatch.sellers.queries import SellerView, find_seller
from sellerwatch.sellers.seller import SellerStatus

#: Runs that are shown with one seller.
LAST_RUNS = 5
#: Sellers looked at where a list is narrowed by freshness, which no index knows.
MOST_SELLERS = 5000


@dataclass(frozen=True)
class ListedSellerView(SellerView):
    """A seller, how fresh its products are, and its open run."""

    freshness: FreshnessView
    open_execution: OpenExecutionView | None


@dataclass(frozen=True)
class SellerScheduleView(ScheduleView):
    expression: Annotated[str, About("The same as `scheduleExpression`.", "rate(1 day)")]


@dataclass(frozen=True)
class ProductCountsView(View):
    """Products of a seller in the catalogue. `complete` are present too."""

    present: int
    complete: int
    deleted: int


@dataclass(frozen=True)
class SellerDetailView(ListedSellerView):
    """A seller with its schedule, its products, its last runs, and what waits for a person."""

    schedule: SellerScheduleView
    products: ProductCountsView
    products_present: Annotated[int, About("The same as in `products`, as the next two.")]
    products_complete: int
    products_deleted: int
    progress_rate: Annotated[float, About("Complete products in percent of those on the marketplace.", 99.8)]
    last_execution: ListedExecutionView | None
    executions: Annotated[Sequence[ListedExecutionView], About("The last runs, newest first.")]
    held_removal_id: Annotated[str | None, About("The removal of products that waits for a decision.")]
    open_cases: Annotated[int, About("Open quarantine cases.")]
    pause: Annotated[SellerPauseView | None, About("Who paused the requests for this seller, and when.")]
    is_everything_paused: Annotated[bool, About("All requests to the marketplace are paused.")]


@dataclass(frozen=True)
class DeactivatedSellerView(ChangedSellerView):
    ended_execution: Annotated[CancelledExecutionView | None, About("The run that was ended with it.")]


def list_sellers(
    tx: ReportsTx,
    context: OperationContext,
    status: SellerStatus | None,
    page: int,
    size: int,
    search: str | None = None,
    freshness: FreshnessState | None = None,
) -> NumberedPageView[ListedSellerView]:
    """List sellers by id, each with its freshness and its open run. `search` is a part of the id or of the name."""
    if freshness is None:
        found, total = tx.sellers.page(status=status, offset=page * size, limit=size, search=search)
    else:
        found, _ = tx.sellers.page(status=status, offset=0, limit=MOST_SELLERS, search=search)
        states = freshness_of(tx, context.now, [seller.seller_id for seller in found])
        found = [seller for seller in found if states[seller.seller_id].state is freshness]
        found, total = found[page * size : (page + 1) * size], len(found)
    seller_ids = [seller.seller_id for seller in found]
    fresh = freshness_views(tx, context.now, context.language, seller_ids)
    timings = {each.seller_id: each for each in tx.dashboard.freshness(seller_ids)}
    runs = _open_runs(tx, context, list(timings.values()))
    views = [
        ListedSellerView.of(
            seller,
            timings[seller.seller_id],
            freshness=fresh[seller.seller_id],
            open_execution=runs.get(seller.seller_id),
        )
        for seller in found
    ]
    return NumberedPageView.of(views, page, size, total)


def show_seller(
    tx: ReportsTx, context: OperationContext, seller_id: SellerId, runs: int = LAST_RUNS
) -> SellerDetailView:
    """Show a seller: its schedule, its products, its last runs, and what waits for a person."""
    seller, schedule = find_seller(tx, seller_id)
    (timing,) = tx.dashboard.freshness([seller_id])
    fresh = freshness_views(tx, context.now, context.language, [seller_id])[seller_id]
    newest = tx.execution_queries.newest(seller_id=seller_id, status=None, limit=runs)
    causes = causes_of_waiting(tx, newest, context.now)
    executions = [ListedExecutionView.of_waiting(run, causes.get(run.execution_id), context.language) for run in newest]
    counts, total = tx.product_queries.counts(seller_id), seller.total_product_count
    held, marketplace = tx.removals.held_of(seller_id), marketplace_status(tx)
    pause = marketplace.pause_of(seller_id)
    return SellerDetailView.of(
        seller,
        schedule,
        freshness=fresh,
        open_execution=_open_runs(tx, context, [timing]).get(seller_id),
        schedule=SellerScheduleView.of(schedule, expression=schedule.expression),
        products=ProductCountsView(counts.present, counts.complete, counts.deleted),
        products_present=counts.present,
        products_complete=counts.complete,
        products_deleted=counts.deleted,
        progress_rate=round(min(100.0 * counts.complete / total, 100.0), 2) if total else 0.0,
        last_execution=next((run for run in executions if run.refreshed_products is None), None),
        executions=executions,
        held_removal_id=None if held is None else held.removal_id,
        open_cases=len(tx.quarantine.open_cases(seller_id)),
        pause=None if pause is None else SellerPauseView(seller_id, pause.paused_at, pause.paused_by),
        is_everything_paused=marketplace.is_paused,
    )


def deactivate_seller(
    tx: CrawlTx, context: OperationContext, seller_id: SellerId, rules: CrawlRules
) -> DeactivatedSellerView:
    """Stop crawling a seller and end its open runs: waiting tasks are cancelled, those in flight finish."""
    seller, schedule = stop_crawling(tx, seller_id, context)
    ended = end_runs(tx, context, seller_id, rules)
    return DeactivatedSellerView.of(seller, schedule, dry_run=context.dry_run, ended_execution=ended)


def end_runs(
    tx: CrawlTx, context: OperationContext, seller_id: SellerId, rules: CrawlRules
) -> CancelledExecutionView | None:
    """Cancel the open runs of a seller, refreshes included; return the run of the whole seller, if there was one."""
    ended = None
    for run in [each for each in (*tx.executions.pending(), *tx.executions.running()) if each.seller_id == seller_id]:
        cancelled = cancel(
            tx,
            run.execution_id,
            rules,
            actor=context.actor,
            ids=context.ids,
            now=context.now,
            code=FailureCode.SELLER_DEACTIVATED,
        )
        ended = ended if run.is_refresh else cancelled
    return None if ended is None else cancelled_view(ended, context.language, dry_run=context.dry_run)


def _open_runs(
    tx: ReportsTx, context: OperationContext, sellers: Sequence[SellerTimes]
) -> dict[SellerId, OpenExecutionView]:
    """Return the open run of each of these sellers that has one, with what it waits for."""
    found = [tx.executions.get(seller.open_run) for seller in sellers if seller.open_run is not None]
    runs = [run for run in found if run is not None]
    causes = causes_of_waiting(tx, runs, context.now)
    return {run.seller_id: OpenExecutionView.of(run, causes.get(run.execution_id), context.language) for run in runs}
