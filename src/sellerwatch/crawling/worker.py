"""The worker: keeps many requests in flight, one at a time in the middle, in groups at the edges.

Claim (a transaction for hundreds), fetch, absorb (a transaction for up to 200 results, for those of 40 ms, or for all
where nothing more is under way). While work flows, the transaction that absorbs claims as well: one instead of two. A
slot is free when the body is read, not when it is stored, and what comes next is at hand by then: claimed ahead, so
that no slot waits for a transaction. Killed before the claim commits: nothing happened. Between claim and absorb: the
permits count as used and the tasks come back. After absorb: a redelivery meets the guard.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from sellerwatch.agents.answers import Answer
from sellerwatch.agents.ask import identity_of
from sellerwatch.agents.judgement import TaskEnd, judge_answer
from sellerwatch.agents.pool import Grant
from sellerwatch.agents.sessions import Sessions
from sellerwatch.catalog.absorb import EntryCache
from sellerwatch.crawling.absorb_results import Absorbed, abandon, absorb
from sellerwatch.crawling.claim import Claim, Claims, claim
from sellerwatch.crawling.context import Crawl
from sellerwatch.crawling.outcome import Ending, judge, own_error
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.crawling.put_back import put_back_unknown
from sellerwatch.crawling.received_messages import ReceivedMessages
from sellerwatch.crawling.take import mark, take
from sellerwatch.kernel.clock import moment
from sellerwatch.kernel.errors import SellerwatchError, Unavailable
from sellerwatch.kernel.failure import Failure, FailureCode
from sellerwatch.kernel.fast_values import quick
from sellerwatch.kernel.ids import ReplayableIds, TaskId
from sellerwatch.kernel.store import StoreFailed

log = logging.getLogger(__name__)

GROUP = 200
#: Claimed ahead for every slot; at most a group, or two where claims go along with groups: one to last meanwhile.
AHEAD = 4
#: A list page holds hundreds of products: a group is full with one, and so many are on their way at a time.
GROUP_PARTS = 500
PAGES = 5
GROUP_DELAY = 0.04
#: Answers that are read before others of the event loop have their turn; all of them before the transaction, so that no
#: two threads want the interpreter.
JUDGED_AT_ONCE = 20
#: Results that wait for their transaction before claiming waits for them.
BUFFER = 400
#: How long to wait for tasks that are not ready yet while others are under way.
IDLE = timedelta(seconds=1)
#: Where other processes share the database, look at least this often, whatever they have or have not told.
SHARED_LOOK = timedelta(seconds=10)
#: While tasks wait for an agent: look at least this often, or this often where no time for it is known.
NO_AGENT = timedelta(seconds=60)
NO_TIME = timedelta(seconds=5)
#: Returned for a time that is now: there is more to take.
AT_ONCE = datetime.min.replace(tzinfo=UTC)
#: The pause after a question to a queue that brought no message.
EMPTY = timedelta(milliseconds=100)
#: With no permit for longer than this, tasks that messages name wait in the database.
PUT_OFF = timedelta(seconds=5)
#: One of so many good answers is looked through for fields that are new; all of them would cost more than the reading.
#: A prime: details and options come in turns, and each kind must have its own.
LOOKED_AT = 17
#: After a failure of our own (a full disk, a lost database) before the next try.
REPAIR_PAUSE = 1.0


@quick
@dataclass(frozen=True, slots=True)
class _Result:
    claim: Claim
    answer: Answer | None
    problem: str
    took: float
    at: datetime


class Worker:
    """One worker of a process. `absorbed` is called after each group is committed."""

    def __init__(self, crawl: Crawl, absorbed: Callable[[Absorbed], None] = lambda _: None) -> None:
        self._crawl = crawl
        self._absorbed = absorbed
        self._entries = EntryCache()
        self._sessions = Sessions(crawl, self.nudge)
        self._at_hand: deque[Claim] = deque()
        self._in_flight: dict[TaskId, asyncio.Task[None]] = {}
        self._pages = 0
        self._results: deque[_Result] = deque()
        self._endings: list[Ending] = []
        self._wake = asyncio.Event()
        self._arrived = asyncio.Event()
        self._enough = asyncio.Event()
        self._turn = 0
        self._unsure = False
        self._is_claiming = False
        self._is_stopping = False
        #: What the last claim met: more work than it wanted, or less than that and agents to spare.
        self._flows = False
        self._is_dry = False
        #: Nothing has to be asked over the network before a claim, so it may go along with a group.
        self._may_go_along = not (crawl.queue.names_tasks or crawl.limiter.looks_ahead)
        self._most_ahead = 2 * GROUP if self._may_go_along else GROUP
        self._departed: dict[int, int] = {}
        self._good = 0
        self._said = ""
        self._pocket = ReceivedMessages(crawl, self._under_way)

    @property
    def is_busy(self) -> bool:
        """Requests are under way, or their answers wait to be absorbed."""
        return bool(self._in_flight or self._results or self._endings)

    def nudge(self) -> None:
        """There may be work, or an agent for it: look now."""
        self._wake.set()

    def stand_back(self) -> None:
        """Requests were paused: what is at hand for them goes back unsent."""
        self._send_back(lambda taken: self._crawl.pause.stops(taken.task.seller_id))
        self._wake.set()

    async def run(self, stop: asyncio.Event, grace: float = 5.0) -> None:
        """Work until `stop`; then let what is in flight finish within `grace` seconds and put the rest back."""
        absorbing = asyncio.create_task(self._keep_absorbing())
        claiming = asyncio.create_task(self._keep_claiming())
        stopping = asyncio.create_task(stop.wait())
        extending = asyncio.create_task(self._pocket.keep()) if self._crawl.queue.names_tasks else None
        try:
            await asyncio.wait((absorbing, claiming, stopping), return_when=asyncio.FIRST_COMPLETED)
            for ended in (absorbing, claiming):
                if ended.done():
                    ended.result()
        finally:
            self._is_stopping = True
            stopping.cancel()
            claiming.cancel()
            await asyncio.gather(stopping, claiming, return_exceptions=True)
            # Whoever releases what this worker holds puts these back.
            self._at_hand.clear()
            await self._land(grace)
            # One absorber at a time: what it had begun meets the guard when it is done again.
            absorbing.cancel()
            await asyncio.gather(absorbing, return_exceptions=True)
            await self._absorb_rest()
            await self._sessions.close()
            await self._pocket.hand_over()
            if extending is not None:
                extending.cancel()
                await asyncio.gather(extending, return_exceptions=True)

    async def _keep_claiming(self) -> None:
        while True:
            wanted = self._wanted()
            if not wanted:
                await self._woken(None)
                continue
            try:
                with self._claiming():
                    not_before = await self._claim(wanted)
            except (StoreFailed, Unavailable) as refusal:
                # Without a limiter nothing leaves: too few requests rather than too many.
                self._say(refusal)
                await self._crawl.clock.sleep(REPAIR_PAUSE)
                continue
            self._said = ""
            if not_before is not AT_ONCE:
                await self._woken(not_before)

    def _say(self, refusal: SellerwatchError) -> None:
        """Once, not every second, as long as it is the same."""
        if str(refusal) != self._said:
            self._said = str(refusal)
            log.warning("nothing is claimed", extra={"problem": self._said})

    @contextmanager
    def _claiming(self) -> Iterator[None]:
        """One claim at a time. What became of one that failed nobody knows."""
        self._is_claiming = True
        try:
            yield
        except BaseException:
            self._unsure = True
            raise
        finally:
            self._is_claiming = False

    @property
    def _goes_along(self) -> bool:
        """A claim may be part of a group. What went back unsent is put back by a claim of its own."""
        return self._may_go_along and not self._unsure

    def _wanted(self, *, along: bool = False) -> int:
        """How many to claim now: along with a group once half of what was at hand is gone; where that may not be or
        has not come in time, by itself, unless a group is just being made that takes it along."""
        is_taken_along = not along and self._goes_along and self._flows and bool(self._endings)
        if self._is_claiming or self._is_stopping or is_taken_along or len(self._results) >= BUFFER:
            return 0
        most = self._crawl.tuning.concurrency
        ahead = min(AHEAD * most, self._most_ahead) if most > 1 else 0
        lacking = most + ahead - len(self._in_flight) - len(self._at_hand)
        left = ahead // 2 if along or not self._may_go_along else ahead // 8
        return min(lacking, self._most_ahead) if lacking > ahead - left else 0

    async def _claim(self, wanted: int) -> datetime | None:
        """Take what can be taken. Returns when to look again; None: when somebody nudges."""
        crawl, now = self._crawl, self._crawl.clock.now()
        self._wake.clear()
        if self._unsure:
            await self._put_back_unknown()
        named = await self._pocket.named(wanted) if crawl.queue.names_tasks else None
        if named is not None and not named:
            # The queue itself was waited for.
            return now + EMPTY
        claims = await take(crawl, wanted, self._turn, named)
        await self._pocket.let_go(claims.stale)
        self._have(claims, wanted)
        self._depart()
        if claims.taken and not claims.hungry:
            return now + IDLE if self._is_dry else AT_ONCE
        if claims.not_before is not None and claims.not_before > now + PUT_OFF:
            await self._pocket.put_off(claims.not_before)
        return self._look_at(claims, now)

    def _look_at(self, claims: Claims, now: datetime) -> datetime | None:
        """When a claim that took too little is to be tried again, unless somebody nudges before."""
        is_shared = self._crawl.store.commits is None
        times = [] if claims.not_before is None else [max(now, claims.not_before)]
        if claims.hungry:
            is_known = claims.not_before is not None and not claims.tokenless
            times.append(now + (IDLE if is_shared else NO_AGENT if is_known else NO_TIME))
        elif is_shared:
            times.append(now + SHARED_LOOK)
        return min(times, default=None)

    def _have(self, claims: Claims, wanted: int) -> None:
        """What a claim took is at hand."""
        self._turn += 1
        self._crawl.tell(claims.notices)
        if claims.hungry:
            self._sessions.want(claims.tokenless)
        if not self._is_stopping:
            self._at_hand += claims.taken
        self._flows = len(claims.taken) == wanted
        # All that was ready is taken: only an absorbed result, a nudge or time can bring more.
        self._is_dry = not (self._flows or claims.hungry or self._crawl.queue.names_tasks)

    def _under_way(self) -> set[TaskId]:
        held = (*self._at_hand, *(result.claim for result in self._results))
        return {*self._in_flight, *(one.task.task_id for one in held)}

    async def _put_back_unknown(self) -> None:
        """A claim that failed may have been committed all the same, and some were given up unsent."""
        crawl, at, draw = self._crawl, moment(self._crawl.clock), ReplayableIds(self._crawl.ids)
        back = [*(result.claim for result in self._results), *(ending.claim for ending in self._endings)]
        known = {*self._in_flight, *(one.task.task_id for one in (*self._at_hand, *back))}
        self._unsure = False
        await crawl.store.transact(
            lambda tx: put_back_unknown(tx, crawl.worker_id, known, crawl.rules, draw.replay(), at)
        )

    async def _woken(self, until: datetime | None) -> None:
        """Sleep until something happened, or until that time."""
        with suppress(TimeoutError):
            if until is None:
                await self._wake.wait()
            else:
                seconds = (until - self._crawl.clock.now()).total_seconds()
                async with asyncio.timeout(max(seconds, 0.001)):
                    await self._wake.wait()
        self._wake.clear()

    def _depart(self) -> None:
        """What is at hand, as far as there are slots."""
        while (taken := self._next()) is not None:
            self._in_flight[taken.task.task_id] = asyncio.create_task(self._keep_fetching(taken))

    def _next(self) -> Claim | None:
        """What may leave now, if there is a slot; a list page only while few others are under way."""
        if len(self._in_flight) >= self._crawl.tuning.concurrency:
            return None
        for taken in self._at_hand:
            if (self._pages < PAGES or not taken.is_page) and not self._crawl.pause.stops(taken.task.seller_id):
                self._at_hand.remove(taken)
                self._pages += taken.is_page
                return taken
        return None

    def _give_up(self, row: int) -> None:
        """The marketplace does not want this agent now: what is at hand for it goes back unsent."""
        self._send_back(lambda taken: taken.candidate.row == row)

    def _send_back(self, is_unwanted: Callable[[Claim], bool]) -> None:
        """Claims at hand that are not to be sent: their tasks go back with the next claim, their permits are spent."""
        wanted = [taken for taken in self._at_hand if not is_unwanted(taken)]
        if len(wanted) < len(self._at_hand):
            self._at_hand = deque(wanted)
            self._unsure = True

    async def _keep_fetching(self, taken: Claim) -> None:
        """One after the other in this slot, while something is at hand."""
        slot = self._in_flight[taken.task.task_id]
        await self._fetch(taken)
        while (following := self._next()) is not None:
            self._in_flight[following.task.task_id] = slot
            await self._fetch(following)

    async def _fetch(self, taken: Claim) -> None:
        crawl, grant = self._crawl, taken.permit.grant
        began = await self._departed_at(grant)
        if crawl.pause.stops(taken.task.seller_id):
            del self._in_flight[taken.task.task_id]
            self._pages -= taken.is_page
            self._unsure = True
            self._wake.set()
            return
        answer, problem = None, ""
        try:
            identity = identity_of(grant.candidate)
            answer = await crawl.marketplace.fetch(taken.task.request_url, identity, crawl.clock.now())
        except Exception as error:
            # A bug of ours must cost this one request, not the worker.
            log.exception("request failed in our own code", extra={"task": taken.task.task_id})
            problem = type(error).__name__
        took = crawl.clock.monotonic() - began
        if answer is not None and judge_answer(answer).drops_token:
            # The agent is not sent again before its case is written.
            self._give_up(grant.candidate.row)
        self._results.append(_Result(taken, answer, problem, took, crawl.clock.now()))
        del self._in_flight[taken.task.task_id]
        self._arrived.set()
        if taken.is_page or self._has_enough():
            self._enough.set()
        if not self._is_dry and self._wanted():
            self._wake.set()

    async def _departed_at(self, grant: Grant) -> float:
        """Not before its time, nor closer to the agent's last departure than the rate allows: a claim that had to wait
        for the database leaves later than it was reckoned to."""
        clock, row, spacing = self._crawl.clock, grant.candidate.row, self._crawl.limits.spacing_us
        while True:
            now = clock.monotonic()
            now_us = int(now * 1_000_000)
            departure = max(grant.depart_us, self._departed.get(row, 0) + spacing)
            if departure <= now_us:
                self._departed[row] = now_us
                return now
            await clock.sleep((departure - now_us) / 1_000_000)

    async def _keep_absorbing(self) -> None:
        while True:
            await self._arrived.wait()
            if not self._has_enough():
                with suppress(TimeoutError):
                    async with asyncio.timeout(GROUP_DELAY):
                        await self._enough.wait()
            self._enough.clear()
            await self._absorb_group()
            if not self._results and not self._endings:
                self._arrived.clear()

    def _has_enough(self) -> bool:
        """A group is full, or nothing is under way that could fill it. A list page is a group by itself: others wait
        for what it brings."""
        return len(self._results) >= GROUP or not (self._in_flight or self._at_hand)

    async def _absorb_group(self) -> None:
        """The oldest results, judged and written as one transaction; they are kept until it is committed."""
        parts = sum(len(ending.parts) for ending in self._endings)
        while self._results and len(self._endings) < GROUP and parts < GROUP_PARTS:
            self._endings.append(self._judged(self._results[0]))
            self._results.popleft()
            parts += len(self._endings[-1].parts)
            if len(self._endings) % JUDGED_AT_ONCE == 0:
                await self._crawl.clock.sleep(0)
        endings = list(self._endings)
        try:
            await self._write_all(endings)
        except StoreFailed as failure:
            log.error("results cannot be stored; they are kept and tried again", extra={"problem": str(failure)})
            await self._crawl.clock.sleep(REPAIR_PAUSE)
            return
        self._endings.clear()
        self._pages -= sum(ending.claim.is_page for ending in endings)
        self._depart()
        self._wake.set()

    async def _write_all(self, endings: list[Ending]) -> None:
        """As one group, and with it what is to be done next; if that cannot be, one by one: those already in meet the
        guard."""
        try:
            wanted = self._wanted_with(endings)
            with self._claiming() if wanted else nullcontext():
                await self._write(endings, wanted)
        except StoreFailed:
            raise
        except Exception:
            log.exception("a group failed; absorbing it one by one", extra={"size": len(endings)})
            for ending in endings:
                await self._write_alone(ending)

    def _wanted_with(self, endings: list[Ending]) -> int:
        """How many to claim where these are absorbed: only where there surely is work, of before or of a list page."""
        is_likely = self._flows or any(ending.claim.is_page for ending in endings)
        return self._wanted(along=True) if self._goes_along and is_likely else 0

    async def _write(self, endings: list[Ending], wanted: int = 0) -> None:
        crawl, at, draw = self._crawl, moment(self._crawl.clock), ReplayableIds(self._crawl.ids)
        turn, terms = self._turn, crawl.terms

        def work(tx: CrawlTx) -> tuple[Absorbed, Claims | None]:
            worker, rules = crawl.worker_id, crawl.rules
            absorbed = absorb(tx, endings, worker, rules, draw.replay(), at, self._entries)
            return absorbed, claim(tx, worker, wanted, turn, at, terms) if wanted else None

        absorbed, claims = await crawl.store.transact(work)
        if claims is not None:
            mark(crawl, claims)
            self._have(claims, wanted)
        await crawl.limiter.answered((e.claim.candidate.row, e.claim.permit.number) for e in endings)
        await self._pocket.let_go(ending.claim.task.task_id for ending in endings)
        self._absorbed(absorbed)
        crawl.tell(absorbed.notices)

    async def _write_alone(self, ending: Ending) -> None:
        """One bad item spoils only itself: its task fails with what went wrong."""
        try:
            await self._write([ending])
        except StoreFailed:
            raise
        except Exception as error:
            log.exception("a result cannot be absorbed", extra={"task": ending.claim.task.task_id})
            worker, at = self._crawl.worker_id, moment(self._crawl.clock)
            problem = Failure.of(FailureCode.INTERNAL, at.now, detail=f"{type(error).__name__} while storing")
            await self._crawl.store.transact(lambda tx: abandon(tx, ending, worker, problem, at))
            await self._crawl.limiter.answered([(ending.claim.candidate.row, ending.claim.permit.number)])
            await self._pocket.let_go([ending.claim.task.task_id])

    def _judged(self, result: _Result) -> Ending:
        """What it means for task and agent, how long they have to wait for what went wrong, and whether it is the
        agent's fault at all."""
        crawl, taken = self._crawl, result.claim
        ending = self._read(result)
        if ending.end is TaskEnd.FAILED:
            ending = replace(ending, wait=crawl.retry_pause.wait(taken.task.retry_count + 1, crawl.rng))
        if ending.verdict.agent.is_failure:
            asked_for = ending.wait if ending.end is TaskEnd.AGAIN else None
            ending = replace(ending, rest=crawl.rest(asked_for))
        return ending

    def _read(self, result: _Result) -> Ending:
        crawl, answer, problem = self._crawl, result.answer, result.problem
        try:
            if answer is not None:
                ending = judge(result.claim, answer, crawl.marketplace, result.took, result.at)
                # A body that is known was read once, and looked through then or like its neighbours.
                was_read = bool(ending.parts) and ending.parts[0].said is not None
                self._good += was_read
                if was_read and self._good % LOOKED_AT == 1:
                    unknown = crawl.marketplace.unknown_fields(ending.parts[0].type, answer.body)
                    ending = replace(ending, unknown=unknown)
                return ending
        except Exception as error:
            log.exception("an answer cannot be read", extra={"task": result.claim.task.task_id})
            problem = type(error).__name__
        return own_error(result.claim, problem, result.took, result.at)

    async def _land(self, grace: float) -> None:
        """What is in flight may finish; what does not goes back, its permits spent."""
        if self._in_flight:
            await asyncio.wait(list(self._in_flight.values()), timeout=grace)
        for task in list(self._in_flight.values()):
            task.cancel()
        await asyncio.gather(*self._in_flight.values(), return_exceptions=True)

    async def _absorb_rest(self) -> None:
        """Every result that came back; if the store cannot take them, their tasks come back by the lease."""
        left = -1
        while (unwritten := len(self._results) + len(self._endings)) and unwritten != left:
            left = unwritten
            await self._absorb_group()
