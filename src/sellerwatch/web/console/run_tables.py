"""The table of runs, as several pages show it."""

from __future__ import annotations

from collections.abc import Sequence

from sellerwatch.crawling.views import ExecutionView, ListedExecutionView
from sellerwatch.web.console import tables
from sellerwatch.web.console.tables import Table, seller_page

COLUMNS = (
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
)


def runs_table(runs: Sequence[ListedExecutionView], next_: str | None = None, empty: str = "executions.empty") -> Table:
    """Return a table of runs; `next_` is the address of the next page."""
    rows = [
        (
            tables.code(run.execution_id, f"/executions/{run.execution_id}"),
            tables.text(run.seller_id, seller_page(run.seller_id)),
            tables.pill(run.shown_status),
            tables.bar(run.ended_tasks, run.total_tasks_created),
            tables.number(run.failed_tasks),
            tables.number(run.list_total),
            tables.when(run.started_at or run.created_at),
            took(run),
            tables.sentence(run.cause),
            tables.when(run.next_start_at),
        )
        for run in runs
    ]
    return Table("executions", COLUMNS, rows, empty, next=next_, caption="nav.executions")


def took(run: ExecutionView) -> tables.Cell:
    """Return a cell with the duration of a run that has ended."""
    seconds = run.took_seconds
    return tables.text(None) if seconds is None else tables.said("seconds", n=round(seconds, 1))
