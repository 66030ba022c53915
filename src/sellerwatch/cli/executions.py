"""`sellerwatch executions`: runs, how far they are, and what went wrong in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sellerwatch.cli import session
from sellerwatch.cli.output import ago, print_facts, print_table, print_view
from sellerwatch.cli.session import AsJson, CursorOption, DryRun, Limit, say
from sellerwatch.crawling import queries
from sellerwatch.crawling.execution import Execution, ExecutionStatus
from sellerwatch.crawling.views import ExecutionDetailView, ExecutionView, ListedExecutionView
from sellerwatch.crawling.waiting import waiting_view
from sellerwatch.kernel.failure import Failure
from sellerwatch.kernel.ids import ExecutionId, SellerId

if TYPE_CHECKING:
    from sellerwatch.operations.ports import ServiceTx

app = typer.Typer(no_args_is_help=True, help="Look at runs, cancel them, try again what failed in them.")

ExecutionArgument = Annotated[str, typer.Argument(metavar="EXECUTION_ID", help="As `executions list` shows it.")]


@app.command("list")
def list_(
    seller: Annotated[str | None, typer.Option("--seller", help="Only runs of this seller.")] = None,
    status: Annotated[
        ExecutionStatus | None, typer.Option("--status", case_sensitive=False, help="Only those in this state.")
    ] = None,
    limit: Limit = 10,
    cursor: CursorOption = None,
    as_json: AsJson = False,
) -> None:
    """List runs, newest first.

    \b
    sellerwatch executions list
    sellerwatch executions list --seller seller_12345 --status FAILED --limit 50
    """
    seller_id = None if seller is None else SellerId.parse(seller)
    with session.command_session() as at:
        page, now = at.ask(queries.list_executions, seller_id, status, cursor, limit), at.now
    if as_json:
        print_view(page, limit=limit)
        return
    nothing = f"No runs yet. Start one: sellerwatch crawl {seller_id or 'SELLER_ID'}"
    if status is not None:
        nothing = f"No run is {status}. All of them: sellerwatch executions list"
    print_runs("Runs", page.content, now, empty=nothing)


@app.command()
def show(execution: ExecutionArgument, as_json: AsJson = False) -> None:
    """Show a run: how far it is, its tasks by type and state, what it found changed, and its errors by cause.

    A run that is paused says why, and what to do.

    \b
    sellerwatch executions show 0198c0de-0000-7000-8002-000000000001
    """
    execution_id = ExecutionId.parse(execution)
    with session.command_session() as at:
        run, now = at.ask(queries.show_execution, execution_id), at.now
    if as_json:
        print_view(run)
        return
    _print_run(run, now)
    print_table(
        "Tasks",
        ("type", "status", "number"),
        [(type_, status, number) for type_, counts in run.tasks.items() for status, number in counts.items()],
        empty="It has no tasks.",
    )
    _print_notes(run, now)
    if run.errors:
        print_table("Errors", ("tasks", "blame", "message"), [(e.count, e.blame, e.message) for e in run.errors], empty="")
        say(f"Try them again: sellerwatch executions retry {execution_id}", "dim")


@app.command()
def cancel(
    execution: ExecutionArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """End a run. Its waiting tasks are cancelled; those in flight finish, and their answers are still used.

    \b
    sellerwatch executions cancel 0198c0de-0000-7000-8002-000000000001 --dry-run
    sellerwatch executions cancel 0198c0de-0000-7000-8002-000000000001 --yes
    """
    from sellerwatch.crawling.commands import cancel_execution  # noqa: PLC0415

    execution_id = ExecutionId.parse(execution)
    with session.command_session() as at:
        rules = at.operations.rules
        if not yes and not dry_run:
            run = at.ask(queries.show_execution, execution_id)
            if run.is_open:
                question = f"The run of {run.seller_id} is {run.progress_rate:.0f} % done. End it?"
                typer.confirm(question, abort=True, err=True)
        ended = at.run(cancel_execution, execution_id, rules, dry_run=dry_run)
    if as_json:
        print_view(ended)
        return
    counts = f"{ended.cancelled_tasks} waiting task(s) cancelled, {ended.tasks_in_flight} in flight finish."
    say(f"The run would be ended: {counts}" if dry_run else f"The run was ended: {counts}", "green")


@app.command()
def retry(execution: ExecutionArgument, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Do the failed tasks of a run again. A run that has ended is running again.

    \b
    sellerwatch executions retry 0198c0de-0000-7000-8002-000000000001
    """
    from sellerwatch.crawling.commands import retry_execution  # noqa: PLC0415

    execution_id = ExecutionId.parse(execution)
    with session.command_session() as at:
        run = at.run(retry_execution, execution_id, at.operations.deadline, dry_run=dry_run)
    if as_json:
        print_view(run)
        return
    if dry_run:
        say(f"{run.reopened_tasks} failed task(s) would be done again; the run is {run.status}.", "green")
        return
    say(f"{run.reopened_tasks} failed task(s) are to be done again; the run is {run.status}.", "green")
    say("A running `sellerwatch serve` takes them up by itself.")


def print_runs(title: str, runs: Sequence[ListedExecutionView], now: datetime, *, empty: str) -> None:
    """Print runs as a table."""
    print_table(
        title,
        ("execution", "seller", "status", "started", "progress", "done", "failed", "tasks", "cause"),
        [
            (
                run.execution_id,
                run.seller_id,
                run.status,
                ago(run.created_at, now),
                f"{run.progress_rate:.0f} %",
                run.completed_tasks,
                run.failed_tasks,
                run.total_tasks_created,
                cause_text(run, now),
            )
            for run in runs
        ],
        empty=empty,
    )


def cause_text(run: ListedExecutionView, now: datetime) -> str | None:
    """Return why a run failed or waits; for a run that waits to start, also when it is tried next."""
    cause = session.short(run.cause)
    if run.next_start_at is None:
        return cause
    return f"{cause or ''} (tries: {run.start_tries}, next {ago(run.next_start_at, now)})".lstrip()


def _print_run(run: ExecutionDetailView, now: datetime) -> None:
    took = None
    if run.started_at is not None:
        took = f"{((run.completed_at or now) - run.started_at).total_seconds():.0f} s"
    judged = ", ".join(f"{part} {number}" for part, number in run.judged.items())
    waits = run.waiting is not None and run.waiting.message != run.error_message
    print_facts(
        [
            ("execution", run.execution_id),
            ("seller", run.seller_id),
            ("status", run.status),
            ("progress", f"{session.bar(run.progress_rate)} ({run.ended_tasks} of {run.total_tasks_created})"),
            ("success rate", f"{run.success_rate:.1f} %"),
            ("products listed", run.list_total),
            ("items of others", run.foreign_items or None),
            ("parts judged", judged or None),
            ("created", _when(run.created_at, now)),
            ("completed", run.completed_at),
            ("took", took),
            ("deadline", run.deadline_at),
            *_start_facts(run, now),
            *([("waits for", run.cause)] if waits else []),
            ("blame", run.failure and run.failure.blame),
            ("error", run.error_message),
        ]
    )


def _when(time: datetime, now: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S} UTC ({ago(time, now)})"


def _start_facts(run: ExecutionView, now: datetime) -> list[tuple[str, str | int]]:
    """Return how often a run that has not started was tried, and when it is tried next."""
    facts: list[tuple[str, str | int]] = [("start tries", run.start_tries)] if run.start_tries else []
    if run.next_start_at is not None:
        facts.append(("next try", _when(run.next_start_at, now)))
    return facts


def _print_notes(run: ExecutionDetailView, now: datetime) -> None:
    if run.changed_fields:
        rows = [(each.part, each.field, each.products) for each in run.changed_fields]
        print_table("Changed fields", ("part", "field", "products"), rows, empty="")
    if run.unreadable:
        problems = [(each.count, each.problem) for each in run.unreadable]
        print_table("Could not be read", ("answers", "problem"), problems, empty="")
    if run.paused is None:
        return
    say(f"It is paused: {run.paused}", "yellow")
    if run.recheck_at is not None:
        when = _when(run.recheck_at, now)
        say(f"A few of the answers are read again at {when}; once they are readable it goes on by itself.", "yellow")
    say(f"To decide the case now: sellerwatch quarantine list --seller {run.seller_id}", "yellow")


#: For `sellerwatch sellers` and lists with a seller filter, until they show views.
Waiting = Mapping[ExecutionId, Failure]


def must_be_known(tx: ServiceTx, seller_id: SellerId | None) -> None:
    queries.check_seller(tx, seller_id)


def execution_json(run: Execution, language: str) -> dict[str, Any]:
    from sellerwatch.kernel.views import view_json  # noqa: PLC0415

    shown: dict[str, Any] = view_json(ExecutionView.of(run, language))
    return shown


def waiting_json(cause: Failure | None, language: str) -> dict[str, Any]:
    return {"waiting": waiting_view(cause, language)}


def print_executions(
    title: str, runs: Sequence[Execution], waiting: Waiting, now: datetime, language: str, *, empty: str
) -> None:
    views = [ListedExecutionView.of_waiting(run, waiting.get(run.execution_id), language) for run in runs]
    print_runs(title, views, now, empty=empty)


def cause_of(run: Execution, waiting: Failure | None, now: datetime, language: str) -> str | None:
    return cause_text(ListedExecutionView.of_waiting(run, waiting, language), now)
