"""The state of the marketplace in SQL: a circuit for each endpoint, and the pauses that operators set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import orjson

from sellerwatch.adapters.sql.columns import Columns
from sellerwatch.adapters.sql.statements import AnyRow, Repository
from sellerwatch.agents.agent import Outcome
from sellerwatch.agents.marketplace_circuit import Endpoint, EndpointFailure, MarketplaceCircuit
from sellerwatch.agents.ports import Pause
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.ids import SellerId, TaskId

CIRCUIT = Columns[MarketplaceCircuit](
    "marketplace_circuits",
    same="endpoint state since not_before opening_count probe_worker_id closed_at most_at_once away_since",
    other={
        "recent_failures": lambda circuit: orjson.dumps([_failure_json(each) for each in circuit.recent]).decode(),
        "failed_subjects": lambda circuit: orjson.dumps(circuit.failed_subjects).decode(),
    },
    read_as={"endpoint": Endpoint, "state": CircuitState},
    has_failure=True,
)
SAVE = CIRCUIT.update("endpoint", without="", also="updated_at")

HELD = f"{CIRCUIT.select} WHERE endpoint = :endpoint"

# A row that is not there cannot be locked.
FIRST = """
INSERT INTO marketplace_circuits (endpoint, state, recent_failures, failed_subjects, updated_at)
VALUES (:endpoint, 'CLOSED', '[]', '[]', :now)
ON CONFLICT (endpoint) DO NOTHING
"""

PAUSES = "SELECT scope, paused_at, paused_by FROM marketplace_pauses ORDER BY scope"

PAUSE = """
INSERT INTO marketplace_pauses (scope, paused_at, paused_by) VALUES (:scope, :now, :by)
ON CONFLICT (scope) DO NOTHING
"""

RESUME = "DELETE FROM marketplace_pauses WHERE scope = :scope"


class SqlMarketplaceState(Repository):
    def circuits(self) -> Mapping[Endpoint, MarketplaceCircuit]:
        known = {circuit.endpoint: circuit for circuit in map(_circuit, self._db.rows(CIRCUIT.select))}
        return {endpoint: known.get(endpoint) or MarketplaceCircuit(endpoint) for endpoint in Endpoint}

    def hold(self, endpoint: Endpoint, now: datetime) -> MarketplaceCircuit:
        row = self._db.hold_row(HELD, {"endpoint": endpoint})
        if row is None:
            self._db.run(FIRST, {"endpoint": endpoint, "now": now})
            row = self._db.hold_row(HELD, {"endpoint": endpoint})
        return MarketplaceCircuit(endpoint) if row is None else _circuit(row)

    def save(self, circuit: MarketplaceCircuit, now: datetime) -> None:
        self._db.many(SAVE.sql, [SAVE.values(circuit, now)])

    def pauses(self) -> Sequence[Pause]:
        return [Pause(SellerId(row[0]) if row[0] else None, row[1], row[2]) for row in self._db.rows(PAUSES)]

    def pause(self, seller_id: SellerId | None, by: str, now: datetime) -> bool:
        return self._db.run(PAUSE, {"scope": seller_id or "", "by": by, "now": now}) > 0

    def resume(self, seller_id: SellerId | None) -> bool:
        return self._db.run(RESUME, {"scope": seller_id or ""}) > 0


def _circuit(row: AnyRow) -> MarketplaceCircuit:
    values = CIRCUIT.by_name(row)
    failed = tuple(orjson.loads(values.pop("failed_subjects")))
    recent = tuple(map(_failure, orjson.loads(values.pop("recent_failures"))))
    return MarketplaceCircuit(recent=recent, failed_subjects=failed, **values)


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
