"""Lending agents for requests: the one place where an identity is lent and a permit written.

Two steps inside one transaction: `offer` says who could be lent now, `lend_for` writes the permits of those that are
used. No request may leave before that transaction has committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from sellerwatch.agents.breaker import BreakerRules, PoolBreakerOpen
from sellerwatch.agents.circuit import events_of
from sellerwatch.agents.gate import Gate, ask_gate, start_probe
from sellerwatch.agents.limiter import EmbeddedLimiter
from sellerwatch.agents.limits import Host, Limits
from sellerwatch.agents.marketplace_circuit import MarketplaceCircuitRules
from sellerwatch.agents.pool import Candidate, Grant
from sellerwatch.agents.ports import AgentsTx, Limiter, Permit, Reservation
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.clock import Moment
from sellerwatch.kernel.ids import TaskId, WorkerId
from sellerwatch.kernel.notices import Notice

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
    `refusal` is set where the pool's breaker is open. `tokenless` could work if they had a token."""

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
    tokenless = tuple(c for c in candidates if c.slots_left > 0 and not c.has_token(at.now) and c.may_work(at.now))
    if lending.grants:
        return Offer(gate, lending.grants, None, tokenless)
    free_us = None if terms.limiter.looks_ahead else tx.windows.next_free_us(terms.limits)
    waits = [wait for wait in (lending.wait_us, None if free_us is None else free_us - at.boot_us) if wait]
    return Offer(gate, (), at.now + timedelta(microseconds=min(waits)) if waits else None, tokenless)


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
