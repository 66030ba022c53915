"""`sellerwatch config`: what is set, where it came from, and everything that is wrong with it at once."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from sellerwatch.cli.output import out, print_json, print_table

if TYPE_CHECKING:
    from sellerwatch.settings.faults import Fault
    from sellerwatch.settings.load import Loaded

app = typer.Typer(no_args_is_help=True, help="Look at the settings.")


@app.command()
def check(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check all settings and list everything that is wrong at once.

    \b
    sellerwatch config check
    SELLERWATCH_PORT=abc SELLERWATCH_DATABASEURL=x sellerwatch config check
    """
    # Imported here: Pydantic is half of what starting any command would cost.
    from sellerwatch.settings.faults import InvalidSettings, warnings  # noqa: PLC0415
    from sellerwatch.settings.load import load  # noqa: PLC0415
    from sellerwatch.settings.model import PREFIX, Settings  # noqa: PLC0415

    try:
        loaded = load(os.environ)
    except InvalidSettings as invalid:
        if not as_json:
            raise
        print_json({"ok": False, "faults": [{"name": f.name, "problem": f.problem} for f in invalid.faults]})
        raise typer.Exit(2) from None
    found = warnings(loaded.settings) + _about_rules(loaded)
    if as_json:
        print_json(
            {
                "ok": True,
                "warnings": [{"name": w.name, "problem": w.problem} for w in found],
                "settings": {
                    PREFIX + name.upper(): {"value": _value(loaded, name), "from": loaded.origins[name]}
                    for name in Settings.model_fields
                },
            }
        )
        return
    rows = [
        (PREFIX + name.upper(), _value(loaded, name), loaded.origins[name], info.description)
        for name, info in Settings.model_fields.items()
    ]
    print_table("Settings in force", ("name", "value", "from", "meaning"), rows, empty="")
    for warning in found:
        out.print(f"warning: {warning}", style="yellow", markup=False, highlight=False)
    out.print("The settings are fine.", style="green")


def _about_rules(loaded: Loaded) -> list[Fault]:
    if loaded.settings.scheduler != "eventbridge":
        return []
    from sellerwatch.compose.aws import rules_needed  # noqa: PLC0415
    from sellerwatch.settings.faults import rule_warnings  # noqa: PLC0415

    return rule_warnings(loaded.settings, rules_needed(loaded.settings))


def _value(loaded: Loaded, name: str) -> object:
    from sellerwatch.settings.model import shown_value  # noqa: PLC0415

    return shown_value(name, getattr(loaded.settings, name))
