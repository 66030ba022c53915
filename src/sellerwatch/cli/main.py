"""The entry point of the command line: finds the command, and turns an error into one sentence and an exit code.

Exit codes: 0 done; 1 failed; 2 bad usage or settings; 3 part of the work failed.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand
from typer.main import get_command, get_group

from sellerwatch import __version__
from sellerwatch.cli.help import CatalogueGroup, CommandApp, print_usage_error, summary
from sellerwatch.cli.output import language_setting, print_error, print_refusal
from sellerwatch.kernel.errors import Invalid, SellerwatchError
from sellerwatch.texts import say

#: Where each command is, in the order of the help: a module with its group, `app`, or `module:function`.
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
    "receiver": "receiver:receiver",
    "db": "db",
    "config": "config",
    "sellers": "sellers",
    "schedules": "schedules",
    "executions": "executions",
    "tasks": "tasks",
    "products": "products",
    "resyncs": "resyncs",
    "changes": "changes",
    "quarantine": "quarantine",
    "removals": "removals",
    "outbox": "outbox",
    "resends": "resends",
    "agents": "agents",
    "limits": "limits",
    "marketplace": "marketplace",
    "audit": "audit",
    "auth": "auth",
    "aws": "aws",
}


class LazyGroup(CatalogueGroup):
    """Imports the module of a command when the command is used: no command pays for what others need."""

    _shows_help = False

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        return TyperCommand(cmd_name, short_help=summary((cmd_name,))) if self._shows_help else _command(cmd_name)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self._shows_help = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._shows_help = False


@cache
def _command(name: str) -> Any:
    module_name, _, function = COMMANDS[name].partition(":")
    module = import_module(f"sellerwatch.cli.{module_name}")
    if not function:
        group = get_group(module.app)
        group.name = name
        return group
    alone = CommandApp()
    alone.command(name)(getattr(module, function))
    return get_command(alone)


app = CommandApp(LazyGroup, add_completion=True)


def _version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"sellerwatch {__version__}\n")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True)] = False,
) -> None:
    """Settings come from SELLERWATCH_* variables or the TOML file named by SELLERWATCH_CONFIG."""


def exit_code(error: SellerwatchError) -> int:
    return 2 if isinstance(error, Invalid) else 1


@cache
def program() -> Any:
    """Every command with its arguments, worked out once for a process."""
    return get_command(app)


def main() -> None:
    """The console script. A refusal is one sentence on standard error; a traceback is a bug of ours."""
    try:
        sys.exit(program().main(standalone_mode=False))
    except typer.TyperException as error:
        print_usage_error(error)
        sys.exit(error.exit_code)
    except typer.Abort:
        print_refusal(say("cli_usage", "aborted", language_setting()))
        sys.exit(1)
    except SellerwatchError as error:
        print_error(error)
        sys.exit(exit_code(error))


if __name__ == "__main__":
    main()
