"""Lending agents for requests: the one place where an identity is lent and a permit written.

Two steps inside one transaction: `offer` says who could be lent now, `lend_for` writes the permits of those that are
used. No request may leave before that transaction has committed. `EmbeddedLimiter` decides inside the transaction; the
one in Redis is in `adapters/redis/limiter.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from sellerwatch.agents.breaker import Breaker, BreakerRules, PoolBreakerOpen, breaker_notice
from sellerwatch.agents.circuit import events_of
from sellerwatch.agents.limits import Host, Limits
from sellerwatch.agents.marketplace_circuit import MarketplaceCircuitRules
from sellerwatch.agents.pool import VISITOR, Candidate, Grant, Lending, lend, pace
from sellerwatch.agents.ports import AgentsTx, Limiter, Permit, Reservation
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.clock import Moment
from sellerwatch.kernel.ids import TaskId, WorkerId
from sellerwatch.kernel.notices import Notice


@dataclass(frozen=True, slots=True)
class Gate:
    """What the breaker allows: everything, one probe, or nothing until `not_before`."""

    breaker: Breaker
    most: int | None
    not_before: datetime | None
    refusal: PoolBreakerOpen | None
    notices: tuple[Notice, ...] = ()

    @property
    def is_probe(self) -> bool:
        return self.most == 1


def start_probe(
    tx: AgentsTx, gate: Gate, worker_id: WorkerId, rules: BreakerRules, now: datetime
) -> tuple[Notice, ...]:
    """Record that a probe for the whole pool is sent; all other requests wait for its answer."""
    if not gate.is_probe:
        return ()
    tx.circuits.save_breaker(gate.breaker.probe(worker_id, rules, now), now)
    return (breaker_notice(CircuitState.HALF_OPEN),)


def ask_gate(tx: AgentsTx, rules: BreakerRules, now: datetime) -> Gate:
    """Look at the rate and move the breaker where it leads; the caller starts the probe if it has one to send."""
    # The breaker first: it is locked until commit, so that one process at a time lends and no slot is lent twice.
    was = tx.circuits.breaker()
    available, total = tx.agents.tally()
    breaker = was.look(available, total, rules, now)
    notices: tuple[Notice, ...] = ()
    if breaker != was:
        tx.circuits.save_breaker(breaker, now)
        notices = (breaker_notice(breaker.state, available=available, total=total),)
    if breaker.state is CircuitState.CLOSED:
        return Gate(breaker, None, None, None, notices)
    refusal = breaker.refusal(available, total, rules, now)
    if breaker.may_probe(rules, now):
        return Gate(breaker, 1, None, refusal, notices)
    return Gate(breaker, 0, breaker.next_look(rules, now), refusal, notices)


class EmbeddedLimiter:
    """Nothing is kept here: the permits and buckets of the database are all there is."""

    looks_ahead = False

    async def begin(self) -> int:
        return 0

    async def reserve(
        self, candidates: Sequence[Candidate], wanted: int, limits: Limits, host: Host, now: datetime
    ) -> Reservation:
        return Reservation()

    def lend(
        self,
        tx: AgentsTx,
        ahead: Reservation,
        candidates: Sequence[Candidate],
        wanted: int,
        terms: tuple[Limits, Host],
        at: Moment,
    ) -> Lending:
        """What the agents' limits allow, and of that what the marketplace as a whole may be asked now."""
        limits, host = terms
        room = min(wanted, host.concurrency - tx.permits.unanswered())
        lending = lend(candidates, max(room, 0), at, limits)
        if host.per_second is None or not lending.grants:
            return lending
        last_us = tx.windows.last_departure_us()
        paced = pace(lending.grants, last_us, host.per_second, at)
        wait = None if paced else max(1, last_us + int(1_000_000 / host.per_second) - at.boot_us)
        return Lending(tuple(paced), wait)

    async def reserve_visit(self, host: Host) -> Reservation:
        return Reservation()

    def lend_visit(self, tx: AgentsTx, ahead: Reservation, host: Host, at: Moment) -> Lending:
        if host.concurrency <= tx.permits.unanswered():
            return Lending((), None)
        grants = [Grant(VISITOR, at.boot_us)]
        if host.per_second is not None:
            grants = pace(grants, tx.windows.last_departure_us(), host.per_second, at)
        return Lending(tuple(grants), None)

    async def settle(self, ahead: Reservation, permits: Sequence[Permit]) -> None:
        return None

    async def answered(self, permits: Iterable[tuple[int, int]]) -> None:
        return None

    async def tend(self) -> int:
        return 0


#: Nothing was set aside before the transaction.
NOTHING = Reservation()


@dataclass(frozen=True, slots=True)
class LendingRules:
    """What lending goes by: the limits of each agent, of the marketplace as a whole, the circuits' rules, and the
    limiter that decides."""

    limits: Limits
    host: Host
    breaker: BreakerRules
    limiter: Limiter = field(default_factory=EmbeddedLimiter)
    circuit: MarketplaceCircuitRules = field(default_factory=MarketplaceCircuitRules)

    @property
    def for_tasks(self) -> LendingRules:
        """Tasks leave one of the host's slots to single questions: a start must not wait until a crawl is over."""
        return replace(self, host=replace(self.host, concurrency=max(1, self.host.concurrency - 1)))


@dataclass(frozen=True, slots=True)
class Offer:
    """What could be lent now. Without grants: `not_before` is when to ask again (None: not known),
    `refusal` is set where the pool's breaker is open. `tokenless` should get a token: they could work then, and the
    agents that have one do not use up the rate of the marketplace as a whole."""

    gate: Gate
    grants: tuple[Grant, ...] = ()
    not_before: datetime | None = None
    tokenless: tuple[Candidate, ...] = ()

    @property
    def refusal(self) -> PoolBreakerOpen | None:
        return self.gate.refusal

    @property
    def notices(self) -> tuple[Notice, ...]:
        return self.gate.notices

    @property
    def is_shut(self) -> bool:
        return self.gate.most == 0


def offer(
    tx: AgentsTx,
    wanted: int,
    terms: LendingRules,
    at: Moment,
    ahead: Reservation = NOTHING,
    *,
    only: int | None = None,
    may_probe: bool = True,
) -> Offer:
    """Up to `wanted` agents. The pool's breaker is asked first. `only`: no agent but that row. `may_probe`: agents
    whose circuit is open may be lent to find out; else they are lent only where there is no other."""
    gate = ask_gate(tx, terms.breaker, at.now)
    if gate.most == 0:
        return Offer(gate, not_before=gate.not_before)
    # Before the candidates are read: the claim that frees a window may use it.
    tx.permits.expire(at, terms.limits)
    candidates = lendable(tx.agents.candidates(at), only=only, may_probe=may_probe)
    most = wanted if gate.most is None else min(wanted, gate.most)
    lending = terms.limiter.lend(tx, ahead, candidates, most, (terms.limits, terms.host), at)
    tokenless = _to_give_tokens(candidates, terms, at.now)
    if lending.grants:
        return Offer(gate, lending.grants, None, tokenless)
    free_us = None if terms.limiter.looks_ahead else tx.windows.next_free_us(terms.limits)
    waits = [wait for wait in (lending.wait_us, None if free_us is None else free_us - at.boot_us) if wait]
    return Offer(gate, (), at.now + timedelta(microseconds=min(waits)) if waits else None, tokenless)


def _to_give_tokens(candidates: Sequence[Candidate], terms: LendingRules, now: datetime) -> tuple[Candidate, ...]:
    """Return the agents that could work if they had a token; none while those with one can use up the host's rate: a
    visit to the token page takes one of its requests."""
    able = [c for c in candidates if c.slots_left > 0 and c.may_work(now)]
    holders, needed = sum(c.has_token(now) for c in able), terms.host.agents_needed(terms.limits)
    return () if needed is not None and holders >= needed else tuple(c for c in able if not c.has_token(now))


def lendable(candidates: Sequence[Candidate], *, only: int | None = None, may_probe: bool = True) -> list[Candidate]:
    named = [c for c in candidates if only is None or c.row == only]
    well = [c for c in named if c.circuit.state is CircuitState.CLOSED]
    return named if may_probe or not well else well


def lend_for(
    tx: AgentsTx,
    offered: Offer,
    task_ids: Sequence[TaskId | None],
    worker_id: WorkerId,
    terms: LendingRules,
    at: Moment,
) -> tuple[Sequence[Permit], tuple[Notice, ...]]:
    """Write a permit for each of these tasks (None: a question without one), in the order of the grants. Circuits that
    let one request through wait for its answer."""
    grants = offered.grants[: len(task_ids)]
    permits = tx.permits.reserve(grants, task_ids, worker_id, at)
    probing = {grant.candidate.row: grant.candidate.circuit for grant in grants if grant.is_probe}
    if probing:
        held = tx.circuits.get_rows(list(probing))
        probing = {row: circuit for row, circuit in held.items() if circuit.may_probe(at.now)}
        half_open = {row: circuit.half_open(at.now) for row, circuit in probing.items()}
        events = [(row, each) for row, to in half_open.items() for each in events_of(probing[row], to, at.now)]
        tx.circuits.save(half_open, events)
    return permits, start_probe(tx, offered.gate, worker_id, terms.breaker, at.now)


def lend_visit(tx: AgentsTx, worker_id: WorkerId, terms: LendingRules, ahead: Reservation, at: Moment) -> Permit | None:
    """A permit for the token page: it counts against the host's limits and in no agent's window."""
    lending = terms.limiter.lend_visit(tx, ahead, terms.host, at)
    return tx.permits.reserve(lending.grants[:1], [None], worker_id, at)[0] if lending.grants else None
