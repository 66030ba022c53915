"""`sellerwatch aws`: create what is needed of AWS, and compare EventBridge's rules with the schedules."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from sellerwatch.cli import session
from sellerwatch.cli.help import CommandApp
from sellerwatch.cli.output import print_table, print_view
from sellerwatch.cli.session import AsJson, say
from sellerwatch.cli.texts import Texts
from sellerwatch.compose.aws import reconcile_rules, set_up_aws
from sellerwatch.kernel.errors import Conflict
from sellerwatch.operations.aws import ReconciledRulesView, all_schedules
from sellerwatch.settings.load import load

if TYPE_CHECKING:
    from sellerwatch.settings.model import Settings

app = CommandApp()

TEXTS = "cli_aws"


@dataclass(eq=False)
class NothingInAws(Conflict):
    """Neither SQS nor EventBridge is in use."""


@dataclass(eq=False)
class NoRules(Conflict):
    """Another scheduler than EventBridge is in use."""

    scheduler: str


@app.command()
def setup(as_json: AsJson = False) -> None:
    """Examples:

    SELLERWATCH_QUEUE=sqs AWS_REGION=ap-northeast-2 sellerwatch aws setup
    """
    settings = _settings()
    if settings.queue != "sqs" and settings.scheduler != "eventbridge":
        raise NothingInAws
    done = asyncio.run(set_up_aws(settings))
    if as_json:
        print_view(done)
        return
    text = Texts(TEXTS, settings.language)
    for step in done.steps:
        attributes = ", ".join(step.attributes)
        say(text(f"setup.{step.result}", what=text(f"part.{step.what}"), name=step.name, attributes=attributes))


@app.command()
def reconcile(
    dry_run: Annotated[bool, typer.Option("--dry-run")] = False,
    as_json: AsJson = False,
) -> None:
    """Examples:

    sellerwatch aws reconcile --dry-run
    """
    settings = _settings()
    if settings.scheduler != "eventbridge":
        raise NoRules(scheduler=settings.scheduler)
    schedules = session.ask(all_schedules)
    done = asyncio.run(reconcile_rules(settings, schedules, dry_run=dry_run))
    if as_json:
        print_view(done)
    else:
        _print_reconciled(done, Texts(TEXTS, settings.language), dry_run=dry_run)


def _print_reconciled(done: ReconciledRulesView, text: Texts, *, dry_run: bool) -> None:
    if not done.differ:
        say(text("rules.none_differ", n=done.wanted), "green")
        return
    print_table(
        text("rules.differ", n=len(done.differ), wanted=done.wanted),
        text.columns("rule", "differences", "mended"),
        [
            (each.rule, ", ".join(text(f"difference.{one}") for one in each.differences), text(f"mended.{each.mended}"))
            for each in done.differ
        ],
        empty="",
    )
    if dry_run:
        say(text("rules.unchanged"), "dim")


def _settings() -> Settings:
    return load(os.environ).settings
