"""`sellerwatch status`: what runs, what is stuck and why, and what to do, on one screen."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from sellerwatch.cli import session
from sellerwatch.cli.executions import FAMILY, cause_text
from sellerwatch.cli.output import print_facts, print_table, print_view
from sellerwatch.cli.session import AsJson, say
from sellerwatch.cli.texts import Texts
from sellerwatch.compose.check_context import check_context_of
from sellerwatch.reports.overview import service_status

if TYPE_CHECKING:
    from sellerwatch.crawling.views import ListedExecutionView
    from sellerwatch.reports.overview import ServiceStatusView


def status(as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch status
    """
    with session.command_session() as at:
        found, text = at.ask(service_status, check_context_of(at.settings)), at.texts(FAMILY)
    if as_json:
        print_view(found)
        return
    print_table(
        text("status.attention"),
        text.columns("attention", "to_do"),
        [(each.sentence, each.actions[0].command) for each in found.attention],
        empty=text("status.calm"),
    )
    say("")
    print_facts(_facts(found, text))
    _print_runs(text("status.runs", n=found.running), found.runs, found.at, text)
    _print_runs(text("status.pending", n=found.pending), found.pending_runs, found.at, text)
    if found.marketplace.away:
        away = [(each.endpoint, each.reason, each.since, each.not_before) for each in found.marketplace.away]
        columns = text.columns("endpoint", "cause", "away_since", "next_probe")
        print_table(text("status.endpoints"), columns, away, empty="")


def _facts(found: ServiceStatusView, text: Texts) -> list[tuple[str, str]]:
    pool, outbox, sellers = found.pool, found.outbox, found.sellers
    waiting = sum(number for state, number in outbox.counts.items() if state in ("WAITING", "SENDING"))
    marketplace = "paused" if found.marketplace.paused else "away" if found.marketplace.away else "answers"
    delivery = "no_receiver" if not found.has_receiver else "paused" if outbox.is_paused else "sends"
    return [
        (text("nav.sellers"), text("status.sellers", fresh=sellers.fresh, active=sellers.active)),
        (text("overview.marketplace"), text(f"status.marketplace.{marketplace}", by=found.marketplace.paused_by)),
        (
            text("nav.agents"),
            text(
                "status.agents_open" if pool.circuits.open else "status.agents",
                available=pool.available_agents,
                total=pool.total_agents,
                left=pool.budget.left,
                open=pool.circuits.open,
            ),
        ),
        (
            text("nav.outbox"),
            text(f"status.outbox.{delivery}", n=waiting, held=outbox.held, lag=round(outbox.lag_seconds, 1)),
        ),
    ]


def _print_runs(title: str, runs: Sequence[ListedExecutionView], now: datetime, text: Texts) -> None:
    if not runs:
        return
    print_table(
        title,
        text.columns("run", "seller", "progress", "failed", "began", "waits"),
        [
            (
                run.execution_id,
                run.seller_id,
                f"{run.progress_rate:.0f} %",
                run.failed_tasks,
                text.ago(run.started_at or run.created_at, now),
                cause_text(run, now, text),
            )
            for run in runs
        ],
        empty="",
    )
