"""Run commands and queries for a surface: API, command line or console."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Concatenate, ParamSpec, TypeVar, cast

from sellerwatch.agents.limits import LimitSettings, PoolRules
from sellerwatch.crawling.absorb_batch import CrawlRules
from sellerwatch.kernel.clock import Clock, moment
from sellerwatch.kernel.ids import Ids, ReplayableIds
from sellerwatch.kernel.notices import Notice
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.store import Store
from sellerwatch.operations.ports import ServiceTx
from sellerwatch.outbox.ports import EventReceiver

P = ParamSpec("P")
T = TypeVar("T")


#: Called during a long operation with how much is done, and of how much.
Progress = Callable[[int, int], None]


def no_progress(done: int, total: int) -> None:
    """Ignore the progress of a long operation."""


def _no_one_waits() -> None:
    """What a session does after a change where no service runs in this process."""


async def _no_service_to_pause() -> None:
    """What a session does after a pause where no service runs in this process."""


async def _no_limiter_beside() -> int:
    """What a recount finds where the database itself is the limiter."""
    return 0


async def _no_alerts(notices: Sequence[Notice]) -> None:
    """What a session does with notices where no alerts are configured."""


class _RolledBack(Exception):
    """Ends the transaction of a dry run: its result is shown, its writes are not kept."""

    def __init__(self, result: object) -> None:
        super().__init__()
        self.result = result


@dataclass(frozen=True)
class OperationSession:
    """Runs operations for one person or caller. `rules`, `pool`, `limits` and `deadline` are the settings that commands
    need."""

    store: Store[ServiceTx]
    clock: Clock
    ids: Ids
    rules: CrawlRules
    pool: PoolRules
    limits: LimitSettings
    deadline: timedelta
    actor: str
    language: str
    #: Commands are run and rolled back: they return what they would do, and nothing is kept.
    dry_run: bool = False
    #: Called after each command, so that a service in this process looks for work at once.
    changed: Callable[[], None] = _no_one_waits
    #: Called after a pause or its end, so that a service in this process obeys before the operation returns.
    pauses_changed: Callable[[], Awaitable[None]] = _no_service_to_pause
    #: Has the limiter take over what the database counts; returns how many of its counts were wrong.
    recount_limiter: Callable[[], Awaitable[int]] = _no_limiter_beside
    #: Sends the alerts of a command after its commit.
    alert: Callable[[Sequence[Notice]], Awaitable[None]] = _no_alerts
    #: Where events of products are sent; None where no address is set, and for commands that send nothing.
    receiver: EventReceiver | None = None

    def with_dry_run(self, dry_run: bool) -> OperationSession:
        """Return the same session, whose commands are rolled back if this is a dry run."""
        return replace(self, dry_run=dry_run)

    async def run(
        self,
        command: Callable[Concatenate[ServiceTx, OperationContext, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run a command as one transaction: everything it did is kept, or nothing. In a dry run, nothing is kept."""
        new_context = self._context()

        def work(tx: ServiceTx) -> tuple[T, Sequence[Notice]]:
            context = new_context()
            done = command(tx, context, *args, **kwargs)
            if self.dry_run:
                raise _RolledBack(done)
            return done, context.notices

        try:
            done, notices = await self.store.transact(work)
        except _RolledBack as rolled_back:
            return cast("T", rolled_back.result)
        self.changed()
        if notices:
            await self.alert(notices)
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
        return lambda: OperationContext(self.actor, at, ids.replay(), self.language, self.dry_run)
