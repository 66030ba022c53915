"""What asking the marketplace works with, handed in whole; `crawling/context.py` is what implements it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Protocol, TypeVar

from sellerwatch.agents.answers import Client
from sellerwatch.agents.lending import LendingRules
from sellerwatch.agents.outages import Observed
from sellerwatch.agents.ports import AgentsTx, Permit, Sealer
from sellerwatch.kernel.clock import Clock, moment
from sellerwatch.kernel.ids import WorkerId
from sellerwatch.kernel.leases import JobLeases
from sellerwatch.kernel.notices import Notice
from sellerwatch.kernel.store import Store, StoreFailed

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Seconds between tries to reach a store that is away.
STORE_PAUSE = 1.0


class PoolTools(Protocol):
    """What asking the marketplace works with."""

    @property
    def store(self) -> Store[AgentsTx]: ...

    @property
    def marketplace(self) -> Client: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def sealer(self) -> Sealer: ...

    @property
    def worker_id(self) -> WorkerId: ...

    @property
    def terms(self) -> LendingRules: ...

    @property
    def leases(self) -> JobLeases: ...

    @property
    def is_paused(self) -> bool:
        """Whether a person has paused all requests to the marketplace."""


class PoolTimes(Protocol):
    """How long agents rest, and how old tokens get."""

    @property
    def refresh_every(self) -> timedelta:
        """How old a token gets before it is renewed."""

    def rest(self, asked: timedelta | None = None) -> timedelta:
        """Length of a suspension: AGENT_SUSPENSION_SECONDS, or Retry-After if longer, plus up to 10 % jitter."""


class PoolEffects(Protocol):
    """What asking the marketplace changes outside the pool's own tables."""

    def mark_permit(self, permit: Permit) -> None:
        """Remember the highest permit outside the database, before anything of it is sent."""

    def tell(self, notices: Sequence[Notice]) -> None:
        """Alert people; after the transaction."""

    async def transact_answer(self, work: Callable[[AgentsTx], Observed], now: datetime) -> Observed:
        """Run a transaction that writes an answer. What the outage that it began or ended means for tasks and runs is
        done in the same transaction."""


class PoolContext(PoolTools, PoolTimes, PoolEffects, Protocol):
    """All of them, as one argument."""


async def record_answer(context: PoolContext, work: Callable[[AgentsTx], Observed], now: datetime) -> None:
    """Write the answer to a single question or of the token page, however long the store is away; then alert."""
    observed = await _keep_trying(context, lambda: context.transact_answer(work, now))
    context.tell(observed.notices)


async def _keep_trying(context: PoolContext, transact: Callable[[], Awaitable[T]]) -> T:
    """A permit that is never answered would count against the limits until this process ends."""
    is_said = False
    while True:
        try:
            return await transact()
        except StoreFailed as failed:
            if not is_said:
                log.warning("an answer waits to be stored", extra={"problem": str(failed)})
                is_said = True
        await context.clock.sleep(STORE_PAUSE)


async def end_unsent(context: PoolContext, permit: Permit) -> None:
    """End a permit whose request was not sent. It stays spent: that errs on the side of too few requests."""
    at = moment(context.clock)
    await _keep_trying(context, lambda: context.store.transact(lambda tx: tx.permits.answer([permit.number], at)))
    await context.terms.limiter.answered([(permit.grant.candidate.row, permit.number)])
