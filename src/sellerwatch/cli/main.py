"""The command line's front door: settings in, one sentence and the right exit code out.

Exit codes: 0 done; 1 failed; 2 bad usage or settings; 3 part of the work failed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Annotated

import typer
from typer.main import get_command

from sellerwatch import __version__
from sellerwatch.cli import (
    agents,
    audit,
    auth,
    aws,
    config,
    db,
    demo,
    executions,
    limits,
    marketplace,
    outbox,
    plan,
    products,
    quarantine,
    removals,
    schedules,
    sellers,
    serve,
    simulator,
    tasks,
)
from sellerwatch.cli.output import print_error
from sellerwatch.kernel.errors import Invalid, SellerwatchError

app = typer.Typer(
    name="sellerwatch",
    help="Keeps an external product server in step with marketplace sellers.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(db.app, name="db")
app.add_typer(config.app, name="config")
app.command()(demo.demo)
app.command()(serve.serve)
app.command()(serve.api)
app.command()(serve.worker)
app.command()(serve.scheduler)
app.command()(serve.crawl)
app.command()(plan.plan)
app.command("simulator", help=simulator.HELP)(simulator.simulator)
for name, commands in (
    ("sellers", sellers.app),
    ("schedules", schedules.app),
    ("executions", executions.app),
    ("tasks", tasks.app),
    ("products", products.app),
    ("quarantine", quarantine.app),
    ("removals", removals.app),
    ("outbox", outbox.app),
    ("agents", agents.app),
    ("limits", limits.app),
    ("marketplace", marketplace.app),
    ("audit", audit.app),
    ("auth", auth.app),
    ("aws", aws.app),
):
    app.add_typer(commands, name=name)


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
