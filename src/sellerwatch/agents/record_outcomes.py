"""Settling what came back: permits, health, circuits, tokens, the log, and the pool's breaker.

Every failure is charged to exactly one party: only an agent's own faults touch its health and its circuit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sellerwatch.agents.agent import Agent, AgentStatus, Outcome
from sellerwatch.agents.breaker import BreakerRules, breaker_notice
from sellerwatch.agents.circuit import Circuit
from sellerwatch.agents.endpoints import Endpoint
from sellerwatch.agents.marketplace_circuit import EndpointFailure, MarketplaceCircuitRules
from sellerwatch.agents.outages import NOTHING_SEEN, Observation, Observed, observe
from sellerwatch.agents.pool import Candidate
from sellerwatch.agents.ports import AgentsTx, UsageEntry
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.clock import Moment
from sellerwatch.kernel.failure import Failure
from sellerwatch.kernel.fast_values import quick
from sellerwatch.kernel.ids import TaskId, WorkerId
from sellerwatch.kernel.notices import Notice


@quick
@dataclass(frozen=True, slots=True)
class RequestOutcome:
    """One request's end as far as its agent and the endpoint are concerned. `outage` is set where it was a network
    error or a server's own error; `subject` is what was asked about."""

    candidate: Candidate
    permit: int
    outcome: Outcome
    status: int | None
    milliseconds: int
    at: datetime
    rest: timedelta
    succeeded: bool
    endpoint: Endpoint
    subject: str
    task_id: TaskId | None = None
    outage: Failure | None = None
    drop_token: bool = False
    is_pool_probe: bool = False
    is_endpoint_probe: bool = False

    @property
    def observation(self) -> Observation:
        """What the endpoint's circuit sees of it."""
        return Observation(
            endpoint=self.endpoint,
            permit=self.permit,
            agent_row=self.candidate.row,
            subject=self.subject,
            sent_at=self.at - timedelta(milliseconds=self.milliseconds),
            at=self.at,
            outcome=self.outcome,
            task_id=self.task_id,
            outage=self.outage,
            is_probe=self.is_endpoint_probe,
        )

    @property
    def uses_replacement(self) -> bool:
        return self.candidate.token is not None and self.candidate.token.is_replacement

    @property
    def was_answered(self) -> bool:
        """The marketplace answered like one that is well, whatever it said."""
        return self.status is not None and self.outage is None


def settle(
    tx: AgentsTx,
    charges: Sequence[RequestOutcome],
    observed: Observed,
    worker_id: WorkerId,
    rules: BreakerRules,
    at: Moment,
) -> tuple[Notice, ...]:
    """Write a group of answers to the pool, folded per agent.

    The guard: a permit that was answered before has been charged before, so a second run charges nobody twice.
    """
    if any(c.is_pool_probe for c in charges):
        # Held before any agent, as lending does.
        tx.circuits.breaker()
    unanswered = tx.permits.answer([c.permit for c in charges], at)
    return charge_agents(tx, [c for c in charges if c.permit in unanswered], observed, worker_id, rules, at)


def settle_one(
    tx: AgentsTx,
    charge: RequestOutcome,
    worker_id: WorkerId,
    rules: BreakerRules,
    circuits: MarketplaceCircuitRules,
    at: Moment,
) -> Observed:
    """Settle the answer to a single question, the endpoint's circuit included."""
    if charge.is_pool_probe:
        tx.circuits.breaker()
    if not tx.permits.answer([charge.permit], at):
        return NOTHING_SEEN
    observed = observe(tx, [charge.observation], circuits, at.now)
    notices = charge_agents(tx, [charge], observed, worker_id, rules, at)
    return replace(observed, notices=(*observed.notices, *notices))


def charge_agents(
    tx: AgentsTx,
    charges: Sequence[RequestOutcome],
    observed: Observed,
    worker_id: WorkerId,
    rules: BreakerRules,
    at: Moment,
) -> tuple[Notice, ...]:
    """Health, circuits, tokens and the log. What was excused touches no agent; what is given back is forgiven."""
    charges = [replace(c, outcome=Outcome.BLAMELESS) if c.permit in observed.agents_excused else c for c in charges]
    by_row: dict[int, list[RequestOutcome]] = defaultdict(list)
    for one in charges:
        by_row[one.candidate.row].append(one)
    forgiven: dict[int, list[EndpointFailure]] = defaultdict(list)
    for failure in observed.forgiven:
        forgiven[failure.agent_row].append(failure)
    rows = list(dict.fromkeys((*by_row, *forgiven)))
    before = tx.agents.get_rows(rows)
    after = {row: _used(agent, by_row[row], forgiven[row], at.now) for row, agent in before.items()}
    tx.agents.save(after)
    _charge_circuits(tx, by_row, forgiven, at.now)
    _settle_tokens(tx, charges)
    tx.usage_log.add([_use(c) for c in charges])
    return (*_standings(before, after), *_answer_probe(tx, charges, worker_id, rules, at.now))


def _settle_tokens(tx: AgentsTx, charges: Sequence[RequestOutcome]) -> None:
    """A 429 throws the agent's token away; a rejected token goes by its own row; a replacement that worked is good."""
    limited = [c.candidate.row for c in charges if c.drop_token and c.outcome is Outcome.TOO_MANY]
    if limited:
        tx.tokens.drop(limited)
    rejected = [c.candidate.token_row for c in charges if c.drop_token and c.outcome is not Outcome.TOO_MANY]
    if rejected:
        tx.tokens.reject([row for row in rejected if row is not None])
    accepted = [c.candidate.token_row for c in charges if c.outcome is Outcome.SUCCESS and c.uses_replacement]
    if accepted:
        tx.tokens.accept([row for row in dict.fromkeys(accepted) if row is not None])


def _used(agent: Agent, charges: Sequence[RequestOutcome], forgiven: Sequence[EndpointFailure], now: datetime) -> Agent:
    good = [c for c in charges if c.outcome is Outcome.SUCCESS]
    if good:
        agent = agent.use(Outcome.SUCCESS, good[-1].at, good[-1].rest, uses=len(good))
    for one in charges:
        if one.outcome is not Outcome.SUCCESS:
            agent = agent.use(one.outcome, one.at, one.rest)
    for failure in forgiven:
        agent = agent.forgive(failure.outcome, failure.at, now)
    return agent


def _charge_circuits(
    tx: AgentsTx, charges: dict[int, list[RequestOutcome]], forgiven: dict[int, list[EndpointFailure]], now: datetime
) -> None:
    """Only circuits that a failure, a probe or a pardon concerns are looked at: a healthy pool pays nothing."""
    concerned = [row for row, mine in charges.items() if any(_concerns(c) for c in mine)]
    rows = list(dict.fromkeys((*concerned, *(row for row, outcomes in forgiven.items() if outcomes))))
    if not rows:
        return
    before = tx.circuits.get_rows(rows)
    after = dict(before)
    for row in before:
        for one in charges.get(row, ()):
            after[row] = _moved(after[row], one, now)
        if forgiven.get(row):
            after[row] = after[row].forgive(len(forgiven[row]), now)
    tx.circuits.save(before, after, now)


def _concerns(charge: RequestOutcome) -> bool:
    circuit = charge.candidate.circuit
    return charge.outcome.is_circuit_failure or circuit.failure_count > 0 or circuit.state is not CircuitState.CLOSED


def _moved(circuit: Circuit, charge: RequestOutcome, now: datetime) -> Circuit:
    if charge.outcome.is_circuit_failure:
        return circuit.failed(now)
    # A probe that met a product's 404 found the marketplace willing: that is what it was sent to find out.
    return circuit.succeeded(now) if charge.outcome is Outcome.SUCCESS or charge.was_answered else circuit


def _standings(before: dict[int, Agent], after: dict[int, Agent]) -> list[Notice]:
    changed = [(after[row], agent.status) for row, agent in before.items() if after[row].status is not agent.status]
    return [standing_notice(agent) for agent, _ in changed if agent.status is not AgentStatus.AVAILABLE]


def standing_notice(agent: Agent) -> Notice:
    word = agent.status.lower()
    until = f" until {agent.suspended_until:%H:%M:%S}" if agent.suspended_until else ""
    return Notice(
        f"agent.{word}", agent.user_agent_id, f"Agent {agent.user_agent_id} is {word}{until}: {agent.reason}."
    )


def _answer_probe(
    tx: AgentsTx, charges: Sequence[RequestOutcome], worker_id: WorkerId, rules: BreakerRules, now: datetime
) -> list[Notice]:
    probes = [c for c in charges if c.is_pool_probe]
    if not probes:
        return []
    breaker = tx.circuits.breaker()
    moved = breaker.answered(worker_id, any(c.outcome is Outcome.SUCCESS for c in probes), rules, now)
    if moved == breaker:
        return []
    tx.circuits.save_breaker(moved, now)
    return [breaker_notice(moved.state)]


def _use(charge: RequestOutcome) -> UsageEntry:
    return UsageEntry(
        charge.candidate.row,
        charge.candidate.token_row,
        charge.status,
        charge.milliseconds,
        charge.succeeded,
        charge.outcome is Outcome.TOO_MANY,
        charge.at,
    )
