"""Why an open run makes no progress: it waits for the marketplace, for the pool, or for a person. Read-only queries.

Computed from the present state at each query, so it is never out of date and nothing is stored for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from sellerwatch.agents.endpoints import Endpoint
from sellerwatch.agents.marketplace_circuit import MarketplaceCircuit
from sellerwatch.agents.ports import Pause
from sellerwatch.crawling.execution import Execution
from sellerwatch.crawling.ports import CrawlTx, NoteKind
from sellerwatch.crawling.task import ENDPOINTS, OPEN_STATES, TaskStatus, TaskType
from sellerwatch.kernel.answer_problem import AnswerProblem
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.failure import Failure, FailureCode
from sellerwatch.kernel.ids import ExecutionId, SellerId

#: Failures of a start that a new token may end.
NEEDS_TOKEN = (FailureCode.NO_FREE_AGENT, FailureCode.NO_SESSION, FailureCode.TOKEN_REJECTED)


@dataclass(frozen=True)
class _Marketplace:
    """What may keep runs waiting, read once for all of them. `rate`: available agents in percent, while the pool's
    breaker is open."""

    pauses: Mapping[SellerId | None, Pause]
    away: Mapping[Endpoint, MarketplaceCircuit]
    rate: str | None


def causes_of_waiting(tx: CrawlTx, runs: Iterable[Execution]) -> dict[ExecutionId, Failure]:
    """Return the cause for each of these runs that waits. A run that is over, or at work, has none."""
    open_runs = [run for run in runs if run.is_open]
    if not open_runs:
        return {}
    marketplace = _look(tx)
    causes = ((run.execution_id, _cause(tx, run, marketplace)) for run in open_runs)
    return {execution_id: cause for execution_id, cause in causes if cause is not None}


def _look(tx: CrawlTx) -> _Marketplace:
    circuits = tx.marketplace.circuits().items()
    rate = None
    if tx.circuits.breaker().state is not CircuitState.CLOSED:
        available, total = tx.agents.tally()
        rate = f"{100 * available / total if total else 0.0:.2f}"
    return _Marketplace(
        pauses={pause.seller_id: pause for pause in tx.marketplace.pauses()},
        away={endpoint: circuit for endpoint, circuit in circuits if not circuit.is_closed},
        rate=rate,
    )


def _cause(tx: CrawlTx, run: Execution, marketplace: _Marketplace) -> Failure | None:
    """Return why a run waits. A pause by an operator comes first."""
    pause = marketplace.pauses.get(None) or marketplace.pauses.get(run.seller_id)
    if pause is not None:
        return Failure.of(FailureCode.MARKETPLACE_PAUSED, pause.paused_at)
    if run.waits_to_start:
        return _away_from_start(run, marketplace) or run.failure
    began = run.started_at or run.created_at
    paused = pause_failure(tx.run_notes.of(run.execution_id), began)
    if paused is not None:
        return paused
    if marketplace.away:
        tally = tx.run_tasks.tally(run.execution_id)
        needed = {ENDPOINTS[TaskType(type_)] for (type_, status) in tally if TaskStatus(status) in OPEN_STATES}
        # While agents with a valid token work for the run, it does not wait for new ones.
        is_at_work = any(TaskStatus(status) is TaskStatus.IN_PROGRESS for _, status in tally)
        for endpoint in (*sorted(needed), Endpoint.TOKEN):
            if endpoint in marketplace.away and not (endpoint is Endpoint.TOKEN and is_at_work):
                circuit = marketplace.away[endpoint]
                return _away(circuit, circuit.since or began)
    if marketplace.rate is not None:
        return Failure.of(FailureCode.POOL_BREAKER_OPEN, began, rate=marketplace.rate)
    return None


def pause_failure(notes: Mapping[NoteKind, Mapping[str, int]], began: datetime) -> Failure | None:
    """Return why a run is paused, from its notes; None for one that is not. A reason from before
    problems had codes is a sentence itself."""
    found = next(iter(notes[NoteKind.PAUSED].items()), None)
    if found is None:
        return None
    stored, answers = found
    problem = AnswerProblem.read(stored)
    facts = {"problem": stored} if problem is None else problem.failure_facts
    return Failure.of(FailureCode.RUN_PAUSED, began, answers=answers, **facts)


def _away_from_start(run: Execution, marketplace: _Marketplace) -> Failure | None:
    """What keeps a start waiting now may have begun after its last try. The token page matters where that found no
    agent with a token that is accepted."""
    needed = [Endpoint.LIST]
    if run.failure is not None and run.failure.code in NEEDS_TOKEN:
        needed.append(Endpoint.TOKEN)
    away = next((marketplace.away[endpoint] for endpoint in needed if endpoint in marketplace.away), None)
    return None if away is None else _away(away, away.since or run.created_at)


def _away(circuit: MarketplaceCircuit, since: datetime) -> Failure:
    return Failure.because(circuit.failure, FailureCode.CIRCUIT_OPEN, since, endpoint=circuit.endpoint)
