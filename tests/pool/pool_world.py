"""The pool alone: the real tables and claims, tasks that never run out, and clocks that a test can set wrong.

`Computer` has the true time, which cannot be set, a wall clock, which can, and boots. `PoolWorld` is the database with
its processes. `RequestLog` is the marketplace's side: a plain list of what left and what arrived, by true time,
which knows nothing of permits.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.pool import at_once, with_endless_work
from msgspec import structs
from tests.builders import NOW, StoppedClock, a_token, ids
from tests.crawling.crawl_world import a_marketplace
from tests.world import keep_agents, store_in_memory

from sellerwatch.adapters.sql.engine import make_engine
from sellerwatch.adapters.sql.store import InlineRunner, SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.agents.agent import Agent, Outcome
from sellerwatch.agents.agent_status import FullReason
from sellerwatch.agents.answers import Answer, AnswerKind
from sellerwatch.agents.breaker import BreakerRules
from sellerwatch.agents.lending import NOTHING, EmbeddedLimiter, LendingRules
from sellerwatch.agents.limits import Host, Limits
from sellerwatch.agents.maintenance import change_limits, recover_rested
from sellerwatch.agents.marketplace_circuit import EndpointFailure, MarketplaceCircuitRules
from sellerwatch.agents.outages import observe
from sellerwatch.agents.ports import Limiter, Reservation
from sellerwatch.agents.record_outcomes import record_outcomes
from sellerwatch.agents.recount import recount_buckets
from sellerwatch.agents.token import Token
from sellerwatch.crawling.absorb_batch import CrawlRules
from sellerwatch.crawling.claim import Claim, Claims, claim, survey
from sellerwatch.crawling.judged_result import judge
from sellerwatch.crawling.ports import WorkerInfo
from sellerwatch.crawling.put_back import put_back_lost, release
from sellerwatch.kernel.clock import Moment
from sellerwatch.kernel.ids import ReplayableIds, WorkerId
from sellerwatch.kernel.notices import Notice

T = TypeVar("T")

SECOND_US = 1_000_000
VISIBILITY = timedelta(seconds=30)
REST = timedelta(seconds=60)
EMPTY_PAGE = Answer(AnswerKind.OK, 200, b'{"count": 0, "items": []}')


def answer_of(kind: AnswerKind, status: int | None, wait: timedelta | None = None) -> Answer:
    return Answer(kind, status, detail=f"It was {kind}.", wait=wait)


ANSWERS: dict[str, Answer] = {
    "success": EMPTY_PAGE,
    "429": answer_of(AnswerKind.TOO_MANY, 429),
    "429 for 10 minutes": answer_of(AnswerKind.TOO_MANY, 429, timedelta(minutes=10)),
    "500": answer_of(AnswerKind.SERVER_ERROR, 500),
    "503": answer_of(AnswerKind.SERVER_ERROR, 503),
    "503 for a minute": answer_of(AnswerKind.SERVER_ERROR, 503, timedelta(minutes=1)),
    "dropped": answer_of(AnswerKind.DROPPED, None),
    "401": answer_of(AnswerKind.UNAUTHORISED, 401),
    "404": answer_of(AnswerKind.GONE, 404),
    "nonsense": Answer(AnswerKind.OK, 200, b"<html>"),
}


class Computer:
    """A computer. `true_us` is the time that counts: nothing a test does moves it back."""

    def __init__(self) -> None:
        self.true_us = 0
        self.set_by = timedelta(0)
        self._booted_us = -3600 * SECOND_US
        self._boots = 1

    @property
    def boot_id(self) -> str:
        return f"boot-{self._boots}"

    @property
    def wall(self) -> datetime:
        return NOW + timedelta(microseconds=self.true_us) + self.set_by

    def moment(self) -> Moment:
        return Moment(self.wall, self.true_us - self._booted_us, self.boot_id)

    def true_of(self, boot_us: int) -> int:
        return boot_us + self._booted_us

    def reboot(self) -> None:
        """Its boot clock begins at nothing."""
        self._boots += 1
        self._booted_us = self.true_us

    def passes(self, seconds: float) -> None:
        self.true_us += round(seconds * SECOND_US)


@dataclass
class Request:
    """One request as the marketplace saw it. `arrived_us`: None while it is on its way."""

    row: int
    left_us: int
    claim: Claim
    worker_id: WorkerId
    arrived_us: int | None = None


class RequestLog:
    """The independent count. Both limits are judged when a request leaves, by the limits in force then."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    def leave(self, request: Request, limits: Limits) -> None:
        mine = [each for each in self.requests if each.row == request.row]
        edge = request.left_us - limits.window_us
        # Whatever is still on its way may arrive together with this one: it counts, however long ago it left.
        counted = [each for each in mine if each.arrived_us is None or each.arrived_us > edge]
        assert len(counted) < limits.window_limit, f"agent {request.row}: {len(counted) + 1} within its window"
        if mine:
            gap = request.left_us - max(each.left_us for each in mine)
            assert gap >= limits.spacing_us, f"agent {request.row}: two departures {gap} us apart"
        self.requests.append(request)


@dataclass
class Process:
    """One worker with what it has in flight."""

    worker_id: WorkerId
    limiter: Limiter = field(default_factory=EmbeddedLimiter)
    in_flight: list[Request] = field(default_factory=list)


class PoolWorld:
    """A pool in a database in memory, a copy of `template`, that rehearses every transaction."""

    def __init__(self, template: Path, computer: Computer, *, limits: Limits, percent: int = 20) -> None:
        self.computer = computer
        self.limits = limits
        self.host = Host(concurrency=1000)
        self.log = RequestLog()
        self.breaker = BreakerRules(min_percent=percent, open_for=REST, patience=timedelta(seconds=20))
        self.market = a_marketplace()
        self.rules = CrawlRules(self.market, breaker=self.breaker)
        self.store = store_in_memory(template, StoppedClock())
        self.notices: list[Notice] = []
        self._workers = 0
        self._turn = 0
        self._tokens = 0
        #: The highest permit there ever was, as the file beside the database has it.
        self._mark = 0

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The value of a coroutine; here nothing waits for a server."""
        return at_once(work)

    def moment(self) -> Moment:
        """The time that permits and windows go by."""
        return self.computer.moment()

    def true_of(self, clock_us: int) -> int:
        """The true time of a time of that clock."""
        return self.computer.true_of(clock_us)

    def limiter(self, worker_id: WorkerId) -> Limiter:
        """A new process's limiter."""
        return EmbeddedLimiter()

    def transact(self, work: Any) -> Any:
        return at_once(self.store.transact(work))

    def read(self, work: Any) -> Any:
        return at_once(self.store.read(work))

    def close(self) -> None:
        self.store.close()

    def start(self) -> Process:
        """A process enters, as the service does."""
        self._workers += 1
        worker_id = WorkerId(f"0198c0de-0000-7000-8007-{self._workers:012x}")
        process = Process(worker_id, self.limiter(worker_id))
        at, limits = self.moment(), self.limits

        def enter(tx: Transaction) -> None:
            tx.windows.set_limits(limits, at)
            tx.windows.enter_boot(at, limits)
            recount_buckets(tx, "test", at.now)
            if tx.windows.highest() < self._mark:
                tx.windows.fill(at, limits, FullReason.RESTORED)
            tx.workers.enter(WorkerInfo(process.worker_id, "test", "here", 1, at.now, at.now))

        self.transact(enter)
        self.run(process.limiter.begin())
        self._mark = self.read(lambda tx: tx.windows.highest())
        return process

    def image(self) -> sqlite3.Connection:
        """The database as a backup has it."""
        with self.store.engine.connect() as connection:
            raw: Any = connection.connection.driver_connection
            raw.rollback()
            image = sqlite3.connect(":memory:")
            raw.backup(image)
            return image

    def restore(self, image: sqlite3.Connection) -> None:
        """Put a backup in the place of the database. The marker beside it stays."""
        self._mark = max(self._mark, self.read(lambda tx: tx.windows.highest()))
        with self.store.engine.connect() as connection:
            raw: Any = connection.connection.driver_connection
            raw.rollback()
            image.backup(raw)

    def beat(self, process: Process) -> None:
        at = self.moment()
        self.transact(lambda tx: tx.workers.beat(process.worker_id, at.now))

    def issue_tokens(self, claims: Claims) -> int:
        """Who could work if it had a token gets one."""
        now = self.computer.wall
        tokens = {candidate.row: self._token(candidate.row, now) for candidate in claims.tokenless}

        def work(tx: Transaction) -> None:
            for row, token in tokens.items():
                tx.tokens.keep(row, token, now + timedelta(hours=1))

        if tokens:
            self.transact(work)
        return len(tokens)

    def _token(self, row: int, now: datetime) -> Token:
        self._tokens += 1
        number = row * 1_000_000 + self._tokens
        return a_token(row % 250, fingerprint=f"{number:064x}", issued_at=now, expires_at=now + timedelta(hours=2))

    def ahead(self, process: Process, wanted: int = 50) -> Reservation:
        """What the limiter sets aside before a claim's transaction."""
        if not process.limiter.looks_ahead:
            return NOTHING
        at, turn = self.moment(), self._turn
        candidates, most = self.read(lambda tx: survey(with_endless_work(tx), wanted, turn, at, None))
        return self.run(process.limiter.reserve(candidates, most, self.limits, self.host, at.now))

    def committed(self, process: Process, ahead: Reservation, wanted: int = 50) -> Claims:
        """A claim's transaction."""
        at, turn = self.moment(), self._turn
        terms = LendingRules(self.limits, self.host, self.breaker, process.limiter)
        found: Claims = self.transact(
            lambda tx: claim(with_endless_work(tx), process.worker_id, wanted, turn, at, terms, ahead)
        )
        self._turn += 1
        self.notices += found.notices
        return found

    def claims(self, process: Process, wanted: int = 50) -> Claims:
        """A claim as it was answered; nothing has left yet."""
        ahead = self.ahead(process, wanted)
        found = self.committed(process, ahead, wanted)
        self.run(process.limiter.settle(ahead, [taken.permit for taken in found.taken]))
        return found

    def claim(self, process: Process, wanted: int = 50) -> Claims:
        """Claim, and let every request leave at its time."""
        found = self.claims(process, wanted)
        if found.lacks_agents and self.issue_tokens(found) and not found.taken:
            found = self.claims(process, wanted)
        self.depart(process, found.taken)
        return found

    def depart(self, process: Process, taken: Sequence[Claim]) -> None:
        limits = self.limits
        for each in taken:
            left = max(self.true_of(each.permit.grant.depart_us), self.computer.true_us)
            request = Request(each.candidate.row, left, each, process.worker_id)
            self.log.leave(request, limits)
            process.in_flight.append(request)
        if taken:
            self.computer.true_us = max(request.left_us for request in process.in_flight[-len(taken) :])

    def answer(
        self,
        process: Process,
        requests: Sequence[Request],
        answer: Answer = EMPTY_PAGE,
        *,
        arrived_us: int | None = None,
        forgiven: Sequence[tuple[int, Outcome]] = (),
    ) -> None:
        """The marketplace answered; what it has to say about the agents is written."""
        given = [(request, answer) for request in requests]
        self.answer_in_order(process, given, arrived_us=arrived_us, forgiven=forgiven, seconds_between=0)

    def answer_in_order(
        self,
        process: Process,
        given: Sequence[tuple[Request, Answer]],
        *,
        arrived_us: int | None = None,
        forgiven: Sequence[tuple[int, Outcome]] = (),
        seconds_between: float = 0.001,
    ) -> None:
        """The same, of answers that came one after the other, the first at `arrived_us`, and are written in one
        transaction, in any order."""
        endings, began_us = [], self.computer.true_us
        for number, (request, answer) in enumerate(given):
            self.computer.passes(seconds_between if number else 0)
            first_us = request.left_us if arrived_us is None else arrived_us
            request.arrived_us = max(first_us + self.computer.true_us - began_us, request.left_us)
            ending = judge(request.claim, answer, self.market, 0.1, self.computer.wall)
            endings.append(structs.replace(ending, rest=max(REST, answer.wait or REST)))
        at = self.moment()
        charges = [ending.request_outcome for ending in reversed(endings)]
        given_back = tuple(EndpointFailure(row, "", None, outcome, at.now, permit=0) for row, outcome in forgiven)

        def work(tx: Transaction) -> tuple[Notice, ...]:
            observed = observe(tx, [one.observation for one in charges], MarketplaceCircuitRules(), at.now)
            seen = replace(observed, forgiven=(*observed.forgiven, *given_back))
            return record_outcomes(tx, charges, seen, process.worker_id, self.breaker, at)

        self.notices += self.transact(work)
        self.run(process.limiter.answered([(request.row, request.claim.permit.number) for request, _ in given]))
        for request, _ in given:
            process.in_flight.remove(request)

    def vanish(self, process: Process) -> None:
        """kill -9: whatever it had sent has arrived by now, and nobody will ever answer its permits."""
        for request in process.in_flight:
            request.arrived_us = self.computer.true_us
        process.in_flight.clear()

    def stop(self, process: Process) -> None:
        """SIGTERM: what it still has in flight is cut off."""
        at, drawn = self.moment(), ReplayableIds(ids(5))
        for request in process.in_flight:
            request.arrived_us = self.computer.true_us
        process.in_flight.clear()
        self.transact(lambda tx: release(tx, process.worker_id, self.rules, drawn.replay(), at))

    def tend(self, process: Process) -> int:
        """What a process looks after: its own heart first, then the permits of the dead and who has rested."""
        at, drawn = self.moment(), ReplayableIds(ids(5))

        def work(tx: Transaction) -> int:
            tx.workers.beat(process.worker_id, at.now)
            put_back_lost(tx, VISIBILITY, self.rules, drawn.replay(), at)
            return recover_rested(tx, at.now)

        rested = int(self.transact(work))
        self.run(process.limiter.tend())
        return rested

    def set_limits(self, limits: Limits) -> None:
        at, was = self.moment(), self.limits
        self.transact(lambda tx: change_limits(tx, was, limits, at))
        self.limits = limits

    def agents(self) -> dict[int, Agent]:
        return {stored.row: stored.agent for stored in self.read(lambda tx: tx.pool_report.agents())}

    def buckets(self) -> list[tuple[int, float, int]]:
        rows = self.read(
            lambda tx: tx.db.rows("SELECT agent_id, current_tokens, max_tokens FROM rate_limit_bucket ORDER BY 1")
        )
        return [tuple(row) for row in rows]

    def permits(self) -> int:
        return int(self.read(lambda tx: tx.db.value("SELECT COUNT(*) FROM permits")))

    def expire(self) -> None:
        at, limits = self.moment(), self.limits
        self.transact(lambda tx: tx.permits.expire(at, limits))


def small_pool(template: Path, agents: int) -> Path:
    """The template with only so many agents; made once, for it takes longer than copying it."""
    path = template.with_name(f"{template.stem}-{agents}.db")
    if not path.exists():
        made = path.with_suffix(".making")
        shutil.copyfile(template, made)
        store = SqlStore(make_engine(f"sqlite:///{made}"), StoppedClock(), InlineRunner(), InlineRunner())
        at_once(store.transact(lambda tx: keep_agents(tx, agents)))
        store.close()
        made.rename(path)
    return path
