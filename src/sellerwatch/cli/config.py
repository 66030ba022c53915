"""`sellerwatch config`: what is set, where it came from, and everything that is wrong with it at once."""

from __future__ import annotations

import os

import typer

from sellerwatch.cli.help import CommandApp
from sellerwatch.cli.output import print_json, print_table
from sellerwatch.cli.session import AsJson, say
from sellerwatch.cli.texts import Texts
from sellerwatch.settings.faults import Fault, InvalidSettings, rule_warnings, warnings
from sellerwatch.settings.load import Loaded, load
from sellerwatch.settings.model import PREFIX, Settings, shown_value
from sellerwatch.texts import template

app = CommandApp()

FAMILY = "cli_access"


@app.command()
def check(as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch config check
    SELLERWATCH_PORT=abc SELLERWATCH_DATABASEURL=x sellerwatch config check
    """
    text = Texts(FAMILY)
    try:
        loaded = load(os.environ)
    except InvalidSettings as invalid:
        if not as_json:
            raise
        print_json({"ok": False, "faults": [_fault(fault, text.language) for fault in invalid.faults]})
        raise typer.Exit(2) from None
    found = warnings(loaded.settings) + _about_rules(loaded)
    if as_json:
        print_json(
            {
                "ok": True,
                "warnings": [_fault(warning, text.language) for warning in found],
                "settings": {
                    PREFIX + name.upper(): {"value": _value(loaded, name), "from": loaded.origins[name]}
                    for name in Settings.model_fields
                },
            }
        )
        return
    rows = [
        (PREFIX + name.upper(), _value(loaded, name), loaded.origins[name], _meaning(name, text.language))
        for name in Settings.model_fields
    ]
    columns = [text(f"config.{name}") for name in ("name", "value", "origin", "meaning")]
    print_table(text("config.title"), columns, rows, empty="")
    for warning in found:
        say(text("config.warning", warning=warning.text(text.language)), "yellow")
    say(text("config.fine"), "green")


def _about_rules(loaded: Loaded) -> list[Fault]:
    if loaded.settings.scheduler != "eventbridge":
        return []
    from sellerwatch.compose.aws import rules_needed  # noqa: PLC0415 - SQLAlchemy, only with EventBridge

    return rule_warnings(loaded.settings, rules_needed(loaded.settings))


def _fault(fault: Fault, language: str) -> dict[str, str]:
    return {"name": fault.name, "problem": fault.problem_text(language)}


def _meaning(name: str, language: str) -> str | None:
    return template("settings", name, language) or Settings.model_fields[name].description


def _value(loaded: Loaded, name: str) -> object:
    return shown_value(name, getattr(loaded.settings, name))
