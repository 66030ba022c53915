"""Circuits of the agents and the breaker of the pool in SQL, with their history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache

from sellerwatch.adapters.sql.statements import AnyRow, Repository
from sellerwatch.agents.breaker import Breaker
from sellerwatch.agents.circuit import Circuit, CircuitEvent, CircuitEventType
from sellerwatch.kernel.circuit import CircuitState

COLUMNS = (
    "circuit_state",
    "failure_count",
    "failure_threshold",
    "timeout_duration_seconds",
    "opened_at",
    "closed_at",
    "probe_sent_at",
)
CIRCUITS = f"SELECT agent_id, {', '.join(COLUMNS)} FROM circuit_breaker_state WHERE agent_id IN (:rows)"

TROUBLED = f"{CIRCUITS} AND (circuit_state <> 'CLOSED' OR failure_count > 0)"

SAVE = """
UPDATE circuit_breaker_state SET circuit_state = :state, failure_count = :failures, failure_threshold = :threshold,
    timeout_duration_seconds = :timeout, opened_at = :opened_at, closed_at = :closed_at, probe_sent_at = :probe_sent_at
WHERE agent_id = :row
"""

SET_RULES = """
UPDATE circuit_breaker_state SET failure_threshold = :failures, timeout_duration_seconds = :timeout
WHERE failure_threshold <> :failures OR timeout_duration_seconds <> :timeout
"""

# Every change, the failures that led to it, and the success that closed it.
NOTE = """
INSERT INTO circuit_breaker_event (agent_id, event_type, from_state, to_state, event_timestamp, outcome,
    http_status_code)
VALUES (?, ?, ?, ?, ?, ?, ?)
"""

BREAKER = """
SELECT state, opened_at, closed_at, probe_worker_id, probe_until, keep_closed_until FROM pool_breaker
WHERE marketplace = 'mustit'
"""

SAVE_BREAKER = """
INSERT INTO pool_breaker (marketplace, state, opened_at, closed_at, probe_worker_id, probe_until, keep_closed_until,
    updated_at)
VALUES ('mustit', :state, :opened_at, :closed_at, :probe_worker_id, :probe_until, :keep_closed_until, :now)
ON CONFLICT (marketplace) DO UPDATE SET state = :state, opened_at = :opened_at, closed_at = :closed_at,
    probe_worker_id = :probe_worker_id, probe_until = :probe_until, keep_closed_until = :keep_closed_until,
    updated_at = :now
"""

FIRST_BREAKER = """
INSERT INTO pool_breaker (marketplace, state, updated_at) VALUES ('mustit', 'CLOSED', CURRENT_TIMESTAMP)
ON CONFLICT (marketplace) DO NOTHING
"""

#: The pool's own row in the history of circuits.
POOL = 0


class SqlCircuits(Repository):
    def get_rows(self, rows: Sequence[int]) -> dict[int, Circuit]:
        return {r[0]: circuit_of(r, 1) for r in self._db.hold(CIRCUITS, rows=rows)}

    def troubled(self, rows: Sequence[int]) -> dict[int, Circuit]:
        return {r[0]: circuit_of(r, 1) for r in self._db.hold(TROUBLED, rows=rows)} if rows else {}

    def save(self, circuits: Mapping[int, Circuit], events: Sequence[tuple[int, CircuitEvent]]) -> None:
        self._db.many(
            SAVE,
            [
                {
                    "row": row,
                    "state": circuit.state,
                    "failures": circuit.failure_count,
                    "threshold": circuit.threshold,
                    "timeout": int(circuit.timeout.total_seconds()),
                    "opened_at": circuit.opened_at,
                    "closed_at": circuit.closed_at,
                    "probe_sent_at": circuit.probe_sent_at,
                }
                for row, circuit in circuits.items()
            ],
        )
        self._note(events)

    def set_rules(self, failures: int, timeout: timedelta) -> None:
        self._db.run(SET_RULES, {"failures": failures, "timeout": int(timeout.total_seconds())})

    def breaker(self) -> Breaker:
        r = self._db.hold_row(BREAKER)
        if r is None and self._db.shared:
            # A missing row cannot be locked, and lending agents needs its lock.
            self._db.run(FIRST_BREAKER)
            r = self._db.hold_row(BREAKER)
        return Breaker() if r is None else Breaker(CircuitState(r[0]), *r[1:])

    def save_breaker(self, breaker: Breaker, now: datetime) -> None:
        was = self.breaker()
        self._db.run(
            SAVE_BREAKER,
            {**vars(breaker), "now": now},
        )
        if was.state is not breaker.state:
            event = CircuitEvent(now, CircuitEventType.STATE_CHANGE, was.state, breaker.state)
            self._note([(POOL, event)])

    def _note(self, events: Sequence[tuple[int, CircuitEvent]]) -> None:
        rows = [(row, e.type, e.from_state, e.to_state, e.at, e.outcome, e.status) for row, e in events]
        self._db.many(NOTE, rows)


def circuit_of(r: AnyRow, first: int) -> Circuit:
    """Return the circuit in the columns of a row that begin at `first`."""
    return _circuit(*r[first : first + len(COLUMNS)])


# Frozen, and alike in most agents: one will do for all that are.
@lru_cache(1_024)
def _circuit(
    state: str,
    failures: int,
    threshold: int,
    timeout: int,
    opened_at: datetime | None,
    closed_at: datetime | None,
    probe_sent_at: datetime | None,
) -> Circuit:
    seconds = timedelta(seconds=timeout)
    return Circuit(CircuitState(state), failures, threshold, seconds, opened_at, closed_at, probe_sent_at)
