"""Claim tasks before slots are free for them, so that no slot waits for a transaction; decide how many, and when.

Killed before a claim commits: nothing happened. Killed between claim and absorb: its permits count as used, and its
tasks are put back when the worker's heartbeat lapses.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum, auto

from sellerwatch.agents.lending import NOTHING, LendingRules
from sellerwatch.agents.sessions import Sessions
from sellerwatch.crawling.claim import Claim, Claims, claim, survey
from sellerwatch.crawling.context import Crawl
from sellerwatch.crawling.judged_result import JudgedResult
from sellerwatch.crawling.messages import ReceivedMessages
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.crawling.put_back import put_back_unknown
from sellerwatch.crawling.worker_queues import BATCH_SIZE, ClaimQueue, ResultQueue
from sellerwatch.kernel.clock import Moment, moment
from sellerwatch.kernel.errors import Unavailable
from sellerwatch.kernel.ids import ReplayableIds, TaskId, WorkerId
from sellerwatch.kernel.store import StoreFailed

#: Claimed ahead for each slot, up to a batch; up to two where claims are made with batches, since one must last
#: until the next is committed.
CLAIMS_AHEAD_PER_SLOT = 4


class Supply(Enum):
    """What the last claim showed of the tasks that are ready."""

    UNKNOWN = auto()
    #: It got all that it asked for.
    MORE_AVAILABLE = auto()
    #: It got every task that was ready. Only an absorbed result, a nudge or time can bring more.
    DRAINED = auto()


class ClaimPlan:
    """Decides how many tasks to claim, and keeps what the decision goes by. One claim is made at a time."""

    def __init__(self, claims: ClaimQueue, results: ResultQueue, *, can_claim_with_absorb: bool) -> None:
        """`can_claim_with_absorb`: nothing has to be asked over the network before a claim."""
        self._claims = claims
        self._results = results
        self._can_claim_with_absorb = can_claim_with_absorb
        #: Which run comes first in the next claim.
        self.rotation = 0
        self.supply = Supply.UNKNOWN
        #: A claim failed and may have been committed, or claims went back unsent: the database may hold tasks for this
        #: worker that it does not know.
        self.claim_outcome_unknown = False
        self.is_stopped = False
        self._is_claiming = False

    @property
    def claims_with_absorb(self) -> bool:
        """Whether the next claim may be part of a batch. Putting back unknown claims takes a transaction of its own."""
        return self._can_claim_with_absorb and not self.claim_outcome_unknown

    @property
    def most(self) -> int:
        """The largest number of tasks to claim at a time."""
        return 2 * BATCH_SIZE if self._can_claim_with_absorb else BATCH_SIZE

    def wanted(self, slots: int, *, with_absorb: bool = False) -> int:
        """Return how many tasks to claim now.

        With a batch, claim once half of what was claimed ahead is sent. A claim of its own comes when that was not
        possible or came too late, and not while a batch is being absorbed that claims as well.
        """
        waits_for_batch = (
            not with_absorb
            and self.claims_with_absorb
            and self.supply is Supply.MORE_AVAILABLE
            and bool(self._results.batch)
        )
        if self._is_claiming or self.is_stopped or waits_for_batch or self._results.is_full:
            return 0
        ahead = min(CLAIMS_AHEAD_PER_SLOT * slots, self.most) if slots > 1 else 0
        lacking = slots + ahead - len(self._claims)
        left = ahead // 2 if with_absorb or not self._can_claim_with_absorb else ahead // 8
        return min(lacking, self.most) if lacking > ahead - left else 0

    @contextmanager
    def claiming(self) -> Iterator[None]:
        """Refuse other claims meanwhile. After an error it is not known whether the claim was committed."""
        self._is_claiming = True
        try:
            yield
        except BaseException:
            self.claim_outcome_unknown = True
            raise
        finally:
            self._is_claiming = False

    def stop(self) -> None:
        """Claim nothing from now on."""
        self.is_stopped = True

    def note(self, claims: Claims, wanted: int, *, only_named: bool = False) -> None:
        """Keep what a committed claim showed. One of tasks that messages named shows nothing of the others."""
        self.rotation += 1
        if len(claims.taken) == wanted:
            self.supply = Supply.MORE_AVAILABLE
        elif claims.lacks_agents or only_named:
            self.supply = Supply.UNKNOWN
        else:
            self.supply = Supply.DRAINED

    def tasks_in_hand(self) -> set[TaskId]:
        """Return the tasks that this worker holds, from their claim until their result is committed."""
        return {*self._claims.task_ids, *self._results.task_ids}


log = logging.getLogger(__name__)

#: The wait for tasks that are not ready yet, while others are in flight.
DRAINED_WAIT = timedelta(seconds=1)
#: Where other processes write to the database: the longest wait for tasks they may have added without a nudge.
SHARED_DATABASE_WAIT = timedelta(seconds=10)
#: The longest wait for an agent whose time is known; the wait where no time is known.
AGENT_WAIT = timedelta(seconds=60)
AGENT_WAIT_UNKNOWN = timedelta(seconds=5)
#: Returned for a time that is now: more tasks are ready.
AT_ONCE = datetime.min.replace(tzinfo=UTC)
#: The pause after the queue had no message.
NO_MESSAGE_WAIT = timedelta(milliseconds=100)
#: Without a permit for longer than this, tasks that messages name wait in the database.
PUT_OFF_AFTER = timedelta(seconds=5)
#: Seconds to wait after a lost database or limiter.
REPAIR_PAUSE = 1.0


@dataclass(frozen=True, slots=True)
class ClaimWithAbsorb:
    """A claim to be made in the transaction that absorbs a batch: one transaction instead of two."""

    worker_id: WorkerId
    wanted: int
    rotation: int
    terms: LendingRules

    def run(self, tx: CrawlTx, at: Moment) -> Claims:
        return claim(tx, self.worker_id, self.wanted, self.rotation, at, self.terms)


class ClaimAhead:
    """The first machine of a worker: keeps the queue of claims filled. All claims of a worker go through this."""

    def __init__(self, crawl: Crawl, claims: ClaimQueue, plan: ClaimPlan, messages: ReceivedMessages) -> None:
        self.plan = plan
        self._crawl = crawl
        self._claims = claims
        self._messages = messages
        self._sessions = Sessions(crawl, self.nudge)
        self._nudged = asyncio.Event()
        self._last_problem = ""

    def nudge(self) -> None:
        """Look for tasks now: there may be some, or an agent for them."""
        self._nudged.set()

    def nudge_if_wanted(self) -> None:
        """Look for tasks now if a claim could bring any and there is room for them."""
        if self.plan.supply is not Supply.DRAINED and self.plan.wanted(self._crawl.tuning.concurrency):
            self._nudged.set()

    def return_unsent(self, is_unwanted: Callable[[Claim], bool]) -> None:
        """Remove waiting claims that are not to be sent. The next claim puts their tasks back; their permits are used
        up."""
        if self._claims.remove(is_unwanted):
            self.plan.claim_outcome_unknown = True

    def return_started(self, unsent: Claim) -> None:
        """Return a claim that had a slot and was not sent."""
        self._claims.finish(unsent)
        self.plan.claim_outcome_unknown = True
        self._nudged.set()

    def with_absorb(self, batch: Sequence[JudgedResult]) -> ClaimWithAbsorb | None:
        """Return the claim to make in the transaction that absorbs `batch`, if tasks are wanted and surely there."""
        crawl, plan = self._crawl, self.plan
        has_tasks = plan.supply is Supply.MORE_AVAILABLE or any(judged.claim.is_page for judged in batch)
        if not (plan.claims_with_absorb and has_tasks):
            return None
        wanted = plan.wanted(crawl.tuning.concurrency, with_absorb=True)
        return ClaimWithAbsorb(crawl.worker_id, wanted, plan.rotation, crawl.terms) if wanted else None

    def receive(self, claims: Claims, wanted: int) -> None:
        """Queue what a committed claim took. Claims that come after the stop are put back with all others."""
        self.plan.note(claims, wanted, only_named=self._crawl.queue.names_tasks)
        self._crawl.tell(claims.notices)
        if claims.lacks_agents:
            self._sessions.want(claims.tokenless)
        if not self.plan.is_stopped:
            self._claims.put(claims.taken)

    async def run(self) -> None:
        while True:
            wanted = self.plan.wanted(self._crawl.tuning.concurrency)
            if not wanted:
                await self._wait(None)
                continue
            try:
                with self.plan.claiming():
                    not_before = await self._claim(wanted)
            except (StoreFailed, Unavailable) as refusal:
                # Without a limiter nothing leaves: too few requests rather than too many.
                if str(refusal) != self._last_problem:
                    self._last_problem = str(refusal)
                    log.warning("nothing is claimed", extra={"problem": self._last_problem})
                await self._crawl.clock.sleep(REPAIR_PAUSE)
                continue
            self._last_problem = ""
            if not_before is not AT_ONCE:
                await self._wait(not_before)

    async def close(self) -> None:
        await self._sessions.close()

    async def _claim(self, wanted: int) -> datetime | None:
        """Claim up to `wanted` tasks. Return when to look again; None: after a nudge."""
        crawl, now = self._crawl, self._crawl.clock.now()
        self._nudged.clear()
        if self.plan.claim_outcome_unknown:
            await self._put_back_unknown()
        named = await self._messages.named(wanted) if crawl.queue.names_tasks else None
        if named is not None and not named:
            # Asking the queue was the wait.
            return now + NO_MESSAGE_WAIT
        claims = await claim_with_permits(crawl, wanted, self.plan.rotation, named)
        await self._messages.acknowledge(claims.stale)
        self.receive(claims, wanted)
        if claims.taken and not claims.lacks_agents:
            return now + DRAINED_WAIT if self.plan.supply is Supply.DRAINED else AT_ONCE
        if claims.not_before is not None and claims.not_before > now + PUT_OFF_AFTER:
            await self._messages.put_off(claims.not_before)
        return self._next_look(claims, now)

    def _next_look(self, claims: Claims, now: datetime) -> datetime | None:
        """Return when to claim again after a claim that took too little; None: after a nudge."""
        is_shared = self._crawl.store.commits is None
        times = [] if claims.not_before is None else [max(now, claims.not_before)]
        if claims.lacks_agents:
            is_known = claims.not_before is not None and not claims.tokenless
            times.append(now + (DRAINED_WAIT if is_shared else AGENT_WAIT if is_known else AGENT_WAIT_UNKNOWN))
        elif is_shared:
            times.append(now + SHARED_DATABASE_WAIT)
        return min(times, default=None)

    async def _put_back_unknown(self) -> None:
        """Put back what the database holds for this worker and the worker does not know."""
        crawl, at, drawn = self._crawl, moment(self._crawl.clock), ReplayableIds(self._crawl.ids)
        known = self.plan.tasks_in_hand()
        self.plan.claim_outcome_unknown = False
        await crawl.store.transact(
            lambda tx: put_back_unknown(tx, crawl.worker_id, known, crawl.rules, drawn.replay(), at)
        )

    async def _wait(self, until: datetime | None) -> None:
        """Sleep until a nudge, or until that time."""
        with suppress(TimeoutError):
            if until is None:
                await self._nudged.wait()
            else:
                seconds = (until - self._crawl.clock.now()).total_seconds()
                async with asyncio.timeout(max(seconds, 0.001)):
                    await self._nudged.wait()
        self._nudged.clear()


async def claim_with_permits(crawl: Crawl, wanted: int, rotation: int, named: Sequence[TaskId] | None = None) -> Claims:
    """Claim up to `wanted` tasks with a permit each; ask the limiter before and after the transaction, never in it.

    Send only what is returned. If this raises, send nothing: tasks may have been claimed, and the caller has to put
    back those it does not know.
    """
    terms, ahead = crawl.terms, NOTHING
    if terms.limiter.looks_ahead:
        seen = moment(crawl.clock)
        candidates, most = await crawl.store.read(lambda tx: survey(tx, wanted, rotation, seen, named))
        if most:
            ahead = await terms.limiter.reserve(candidates, most, terms.limits, terms.for_tasks.host, seen.now)
    at = moment(crawl.clock)
    claims = await crawl.store.transact(
        lambda tx: claim(tx, crawl.worker_id, wanted, rotation, at, terms, ahead, named)
    )
    mark_permits(crawl, claims)
    await terms.limiter.settle(ahead, [taken.permit for taken in claims.taken])
    return claims


def mark_permits(crawl: Crawl, claims: Claims) -> None:
    """Remember the last permit outside the database, before its request is sent: this shows a restored database."""
    if claims.taken:
        crawl.mark_permit(claims.taken[-1].permit)
