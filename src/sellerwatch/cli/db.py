"""`sellerwatch db`: the schema of the configured database, and what it keeps."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import typer
from rich.text import Text

from sellerwatch.cli.help import CommandApp
from sellerwatch.cli.output import err, print_facts, print_json, print_table
from sellerwatch.cli.session import AsJson, DryRun, actor, command_session, say
from sellerwatch.cli.tables import Columns, print_views
from sellerwatch.cli.texts import Texts
from sellerwatch.compose.backup import back_up
from sellerwatch.compose.backup import restore as restore_backup
from sellerwatch.compose.database import (
    downgrade_schema,
    log_partitions,
    lost_by_downgrade,
    schema_status,
    script_of_downgrade,
    upgrade_schema,
)
from sellerwatch.compose.rules import retention_rules
from sellerwatch.kernel.errors import Invalid
from sellerwatch.operations.database_check import DatabaseCheckView, check_database
from sellerwatch.operations.retention import RetainedView, RetentionView, apply_retention

app = CommandApp()

FAMILY = "cli_access"


@dataclass(eq=False)
class NoDirection(Invalid):
    """A script was asked for without saying of what."""


RETAINED: Columns[RetainedView] = {
    "table": lambda each, _: each.table,
    "kept_days": lambda each, _: f"{each.kept_days:g}",
    "older_than": lambda each, _: each.before,
    "rows": lambda each, _: f"{each.rows:,}",
    "bytes": lambda each, _: _megabytes(each.bytes),
}


@app.command()
def upgrade(as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch db upgrade
    SELLERWATCH_DATABASE_URL=sqlite:////var/lib/sellerwatch.db sellerwatch db upgrade
    """
    before, after = upgrade_schema(os.environ, actor())
    if before == after and not as_json:
        say(Texts(FAMILY)("db.current", revision=after))
    else:
        _report(before, after, as_json=as_json)


@app.command()
def downgrade(
    to: str = "-1",
    yes: Annotated[bool, typer.Option("--yes", "-y")] = False,
    as_json: AsJson = False,
) -> None:
    """Examples:

    sellerwatch db downgrade --to 0003 --yes
    """
    text = Texts(FAMILY)
    lost = lost_by_downgrade(os.environ, to)
    if not as_json:
        for each in lost:
            where = each.table if each.column is None else f"{each.table}.{each.column}"
            say(text("db.lost", where=where, n=each.rows), "yellow")
    if not yes:
        typer.confirm(text("db.confirm" if lost else "db.confirm_nothing", to=to), abort=True)
    before, after = downgrade_schema(os.environ, to, actor())
    rows = [{"table": each.table, "column": each.column, "rows": each.rows} for each in lost]
    _report(before, after, as_json=as_json, lost=rows)


@app.command("sql")
def sql(
    to: str = "-1",
    down: Annotated[bool, typer.Option("--down")] = False,
    as_json: AsJson = False,
) -> None:
    """Examples:

    sellerwatch db sql --down --to 0003
    """
    if not down:
        raise NoDirection
    script = script_of_downgrade(os.environ, to)
    if as_json:
        print_json({"from": script.current, "to": script.target, "statements": list(script.statements)})
    else:
        typer.echo(script.text(), nl=False)


@app.command()
def status(as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch db status --json
    """
    where, found = schema_status(os.environ)
    facts: dict[str, Any] = {
        "database": where,
        "state": found.state,
        "current": found.current,
        "head": found.head,
        "pending": list(found.pending),
    }
    if as_json:
        print_json(facts)
    else:
        text = Texts(FAMILY)
        shown = facts | {"pending": ", ".join(found.pending) or text("db.none")}
        print_facts([(text(f"db.{'revision' if name == 'current' else name}"), value) for name, value in shown.items()])
        if found.state in ("empty", "behind"):
            say(text("db.upgrade"), "yellow")
    raise typer.Exit(0 if found.state == "current" else 1)


@app.command()
def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE")],
    force: Annotated[bool, typer.Option("--force")] = False,
    as_json: AsJson = False,
) -> None:
    """Examples:

    sellerwatch db backup /var/backups/sellerwatch.db
    sellerwatch db backup "/var/backups/sellerwatch-$(date +%F).db"
    """
    made = back_up(os.environ, actor(), file, force=force, announce=_announce)
    if as_json:
        facts = {"file": str(made.file), "bytes": made.bytes, "seconds": round(made.seconds, 3)}
        print_json({**facts, "revision": made.revision, "recorded": made.is_recorded})
    else:
        shown = {"file": made.file, "size": _megabytes(made.bytes), "seconds": f"{made.seconds:.1f}"}
        say(Texts(FAMILY)("backup.made", revision=made.revision, **shown), "green")
        if not made.is_recorded:
            say(Texts(FAMILY)("backup.not_recorded"), "yellow")


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE")],
    yes: Annotated[bool, typer.Option("--yes", "-y")] = False,
    as_json: AsJson = False,
) -> None:
    """Examples:

    sellerwatch db restore /var/backups/sellerwatch.db
    """
    text = Texts(FAMILY)
    if not yes:
        typer.confirm(text("restore.confirm", file=file), abort=True)
    done = restore_backup(os.environ, actor(), file, announce=_announce)
    if as_json:
        aside = None if done.aside is None else str(done.aside)
        facts = {"database": done.database, "revision": done.revision, "aside": aside}
        print_json({**facts, "eventsGivenUp": done.events_given_up, "products": done.products})
        return
    say(text("restore.done", file=file, database=done.database, revision=done.revision), "green")
    if done.aside is not None:
        say(text("restore.aside", aside=done.aside))
    say(text("restore.windows"))
    if done.products:
        say(text("restore.resync", n=done.products, given_up=done.events_given_up))


@app.command()
def check(as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch db check
    """
    with command_session() as at:
        settings = at.settings
        kept = timedelta(days=settings.task_retention_days) - timedelta(seconds=settings.run_deadline_seconds)
        found = at.ask(check_database, kept)
        at.show(found, _print_check, FAMILY, as_json=as_json)
    raise typer.Exit(1 if found.broken else 0)


def _print_check(found: DatabaseCheckView, text: Texts) -> None:
    for each in found.broken:
        say(each.sentence, "red")
    if not found.broken:
        say(text("check.well", n=found.checked), "green")


def _announce(command: Sequence[str]) -> None:
    """On standard error: standard output is the result."""
    err.print(Text(Texts(FAMILY)("backup.runs", command=shlex.join(command))), soft_wrap=True)


@app.command()
def partitions(as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch db partitions
    """
    where, is_partitioned, found = log_partitions(os.environ)
    text = Texts(FAMILY)
    if as_json:
        rows = [{"name": each.name, "rows": each.rows, "bytes": each.size} for each in found]
        print_json({"database": where, "table": "token_usage_log", "partitions": rows})
    elif not is_partitioned:
        say(text("db.not_partitioned"))
    else:
        shown = [(each.name, f"{each.rows:,}", f"{each.size / 1024:,.0f} KB") for each in found]
        columns = [text(f"db.{name}") for name in ("partition", "rows", "size")]
        print_table("token_usage_log", columns, shown, empty=text("db.upgrade"))


@app.command()
def retention(dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch db retention --dry-run
    sellerwatch db retention
    """
    with command_session(dry_run=dry_run) as at:
        rules, zone = retention_rules(at.settings), ZoneInfo(at.settings.timezone)
        at.show(at.wait(apply_retention(at.operations, rules, zone)), _print_retention, FAMILY, as_json=as_json)


def _print_retention(found: RetentionView, text: Texts) -> None:
    print_views(text("retention.title"), found.content, RETAINED, text, empty="")
    key = "retention.would" if found.dry_run else "retention.done"
    say(text(key, n=found.rows, size=_megabytes(found.bytes)), "" if found.dry_run else "green")


def _megabytes(size: int) -> str:
    return f"{size / 1_000_000:,.1f} MB"


def _report(before: str | None, after: str | None, *, as_json: bool, **more: Any) -> None:
    if as_json:
        print_json({"before": before, "after": after, "changed": before != after, **more})
        return
    text = Texts(FAMILY)
    say(text("db.moved", before=before or text("db.none"), after=after or text("db.none")), "green")
