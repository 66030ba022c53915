"""Agents, their tokens and the usage log in SQL."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache

from sellerwatch.adapters.sql.circuits import COLUMNS as CIRCUIT_COLUMNS
from sellerwatch.adapters.sql.circuits import circuit_of
from sellerwatch.adapters.sql.columns import Columns
from sellerwatch.adapters.sql.statements import AnyRow, Db, Repository
from sellerwatch.agents.agent import Agent, AgentStatus
from sellerwatch.agents.limits import Limits
from sellerwatch.agents.pool import Candidate
from sellerwatch.agents.ports import LastHourView, StoredAgent, UsageEntry
from sellerwatch.agents.token import Token
from sellerwatch.kernel.clock import Moment
from sellerwatch.kernel.ids import UserAgentId

CIRCUIT = ", ".join(f"c.{name}" for name in CIRCUIT_COLUMNS)

# Agents that may be lent, with the budget that is left, the circuit and the token, if there is one.
CANDIDATES = f"""
SELECT a.agent_id, a.user_agent_id, a.user_agent, a.health_score, a.last_used_at, b.current_tokens,
       b.last_departure_us, t.token_id, t.key_id, t.token_value, t.token_fingerprint, t.nid, t.mustit_uid, t.issued_at,
       t.expires_at, t.is_replacement, {CIRCUIT}
FROM user_agent_pool a
JOIN rate_limit_bucket b ON b.agent_id = a.agent_id
JOIN circuit_breaker_state c ON c.agent_id = a.agent_id
LEFT JOIN user_agent_token t ON t.agent_id = a.agent_id AND t.is_active = 1
WHERE a.status = 'AVAILABLE' AND (b.full_until_us IS NULL OR b.full_until_us <= :boot_us)
"""

AGENT = Columns[Agent](
    "user_agent_pool",
    same="user_agent_id user_agent created_at updated_at status health_score usage_count success_count failure_count"
    " requests_per_day issue_failures last_used_at suspended_at suspended_until reason",
    read_as={"status": AgentStatus},
)
LISTED = ", ".join(f"a.{name}" for name in ("agent_id", *AGENT.columns))

# Agents by row, to be told how their requests ended.
AGENTS = f"SELECT {LISTED} FROM user_agent_pool a WHERE a.agent_id IN (:rows)"

# Everything an operator looks at, one line an agent.
STORED = f"""
SELECT {LISTED}, {CIRCUIT}, b.current_tokens, b.max_tokens, t.issued_at, t.expires_at, s.next_refresh_time,
    s.consecutive_failures
FROM user_agent_pool a
JOIN rate_limit_bucket b ON b.agent_id = a.agent_id
JOIN circuit_breaker_state c ON c.agent_id = a.agent_id
LEFT JOIN user_agent_token t ON t.agent_id = a.agent_id AND t.is_active = 1
LEFT JOIN token_refresh_schedule s ON s.agent_id = t.agent_id AND s.token_id = t.token_id
"""

# Suspended agents whose rest is over.
RESTED = f"""SELECT {LISTED} FROM user_agent_pool a
WHERE a.status = 'SUSPENDED' AND (a.suspended_until IS NULL OR a.suspended_until <= :now)"""

TALLY = "SELECT COALESCE(SUM(status = 'AVAILABLE'), 0), COUNT(*) FROM user_agent_pool"

ADD = """
INSERT INTO user_agent_pool (user_agent_id, user_agent, user_agent_hash, status, health_score, created_at, updated_at)
VALUES (:user_agent_id, :user_agent, :hash, :status, :health, :now, :now) ON CONFLICT (user_agent_hash) DO NOTHING
"""

# Remember that an agent was removed with requests in its window.
ADD_REMOVED = """
INSERT INTO removed_agents (user_agent_hash, removed_at) VALUES (:hash, :at)
ON CONFLICT (user_agent_hash) DO UPDATE SET removed_at = :at
"""

REMOVED_AT = "SELECT removed_at FROM removed_agents WHERE user_agent_hash = :hash"

FORGET_REMOVED = "DELETE FROM removed_agents WHERE user_agent_hash = :hash"

ADD_CIRCUIT = "INSERT INTO circuit_breaker_state (agent_id, circuit_state) VALUES (:row, 'CLOSED')"

ADD_BUCKET = """
INSERT INTO rate_limit_bucket (agent_id, max_tokens, current_tokens, refill_rate, last_refill_at)
VALUES (:row, :limit, :limit, :rate, :now)
"""

# Everything about an agent that its uses and moves change.
SAVE = AGENT.update("agent_id", without="user_agent_id user_agent created_at")

ADD_USAGE = """
INSERT INTO token_usage_log (agent_id, token_id, http_status_code, response_time_ms, is_success, is_rate_limited,
    is_429_error, request_timestamp, seller_id)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""

LAST_HOUR = """
SELECT COUNT(*), COALESCE(SUM(is_success), 0), COALESCE(SUM(is_429_error), 0), AVG(response_time_ms)
FROM token_usage_log WHERE agent_id = :row AND request_timestamp > :since
"""


class SqlAgents(Repository):
    def candidates(self, at: Moment) -> Sequence[Candidate]:
        return [
            Candidate(
                r[0], UserAgentId(r[1]), r[2], r[3], r[4], int(r[5]), r[6], r[7], token_of(r, 7), circuit_of(r, 16)
            )
            for r in self._db.rows(CANDIDATES, {"boot_us": at.boot_us})
        ]

    def tally(self) -> tuple[int, int]:
        found = self._db.row(TALLY)
        return (0, 0) if found is None else (int(found[0]), int(found[1]))

    def get_rows(self, rows: Sequence[int]) -> dict[int, Agent]:
        return {r[0]: _agent(r) for r in self._db.hold(AGENTS, rows=rows)}

    def find(self, user_agent_id: UserAgentId) -> StoredAgent | None:
        found = self._db.hold_row(f"{STORED} WHERE a.user_agent_id = :id", {"id": user_agent_id})
        return None if found is None else _stored(found)

    def add(self, agent: Agent, limits: Limits) -> bool:
        given = {
            "user_agent_id": agent.user_agent_id,
            "user_agent": agent.user_agent,
            "hash": user_agent_hash(agent.user_agent),
            "status": agent.status,
            "health": agent.health_score,
            "now": agent.created_at,
        }
        if not self._db.run(ADD, given):
            return False
        row = self._db.value("SELECT agent_id FROM user_agent_pool WHERE user_agent_id = :user_agent_id", given)
        self._db.run(ADD_CIRCUIT, {"row": row})
        budget = {"limit": limits.window_limit, "rate": limits.refill_rate, "now": agent.created_at}
        self._db.run(ADD_BUCKET, budget | {"row": row})
        return True

    def remove(self, row: int) -> None:
        """Remove the agent. Its permits and usage log stay: they record requests that the marketplace counted."""
        for table in ("token_refresh_schedule", "user_agent_token", "circuit_breaker_state", "rate_limit_bucket"):
            self._db.run(f"DELETE FROM {table} WHERE agent_id = :row", {"row": row})
        self._db.run("DELETE FROM user_agent_pool WHERE agent_id = :row", {"row": row})

    def rested(self, now: datetime) -> dict[int, Agent]:
        return {r[0]: _agent(r) for r in self._db.hold(RESTED, {"now": now})}

    def new_day(self) -> int:
        return self._db.run("UPDATE user_agent_pool SET requests_per_day = 0 WHERE requests_per_day > 0")

    def save(self, agents: Mapping[int, Agent]) -> None:
        self._db.many(SAVE.sql, [(*SAVE.values(agent), row) for row, agent in agents.items()])


def user_agent_hash(user_agent: str) -> bytes:
    """Return what a user-agent string is found by: MySQL indexes only the beginning of a long text."""
    return hashlib.sha256(user_agent.encode()).digest()


class SqlRemovedAgents(Repository):
    def add(self, user_agent: str, removed_at: datetime) -> None:
        self._db.run(ADD_REMOVED, {"hash": user_agent_hash(user_agent), "at": removed_at})

    def removed_at(self, user_agent: str) -> datetime | None:
        found = self._db.row(REMOVED_AT, {"hash": user_agent_hash(user_agent)})
        return None if found is None else found[0]

    def forget(self, user_agent: str) -> None:
        self._db.run(FORGET_REMOVED, {"hash": user_agent_hash(user_agent)})


class SqlUsageLog(Repository):
    def last_hour(self, row: int, now: datetime) -> LastHourView:
        found = self._db.row(LAST_HOUR, {"row": row, "since": now - timedelta(hours=1)}) or (0, 0, 0, None)
        requests, succeeded, too_many, average = found
        return LastHourView(requests, succeeded, too_many, None if average is None else int(average))

    def add(self, uses: Sequence[UsageEntry]) -> None:
        self._db.many(ADD_USAGE, uses)


def token_of(r: AnyRow, first: int) -> Token | None:
    """Return the token in nine columns of a row, beginning at `first` with its row number."""
    return None if r[first] is None else _token(*r[first + 1 : first + 9])


# Sealed, and the same at every claim until it is renewed: checked once.
@lru_cache(1_024)
def _token(
    key_id: str,
    sealed: str,
    fingerprint: bytes,
    nid: str,
    mustit_uid: str,
    issued_at: datetime,
    expires_at: datetime,
    is_replacement: int,
) -> Token:
    return Token(key_id, sealed, fingerprint.hex(), nid, mustit_uid, issued_at, expires_at, bool(is_replacement))


def _agent(r: AnyRow) -> Agent:
    return Agent(**AGENT.by_name(r[1:]))


def stored_agents(db: Db) -> Sequence[StoredAgent]:
    """Return every agent in the order of its number."""
    return [_stored(r) for r in db.rows(f"{STORED} ORDER BY a.agent_id")]


def _stored(r: AnyRow) -> StoredAgent:
    slots_left, limit, issued_at, expires_at, next_refresh_at, failures = r[16 + len(CIRCUIT_COLUMNS) :]
    return StoredAgent(
        row=r[0],
        agent=_agent(r),
        circuit=circuit_of(r, 16),
        slots_left=int(slots_left),
        window_limit=limit,
        token_issued_at=issued_at,
        token_expires_at=expires_at,
        next_refresh_at=next_refresh_at,
        refresh_failures=failures or 0,
    )
