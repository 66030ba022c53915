"""The one way from a surface (API, command line, console) to commands and queries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Concatenate, ParamSpec, TypeVar

from sellerwatch.crawling.absorb_batch import CrawlRules
from sellerwatch.kernel.clock import Clock, moment
from sellerwatch.kernel.ids import Ids, ReplayableIds
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.store import Store
from sellerwatch.operations.ports import ServiceTx

P = ParamSpec("P")
T = TypeVar("T")


def _no_one_waits() -> None:
    """What a session does after a change where no service runs in this process."""


@dataclass(frozen=True)
class OperationSession:
    """Runs operations for one person or caller. `rules` and `deadline` are the settings that commands need."""

    store: Store[ServiceTx]
    clock: Clock
    ids: Ids
    rules: CrawlRules
    deadline: timedelta
    actor: str
    language: str
    #: Called after each command, so that a service in this process looks for work at once.
    changed: Callable[[], None] = _no_one_waits

    async def run(
        self,
        command: Callable[Concatenate[ServiceTx, OperationContext, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run a command as one transaction: everything it did is kept, or nothing."""
        context = self._context()
        done = await self.store.transact(lambda tx: command(tx, context(), *args, **kwargs))
        self.changed()
        return done

    async def ask(
        self,
        query: Callable[Concatenate[ServiceTx, OperationContext, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run a query on one consistent view of the database."""
        context = self._context()
        return await self.store.read(lambda tx: query(tx, context(), *args, **kwargs))

    def _context(self) -> Callable[[], OperationContext]:
        ids, at = ReplayableIds(self.ids), moment(self.clock)
        return lambda: OperationContext(self.actor, at, ids.replay(), self.language)
