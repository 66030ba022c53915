"""Agents, tokens, permits and the usage log in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sellerwatch.adapters.sql.engine import time_of
from sellerwatch.adapters.sql.statements import AnyRow, Db
from sellerwatch.agents.agent import Agent, AgentStatus
from sellerwatch.agents.limits import Limits
from sellerwatch.agents.pool import Candidate, Grant
from sellerwatch.agents.ports import Permit, Use
from sellerwatch.agents.token import Token
from sellerwatch.kernel.ids import TaskId, UserAgentId, WorkerId

# Agents that may be lent, with the budget that is left and the token, if there is one.
CANDIDATES = """
SELECT a.agent_id, a.user_agent_id, a.user_agent, a.health_score, a.last_used_at, b.current_tokens, b.last_refill_at,
       t.token_id, t.key_id, t.token_value, t.token_fingerprint, t.nid, t.mustit_uid, t.issued_at, t.expires_at
FROM user_agent_pool a
JOIN rate_limit_bucket b ON b.agent_id = a.agent_id
LEFT JOIN user_agent_token t ON t.agent_id = a.agent_id AND t.is_active = 1
WHERE a.status = 'AVAILABLE'
"""

AGENT_COLUMNS = """agent_id, user_agent_id, user_agent, created_at, updated_at, status, health_score, usage_count,
       success_count, failure_count, requests_per_day, issue_failures, last_used_at, suspended_at, suspended_until"""

# Agents by row, to be told how their requests ended.
AGENTS = f"SELECT {AGENT_COLUMNS} FROM user_agent_pool WHERE agent_id IN (:rows)"

# Suspended agents whose rest is over.
RESTED = f"""SELECT {AGENT_COLUMNS} FROM user_agent_pool
WHERE status = 'SUSPENDED' AND (suspended_until IS NULL OR suspended_until <= :now)"""

# Everything about an agent that its uses and moves change.
SAVE = """
UPDATE user_agent_pool SET status = :status, health_score = :health_score, usage_count = :usage_count,
    success_count = :success_count, failure_count = :failure_count, requests_per_day = :requests_per_day,
    issue_failures = :issue_failures, last_used_at = :last_used_at, suspended_at = :suspended_at,
    suspended_until = :suspended_until, updated_at = :updated_at
WHERE agent_id = :row
"""

# A token that was thrown away keeps its row, for the log that refers to it.
DROP_TOKENS = "UPDATE user_agent_token SET is_active = 0 WHERE is_active = 1 AND agent_id IN (:rows)"

# The one active token of an agent.
INSERT_SEALED = """
INSERT INTO user_agent_token (agent_id, token_value, token_fingerprint, key_id, nid, mustit_uid, issued_at, expires_at,
    refresh_count, is_active)
VALUES (:row, :sealed, :fingerprint, :key_id, :nid, :mustit_uid, :issued_at, :expires_at, 0, 1)
"""

LOG_USE = """
INSERT INTO token_usage_log (agent_id, token_id, http_status_code, response_time_ms, is_success, is_rate_limited,
    is_429_error, request_timestamp)
VALUES (:agent, :token, :status, :milliseconds, :succeeded, :too_many, :too_many, :at)
"""

# The bucket holds the limit it was cut for: a changed limit moves what is left by the difference.
SET_LIMIT = """
UPDATE rate_limit_bucket SET current_tokens = current_tokens + (:limit - max_tokens), max_tokens = :limit,
    refill_rate = :rate WHERE max_tokens <> :limit OR refill_rate <> :rate
"""

RESERVE = """
INSERT INTO permits (agent_id, worker_id, task_id, reserved_at, boot_id, boot_us)
VALUES (:agent, :worker, :task, :now, '', 0)
"""

# Lent: so many slots fewer, and the last departure of the agent is then.
SPEND = """
UPDATE rate_limit_bucket SET current_tokens = current_tokens - :number, last_refill_at = :departure
WHERE agent_id = :agent
"""

ANSWER = "UPDATE permits SET answered_at = :now WHERE id = :number AND answered_at IS NULL"

GIVE_BACK = "DELETE FROM permits WHERE id = :number"

REFUND = "UPDATE rate_limit_bucket SET current_tokens = current_tokens + :number WHERE agent_id = :agent"

# Permits of workers that are gone or silent.
ANSWER_LAPSED = """
UPDATE permits SET answered_at = :now WHERE answered_at IS NULL AND worker_id NOT IN (
    SELECT worker_id FROM workers WHERE stopped_at IS NULL AND heartbeat_at > :beat_before)
"""

ANSWER_ALL = "UPDATE permits SET answered_at = :now WHERE answered_at IS NULL AND worker_id = :worker_id"

ANSWER_OF = """UPDATE permits SET answered_at = :now
WHERE answered_at IS NULL AND worker_id = :worker_id AND task_id IN (:task_ids)"""

EXPIRED = "SELECT agent_id, COUNT(*) FROM permits WHERE answered_at <= :edge GROUP BY agent_id"

EXPIRE = "DELETE FROM permits WHERE answered_at <= :edge"

OLDEST_ANSWER = "SELECT MIN(answered_at) FROM permits"


class SqlAgents:
    def __init__(self, db: Db) -> None:
        self._db = db

    def candidates(self, now: datetime) -> Sequence[Candidate]:
        return [
            Candidate(r[0], UserAgentId(r[1]), r[2], r[3], r[4], int(r[5]), r[6], r[7], _token(r))
            for r in self._db.rows(CANDIDATES)
        ]

    def get_rows(self, rows: Sequence[int]) -> dict[int, Agent]:
        return {r[0]: _agent(r) for r in self._db.rows(AGENTS, rows=rows)}

    def rested(self, now: datetime) -> dict[int, Agent]:
        return {r[0]: _agent(r) for r in self._db.rows(RESTED, {"now": now})}

    def save(self, agents: dict[int, Agent]) -> None:
        self._db.many(
            SAVE,
            [
                {
                    "row": row,
                    "status": agent.status,
                    "health_score": agent.health_score,
                    "usage_count": agent.usage_count,
                    "success_count": agent.success_count,
                    "failure_count": agent.failure_count,
                    "requests_per_day": agent.requests_per_day,
                    "issue_failures": agent.issue_failures,
                    "last_used_at": agent.last_used_at,
                    "suspended_at": agent.suspended_at,
                    "suspended_until": agent.suspended_until,
                    "updated_at": agent.updated_at,
                }
                for row, agent in agents.items()
            ],
        )

    def drop_tokens(self, rows: Sequence[int]) -> None:
        self._db.run(DROP_TOKENS, rows=rows)

    def keep_token(self, row: int, token: Token) -> None:
        self.drop_tokens([row])
        self._db.run(
            INSERT_SEALED,
            {
                "row": row,
                "sealed": token.sealed,
                "fingerprint": bytes.fromhex(token.fingerprint),
                "key_id": token.key_id,
                "nid": token.nid,
                "mustit_uid": token.mustit_uid,
                "issued_at": token.issued_at,
                "expires_at": token.expires_at,
            },
        )

    def log_uses(self, uses: Sequence[Use]) -> None:
        self._db.many(
            LOG_USE,
            [
                {
                    "agent": use.agent_row,
                    "token": use.token_row,
                    "status": use.status,
                    "milliseconds": use.milliseconds,
                    "succeeded": use.succeeded,
                    "too_many": use.too_many,
                    "at": use.at,
                }
                for use in uses
            ],
        )


class SqlPermits:
    """How many slots an agent has left is kept in its bucket; every permit in the window has its row. A permit costs
    three touches of the table (lent, answered, expired), whatever the size of the window."""

    def __init__(self, db: Db) -> None:
        self._db = db

    def set_limits(self, limits: Limits) -> None:
        self._db.run(SET_LIMIT, {"limit": limits.window_limit, "rate": limits.per_second})

    def reserve(
        self, grants: Sequence[Grant], task_ids: Sequence[TaskId | None], worker_id: WorkerId, now: datetime
    ) -> Sequence[Permit]:
        if not grants:
            return []
        spent: dict[int, dict[str, Any]] = {}
        for grant in grants:
            row = grant.candidate.row
            number = spent[row]["number"] + 1 if row in spent else 1
            spent[row] = {"agent": row, "number": number, "departure": grant.depart_at}
        self._db.many(SPEND, spent.values())
        numbers = self._db.insert(
            RESERVE,
            [
                {"agent": grant.candidate.row, "worker": worker_id, "task": task_id, "now": now}
                for grant, task_id in zip(grants, task_ids, strict=True)
            ],
        )
        return [Permit(number, grant) for number, grant in zip(numbers, grants, strict=True)]

    def answer(self, numbers: Sequence[int], now: datetime) -> None:
        self._db.many(ANSWER, [{"number": number, "now": now} for number in numbers])

    def give_back(self, permits: Sequence[Permit]) -> None:
        self._db.many(GIVE_BACK, [{"number": permit.number} for permit in permits])
        self._db.many(REFUND, [{"number": 1, "agent": permit.grant.candidate.row} for permit in permits])

    def answer_lapsed(self, beat_before: datetime, now: datetime) -> int:
        return self._db.run(ANSWER_LAPSED, {"beat_before": beat_before, "now": now})

    def answer_all_of(self, worker_id: WorkerId, now: datetime) -> None:
        self._db.run(ANSWER_ALL, {"worker_id": worker_id, "now": now})

    def answer_of(self, worker_id: WorkerId, task_ids: Sequence[TaskId], now: datetime) -> None:
        self._db.run(ANSWER_OF, {"worker_id": worker_id, "now": now}, task_ids=task_ids)

    def expire(self, now: datetime, limits: Limits) -> None:
        edge = {"edge": now - limits.window}
        freed = self._db.rows(EXPIRED, edge)
        if freed:
            self._db.run(EXPIRE, edge)
            self._db.many(REFUND, [{"agent": agent, "number": number} for agent, number in freed])

    def next_free(self, limits: Limits) -> datetime | None:
        oldest = time_of(self._db.value(OLDEST_ANSWER))
        return None if oldest is None else oldest + limits.window


def _token(r: AnyRow) -> Token | None:
    if r[7] is None:
        return None
    return Token(
        key_id=r[8],
        sealed=r[9],
        fingerprint=r[10].hex(),
        nid=r[11],
        mustit_uid=r[12],
        issued_at=r[13],
        expires_at=r[14],
    )


def _agent(r: AnyRow) -> Agent:
    return Agent(
        user_agent_id=UserAgentId(r[1]),
        user_agent=r[2],
        created_at=r[3],
        updated_at=r[4],
        status=AgentStatus(r[5]),
        health_score=r[6],
        usage_count=r[7],
        success_count=r[8],
        failure_count=r[9],
        requests_per_day=r[10],
        issue_failures=r[11],
        last_used_at=r[12],
        suspended_at=r[13],
        suspended_until=r[14],
    )
