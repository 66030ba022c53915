"""The command line's front door: settings in, one sentence and the right exit code out.

Exit codes: 0 done; 1 failed; 2 bad usage or settings; 3 part of the work failed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from sellerwatch import __version__
from sellerwatch.cli.output import print_error
from sellerwatch.kernel.errors import Invalid, SellerwatchError

#: Where each command is, in the order of the help: `module` for a group (its `app`), `module:function` for a command.
COMMANDS = {
    "demo": "demo:demo",
    "serve": "serve:serve",
    "api": "serve:api",
    "worker": "serve:worker",
    "scheduler": "serve:scheduler",
    "crawl": "serve:crawl",
    "status": "status:status",
    "why": "why:why",
    "plan": "plan:plan",
    "simulator": "simulator:simulator",
    "db": "db",
    "config": "config",
    "sellers": "sellers",
    "schedules": "schedules",
    "executions": "executions",
    "tasks": "tasks",
    "products": "products",
    "quarantine": "quarantine",
    "removals": "removals",
    "outbox": "outbox",
    "agents": "agents",
    "limits": "limits",
    "marketplace": "marketplace",
    "audit": "audit",
    "auth": "auth",
    "aws": "aws",
}


class LazyGroup(TyperGroup):
    """Imports the module of a command when the command is used: no command pays for what others need."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return _command(cmd_name) if cmd_name in COMMANDS else None


@cache
def _command(name: str) -> Any:
    module_name, _, function = COMMANDS[name].partition(":")
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
