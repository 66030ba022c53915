"""What people see of the pool, in SQL. Nothing is written: permits that the next claim would expire are left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from sellerwatch.adapters.sql.agents import stored_agents
from sellerwatch.adapters.sql.engine import time_of
from sellerwatch.adapters.sql.statements import AnyRow, Db, Repository
from sellerwatch.agents.agent_status import AgentDetails, CircuitEventView, FullReason, Window
from sellerwatch.agents.limits import Limits
from sellerwatch.agents.ports import AgentUsage, StoredAgent
from sellerwatch.kernel.clock import Moment

# Windows that count as full, whatever was used.
FULL = "SELECT agent_id, full_until_us, full_reason FROM rate_limit_bucket WHERE full_until_us IS NOT NULL"

# Slots in use by agent, and the oldest answer among them; two ranges of one index.
UNDER_WAY = "SELECT agent_id, COUNT(*), NULL FROM permits WHERE answered_boot_us IS NULL GROUP BY agent_id"
ANSWERED = """
SELECT agent_id, COUNT(*), MIN(answered_boot_us) FROM permits WHERE answered_boot_us > :edge GROUP BY agent_id
"""

# One search of the covering index for each agent; the other lines of the log are not read.
TOO_MANY = """
SELECT a.agent_id, COUNT(*), MAX(l.request_timestamp) FROM user_agent_pool a
CROSS JOIN token_usage_log l ON l.is_429_error = 1 AND l.agent_id = a.agent_id AND l.request_timestamp > :since
    AND l.request_timestamp <= :until
GROUP BY a.agent_id
"""

# Of each agent's requests only their times are read, from the index; of failures the rows.
REQUESTS = """
SELECT a.agent_id, COUNT(*) FROM user_agent_pool a
CROSS JOIN token_usage_log l ON l.agent_id = a.agent_id AND l.request_timestamp > :since
    AND l.request_timestamp <= :until
GROUP BY a.agent_id
"""
FAILED = """
SELECT agent_id, COUNT(*) FROM token_usage_log
WHERE is_success = 0 AND request_timestamp > :since AND request_timestamp <= :until GROUP BY agent_id
"""

REQUESTS_BETWEEN = """
SELECT COUNT(*) FROM token_usage_log
WHERE is_success IN (0, 1) AND request_timestamp > :since AND request_timestamp <= :until
"""

# The boot by whose clock the departures are recorded; a service that starts carries all of them over.
BOOT = "SELECT MAX(boot_id) FROM rate_limit_bucket"

EVENTS = """
SELECT event_timestamp, event_type, from_state, to_state, outcome, http_status_code FROM circuit_breaker_event
WHERE agent_id = :row ORDER BY event_timestamp DESC, event_id DESC LIMIT :limit
"""

FAILURES_UNTIL = """
SELECT event_timestamp, event_type, from_state, to_state, outcome, http_status_code FROM circuit_breaker_event
WHERE agent_id = :row AND event_timestamp <= :until AND event_type = 'FAILURE'
ORDER BY event_timestamp DESC, event_id DESC LIMIT :limit
"""

#: Before any request, and after any.
EVER, NEVER = datetime(2000, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)

HOUR = timedelta(hours=1)


class SqlPoolReport(Repository):
    def agents(self) -> Sequence[StoredAgent]:
        return stored_agents(self._db)

    def standings(self, at: Moment, limits: Limits) -> Sequence[AgentDetails]:
        windows = _Windows(self._db, at, limits)
        given = {"since": at.now - HOUR, "until": NEVER}
        too_many = {r[0]: (r[1], time_of(r[2])) for r in self._db.rows(TOO_MANY, given)}
        return [
            AgentDetails(
                row=stored.row,
                agent=stored.agent,
                circuit=stored.circuit,
                window=windows.of(stored),
                token_issued_at=stored.token_issued_at,
                token_expires_at=stored.token_expires_at,
                next_refresh_at=stored.next_refresh_at,
                refresh_failures=stored.refresh_failures,
                too_many=too_many.get(stored.row, (0, None))[0],
                last_too_many_at=too_many.get(stored.row, (0, None))[1],
            )
            for stored in self.agents()
        ]

    def circuit_events(self, row: int, limit: int) -> Sequence[CircuitEventView]:
        return [CircuitEventView(*r) for r in self._db.rows(EVENTS, {"row": row, "limit": limit})]

    def failures_until(self, row: int, until: datetime, limit: int) -> Sequence[CircuitEventView]:
        given = {"row": row, "until": until, "limit": limit}
        return [CircuitEventView(*r) for r in self._db.rows(FAILURES_UNTIL, given)]

    def usage(self, since: datetime | None, until: datetime | None) -> Mapping[int, AgentUsage]:
        given = {"since": since or EVER, "until": until or NEVER}
        made: dict[int, int] = {}
        failed: dict[int, int] = {}
        if since is not None or until is not None:
            made, failed = dict(self._db.rows(REQUESTS, given)), dict(self._db.rows(FAILED, given))
        too_many = {r[0]: (r[1], time_of(r[2])) for r in self._db.rows(TOO_MANY, given)}
        return {
            row: AgentUsage(made.get(row, 0), failed.get(row, 0), *too_many.get(row, (0, None)))
            for row in made | failed | too_many
        }

    def requests_between(self, since: datetime, until: datetime) -> int:
        return int(self._db.value(REQUESTS_BETWEEN, {"since": since, "until": until}))


class _Windows:
    """Permits counted by agent. After a reboot, until a service has carried them over, all count as answered when this
    boot began, as `RequestWindows.enter_boot` records them."""

    def __init__(self, db: Db, at: Moment, limits: Limits) -> None:
        self._at, self._limits = at, limits
        boot = db.value(BOOT)
        self._earlier_boot = boot is not None and boot != at.boot_id
        self._not_entered = boot != at.boot_id
        edge = at.boot_us - limits.window_us
        # Times of an earlier boot's clock cannot be compared: all of its permits are counted, or none.
        counted: list[AnyRow] = []
        if not self._earlier_boot or edge < 0:
            counted += db.rows(UNDER_WAY)
            counted += db.rows(ANSWERED, {"edge": -1 if self._earlier_boot else edge})
        self._full: dict[int, tuple[int, str | None]] = {r[0]: (r[1], r[2]) for r in db.rows(FULL)}
        self._used: dict[int, int] = {}
        self._oldest: dict[int, int] = {}
        for row, number, oldest in counted:
            self._used[row] = self._used.get(row, 0) + number
            if self._earlier_boot:
                self._oldest[row] = 0
            elif oldest is not None:
                self._oldest[row] = oldest

    def of(self, stored: StoredAgent) -> Window:
        oldest = self._oldest.get(stored.row)
        free_at = None if oldest is None else self._time(oldest + self._limits.window_us)
        until_us, reason = self._full.get(stored.row, (None, None))
        full_until = self._full_until(until_us)
        why = FullReason(reason or FullReason.DOWNGRADED) if full_until is not None else None
        return Window(self._used.get(stored.row, 0), stored.window_limit, free_at, full_until, why)

    def _full_until(self, until_us: int | None) -> datetime | None:
        if until_us is not None and self._not_entered:
            until_us = self._at.boot_us + self._limits.window_us
        return None if until_us is None or until_us <= self._at.boot_us else self._time(until_us)

    def _time(self, boot_us: int) -> datetime:
        return self._at.now + timedelta(microseconds=boot_us - self._at.boot_us)
