"""`sellerwatch tasks dead-letters`: messages that the queue gave up, why, and what to do about them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from sellerwatch.cli import session
from sellerwatch.cli.help import CommandApp
from sellerwatch.cli.output import print_table, print_view
from sellerwatch.cli.session import AsJson, DryRun, Limit, say
from sellerwatch.cli.texts import Texts
from sellerwatch.kernel.ids import TaskId
from sellerwatch.operations.dead_letters import list_dead_letters, redrive_dead_letters

if TYPE_CHECKING:
    from sellerwatch.cli.database_session import CommandSession
    from sellerwatch.crawling.queue import DeadLetters
    from sellerwatch.operations.dead_letters import DeadLetterView

T = TypeVar("T")

app = CommandApp()

FAMILY = "cli_runs"


@app.command("list")
def list_(limit: Limit = 100, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch tasks dead-letters list
    """
    with session.command_session() as at:
        text = at.texts(FAMILY)
        found = _with_dead_letters(at, lambda letters: list_dead_letters(at.operations, letters, limit))
    if as_json:
        print_view(found)
        return
    print_table(
        text("dead.title", n=found.total),
        text.columns("task", "seller", "status", "cause"),
        [(_task(one), one.seller_id, one.status, one.why) for one in found.content],
        empty=text("dead.none"),
    )
    if any(one.needs_a_person for one in found.content):
        say(text("dead.hint"), "dim")


@app.command()
def redrive(
    tasks: Annotated[list[str] | None, typer.Argument(metavar="[TASK_ID...]")] = None,
    every: Annotated[bool, typer.Option("--all")] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Examples:

    sellerwatch tasks dead-letters redrive --all
    sellerwatch tasks dead-letters redrive 0198c0de-0000-7000-8001-000000000001
    """
    if bool(tasks) == every:
        raise typer.BadParameter(Texts(FAMILY)("dead.choose"))
    chosen = None if every else [TaskId.parse(task) for task in tasks or ()]
    with session.command_session() as at:
        text = at.texts(FAMILY)
        view = _with_dead_letters(
            at, lambda letters: redrive_dead_letters(at.operations, letters, chosen, dry_run=dry_run)
        )
    if not view.done and not view.refused and not as_json:
        say(text("dead.not_found"))
        return
    sentence = text("tasks.would_retry" if dry_run else "tasks.retried", n=len(view.done))
    session.report_bulk(view, sentence, as_json=as_json)


def _with_dead_letters(at: CommandSession, work: Callable[[DeadLetters | None], Awaitable[T]]) -> T:
    """Run `work` with the queue's dead letters; None where the queue in use has none."""
    from sellerwatch.compose.aws import open_dead_letters  # noqa: PLC0415 - `tasks --help` does without SQLAlchemy

    async def run() -> T:
        async with open_dead_letters(at.settings) as letters:
            return await work(letters)

    return at.wait(run())


def _task(one: DeadLetterView) -> str:
    return one.task_id or session.short(one.body, 36) or ""
