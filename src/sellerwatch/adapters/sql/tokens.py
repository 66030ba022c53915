"""Tokens and their renewal in SQL. Tokens and their cookies are only ever stored encrypted."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sellerwatch.adapters.sql.agents import token_of
from sellerwatch.adapters.sql.statements import Repository
from sellerwatch.agents.token import Token
from sellerwatch.kernel.ids import UserAgentId

# A token that was thrown away keeps its row, for the log that refers to it.
DROP = "UPDATE user_agent_token SET is_active = 0 WHERE is_active = 1 AND agent_id IN (:rows)"

FORGET_RENEWALS = "DELETE FROM token_refresh_schedule WHERE agent_id IN (:rows)"

# A marketplace may hand out a token that somebody held before: then it is this agent's from now on.
KEEP = """
INSERT INTO user_agent_token (agent_id, token_value, token_fingerprint, key_id, nid, mustit_uid, issued_at, expires_at,
    refresh_count, is_active, is_replacement)
VALUES (:row, :sealed, :fingerprint, :key_id, :nid, :mustit_uid, :issued_at, :expires_at, :refreshes, 1, :replaces)
ON CONFLICT (token_fingerprint) DO UPDATE SET agent_id = :row, token_value = :sealed, key_id = :key_id, nid = :nid,
    mustit_uid = :mustit_uid, issued_at = :issued_at, expires_at = :expires_at, refresh_count = :refreshes,
    is_active = 1, is_rejected = 0, is_replacement = :replaces
"""

# By its own row: a newer one that the agent got meanwhile stays.
REJECT = "UPDATE user_agent_token SET is_active = 0, is_rejected = 1 WHERE is_active = 1 AND token_id IN (:token_rows)"
FORGET_RENEWALS_OF = "DELETE FROM token_refresh_schedule WHERE token_id IN (:token_rows)"

ACCEPT = "UPDATE user_agent_token SET is_replacement = 0 WHERE token_id IN (:token_rows)"

WAS_REJECTED = (
    "SELECT is_rejected FROM user_agent_token WHERE agent_id = :row ORDER BY issued_at DESC, token_id DESC LIMIT 1"
)

REFRESHES = "SELECT MAX(refresh_count) FROM user_agent_token WHERE agent_id = :row"

SCHEDULE = """
INSERT INTO token_refresh_schedule (agent_id, token_id, next_refresh_time, refresh_interval_seconds)
SELECT agent_id, token_id, :refresh_at, :seconds FROM user_agent_token WHERE agent_id = :row AND is_active = 1
"""

UNKNOWN = "SELECT agent_id FROM user_agent_token WHERE is_active = 1 AND key_id NOT IN (:key_ids)"

# Tokens whose renewal is due, of agents that could use them.
DUE = """
SELECT s.agent_id, a.user_agent_id, a.user_agent FROM token_refresh_schedule s
JOIN user_agent_pool a ON a.agent_id = s.agent_id
WHERE s.is_enabled = 1 AND s.next_refresh_time <= :now AND a.status = 'AVAILABLE'
ORDER BY s.next_refresh_time LIMIT :limit
"""

PUT_OFF = """
UPDATE token_refresh_schedule SET next_refresh_time = :until, consecutive_failures = consecutive_failures + :failures
WHERE agent_id = :row AND next_refresh_time <= :due
"""

SEALED = """
SELECT a.user_agent_id, t.token_id, t.key_id, t.token_value, t.token_fingerprint, t.nid, t.mustit_uid, t.issued_at,
    t.expires_at, t.is_replacement
FROM user_agent_token t JOIN user_agent_pool a ON a.agent_id = t.agent_id WHERE t.is_active = 1 ORDER BY t.token_id
"""

RESEAL = """
UPDATE user_agent_token SET token_value = :sealed, key_id = :key_id, token_fingerprint = :fingerprint, nid = :nid,
    mustit_uid = :mustit_uid
WHERE token_id = :token_row
"""


class SqlTokens(Repository):
    def keep(self, row: int, token: Token, refresh_at: datetime) -> None:
        refreshes = self._db.value(REFRESHES, {"row": row})
        replaces = bool(self._db.value(WAS_REJECTED, {"row": row}))
        self.drop([row])
        self._db.run(
            KEEP,
            {
                "row": row,
                "sealed": token.sealed,
                "fingerprint": bytes.fromhex(token.fingerprint),
                "key_id": token.key_id,
                "nid": token.nid,
                "mustit_uid": token.mustit_uid,
                "issued_at": token.issued_at,
                "expires_at": token.expires_at,
                "replaces": replaces,
                "refreshes": 0 if refreshes is None else refreshes + 1,
            },
        )
        seconds = int((refresh_at - token.issued_at).total_seconds())
        self._db.run(SCHEDULE, {"row": row, "refresh_at": refresh_at, "seconds": seconds})

    def drop(self, rows: Sequence[int]) -> None:
        self._db.run(FORGET_RENEWALS, rows=rows)
        self._db.run(DROP, rows=rows)

    def reject(self, token_rows: Sequence[int]) -> None:
        self._db.run(FORGET_RENEWALS_OF, token_rows=token_rows)
        self._db.run(REJECT, token_rows=token_rows)

    def accept(self, token_rows: Sequence[int]) -> None:
        self._db.run(ACCEPT, token_rows=token_rows)

    def drop_unknown(self, key_ids: Sequence[str]) -> int:
        lost = [int(r[0]) for r in self._db.rows(UNKNOWN, key_ids=key_ids)]
        if lost:
            self.drop(lost)
        return len(lost)

    def due(self, now: datetime, limit: int) -> Sequence[tuple[int, UserAgentId, str]]:
        rows = self._db.rows(DUE, {"now": now, "limit": limit})
        return [(r[0], UserAgentId(r[1]), r[2]) for r in rows]

    def put_off(self, row: int, due: datetime, until: datetime, *, has_failed: bool) -> None:
        self._db.run(PUT_OFF, {"row": row, "due": due, "until": until, "failures": int(has_failed)})

    def sealed(self) -> Sequence[tuple[int, UserAgentId, Token]]:
        found = []
        for r in self._db.rows(SEALED):
            token = token_of(r, 1)
            if token is not None:
                found.append((int(r[1]), UserAgentId(r[0]), token))
        return found

    def reseal(self, token_row: int, token: Token) -> None:
        self._db.run(
            RESEAL,
            {
                "token_row": token_row,
                "sealed": token.sealed,
                "key_id": token.key_id,
                "fingerprint": bytes.fromhex(token.fingerprint),
                "nid": token.nid,
                "mustit_uid": token.mustit_uid,
            },
        )
