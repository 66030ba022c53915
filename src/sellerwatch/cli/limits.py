"""`sellerwatch limits`: what agents and the marketplace as a whole may be asked, changed while the service runs."""

from __future__ import annotations

from typing import Annotated

import typer

from sellerwatch.agents import commands, queries
from sellerwatch.agents.commands import ChangedLimitView
from sellerwatch.cli import session
from sellerwatch.cli.help import CommandApp
from sellerwatch.cli.output import err, print_table, print_view
from sellerwatch.cli.session import AsJson, DryRun, command_session, say
from sellerwatch.cli.texts import Texts

app = CommandApp()

#: The family of texts of these commands.
FAMILY = "cli_limits"
NameArgument = Annotated[str, typer.Argument(metavar="NAME")]


@app.command()
def show(as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch limits show
    sellerwatch limits show --json
    """
    with command_session() as at:
        found, text = at.ask(queries.list_limits, at.operations.limits), at.texts(FAMILY)
    if as_json:
        by_name = {
            each.name: {"value": each.value, "from": each.origin, "meaning": each.meaning} for each in found.content
        }
        print_view(found, limits=by_name)
        return
    print_table(
        text("title"),
        text.columns("name", "value", "origin", "meaning"),
        [(each.name, _worded(each.value, None), text(f"origin.{each.origin}"), each.meaning) for each in found.content],
        empty="",
    )
    for fault in found.faults:
        warning = text("left_out", name=fault.name, problem=fault.problem)
        err.print(warning, style="yellow", markup=False, highlight=False, soft_wrap=True)


@app.command("set")
def set_(
    name: NameArgument,
    value: Annotated[str, typer.Argument(metavar="VALUE")],
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Examples:

    sellerwatch limits set WINDOW_LIMIT 60
    sellerwatch limits set HOST_REQUESTS_PER_SECOND 20
    """
    given, new = session.text(name), session.text(value).strip()
    with command_session(dry_run=dry_run) as at:
        at.show(at.run(commands.set_limit, at.operations.limits, given, new), _say_changed, FAMILY, as_json=as_json)


@app.command()
def unset(name: NameArgument, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch limits unset WINDOW_LIMIT
    """
    given = session.text(name)
    with command_session(dry_run=dry_run) as at:
        at.show(at.run(commands.unset_limit, at.operations.limits, given), _say_changed, FAMILY, as_json=as_json)


def _say_changed(changed: ChangedLimitView, text: Texts) -> None:
    none = text("none")
    values = {"before": _worded(changed.before, none), "after": _worded(changed.after, none)}
    if changed.dry_run:
        say(text("would_change", name=changed.name, **values), "green")
        return
    say(text("changed", name=changed.name, **values), "green")
    say(text("taken_over", seconds=f"{changed.taken_over_within_seconds:g}"))
    if changed.name == "WINDOW_SECONDS" and (changed.after or 0) > (changed.before or 0):
        say(text("longer_window", seconds=f"{(changed.after or 0) - (changed.before or 0):g}"))


def _worded(value: float | None, none: str | None) -> str | None:
    return none if value is None else f"{value:g}"
