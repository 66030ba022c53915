"""The gate of the pool: the breaker is asked before any agent is looked at."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sellerwatch.agents.breaker import Breaker, BreakerRules, PoolBreakerOpen, breaker_notice
from sellerwatch.agents.ports import AgentsTx
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.ids import WorkerId
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
