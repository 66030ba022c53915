"""Record what requests did to the pool: permits, health, circuits, tokens, the usage log, and the pool's breaker.

Every failure is charged to exactly one party: only an agent's own faults touch its health and its circuit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter

from msgspec import Struct, structs

from sellerwatch.agents.agent import Agent, AgentStatus, Outcome
from sellerwatch.agents.breaker import BreakerRules, breaker_notice
from sellerwatch.agents.circuit import Circuit, CircuitEvent, events_of
from sellerwatch.agents.marketplace_circuit import Endpoint, EndpointFailure, MarketplaceCircuitRules
from sellerwatch.agents.outages import NOTHING_SEEN, Observation, Observed, observe
from sellerwatch.agents.pool import Candidate
from sellerwatch.agents.ports import AgentsTx, UsageEntry
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.clock import Moment
from sellerwatch.kernel.failure import Failure
from sellerwatch.kernel.ids import SellerId, TaskId, WorkerId
from sellerwatch.kernel.notices import Notice

_ANSWERED_AT = attrgetter("at")
_OUTCOME = attrgetter("outcome")


class RequestOutcome(Struct, frozen=True):
    """How one request ended, for its agent and the endpoint. `outage` is set where it was a network
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
    is_rate_limited: bool = False
    is_pool_probe: bool = False
    is_endpoint_probe: bool = False
    #: Whose products were asked about, for the log.
    seller_id: SellerId | None = None

    @property
    def observation(self) -> Observation:
        """Return what the endpoint's circuit sees of it."""
        return Observation(
            endpoint=self.endpoint,
            permit=self.permit,
            agent_row=self.candidate.row,
            subject=self.subject,
            sent_at=self.sent_at,
            at=self.at,
            outcome=self.outcome,
            task_id=self.task_id,
            outage=self.outage,
            is_probe=self.is_endpoint_probe,
        )

    @property
    def sent_at(self) -> datetime:
        return self.at - timedelta(milliseconds=self.milliseconds)

    @property
    def is_probe(self) -> bool:
        """Whether it finds out if its agent's circuit may close."""
        return self.candidate.circuit.state is not CircuitState.CLOSED

    @property
    def uses_replacement(self) -> bool:
        return self.candidate.token is not None and self.candidate.token.is_replacement

    @property
    def was_answered(self) -> bool:
        """Whether the marketplace answered, with anything but its own error."""
        return self.status is not None and self.outage is None


def record_outcomes(
    tx: AgentsTx,
    charges: Sequence[RequestOutcome],
    observed: Observed,
    worker_id: WorkerId,
    rules: BreakerRules,
    at: Moment,
) -> tuple[Notice, ...]:
    """Write a batch of outcomes to the pool, one update for each agent.

    The guard: a permit that was answered before has been charged before, so a second run charges no agent twice.
    """
    if any(c.is_pool_probe for c in charges):
        # Locked before any agent, in the order of lending.
        tx.circuits.breaker()
    unanswered = tx.permits.answer([c.permit for c in charges], at)
    return charge_agents(tx, [c for c in charges if c.permit in unanswered], observed, worker_id, rules, at)


def record_outcome(
    tx: AgentsTx,
    charge: RequestOutcome,
    worker_id: WorkerId,
    rules: BreakerRules,
    circuits: MarketplaceCircuitRules,
    at: Moment,
) -> Observed:
    """Write the outcome of a single question, the endpoint's circuit included."""
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
    """Write health, circuits, tokens and the usage log, in the order in which the answers came. Excused failures are
    charged to no agent, and earlier ones that turned out to be the marketplace's are taken back."""
    excused = observed.agents_excused
    charges = [structs.replace(c, outcome=Outcome.BLAMELESS) if c.permit in excused else c for c in charges]
    charges.sort(key=_ANSWERED_AT)
    by_row: dict[int, list[RequestOutcome]] = defaultdict(list)
    for charge in charges:
        by_row[charge.candidate.row].append(charge)
    forgiven: dict[int, list[EndpointFailure]] = defaultdict(list)
    for failure in observed.forgiven:
        forgiven[failure.agent_row].append(failure)
    rows = list(dict.fromkeys((*by_row, *forgiven)))
    before = tx.agents.get_rows(rows)
    after = {row: _charged(agent, by_row[row], forgiven[row], at.now) for row, agent in before.items()}
    tx.agents.save(after)
    _charge_circuits(tx, by_row, forgiven, at.now)
    _record_tokens(tx, charges)
    tx.usage_log.add([_usage_entry(charge) for charge in charges])
    return (*_status_notices(before, after), *_answer_probe(tx, charges, worker_id, rules, at.now))


def _record_tokens(tx: AgentsTx, charges: Sequence[RequestOutcome]) -> None:
    """Drop tokens after a 429, reject those that were refused, and accept replacements that worked."""
    limited = [c.candidate.row for c in charges if c.drop_token and c.outcome is Outcome.TOO_MANY]
    if limited:
        tx.tokens.drop(limited)
    rejected = [c.candidate.token_row for c in charges if c.drop_token and c.outcome is not Outcome.TOO_MANY]
    if rejected:
        tx.tokens.reject([row for row in rejected if row is not None])
    accepted = [c.candidate.token_row for c in charges if c.outcome is Outcome.SUCCESS and c.uses_replacement]
    if accepted:
        tx.tokens.accept([row for row in dict.fromkeys(accepted) if row is not None])


def _charged(
    agent: Agent, charges: Sequence[RequestOutcome], forgiven: Sequence[EndpointFailure], now: datetime
) -> Agent:
    """Charge an agent with its answers in their order: only successes in a row are one step."""
    for outcome, group in groupby(charges, key=_OUTCOME):
        alike = list(group)
        if outcome is Outcome.SUCCESS:
            agent = agent.use(outcome, alike[-1].at, alike[-1].rest, uses=len(alike))
            continue
        for charge in alike:
            agent = agent.use(outcome, charge.at, charge.rest)
    # The one that caused a suspension came before the others: it is ended when their health is given back.
    for failure in sorted(forgiven, key=_ANSWERED_AT, reverse=True):
        agent = agent.forgive(failure.outcome, failure.at, now)
    return agent


def _charge_circuits(
    tx: AgentsTx, charges: dict[int, list[RequestOutcome]], forgiven: dict[int, list[EndpointFailure]], now: datetime
) -> None:
    """Move the circuits by the answers, from the state they are in now: how a circuit was when an agent was lent says
    nothing of the answers that came since. Nothing is written in a healthy pool."""
    failing = [row for row, of_agent in charges.items() if any(c.outcome.is_circuit_failure for c in of_agent)]
    rows = list(dict.fromkeys((*failing, *(row for row, failures in forgiven.items() if failures))))
    before = tx.circuits.get_rows(rows) if rows else {}
    before |= tx.circuits.troubled([row for row in charges if row not in before])
    changed: dict[int, Circuit] = {}
    events: list[tuple[int, CircuitEvent]] = []
    for row, circuit in before.items():
        after = circuit
        for charge in charges.get(row, ()):
            was, after = after, _moved(after, charge)
            events += ((row, event) for event in events_of(was, after, charge.at, charge.outcome, charge.status))
        if forgiven.get(row):
            was, after = after, after.forgive(len(forgiven[row]), now)
            events += ((row, event) for event in events_of(was, after, now))
        if after != circuit:
            changed[row] = after
    tx.circuits.save(changed, events)


def _moved(circuit: Circuit, charge: RequestOutcome) -> Circuit:
    if circuit.state is CircuitState.HALF_OPEN and not charge.is_probe:
        # It was sent before the circuit opened, and tells nothing about now.
        return circuit
    if charge.outcome.is_circuit_failure:
        return circuit.failed(charge.at)
    # A probe that was answered with a 404 of a product has shown that the marketplace answers.
    return circuit.succeeded(charge.at) if charge.outcome is Outcome.SUCCESS or charge.was_answered else circuit


def _status_notices(before: dict[int, Agent], after: dict[int, Agent]) -> list[Notice]:
    changed = [(after[row], agent.status) for row, agent in before.items() if after[row].status is not agent.status]
    return [status_notice(agent) for agent, _ in changed if agent.status is not AgentStatus.AVAILABLE]


def status_notice(agent: Agent) -> Notice:
    until = "" if agent.suspended_until is None else f"{agent.suspended_until:%H:%M:%S}"
    facts = {"agent": agent.user_agent_id, "until": until, "reason": agent.shown_reason}
    return Notice(f"agent.{agent.status.lower()}", agent.user_agent_id, facts)


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


def _usage_entry(charge: RequestOutcome) -> UsageEntry:
    return UsageEntry(
        charge.candidate.row,
        charge.candidate.token_row,
        charge.status,
        charge.milliseconds,
        charge.succeeded,
        charge.is_rate_limited,
        charge.outcome is Outcome.TOO_MANY,
        charge.sent_at,
        charge.seller_id,
    )
