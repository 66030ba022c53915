"""The limiter in Redis: one Lua script checks both limits for all processes, by the clock of Redis.

Redis decides, the database keeps the record. Every permit is also a row, written in the claim's transaction. An empty
Redis is filled from these rows before it lends anything, and the transaction checks once more that both agree: a Redis
that lost data can lend too little, never too much. Health, status and circuits are only in the database; Redis gets the
candidates in their order.

A slot is named `worker:number` from the moment it is lent until the claim is committed, then by its permit's number.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from sellerwatch.adapters.redis.clock import RedisClock
from sellerwatch.adapters.redis.scripts import ANSWER, BEGIN, FILL, KEYS, LOAD, RECOUNT, RESERVE, SETTLE, STALE, WINDOW
from sellerwatch.adapters.redis.server import RedisServer, RedisUnavailable, Script
from sellerwatch.agents.limits import Host, Limits
from sellerwatch.agents.pool import LOOKAHEAD_US, VISITOR, Candidate, Grant, Lending, in_order, soonest_probe_us
from sellerwatch.agents.ports import AgentsTx, CountedPermit, Permit, Reservation, Reserved
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.clock import Moment, moment
from sellerwatch.kernel.ids import WorkerId
from sellerwatch.kernel.store import Store

log = logging.getLogger(__name__)

#: Arguments of one script at most: a large pool is loaded in steps, so that other scripts do not wait long.
AT_ONCE = 5_000
#: Our clock is behind Redis' by at most so much, which an age reckoned by it is too long.
BEHIND_US = 1_000_000
#: A slot set aside this long ago without a permit is free again, and a permit of then may have been answered.
STALE_AFTER = timedelta(seconds=30)
#: Visits to the token page are in no window.
UNLIMITED = 1_000_000_000
#: As often as this Redis may be found empty in a row before that is said.
FILLINGS = 5


class RedisLimiter:
    """The limiter of one process. `answered` keeps permits that could not be sent to Redis, and sends them with the
    next."""

    looks_ahead = True

    def __init__(
        self, server: RedisServer, store: Store[AgentsTx], clock: RedisClock, worker_id: WorkerId, limits: Limits
    ) -> None:
        self._server = server
        self._store = store
        self._clock = clock
        self._worker_id = worker_id
        self._number = 0
        self._window_us = limits.window_us
        self._unsettled: list[tuple[int, int]] = []
        self._filling = asyncio.Lock()

    async def listen(self) -> None:
        """Read the time of Redis before anything is computed with it."""
        sent = self._clock.local()
        seconds, micros = await self._server.ask("TIME")
        self._clock.heard(sent, int(seconds) * 1_000_000 + int(micros))

    async def begin(self) -> int:
        """Make Redis count every permit in the database, those lent without Redis included, and count again how many
        slots of each agent are open."""
        missing = await self._fill()
        (wrong,) = await self._run(RECOUNT, [])
        return missing + int(wrong)

    async def reserve(
        self, candidates: Sequence[Candidate], wanted: int, limits: Limits, host: Host, now: datetime
    ) -> Reservation:
        self._window_us = max(self._window_us, limits.window_us)
        able = in_order(candidates, now)
        if not able or wanted <= 0:
            return Reservation((), soonest_probe_us(candidates, now))
        given: list[str | int] = [
            *(str(self._worker_id), self._number, limits.window_limit, limits.window_us, limits.spacing_us),
            *(LOOKAHEAD_US, host.concurrency, int(1_000_000 / host.per_second) if host.per_second else 0, wanted),
        ]
        # Never the same name twice, however this call ends.
        self._number += wanted
        for candidate in able:
            is_probe = candidate.circuit.state is not CircuitState.CLOSED
            given += (candidate.row, candidate.health_score, int(is_probe))
        wait, *answer = await self._run(RESERVE, given)
        reserved = tuple(Reserved(int(row), name, int(departure)) for row, departure, name in _by(3, answer))
        if reserved:
            return Reservation(reserved)
        waits = [time for time in (int(wait), soonest_probe_us(candidates, now)) if time is not None and time >= 0]
        return Reservation((), min(waits, default=None))

    def lend(
        self,
        tx: AgentsTx,
        ahead: Reservation,
        candidates: Sequence[Candidate],
        wanted: int,
        terms: tuple[Limits, Host],
        at: Moment,
    ) -> Lending:
        """Lend what Redis reserved, as far as the agents are still available and the database agrees."""
        able = {candidate.row: candidate for candidate in in_order(candidates, at.now)}
        used: Counter[int] = Counter()
        grants: list[Grant] = []
        for one in ahead.reserved:
            candidate = able.get(one.row)
            if candidate is None or len(grants) >= wanted:
                continue
            most = candidate.slots_left if candidate.circuit.state is CircuitState.CLOSED else 1
            if used[one.row] < min(most, candidate.slots_left):
                used[one.row] += 1
                grants.append(Grant(candidate, one.depart_us))
        return Lending(tuple(grants), None if grants else ahead.wait_us)

    async def reserve_visit(self, host: Host) -> Reservation:
        spacing = int(1_000_000 / host.per_second) if host.per_second else 0
        given: list[str | int] = [str(self._worker_id), self._number, UNLIMITED, self._window_us, 0, LOOKAHEAD_US]
        given += (host.concurrency, spacing, 1, VISITOR.row, VISITOR.health_score, 0)
        self._number += 1
        wait, *answer = await self._run(RESERVE, given)
        reserved = tuple(Reserved(int(row), name, int(departure)) for row, departure, name in _by(3, answer))
        return Reservation(reserved, None if reserved or int(wait) < 0 else int(wait))

    def lend_visit(self, tx: AgentsTx, ahead: Reservation, host: Host, at: Moment) -> Lending:
        return Lending(tuple(Grant(VISITOR, one.depart_us) for one in ahead.reserved[:1]), ahead.wait_us)

    async def settle(self, ahead: Reservation, permits: Sequence[Permit]) -> None:
        if not ahead.reserved:
            return
        names = {(one.row, one.depart_us): one.name for one in ahead.reserved}
        given: list[str | int] = [len(permits)]
        for permit in permits:
            row = permit.grant.candidate.row
            given += (row, names.pop((row, permit.grant.depart_us)), permit.number)
        for (row, _), name in names.items():
            given += (row, name)
        await self._run(SETTLE, given)

    async def answered(self, permits: Iterable[tuple[int, int]]) -> None:
        answer, self._unsettled = [*self._unsettled, *permits], []
        for some in _parts(answer):
            try:
                await self._run(ANSWER, [part for row, number in some for part in (row, number)])
            except RedisUnavailable as refusal:
                log.debug("answers are recorded later", extra={"problem": str(refusal)})
                self._unsettled += some

    async def tend(self) -> int:
        """Count slots as answered that were lent long ago: reservations that never became permits, and permits that the
        database has as answered because their worker vanished or stopped before it could report."""
        if self._unsettled:
            await self.answered(())
        members = [str(member).partition("/") for member in await self._run(STALE, [STALE_AFTER // _MICROSECOND])]
        numbers = [int(name) for _, _, name in members if name.isdigit()]
        still = await self._store.read(lambda tx: tx.permits.still_open(numbers)) if numbers else frozenset()
        over = [(row, name) for row, _, name in members if not name.isdigit() or int(name) not in still]
        for some in _parts(over):
            await self._run(ANSWER, [part for row, name in some for part in (row, name)])
        return len(over)

    async def _run(self, script: Script, given: Sequence[str | int]) -> list[Any]:
        """Return a script's answer without its time. An empty Redis is filled first; the script did nothing then."""
        for _ in range(FILLINGS):
            answer = await self._once(script, given)
            if answer[0] == "OK":
                return answer[2:]
            await self._fill()
        raise RedisUnavailable(where=self._server.where, problem="it is emptied again and again; see who does that")

    async def _once(self, script: Script, given: Sequence[str | int]) -> list[Any]:
        sent = self._clock.local()
        answer: list[Any] = await self._server.run(script, KEYS, [WINDOW, *given])
        if self._clock.heard(sent, int(answer[1])):
            return answer
        log.error("the clock of Redis was set forward: every agent's window counts as full for one window")
        await self._server.run(FILL, KEYS, [WINDOW, self._window_us])
        raise RedisUnavailable(
            where=self._server.where, problem="its clock was set forward; nothing leaves for a while"
        )

    async def _fill(self) -> int:
        """Fill Redis from the stored permits. Two processes may do so at once with the same result. A permit written
        meanwhile is sent by `settle` before its request leaves. Return how many answered permits a filled Redis had
        lost."""
        lost = 0
        async with self._filling:
            await self.listen()
            at = moment(self._clock)
            known = await self._store.read(lambda tx: tx.windows.counted_permits())
            entries = [(one.agent_row, one.number, _age(one, at)) for one in known]
            for some in _parts(entries):
                answer = await self._once(LOAD, [part for entry in some for part in entry])
                lost += int(answer[2])
            await self._once(BEGIN, [f"{self._worker_id}:{self._number}"])
            log.info("Redis was filled from the database", extra={"permits": len(entries)})
        return lost


def _age(permit: CountedPermit, at: Moment) -> int:
    """Return how long ago a permit was answered, in microseconds; -1 while it is in flight. The younger by both clocks
    counts: either may have been set."""
    if permit.answered_us is None or permit.answered_at is None:
        return -1
    by_wall = (at.now - permit.answered_at) // _MICROSECOND
    return max(0, min(at.boot_us - permit.answered_us, by_wall) - BEHIND_US)


_MICROSECOND = timedelta(microseconds=1)


def _parts(entries: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for first in range(0, len(entries), AT_ONCE):
        yield entries[first : first + AT_ONCE]


def _by(size: int, answer: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for first in range(0, len(answer), size):
        yield answer[first : first + size]
