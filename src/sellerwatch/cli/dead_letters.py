"""`sellerwatch tasks dead-letters`: messages that the queue gave up, why, and what to do about them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sellerwatch.cli import session
from sellerwatch.cli.output import print_json, print_table
from sellerwatch.cli.session import AsJson, Desk, Limit, say
from sellerwatch.kernel.errors import Conflict
from sellerwatch.kernel.ids import TaskId

if TYPE_CHECKING:
    from sellerwatch.crawling.dead_letters import Explained
    from sellerwatch.crawling.queue import DeadLetter
    from sellerwatch.kernel.bulk import BulkResult
    from sellerwatch.operations.ports import ServiceTx
    from sellerwatch.settings.model import Settings

app = typer.Typer(no_args_is_help=True, help="Messages that the queue gave up (QUEUE sqs): look at them, redrive them.")


@dataclass(eq=False)
class NoDeadLetters(Conflict):
    """The queue in use has none."""

    queue: str


@app.command("list")
def list_(limit: Limit = 100, as_json: AsJson = False) -> None:
    """List dead letters and why each is one, by the row of its task.

    Of one seller SQS shows the first 10; the others stand behind them.

    \b
    sellerwatch tasks dead-letters list
    """
    settings = _settings()

    async def read() -> tuple[Sequence[DeadLetter], int]:
        from sellerwatch.compose.aws import open_dead_letters  # noqa: PLC0415

        async with open_dead_letters(settings) as box:
            letters = await box.look(limit)
            await box.leave(letters)
            return letters, await box.count()

    letters, total = asyncio.run(read())
    explained = session.look(lambda tx, _: _explained(tx, letters)) if letters else []
    if as_json:
        print_json({"content": [_json(one) for one in explained], "total": max(total, len(explained))})
        return
    print_table(
        f"Dead letters ({max(total, len(explained))})",
        ("task", "seller", "status", "why"),
        [(_task(one), one.task and one.task.seller_id, one.task and one.task.status, one.why) for one in explained],
        empty="No dead letters.",
    )
    if any(one.needs_a_person for one in explained):
        say("Do their tasks after all: sellerwatch tasks dead-letters redrive --all", "dim")


@app.command()
def redrive(
    tasks: Annotated[
        list[str] | None, typer.Argument(metavar="[TASK_ID...]", help="Only those of these tasks.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    as_json: AsJson = False,
) -> None:
    """Do the tasks of dead letters after all, and throw the letters away. Exit code 3 when some could not be.

    \b
    sellerwatch tasks dead-letters redrive --all
    sellerwatch tasks dead-letters redrive 0198c0de-0000-7000-8001-000000000001
    """
    if bool(tasks) == every:
        raise typer.BadParameter("give task ids, or --all")
    chosen, settings = {TaskId.parse(task) for task in tasks or ()}, _settings()

    async def run() -> BulkResult:
        from sellerwatch.compose.aws import open_dead_letters  # noqa: PLC0415

        async with open_dead_letters(settings) as box:
            letters = await box.look(1000)
            mine = [letter for letter in letters if every or letter.hint.task_id in chosen]
            handled, gone = await asyncio.to_thread(session.change, lambda tx, at: _redriven(tx, at, mine))
            await box.remove(gone)
            await box.leave([letter for letter in letters if letter not in gone])
            return handled

    handled = asyncio.run(run())
    if not handled.done and not handled.refused and not as_json:
        say("There is no such dead letter.")
        return
    session.report(handled, f"{len(handled.done)} task(s) are to be done again.", as_json=as_json)


def _explained(tx: ServiceTx, letters: Sequence[DeadLetter]) -> list[Explained]:
    from sellerwatch.crawling.dead_letters import explain  # noqa: PLC0415

    return explain(tx, letters)


def _redriven(tx: ServiceTx, at: Desk, letters: Sequence[DeadLetter]) -> tuple[BulkResult, list[DeadLetter]]:
    from sellerwatch.crawling.dead_letters import redrive  # noqa: PLC0415

    return redrive(tx, _explained(tx, letters), at.deadline, actor=at.actor, now=at.now)


def _task(one: Explained) -> str:
    return str(one.letter.hint.task_id or session.short(one.letter.body, 36))


def _json(one: Explained) -> dict[str, Any]:
    task = one.task
    return {
        "taskId": one.letter.hint.task_id,
        "sellerId": task and task.seller_id,
        "status": task and task.status,
        "why": one.why,
        "needsAPerson": one.needs_a_person,
        "receiveCount": one.letter.received,
        "body": one.letter.body,
    }


def _settings() -> Settings:
    from sellerwatch.settings.load import load  # noqa: PLC0415

    settings = load(os.environ).settings
    if settings.queue != "sqs":
        raise NoDeadLetters(queue=settings.queue)
    return settings
