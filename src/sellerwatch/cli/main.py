"""The command line's front door: settings in, one sentence and the right exit code out.

Exit codes: 0 done; 1 failed; 2 bad usage or settings; 3 part of the work failed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from sellerwatch import __version__
from sellerwatch.cli.output import print_error
from sellerwatch.kernel.errors import Invalid, SellerwatchError


@dataclass(frozen=True)
class CommandPlace:
    """Where a command is, `module` for a group (its `app`) or `module:function`, and its line in the help."""

    place: str
    summary: str


#: Every command, in the order of the help, which imports none of them.
COMMANDS = {
    "demo": CommandPlace(
        "demo:demo", "A marketplace, a product server and the whole service on loopback: watch sellers being crawled."
    ),
    "serve": CommandPlace(
        "serve:serve", "Crawl due sellers, deliver what changed, answer the API and serve the console, until stopped."
    ),
    "api": CommandPlace(
        "serve:api", "Answer the API alone; workers and schedulers are processes of their own, on the same database."
    ),
    "worker": CommandPlace("serve:worker", "Crawl and deliver, and nothing else."),
    "scheduler": CommandPlace("serve:scheduler", "Start due sellers and do the periodic jobs."),
    "crawl": CommandPlace("serve:crawl", "Run one crawl of each seller in the foreground."),
    "status": CommandPlace("status:status", "Show what runs, what is stuck and why, and what to do about it."),
    "why": CommandPlace(
        "why:why", "Show everything that led to a product, a task, a run or an event, and what came of it."
    ),
    "plan": CommandPlace(
        "plan:plan", "Show whether the sellers fit into the pool's budget, and when each one's next run would finish."
    ),
    "simulator": CommandPlace(
        "simulator:simulator", "Run the practice marketplace, and the product server beside it, on one port."
    ),
    "db": CommandPlace("db", "Look at and move the database's schema."),
    "config": CommandPlace("config", "Look at the settings."),
    "sellers": CommandPlace("sellers", "Register sellers, show them, change how often they are crawled."),
    "schedules": CommandPlace("schedules", "Show when sellers are crawled next; start a run early; retry messages."),
    "executions": CommandPlace("executions", "Look at runs, cancel them, try again what failed in them."),
    "tasks": CommandPlace("tasks", "Look at single tasks, try again those that failed."),
    "products": CommandPlace(
        "products", "Look at products, their history and their bodies; export, resync, read again."
    ),
    "resyncs": CommandPlace("resyncs", "See how far resyncs are; cancel one."),
    "changes": CommandPlace("changes", "See what changed: prices, stock, options, new and gone products."),
    "quarantine": CommandPlace("quarantine", "Look at held changes; release them into the catalogue, or drop them."),
    "removals": CommandPlace("removals", "Look at held removals; confirm or refuse them."),
    "outbox": CommandPlace(
        "outbox", "Look at events on their way out; replay or discard those that failed; pause and resume."
    ),
    "agents": CommandPlace("agents", "Show the agents of the pool; suspend, block, add and remove them."),
    "limits": CommandPlace("limits", "Look at the limits in force and change them while the service runs."),
    "marketplace": CommandPlace("marketplace", "Pause and resume requests to the marketplace; see what answers."),
    "audit": CommandPlace("audit", "Read the audit trail."),
    "auth": CommandPlace("auth", "Tokens for the API, and users who log in."),
    "aws": CommandPlace("aws", "Set up queues, compare rules: with QUEUE sqs, SCHEDULER eventbridge."),
}


class LazyGroup(TyperGroup):
    """Imports the module of a command when the command is used: no command pays for what others need."""

    _shows_help = False

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        return TyperCommand(cmd_name, help=COMMANDS[cmd_name].summary) if self._shows_help else _command(cmd_name)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self._shows_help = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._shows_help = False


@cache
def _command(name: str) -> Any:
    module_name, _, function = COMMANDS[name].place.partition(":")
    module = import_module(f"sellerwatch.cli.{module_name}")
    if not function:
        group = get_group(module.app)
        group.name = name
        return group
    alone = typer.Typer(add_completion=False, rich_markup_mode="rich", context_settings=HELP_OPTIONS)
    alone.command(name, help=getattr(module, "HELP", None))(getattr(module, function))
    return get_command(alone)


HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}
app = typer.Typer(
    cls=LazyGroup,
    name="sellerwatch",
    help="Keeps an external product server in step with marketplace sellers.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=True,
    context_settings=HELP_OPTIONS,
)


def _version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"sellerwatch {__version__}\n")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Settings come from SELLERWATCH_* variables or the TOML file named by SELLERWATCH_CONFIG."""


def exit_code(error: SellerwatchError) -> int:
    return 2 if isinstance(error, Invalid) else 1


@cache
def program() -> Callable[[], object]:
    """Every command with its arguments, worked out once for a process."""
    return get_command(app)


def main() -> None:
    """The console script. A refusal is one sentence on standard error; a traceback is a bug of ours."""
    try:
        program()()
    except SellerwatchError as error:
        print_error(error)
        sys.exit(exit_code(error))


if __name__ == "__main__":
    main()
