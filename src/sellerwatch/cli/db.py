"""`sellerwatch db`: the schema of the configured database."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from sellerwatch.cli.output import out, print_facts, print_json, print_table
from sellerwatch.cli.session import actor

app = typer.Typer(no_args_is_help=True, help="Look at and move the database's schema.")

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@app.command()
def upgrade(as_json: AsJson = False) -> None:
    """Bring the schema to what this program needs. Data is kept; running it again does nothing.

    \b
    sellerwatch db upgrade
    SELLERWATCH_DATABASE_URL=sqlite:////var/lib/sellerwatch.db sellerwatch db upgrade
    """
    from sellerwatch.compose.database import upgrade_schema  # noqa: PLC0415 - Alembic is only for those who migrate

    before, after = upgrade_schema(os.environ, actor())
    if as_json:
        print_json({"before": before, "after": after, "changed": before != after})
    elif before == after:
        out.print(f"The schema is at {after} already; nothing to do.")
    else:
        out.print(f"The schema went from {before or 'nothing'} to {after}.", style="green")


@app.command()
def downgrade(
    to: Annotated[str, typer.Option("--to", help="A revision, -1 for one step, base for nothing.")] = "-1",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Take the schema back. Tables that the older schema does not have are dropped with their rows.

    \b
    sellerwatch db downgrade --to 0003 --yes
    """
    from sellerwatch.compose.database import downgrade_schema  # noqa: PLC0415

    if not yes:
        typer.confirm(f"Rows in tables that revision {to} does not have are lost. Go on?", abort=True)
    before, after = downgrade_schema(os.environ, to, actor())
    if as_json:
        print_json({"before": before, "after": after, "changed": before != after})
    else:
        out.print(f"The schema went from {before or 'nothing'} to {after or 'nothing'}.")


@app.command()
def status(as_json: AsJson = False) -> None:
    """Say where the schema is and what is pending. Exit code 1 when it is not what this program needs.

    \b
    sellerwatch db status --json
    """
    from sellerwatch.compose.database import schema_status  # noqa: PLC0415

    where, found = schema_status(os.environ)
    facts = {
        "database": where,
        "state": found.state,
        "current": found.current,
        "head": found.head,
        "pending": list(found.pending),
    }
    if as_json:
        print_json(facts)
    else:
        print_facts([*list(facts.items())[:-1], ("pending", ", ".join(found.pending) or "nothing")])
        if found.state in ("empty", "behind"):
            out.print("Run: sellerwatch db upgrade", style="yellow")
    raise typer.Exit(0 if found.state == "current" else 1)


@app.command()
def partitions(as_json: AsJson = False) -> None:
    """Show the months the log of requests is cut into, with their rows and sizes.

    \b
    sellerwatch db partitions
    """
    from sellerwatch.compose.database import log_partitions  # noqa: PLC0415

    where, is_cut, found = log_partitions(os.environ)
    if as_json:
        rows = [{"name": each.name, "rows": each.rows, "bytes": each.size} for each in found]
        print_json({"database": where, "table": "token_usage_log", "partitions": rows})
    elif not is_cut:
        out.print("\u2014  SQLite does not cut tables into months: old lines of the log are deleted a few at a time.")
    else:
        shown = [(each.name, f"{each.rows:,}", f"{each.size / 1024:,.0f} KB") for each in found]
        print_table(
            "token_usage_log", ("partition", "rows (about)", "size"), shown, empty="Run: sellerwatch db upgrade"
        )
