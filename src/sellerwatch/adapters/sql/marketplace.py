"""The state of the marketplace in SQL: a circuit for each endpoint, and the pauses that operators set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import orjson

from sellerwatch.adapters.sql.statements import AnyRow, Repository
from sellerwatch.agents.agent import Outcome
from sellerwatch.agents.endpoints import Endpoint
from sellerwatch.agents.marketplace_circuit import EndpointFailure, MarketplaceCircuit
from sellerwatch.agents.ports import Pause
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.failure import Failure, failure_columns
from sellerwatch.kernel.ids import SellerId, TaskId, WorkerId

CIRCUITS = """
SELECT endpoint, state, since, not_before, opening_count, probe_worker_id, closed_at, most_at_once, failure_code,
    failure_blame, failure_facts, failure_at, recent_failures, away_since, failed_subjects
FROM marketplace_circuits
"""

HELD = f"{CIRCUITS} WHERE endpoint = :endpoint"

# A row that is not there cannot be locked.
FIRST = """
INSERT INTO marketplace_circuits (endpoint, state, recent_failures, failed_subjects, updated_at)
VALUES (:endpoint, 'CLOSED', '[]', '[]', :now)
ON CONFLICT (endpoint) DO NOTHING
"""

SAVE = """
UPDATE marketplace_circuits SET state = :state, since = :since, not_before = :not_before,
    opening_count = :opening_count, probe_worker_id = :probe_worker_id, closed_at = :closed_at,
    most_at_once = :most_at_once, failure_code = :failure_code, failure_blame = :failure_blame,
    failure_facts = :failure_facts, failure_at = :failure_at, recent_failures = :recent, away_since = :away_since,
    failed_subjects = :failed_subjects, updated_at = :now
WHERE endpoint = :endpoint
"""

PAUSES = "SELECT scope, paused_at, paused_by FROM marketplace_pauses ORDER BY scope"

PAUSE = """
INSERT INTO marketplace_pauses (scope, paused_at, paused_by) VALUES (:scope, :now, :by)
ON CONFLICT (scope) DO NOTHING
"""

RESUME = "DELETE FROM marketplace_pauses WHERE scope = :scope"


class SqlMarketplaceState(Repository):
    def circuits(self) -> Mapping[Endpoint, MarketplaceCircuit]:
        known = {circuit.endpoint: circuit for circuit in map(_circuit, self._db.rows(CIRCUITS))}
        return {endpoint: known.get(endpoint) or MarketplaceCircuit(endpoint) for endpoint in Endpoint}

    def hold(self, endpoint: Endpoint, now: datetime) -> MarketplaceCircuit:
        row = self._db.hold_row(HELD, {"endpoint": endpoint})
        if row is None:
            self._db.run(FIRST, {"endpoint": endpoint, "now": now})
            row = self._db.hold_row(HELD, {"endpoint": endpoint})
        return MarketplaceCircuit(endpoint) if row is None else _circuit(row)

    def save(self, circuit: MarketplaceCircuit, now: datetime) -> None:
        code, blame, facts, at = failure_columns(circuit.failure)
        recent = [_failure_json(each) for each in circuit.recent]
        self._db.run(
            SAVE,
            {
                "endpoint": circuit.endpoint,
                "state": circuit.state,
                "since": circuit.since,
                "not_before": circuit.not_before,
                "opening_count": circuit.opening_count,
                "probe_worker_id": circuit.probe_worker_id,
                "closed_at": circuit.closed_at,
                "most_at_once": circuit.most_at_once,
                "failure_code": code,
                "failure_blame": blame,
                "failure_facts": facts,
                "failure_at": at,
                "recent": orjson.dumps(recent).decode(),
                "away_since": circuit.away_since,
                "failed_subjects": orjson.dumps(circuit.failed_subjects).decode(),
                "now": now,
            },
        )

    def pauses(self) -> Sequence[Pause]:
        return [Pause(SellerId(row[0]) if row[0] else None, row[1], row[2]) for row in self._db.rows(PAUSES)]

    def pause(self, seller_id: SellerId | None, by: str, now: datetime) -> bool:
        return self._db.run(PAUSE, {"scope": seller_id or "", "by": by, "now": now}) > 0

    def resume(self, seller_id: SellerId | None) -> bool:
        return self._db.run(RESUME, {"scope": seller_id or ""}) > 0


def _circuit(row: AnyRow) -> MarketplaceCircuit:
    return MarketplaceCircuit(
        endpoint=Endpoint(row[0]),
        state=CircuitState(row[1]),
        since=row[2],
        not_before=row[3],
        opening_count=row[4],
        probe_worker_id=None if row[5] is None else WorkerId(row[5]),
        closed_at=row[6],
        most_at_once=row[7],
        failure=Failure.stored(row[8], row[9], row[10], row[11]),
        recent=tuple(map(_failure, orjson.loads(row[12]))),
        away_since=row[13],
        failed_subjects=tuple(orjson.loads(row[14])),
    )


def _failure_json(failure: EndpointFailure) -> list[Any]:
    return [
        failure.agent_row,
        failure.subject,
        failure.task_id,
        failure.outcome,
        failure.at.isoformat(),
        failure.permit,
        failure.is_counted,
    ]


def _failure(stored: list[Any]) -> EndpointFailure:
    agent_row, subject, task, outcome, at, permit, is_counted = stored
    return EndpointFailure(
        agent_row=agent_row,
        subject=subject,
        task_id=None if task is None else TaskId(task),
        outcome=Outcome(outcome),
        at=datetime.fromisoformat(at),
        permit=permit,
        is_counted=is_counted,
    )
