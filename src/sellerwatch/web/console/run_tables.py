"""The columns of a table of runs, as several pages show it."""

from __future__ import annotations

from sellerwatch.crawling.views import ExecutionView, ListedExecutionView
from sellerwatch.web.console import tables
from sellerwatch.web.console.tables import Columns, seller_page


def took(run: ExecutionView) -> tables.Cell:
    """Return a cell with the duration of a run that has ended."""
    seconds = run.took_seconds
    return tables.text(None) if seconds is None else tables.said("seconds", n=round(seconds, 1))


def products(run: ExecutionView) -> tables.Cell:
    """Return a cell with the products of the seller, or of a refresh with those that it reads again."""
    refreshed = run.refreshed_products
    return tables.number(run.list_total) if refreshed is None else tables.said("execution.refreshed", n=refreshed)


RUNS: Columns[ListedExecutionView] = {
    "run": lambda run: tables.code(run.execution_id, f"/executions/{run.execution_id}"),
    "seller": lambda run: tables.text(run.seller_id, seller_page(run.seller_id)),
    "status": lambda run: tables.pill(run.shown_status),
    "progress": lambda run: tables.bar(run.ended_tasks, run.total_tasks_created),
    "failures": lambda run: tables.number(run.failed_tasks),
    "products": products,
    "began": lambda run: tables.when(run.started_at or run.created_at),
    "took": took,
    "cause": lambda run: tables.sentence(run.cause),
    "next_try": lambda run: tables.when(run.next_start_at),
}
