"""The configured database, opened for one command: its settings, and commands and queries on it.

It does not matter whether a service runs: the database is the truth, and a running service notices changes.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cached_property, partial
from typing import Any, Concatenate, ParamSpec, TypeVar

from sellerwatch.agents.answers import Identity, Session
from sellerwatch.agents.token import InvalidToken
from sellerwatch.cli.output import print_view
from sellerwatch.cli.session import actor
from sellerwatch.cli.texts import Texts
from sellerwatch.compose.alerts import send_alerts
from sellerwatch.compose.database import open_clock, open_store, pool_clock
from sellerwatch.compose.limiter import recount_limiter
from sellerwatch.compose.marketplace import urls_of
from sellerwatch.compose.rules import crawl_rules, pool_rules
from sellerwatch.crawling.absorb_batch import CrawlRules
from sellerwatch.kernel.clock import Clock
from sellerwatch.kernel.ids import Ids
from sellerwatch.kernel.notices import Notice
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.store import Store
from sellerwatch.kernel.views import View
from sellerwatch.marketplaces.mustit.client import MustitMarketplace
from sellerwatch.marketplaces.ports import TransportFailed, TransportProblem
from sellerwatch.operations.ports import ServiceTx
from sellerwatch.operations.session import OperationSession
from sellerwatch.settings.limits import TunableLimits
from sellerwatch.settings.load import load
from sellerwatch.settings.model import Settings

P = ParamSpec("P")
T = TypeVar("T")
V = TypeVar("V", bound=View)


class NoTransport:
    """For rules that end runs: bodies are read and addresses made, but a command makes no requests."""

    async def get(self, url: str, headers: object) -> Any:
        raise TransportFailed(problem=TransportProblem.UNREACHABLE, detail="a command makes no requests")


def _no_session(_: Identity) -> Session:
    raise InvalidToken(problem="a command makes no requests")


def crawl_rules_without_network(settings: Settings) -> CrawlRules:
    """Return the rules of processing, with a marketplace that nothing is ever fetched from."""
    marketplace = MustitMarketplace(NoTransport(), settings.marketplace_url, _no_session, urls=urls_of(settings))
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
        origins: Mapping[str, str],
        recount_limiter: Callable[[], Awaitable[int]],
        dry_run: bool = False,
    ) -> None:
        self.settings = settings
        self._origins = origins
        self._recount_limiter = recount_limiter
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
        return Texts(family, self.settings.language, self.now)

    def show(self, view: V, print_it: Callable[[V, Texts], None], family: str, *, as_json: bool) -> None:
        """Print a view as JSON, or for a person."""
        if as_json:
            print_view(view)
        else:
            print_it(view, self.texts(family))

    @cached_property
    def operations(self) -> OperationSession:
        return OperationSession(
            store=self._store,
            clock=pool_clock(self.settings, self._clock),
            ids=self._ids,
            rules=crawl_rules_without_network(self.settings),
            pool=pool_rules(self.settings),
            limits=TunableLimits(self.settings, self._origins),
            deadline=timedelta(seconds=self.settings.run_deadline_seconds),
            actor=self._actor,
            language=self.settings.language,
            dry_run=self._dry_run,
            recount_limiter=self._recount_limiter,
            alert=self._alert,
        )

    async def _alert(self, notices: Sequence[Notice]) -> None:
        await send_alerts(self.settings, notices, self.now)


@contextmanager
def open_command_session(*, dry_run: bool, make: bool = False) -> Iterator[CommandSession]:
    """Open the configured database until the block ends."""
    loaded = load(os.environ)
    settings = loaded.settings
    clock = open_clock(settings)
    store = open_store(settings, clock=clock, inline=True, make=make and not dry_run)
    try:
        with asyncio.Runner() as runner:
            recount = partial(recount_limiter, settings, store, clock)
            origins = loaded.origins
            yield CommandSession(
                settings, store, clock, runner, origins=origins, recount_limiter=recount, dry_run=dry_run
            )
    finally:
        store.close()
