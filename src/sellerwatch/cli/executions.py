"""`sellerwatch executions`: runs, how far they are, and what went wrong in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Annotated

import typer

from sellerwatch.cli import session
from sellerwatch.cli.help import CommandApp
from sellerwatch.cli.output import print_facts, print_table, print_view
from sellerwatch.cli.session import AsJson, CursorOption, DryRun, Limit, say, seller_of
from sellerwatch.cli.tables import Columns, print_page, print_views
from sellerwatch.cli.texts import Texts
from sellerwatch.crawling import queries
from sellerwatch.crawling.commands import cancel_execution, retry_execution
from sellerwatch.crawling.execution import ExecutionStatus
from sellerwatch.crawling.views import (
    ExecutionDetailView,
    ExecutionView,
    FoundProductsView,
    ListedExecutionView,
    OpenExecutionView,
)
from sellerwatch.kernel.ids import ExecutionId
from sellerwatch.reports.queries import ProgressStepView, show_execution_progress

app = CommandApp()

FAMILY = "cli_runs"

ExecutionArgument = Annotated[str, typer.Argument(metavar="EXECUTION_ID")]


def cause_text(run: ListedExecutionView | OpenExecutionView, text: Texts) -> str | None:
    """Return why a run failed or waits; for a run that waits to start, also when it is tried next."""
    cause = session.short(run.cause)
    if run.next_start_at is None:
        return cause
    key = "executions.tries" if run.start_tries else "executions.first_try"
    tries = text(key, n=run.start_tries, when=text.ago(run.next_start_at))
    return f"{cause or ''} {tries}".lstrip()


def _status(run: ListedExecutionView, text: Texts) -> str:
    is_refresh = run.refreshed_products is not None
    return text("executions.refresh", status=run.shown_status) if is_refresh else run.shown_status


RUNS: Columns[ListedExecutionView] = {
    "run": lambda run, _: run.execution_id,
    "seller": lambda run, _: run.seller_id,
    "status": _status,
    "started": lambda run, text: text.ago(run.created_at),
    "progress": lambda run, _: f"{run.progress_rate:.0f} %",
    "done": lambda run, _: run.completed_tasks,
    "failed": lambda run, _: run.failed_tasks,
    "tasks": lambda run, _: run.total_tasks_created,
    "cause": cause_text,
}
STEPS: Columns[ProgressStepView] = {
    "time": lambda step, text: text.when(step.at),
    "progress": lambda step, _: f"{100 * step.ended_tasks / max(1, step.total_tasks):.0f} %",
    "done": lambda step, _: step.completed_tasks,
    "failed": lambda step, _: step.failed_tasks,
    "tasks": lambda step, _: step.total_tasks,
}


@app.command("list")
def list_(
    seller: str | None = None,
    status: Annotated[ExecutionStatus | None, typer.Option("--status", case_sensitive=False)] = None,
    limit: Limit = 10,
    cursor: CursorOption = None,
    as_json: AsJson = False,
) -> None:
    """Examples:

    sellerwatch executions list
    sellerwatch executions list --seller seller_12345 --status FAILED --limit 50
    """
    seller_id = seller_of(seller)
    with session.command_session() as at:
        page, text = at.ask(queries.list_executions, seller_id, status, cursor, limit), at.texts(FAMILY)
    empty = text("executions.none", seller=seller_id or "SELLER_ID")
    if status is not None:
        empty = text("executions.none_in_state", status=status)
    print_page(page, RUNS, text, "executions", empty, limit=limit, as_json=as_json)


@app.command()
def show(execution: ExecutionArgument, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch executions show 0198c0de-0000-7000-8002-000000000001
    """
    execution_id = ExecutionId.parse(execution)
    with session.command_session() as at:
        run, now, text = at.ask(queries.show_execution, execution_id), at.now, at.texts(FAMILY)
    if as_json:
        print_view(run)
        return
    print_facts([(text(f"run.{name}"), value) for name, value in _facts(run, now, text)])
    print_table(
        text("run.tasks"),
        text.columns("type", "status", "number"),
        [(type_, status, number) for type_, counts in run.tasks.items() for status, number in counts.items()],
        empty=text("run.no_tasks"),
    )
    _print_notes(run, now, text)
    if run.errors:
        errors = [(each.count, each.blame, each.message) for each in run.errors]
        print_table(text("run.errors"), text.columns("tasks", "blame", "cause"), errors, empty="")
        say(text("run.retry_hint", execution=execution_id), "dim")


@app.command()
def progress(execution: ExecutionArgument, limit: Limit = 20, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch executions progress 0198c0de-0000-7000-8002-000000000001
    sellerwatch executions progress 0198c0de-0000-7000-8002-000000000001 --limit 1000 --json
    """
    execution_id = ExecutionId.parse(execution)
    with session.command_session() as at:
        found, text = at.ask(show_execution_progress, execution_id), at.texts(FAMILY)
    steps = found.content[-limit:]
    if as_json:
        print_view(replace(found, content=steps), limit=limit)
        return
    print_views(text("progress.title"), steps, STEPS, text, empty=text("progress.none"))


@app.command()
def cancel(
    execution: ExecutionArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y")] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Examples:

    sellerwatch executions cancel 0198c0de-0000-7000-8002-000000000001 --dry-run
    sellerwatch executions cancel 0198c0de-0000-7000-8002-000000000001 --yes
    """
    execution_id = ExecutionId.parse(execution)
    with session.command_session() as at:
        text = at.texts(FAMILY)
        if not yes and not dry_run:
            run = at.ask(queries.show_execution, execution_id)
            if run.is_open:
                question = text("cancel.question", seller=run.seller_id, percent=f"{run.progress_rate:.0f}")
                typer.confirm(question, abort=True, err=True)
        ended = at.run(cancel_execution, execution_id, at.operations.rules, dry_run=dry_run)
    if as_json:
        print_view(ended)
        return
    key = "cancel.would" if dry_run else "cancel.done"
    say(text(key, n=ended.cancelled_tasks, flying=ended.tasks_in_flight), "green")


@app.command()
def retry(execution: ExecutionArgument, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch executions retry 0198c0de-0000-7000-8002-000000000001
    """
    execution_id = ExecutionId.parse(execution)
    with session.command_session() as at:
        text = at.texts(FAMILY)
        run = at.run(retry_execution, execution_id, at.operations.deadline, dry_run=dry_run)
    if as_json:
        print_view(run)
        return
    say(text("retry.would" if dry_run else "retry.done", n=run.reopened_tasks, status=run.status), "green")
    if not dry_run:
        say(text("service.takes_up"))


def _facts(run: ExecutionDetailView, now: datetime, text: Texts) -> list[tuple[str, object]]:
    took = None
    if run.started_at is not None:
        took = text("seconds", n=round(((run.completed_at or now) - run.started_at).total_seconds()))
    bar = session.bar(run.progress_rate)
    facts: list[tuple[str, object]] = [
        ("execution", run.execution_id),
        ("seller", run.seller_id),
        ("status", run.shown_status),
        ("progress", text("run.ended", bar=bar, done=run.ended_tasks, total=run.total_tasks_created)),
        ("success_rate", f"{run.success_rate:.1f} %"),
        ("listed", run.list_total),
        ("found", found_text(run, text)),
        ("foreign", run.foreign_items or None),
        ("judged", ", ".join(f"{part} {number}" for part, number in run.judged.items()) or None),
        ("created", text.when(run.created_at, now)),
        ("completed", run.completed_at),
        ("took", took),
        ("deadline", run.deadline_at),
    ]
    if run.refreshed_products is not None:
        facts.append(("refreshed", run.refreshed_products))
    if run.start_tries:
        facts.append(("start_tries", run.start_tries))
    if run.next_start_at is not None:
        facts.append(("next_try", text.when(run.next_start_at, now)))
    if run.waiting is not None and run.waiting.message != run.error_message:
        facts.append(("waits_for", run.waiting.message))
    return [*facts, ("blame", run.failure and run.failure.blame), ("error", run.error_message)]


def found_text(run: ExecutionView, text: Texts) -> str | None:
    """Return what a run found: `3 new, 12 changed, 1 gone, 984 unchanged`; None where that is not known."""
    return None if run.products is None else text("run.found_products", **vars(run.products))


def see_found(execution_id: str, products: FoundProductsView | None) -> dict[str, str]:
    """Return the commands that list exactly the products that were counted, by what the run found them to be."""
    counts = {} if products is None else vars(products)
    listing = f"sellerwatch products list --execution {execution_id} --found"
    return {kind: f"{listing} {kind}" for kind, number in counts.items() if number}


def say_found(commands: Mapping[str, str], text: Texts) -> None:
    """Name the commands that list what was counted."""
    if commands:
        say(text("see_found"), "dim")
    for command in commands.values():
        say(f"  {command}", "dim")


def _print_notes(run: ExecutionDetailView, now: datetime, text: Texts) -> None:
    say_found(see_found(run.execution_id, run.products), text)
    if run.changed_fields:
        fields = [(each.part, each.field, each.products) for each in run.changed_fields]
        print_table(text("run.changed"), text.columns("part", "field", "products"), fields, empty="")
    if run.unreadable:
        problems = [(each.count, each.problem) for each in run.unreadable]
        print_table(text("run.unreadable"), text.columns("answers", "problem"), problems, empty="")
    if run.paused is None:
        return
    say(run.paused, "yellow")
    if run.recheck_at is not None:
        say(text("run.recheck", when=text.when(run.recheck_at, now)), "yellow")
    say(text("run.decide", seller=run.seller_id), "yellow")
