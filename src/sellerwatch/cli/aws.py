"""`sellerwatch aws`: what is needed of AWS, made and compared."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from sellerwatch.cli import session
from sellerwatch.cli.output import print_json, print_table
from sellerwatch.cli.session import AsJson, Desk, say
from sellerwatch.kernel.errors import Conflict

if TYPE_CHECKING:
    from sellerwatch.operations.ports import ServiceTx
    from sellerwatch.schedules.schedule import Schedule
    from sellerwatch.settings.model import Settings

app = typer.Typer(no_args_is_help=True, help="Set up queues, compare rules: with QUEUE sqs, SCHEDULER eventbridge.")

PAGE = 500


@dataclass(eq=False)
class NothingInAws(Conflict):
    """Neither SQS nor EventBridge is in use."""


@dataclass(eq=False)
class NoRules(Conflict):
    """Another scheduler than EventBridge is in use."""

    scheduler: str


@app.command()
def setup(as_json: AsJson = False) -> None:
    """Make the queue and its dead-letter queue as they should be, and say what was done. Done again, it changes
    nothing.

    \b
    SELLERWATCH_QUEUE=sqs AWS_REGION=ap-northeast-2 sellerwatch aws setup
    """
    from sellerwatch.compose.aws import set_up_aws  # noqa: PLC0415

    settings = _settings()
    if settings.queue != "sqs" and settings.scheduler != "eventbridge":
        raise NothingInAws
    steps = asyncio.run(set_up_aws(settings))
    if as_json:
        print_json({"steps": [{"what": step.what, "name": step.name, "did": step.did} for step in steps]})
        return
    for step in steps:
        say(f"{step.what} {step.name}: {step.did}")


@app.command()
def reconcile(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what differs.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare EventBridge's rules with the schedules, and mend those that are missing, too many or different.

    \b
    sellerwatch aws reconcile --dry-run
    """
    from sellerwatch.compose.aws import reconcile_rules  # noqa: PLC0415

    settings = _settings()
    if settings.scheduler != "eventbridge":
        raise NoRules(scheduler=settings.scheduler)
    schedules = session.look(_all_schedules)
    drifted, wanted = asyncio.run(reconcile_rules(settings, schedules, dry_run=dry_run))
    if as_json:
        rules = [{"rule": one.name, "differences": list(one.differences), "mended": not dry_run} for one in drifted]
        print_json({"wanted": wanted, "differ": rules})
        return
    if not drifted:
        say(f"All {wanted} rule(s) are as they should be.", "green")
        return
    rows = [(one.name, ", ".join(one.differences), "" if dry_run else "mended") for one in drifted]
    print_table(f"Rules that differ ({len(drifted)} of {wanted})", ("rule", "what differs", ""), rows, empty="")
    if dry_run:
        say("Nothing was changed. Mend them: sellerwatch aws reconcile", "dim")


def _all_schedules(tx: ServiceTx, at: Desk) -> list[Schedule]:
    found: list[Schedule] = []
    while True:
        some, total = tx.schedules.page(offset=len(found), limit=PAGE)
        found += some
        if not some or len(found) >= total:
            return found


def _settings() -> Settings:
    from sellerwatch.settings.load import load  # noqa: PLC0415

    return load(os.environ).settings
