"""`sellerwatch config`: what is set, where it came from, and everything that is wrong with it at once."""

from __future__ import annotations

import os
from typing import Annotated

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
def check(deploy: Annotated[bool, typer.Option("--deploy")] = False, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch config check
    sellerwatch config check --deploy
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
    if deploy:
        _check_deployment(loaded, text, as_json=as_json)
        return
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


def _check_deployment(loaded: Loaded, text: Texts, *, as_json: bool) -> None:
    """Show what is unsafe to expose; exit with 1 where there is an error."""
    from sellerwatch.compose.deployment import deployment_of  # noqa: PLC0415 - SQLAlchemy, for this alone
    from sellerwatch.reports.checks import find_unsafe  # noqa: PLC0415 - as above
    from sellerwatch.reports.severity import Severity  # noqa: PLC0415 - as above

    found = find_unsafe(deployment_of(loaded.settings, os.environ))
    faults = [(finding.severity, Fault(PREFIX + finding.setting, finding.problem)) for finding in found]
    is_safe = all(severity is not Severity.ERROR for severity, _ in faults)
    if as_json:
        findings = [{"severity": severity, **_fault(fault, text.language)} for severity, fault in faults]
        print_json({"ok": is_safe, "findings": findings})
    else:
        for severity, fault in faults:
            is_error = severity is Severity.ERROR
            key = "config.unsafe" if is_error else "config.warning"
            say(text(key, warning=fault.text(text.language)), "red" if is_error else "yellow")
        if is_safe:
            say(text("config.safe"), "green")
    if not is_safe:
        raise typer.Exit(1)


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
