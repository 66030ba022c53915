"""`sellerwatch status`: what runs, what is stuck and why, and what to do, on one screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sellerwatch.cli import session
from sellerwatch.cli.executions import FAMILY, cause_text
from sellerwatch.cli.marketplace import ENDPOINTS
from sellerwatch.cli.output import print_facts, print_view
from sellerwatch.cli.session import AsJson, say
from sellerwatch.cli.tables import Columns, print_views
from sellerwatch.cli.texts import Texts
from sellerwatch.compose.check_context import check_context_of
from sellerwatch.reports.overview import service_status

if TYPE_CHECKING:
    from sellerwatch.crawling.views import ListedExecutionView
    from sellerwatch.oversight.backups import LastBackupView
    from sellerwatch.reports.attention import AttentionView
    from sellerwatch.reports.overview import ServiceStatusView

ATTENTION: Columns[AttentionView] = {
    "attention": lambda entry, _: entry.sentence,
    "to_do": lambda entry, _: entry.actions[0].command,
}
RUNS: Columns[ListedExecutionView] = {
    "run": lambda run, _: run.execution_id,
    "seller": lambda run, _: run.seller_id,
    "progress": lambda run, _: f"{run.progress_rate:.0f} %",
    "failed": lambda run, _: run.failed_tasks,
    "began": lambda run, text: text.ago(run.started_at or run.created_at),
    "waits": cause_text,
}


def status(as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch status
    """
    with session.command_session() as at:
        found, text = at.ask(service_status, check_context_of(at.settings)), at.texts(FAMILY)
    if as_json:
        print_view(found)
        return
    print_views(text("status.attention"), found.attention, ATTENTION, text, empty=text("status.calm"))
    say("")
    print_facts(_facts(found, text))
    if found.runs:
        print_views(text("status.runs", n=found.running), found.runs, RUNS, text, empty="")
    if found.pending_runs:
        print_views(text("status.pending", n=found.pending), found.pending_runs, RUNS, text, empty="")
    if found.marketplace.away:
        print_views(text("status.endpoints"), found.marketplace.away, ENDPOINTS, text, empty="")


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
        (text("status.backup"), _backup(found.backup, text)),
    ]


def _backup(backup: LastBackupView | None, text: Texts) -> str:
    if backup is None:
        return text("status.backup.none")
    state = "made" if backup.failed_at is None else "only_failed" if backup.made_at is None else "failed"
    return text(
        f"status.backup.{state}",
        ago=text.ago(backup.made_at),
        size=f"{(backup.bytes or 0) / 1_000_000:,.1f}",
        failed=text.ago(backup.failed_at),
        problem=backup.problem,
    )
