"""`sellerwatch limits`: what agents and the marketplace as a whole may be asked, changed while the service runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sellerwatch.cli import session
from sellerwatch.cli.output import err, print_json, print_table
from sellerwatch.cli.session import AsJson, Desk, say

if TYPE_CHECKING:
    from sellerwatch.operations.ports import ServiceTx
    from sellerwatch.settings.faults import Fault
    from sellerwatch.settings.load import Loaded

app = typer.Typer(no_args_is_help=True, help="Look at the limits in force and change them while the service runs.")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="As `limits show` names it.")]


@app.command()
def show(as_json: AsJson = False) -> None:
    """Show each limit: its value in force, where it comes from, and what it means.

    \b
    sellerwatch limits show
    sellerwatch limits show --json
    """
    from sellerwatch.settings.model import TUNABLE, Settings  # noqa: PLC0415

    loaded, faults = session.look(lambda tx, _: _in_force(tx.overrides.all()))
    described = {name: Settings.model_fields[name].description for name in TUNABLE}
    if as_json:
        shown = {
            name.upper(): {
                "value": getattr(loaded.settings, name),
                "from": loaded.origins[name],
                "meaning": described[name],
            }
            for name in TUNABLE
        }
        print_json({"limits": shown, "faults": [{"name": f.name, "problem": f.problem} for f in faults]})
        return
    print_table(
        "Limits in force",
        ("name", "value", "from", "meaning"),
        [(n.upper(), getattr(loaded.settings, n), loaded.origins[n], described[n]) for n in TUNABLE],
        empty="",
    )
    for fault in faults:
        text = f"warning: what was set is left out, because it is wrong by now: {fault}. Mend or unset it."
        err.print(text, style="yellow", markup=False, highlight=False, soft_wrap=True)


@app.command("set")
def set_(
    name: NameArgument,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="The new value.")],
    as_json: AsJson = False,
) -> None:
    """Change a limit. It is kept over restarts; a running service takes it over at its next tending turn.

    \b
    sellerwatch limits set WINDOW_LIMIT 60
    sellerwatch limits set HOST_REQUESTS_PER_SECOND 20
    """
    known, given = _name(name), session.text(value).strip()

    def work(tx: ServiceTx, at: Desk) -> tuple[tuple[Any, Any], Desk]:
        from sellerwatch.agents.commands import set_limit  # noqa: PLC0415

        return set_limit(tx, known, given, _checking(known, given), actor=at.actor, now=at.now), at

    (before, after), at = session.change(work)
    _say_changed(known, before, after, at, as_json=as_json)


@app.command()
def unset(name: NameArgument, as_json: AsJson = False) -> None:
    """Take a change back: the limit is what the environment, the file or the default says.

    \b
    sellerwatch limits unset WINDOW_LIMIT
    """
    known = _name(name)

    def work(tx: ServiceTx, at: Desk) -> tuple[tuple[Any, Any], Desk]:
        from sellerwatch.agents.commands import unset_limit  # noqa: PLC0415

        return unset_limit(tx, known, _values, actor=at.actor, now=at.now), at

    (before, after), at = session.change(work)
    _say_changed(known, before, after, at, as_json=as_json)


def _say_changed(name: str, before: Any, after: Any, at: Desk, *, as_json: bool) -> None:
    seconds = min(at.settings.tending_interval_seconds, at.settings.visibility_seconds)
    if as_json:
        print_json({"name": name.upper(), "before": before, "after": after, "takenOverWithinSeconds": seconds})
        return
    say(f"{name.upper()} is {_worded(after)} now; it was {_worded(before)}.", "green")
    say(f"A running service takes it over at its next tending turn, within {seconds:g} s.")
    if name == "window_seconds" and after > before:
        say(f"What was asked before is not remembered for so long: windows count as full for {after - before:g} s.")


def _worded(value: Any) -> str:
    return "not limited" if value is None else f"{value:g}"


def _in_force(overrides: Mapping[str, str]) -> tuple[Loaded, tuple[Fault, ...]]:
    """As a running service has it: where what was set has become wrong, it goes without."""
    from sellerwatch.settings.faults import InvalidSettings  # noqa: PLC0415
    from sellerwatch.settings.load import load  # noqa: PLC0415

    try:
        return load(os.environ, overrides), ()
    except InvalidSettings as invalid:
        return load(os.environ), invalid.faults


def _values(overrides: Mapping[str, str]) -> Mapping[str, Any]:
    from sellerwatch.settings.load import load  # noqa: PLC0415

    return load(os.environ, overrides).settings.model_dump()


def _checking(name: str, value: str) -> Any:
    from sellerwatch.settings.limits import limit_checked  # noqa: PLC0415

    return limit_checked(name, value, _values)


def _name(given: str) -> str:
    from sellerwatch.settings.limits import limit_name  # noqa: PLC0415

    return limit_name(session.text(given))
