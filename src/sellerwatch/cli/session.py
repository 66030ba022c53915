"""What commands share: their options, the database for one command, and how they report.

Nothing heavy is imported before a command opens the database (`database_session.py`).
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec, TypeVar

import typer
from rich.text import Text

from sellerwatch.cli.output import out, print_refusal, print_view
from sellerwatch.kernel.errors import Invalid
from sellerwatch.kernel.ids import SellerId

if TYPE_CHECKING:
    from sellerwatch.cli.database_session import CommandSession
    from sellerwatch.kernel.bulk import BulkResultView
    from sellerwatch.kernel.operations import OperationContext
    from sellerwatch.kernel.views import CursorPageView
    from sellerwatch.operations.ports import ServiceTx

P = ParamSpec("P")
T = TypeVar("T")

AsJson = Annotated[bool, typer.Option("--json")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=1000)]
DryRun = Annotated[bool, typer.Option("--dry-run")]
CursorOption = Annotated[str | None, typer.Option("--cursor")]
Page = Annotated[int, typer.Option("--page", min=0, max=1_000_000)]
Size = Annotated[int, typer.Option("--size", min=1, max=100)]


@dataclass(eq=False)
class InvalidText(Invalid):
    """An argument whose bytes are no text."""

    given: str


@contextmanager
def command_session(*, dry_run: bool = False, make: bool = False) -> Iterator[CommandSession]:
    """Open the configured database until the block ends. In a dry run, nothing that commands do is kept. `make`: an
    embedded database is created and upgraded."""
    # SQLAlchemy and Pydantic are most of what a command costs: `sellerwatch sellers --help` does without them.
    from sellerwatch.cli.database_session import open_command_session  # noqa: PLC0415 - see above

    with open_command_session(dry_run=dry_run, make=make) as opened:
        yield opened


def ask(query: Callable[Concatenate[ServiceTx, OperationContext, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run one query, and close the database after it."""
    with command_session() as at:
        return at.ask(query, *args, **kwargs)


def run(command: Callable[Concatenate[ServiceTx, OperationContext, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run one command, and close the database after it."""
    with command_session() as at:
        return at.run(command, *args, **kwargs)


def actor() -> str:
    """Who is at the keyboard, for the audit trail."""
    try:
        return f"cli:{getpass.getuser()}"
    except (KeyError, OSError):
        return f"cli:{os.getuid()}"


def text(given: str) -> str:
    """An argument as it was typed, if it is text: bytes that are not would fail deep in the database."""
    with suppress(UnicodeEncodeError):
        given.encode()
        return given
    raise InvalidText(given=given.encode("utf-8", "replace").decode()[:200])


def seller_of(given: str | None) -> SellerId | None:
    """Return the seller of an option; None where it was left out."""
    return None if given is None else SellerId.parse(text(given))


def say(sentence: str, style: str = "") -> None:
    """A sentence for a person; a name with brackets stays as it is."""
    out.print(Text(sentence, style=style), soft_wrap=True)


def short(message: str | None, longest: int = 60) -> str | None:
    """The beginning of a message, for a cell of a table."""
    line = message.splitlines()[0] if message else message
    return line if line is None or len(line) <= longest else f"{line[: longest - 1]}…"


def bar(percent: float, width: int = 30) -> str:
    """`######..........` for people."""
    filled = int(width * min(percent, 100.0) / 100)
    return f"{'#' * filled}{'.' * (width - filled)} {percent:.1f} %"


def pages_up_to(
    limit: int, cursor: str | None, ask_page: Callable[[str | None, int], CursorPageView[T]]
) -> CursorPageView[T]:
    """Ask for pages until there are `limit` entries or the list ends: a page may be short and not the last."""
    page = ask_page(cursor, limit)
    content = list(page.content)
    while page.next is not None and len(content) < limit:
        page = ask_page(page.next, limit - len(content))
        content += page.content
    return replace(page, content=content)


def report_bulk(view: BulkResultView, sentence: str, *, as_json: bool, **more: Any) -> None:
    """Print the result for several ids: exit code 3 when some were refused, 1 when all were.

    A single id that was refused is an error like any other: no JSON is printed for it.
    """
    is_error = not view.done and len(view.refused) == 1
    if as_json and not is_error:
        print_view(view, **more)
    else:
        if view.done:
            say(sentence, "green")
        for refused in view.refused:
            print_refusal(refused.message)
    if view.refused:
        raise typer.Exit(3 if view.done else 1)
