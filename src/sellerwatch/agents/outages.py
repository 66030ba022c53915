"""Answers seen by the circuits of the marketplace's endpoints: what opens one, closes it, and is given back.

Called inside the transaction that settles the answers, before anything is charged: a failure that turns out to be the
marketplace's is charged to no agent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from operator import attrgetter

from msgspec import Struct

from sellerwatch.agents.agent import Outcome
from sellerwatch.agents.marketplace_circuit import (
    Endpoint,
    EndpointFailure,
    MarketplaceCircuit,
    MarketplaceCircuitRules,
)
from sellerwatch.agents.ports import AgentsTx
from sellerwatch.kernel.failure import Failure
from sellerwatch.kernel.ids import TaskId
from sellerwatch.kernel.notices import Notice


class Observation(Struct, frozen=True):
    """One answer (or none) of an endpoint. `outage` is set where it was a network error or a server's own error."""

    endpoint: Endpoint
    permit: int
    agent_row: int
    subject: str
    sent_at: datetime
    at: datetime
    outcome: Outcome
    task_id: TaskId | None = None
    outage: Failure | None = None
    is_probe: bool = False


@dataclass(frozen=True, slots=True)
class Observed:
    """`excused`: permits whose failure is the marketplace's, so the task keeps its try; `agents_excused`: those that
    are at least not the agent's. `given_back`: earlier failures that turned out to be the marketplace's, for their
    tasks; `forgiven`: those that turned out not to be their agents'. `away_since`: the last endpoint that was away
    answers again; since then at least one of them was away at any time."""

    excused: frozenset[int] = frozenset()
    agents_excused: frozenset[int] = frozenset()
    given_back: tuple[EndpointFailure, ...] = ()
    forgiven: tuple[EndpointFailure, ...] = ()
    away_since: datetime | None = None
    notices: tuple[Notice, ...] = ()


NOTHING_SEEN = Observed()


def observe(
    tx: AgentsTx, observations: Sequence[Observation], rules: MarketplaceCircuitRules, now: datetime
) -> Observed:
    """Move the circuits of the endpoints by these answers, in the order in which they came. On a good day this is one
    small read."""
    circuits = tx.marketplace.circuits()
    concerned = sorted({seen.endpoint for seen in observations if _concerns(seen, circuits[seen.endpoint])})
    if not concerned:
        return NOTHING_SEEN
    in_order = sorted(observations, key=attrgetter("at"))
    found = [
        _move(tx, endpoint, [seen for seen in in_order if seen.endpoint is endpoint], rules, now)
        for endpoint in concerned
    ]
    return Observed(
        excused=frozenset().union(*(each.excused for each in found)),
        agents_excused=frozenset().union(*(each.agents_excused | each.excused for each in found)),
        given_back=tuple(failure for each in found for failure in each.given_back),
        forgiven=tuple(failure for each in found for failure in each.forgiven),
        away_since=_end_time_away(tx, now) if any(each.has_ended for each in found) else None,
        notices=tuple(notice for each in found for notice in each.notices),
    )


def _concerns(seen: Observation, circuit: MarketplaceCircuit) -> bool:
    return seen.outage is not None or not circuit.is_quiet or seen.subject in circuit.failed_subjects


def _end_time_away(tx: AgentsTx, now: datetime) -> datetime | None:
    """Return since when not every endpoint answered, where all answer again. All circuits are locked, so that
    of two processes that close the last two, one counts the time."""
    circuits = [tx.marketplace.hold(endpoint, now) for endpoint in sorted(Endpoint)]
    if not all(circuit.is_closed for circuit in circuits):
        return None
    times = []
    for circuit in circuits:
        if circuit.away_since is not None:
            times.append(circuit.away_since)
            tx.marketplace.save(replace(circuit, away_since=None), now)
    return min(times, default=None)


def _move(
    tx: AgentsTx,
    endpoint: Endpoint,
    observations: Iterable[Observation],
    rules: MarketplaceCircuitRules,
    now: datetime,
) -> _Found:
    before = circuit = tx.marketplace.hold(endpoint, now)
    found = _Found()
    for seen in observations:
        if seen.outage is None:
            if seen.is_probe and not circuit.is_closed:
                found.has_ended = True
                circuit = circuit.probe_succeeded(now, seen.subject)
            else:
                circuit = circuit.answered(seen.sent_at, seen.at, seen.subject)
        elif circuit.has_ended_since(seen.at):
            found.excused.add(seen.permit)
        elif circuit.is_closed:
            circuit = found.count(circuit, seen, rules, now)
        else:
            found.excused.add(seen.permit)
            circuit = circuit.with_failed_subjects([seen.subject])
            circuit = circuit.probe_failed(seen.outage, rules, now) if seen.is_probe else circuit
    if circuit != before:
        tx.marketplace.save(circuit, now)
    found.notices = _notices(before, circuit)
    return found


@dataclass
class _Found:
    excused: set[int] = field(default_factory=set)
    agents_excused: set[int] = field(default_factory=set)
    given_back: list[EndpointFailure] = field(default_factory=list)
    forgiven: list[EndpointFailure] = field(default_factory=list)
    has_ended: bool = False
    notices: tuple[Notice, ...] = ()
    #: Permits of failures of this batch, which no agent has been charged for yet.
    uncharged: set[int] = field(default_factory=set)

    def count(
        self, circuit: MarketplaceCircuit, seen: Observation, rules: MarketplaceCircuitRules, now: datetime
    ) -> MarketplaceCircuit:
        """Count a failure. Failures of several agents are not theirs; about several products they are an outage."""
        if seen.outage is None:
            return circuit
        entry = EndpointFailure(seen.agent_row, seen.subject, seen.task_id, seen.outcome, seen.at, seen.permit)
        self.uncharged.add(seen.permit)
        moved = circuit.failed(entry, seen.outage, rules, now)
        recent = (*circuit.recent, entry)
        own = {each.permit for each in recent if each.permit in self.uncharged}
        charged = [each for each in recent if each.permit not in self.uncharged]
        if circuit.blames_no_agent(entry) or not moved.is_closed:
            self.agents_excused |= own
            self.forgiven += [each for each in charged if each.outcome is not Outcome.BLAMELESS]
            # They are remembered without a charge, so that no agent is forgiven a second time.
            moved = moved.forgive_agents()
        if not moved.is_closed:
            self.excused |= own
            self.given_back += charged
        return moved


def _notices(before: MarketplaceCircuit, after: MarketplaceCircuit) -> tuple[Notice, ...]:
    """Return a notice when an outage begins and when it is over, not for every probe."""
    if before.is_closed == after.is_closed:
        return ()
    if after.is_closed:
        return (Notice("marketplace.closed", after.endpoint, {"endpoint": after.endpoint}),)
    facts = {"endpoint": after.endpoint, "cause": after.failure or ""}
    return (Notice("marketplace.open", after.endpoint, facts),)
