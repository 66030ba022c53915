"""The desk an operator's command works at: the configured database, opened for one piece of work and closed after it.

It does not matter whether a service runs: the database is the truth, and a running service looks at it by itself.
Nothing heavy is imported before a command is at work.
"""

from __future__ import annotations

import asyncio
import getpass
import os
import random
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec, TypeVar

import typer
from rich.text import Text

from sellerwatch.cli.output import out, print_refusal, print_view
from sellerwatch.cli.texts import Texts
from sellerwatch.kernel import clock
from sellerwatch.kernel.clock import Clock, Moment
from sellerwatch.kernel.errors import Invalid
from sellerwatch.kernel.ids import Ids, ReplayableIds

if TYPE_CHECKING:
    from sellerwatch.crawling.absorb_batch import CrawlRules
    from sellerwatch.kernel.bulk import BulkResultView
    from sellerwatch.kernel.notices import Notice
    from sellerwatch.kernel.operations import OperationContext
    from sellerwatch.kernel.store import Store
    from sellerwatch.kernel.views import CursorPageView
    from sellerwatch.operations.ports import ServiceTx
    from sellerwatch.operations.session import OperationSession
    from sellerwatch.settings.model import Settings

P = ParamSpec("P")
T = TypeVar("T")

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=1000, help="At most this many, newest first.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would happen; change nothing.")]
CursorOption = Annotated[str | None, typer.Option("--cursor", help="`next` of the page before; left out: newest.")]
Page = Annotated[int, typer.Option("--page", min=0, max=1_000_000, help="Which page, counted from 0.")]
Size = Annotated[int, typer.Option("--size", min=1, max=100, help="How many on a page.")]


@dataclass(eq=False)
class InvalidText(Invalid):
    """An argument whose bytes are no text."""

    given: str


@dataclass(frozen=True)
class Desk:
    """What a piece of work gets beside its transaction: who asks, when, fresh ids, and the settings in force."""

    settings: Settings
    actor: str
    now: datetime
    ids: Iterator[str]

    @property
    def deadline(self) -> timedelta:
        return timedelta(seconds=self.settings.run_deadline_seconds)

    @property
    def rules(self) -> CrawlRules:
        return crawl_rules_without_network(self.settings)


def crawl_rules_without_network(settings: Settings) -> CrawlRules:
    """What ending a run goes by: bodies are read and addresses made, but nothing is ever fetched from here."""
    from sellerwatch.compose.rules import crawl_rules  # noqa: PLC0415
    from sellerwatch.marketplaces.mustit.client import MustitMarketplace  # noqa: PLC0415
    from sellerwatch.marketplaces.mustit.urls import Urls  # noqa: PLC0415
    from sellerwatch.marketplaces.ports import TransportFailed, TransportProblem  # noqa: PLC0415

    class NoTransport:
        async def get(self, url: str, headers: object) -> Any:
            raise TransportFailed(problem=TransportProblem.UNREACHABLE, detail="a command makes no requests")

    urls = Urls(list_path=settings.marketplace_list_path)
    marketplace = MustitMarketplace(NoTransport(), settings.marketplace_url, lambda _: "", urls=urls)
    return crawl_rules(settings, marketplace)


class CommandSession:
    """Several pieces of work in a row on the one open database, each a transaction of its own.

    Cut off between two of them, what the first ones did is kept: work that is about thousands of rows goes in steps.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store[ServiceTx],
        clock: Clock,
        runner: asyncio.Runner,
        *,
        dry_run: bool = False,
    ) -> None:
        self.settings = settings
        self._dry_run = dry_run
        self._store = store
        self._clock = clock
        self._runner = runner
        self._ids = Ids(clock, random.Random(os.urandom(16)))  # noqa: S311 - ids, no secrets
        self._actor = actor()

    def run(
        self, command: Callable[Concatenate[ServiceTx, OperationContext, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a command as one transaction."""
        return self.wait(self.operations.run(command, *args, **kwargs))

    def ask(
        self, query: Callable[Concatenate[ServiceTx, OperationContext, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a query on one consistent view of the database."""
        return self.wait(self.operations.ask(query, *args, **kwargs))

    def wait(self, operation: Coroutine[Any, Any, T]) -> T:
        """Run an operation that takes several transactions to its end."""
        return self._runner.run(operation)

    @property
    def now(self) -> datetime:
        return self._clock.now()

    def texts(self, family: str) -> Texts:
        """Return a family of texts in the language of the setting LANGUAGE."""
        return Texts(family, self.settings.language)

    @cached_property
    def operations(self) -> OperationSession:
        from sellerwatch.compose.database import pool_clock  # noqa: PLC0415
        from sellerwatch.compose.rules import pool_rules  # noqa: PLC0415
        from sellerwatch.operations.session import OperationSession  # noqa: PLC0415

        return OperationSession(
            store=self._store,
            clock=pool_clock(self.settings, self._clock),
            ids=self._ids,
            rules=crawl_rules_without_network(self.settings),
            pool=pool_rules(self.settings),
            deadline=timedelta(seconds=self.settings.run_deadline_seconds),
            actor=self._actor,
            language=self.settings.language,
            dry_run=self._dry_run,
            alert=self._alert,
        )

    async def _alert(self, notices: Sequence[Notice]) -> None:
        from sellerwatch.compose.alerts import send_alerts  # noqa: PLC0415
        from sellerwatch.oversight.alerts import Alert  # noqa: PLC0415

        now = self._clock.now()
        alerts = [Alert(notice.kind, notice.subject, notice.text, now) for notice in notices]
        await send_alerts(self.settings, alerts)

    def look(self, work: Callable[[ServiceTx, Desk], T]) -> T:
        """Run `work` on one consistent view of the database; it changes nothing."""
        desk = self._desk()
        return self._runner.run(self._store.read(lambda tx: work(tx, desk())))

    def change(self, work: Callable[[ServiceTx, Desk], T]) -> T:
        """Run `work` as one transaction: all of it is kept, or nothing."""
        desk = self._desk()
        return self._runner.run(self._store.transact(lambda tx: work(tx, desk())))

    def _desk(self) -> Callable[[], Desk]:
        """Each run of a piece of work gets the same ids and the same time: it may run more than once."""
        draw, now = ReplayableIds(self._ids), self._clock.now()
        return lambda: Desk(self.settings, self._actor, now, draw.replay())


@contextmanager
def command_session(*, dry_run: bool = False) -> Iterator[CommandSession]:
    """Open the configured database until the block ends. In a dry run, nothing that commands do is kept."""
    # Imported here: SQLAlchemy and Pydantic are most of what starting any command would cost.
    from sellerwatch.compose.database import open_clock, open_store  # noqa: PLC0415
    from sellerwatch.settings.load import load  # noqa: PLC0415

    settings = load(os.environ).settings
    clock = open_clock(settings)
    store = open_store(settings, clock=clock, inline=True)
    try:
        with asyncio.Runner() as runner:
            yield CommandSession(settings, store, clock, runner, dry_run=dry_run)
    finally:
        store.close()


def ask(query: Callable[Concatenate[ServiceTx, OperationContext, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run one query, and close the database after it."""
    with command_session() as at:
        return at.ask(query, *args, **kwargs)


def run(command: Callable[Concatenate[ServiceTx, OperationContext, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run one command, and close the database after it."""
    with command_session() as at:
        return at.run(command, *args, **kwargs)


def look(work: Callable[[ServiceTx, Desk], T]) -> T:
    """One piece of work that changes nothing, and the database closed after it."""
    with command_session() as at:
        return at.look(work)


def change(work: Callable[[ServiceTx, Desk], T]) -> T:
    """One transaction, and the database closed after it."""
    with command_session() as at:
        return at.change(work)


def this_moment() -> Moment:
    """On the clock that permits are reckoned by."""
    from sellerwatch.compose.database import open_clock, pool_moment  # noqa: PLC0415
    from sellerwatch.settings.load import load  # noqa: PLC0415

    settings = load(os.environ).settings
    return pool_moment(settings, open_clock(settings))


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


def stamp(time: datetime | None) -> str | None:
    """A time as JSON carries it: ISO-8601, UTC, microseconds."""
    return None if time is None else clock.stamp(time)


def page_of(content: Sequence[dict[str, Any]], page: int, size: int, total: int) -> dict[str, Any]:
    return {
        "content": content,
        "page": page,
        "size": size,
        "totalElements": total,
        "totalPages": -(-total // size),
    }


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
