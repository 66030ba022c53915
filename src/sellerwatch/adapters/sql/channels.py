"""The channels of the outboxes and the log of delivery attempts, in SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from sellerwatch.adapters.sql.statements import Db
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.ids import OutboxId
from sellerwatch.outbox.channel import Channel
from sellerwatch.outbox.message import OutboxKind
from sellerwatch.outbox.receipt import Attempt, DeliveryVerdict

CHANNEL = """
SELECT state, failure_count, opening_count, most_in_flight, opened_at, closed_at, not_before, probe_outbox_id, reason,
    next_send_at, paused_at, paused_by
FROM outbox_channels WHERE outbox = :outbox
"""

SAVE = """
INSERT INTO outbox_channels (outbox, state, failure_count, opening_count, most_in_flight, opened_at, closed_at,
    not_before, probe_outbox_id, reason, next_send_at, paused_at, paused_by, updated_at)
VALUES (:outbox, :state, :failures, :openings, :most, :opened_at, :closed_at, :not_before, :probe_id, :reason,
    :next_send_at, :paused_at, :paused_by, :now)
ON CONFLICT (outbox) DO UPDATE SET state = :state, failure_count = :failures, opening_count = :openings,
    most_in_flight = :most, opened_at = :opened_at, closed_at = :closed_at, not_before = :not_before,
    probe_outbox_id = :probe_id, reason = :reason, next_send_at = :next_send_at, paused_at = :paused_at,
    paused_by = :paused_by, updated_at = :now
"""

FIRST = """
INSERT INTO outbox_channels (outbox, state, updated_at) VALUES (:outbox, :state, CURRENT_TIMESTAMP)
ON CONFLICT (outbox) DO NOTHING
"""

ADD = """
INSERT INTO outbox_attempts (outbox, outbox_id, try_number, attempted_at, duration_ms, http_status_code, verdict,
    is_counted, answer)
VALUES (:outbox, :outbox_id, :try_number, :at, :duration_ms, :status, :verdict, :is_counted, :answer)
"""

COUNT = "SELECT outbox_id, COUNT(*) FROM outbox_attempts WHERE outbox_id IN (:ids) GROUP BY outbox_id"

OF = """
SELECT outbox_id, try_number, attempted_at, duration_ms, http_status_code, verdict, is_counted, answer
FROM outbox_attempts WHERE outbox_id = :outbox_id ORDER BY id DESC LIMIT :limit
"""

# The first of them: ids rise with time.
OLDEST = "SELECT id, attempted_at FROM outbox_attempts ORDER BY id LIMIT :limit"

FORGET = "DELETE FROM outbox_attempts WHERE id <= :last AND attempted_at < :before"


class SqlChannels:
    """Implements `outbox.ports.Channels`. A channel without a row is open for sending."""

    def __init__(self, db: Db) -> None:
        self._db = db

    def get(self, kind: OutboxKind) -> Channel:
        r = self._db.hold_row(CHANNEL, {"outbox": kind})
        if r is None and self._db.shared:
            # A row that is not there cannot be held, and a round of delivery must hold it.
            self._db.run(FIRST, {"outbox": kind, "state": Channel(kind).state})
            r = self._db.hold_row(CHANNEL, {"outbox": kind})
        if r is None:
            return Channel(kind)
        return Channel(
            kind=kind,
            state=CircuitState(r[0]),
            failures=r[1],
            openings=r[2],
            send_limit=r[3],
            opened_at=r[4],
            closed_at=r[5],
            not_before=r[6],
            probe_id=None if r[7] is None else OutboxId(r[7]),
            reason=r[8],
            next_send_at=r[9],
            paused_at=r[10],
            paused_by=r[11],
        )

    def save(self, channel: Channel, now: datetime) -> None:
        self._db.run(
            SAVE,
            {
                "outbox": channel.kind,
                "state": channel.state,
                "failures": channel.failures,
                "openings": channel.openings,
                "most": channel.send_limit,
                "opened_at": channel.opened_at,
                "closed_at": channel.closed_at,
                "not_before": channel.not_before,
                "probe_id": channel.probe_id,
                "reason": channel.reason,
                "next_send_at": channel.next_send_at,
                "paused_at": channel.paused_at,
                "paused_by": channel.paused_by,
                "now": now,
            },
        )


class SqlAttempts:
    """Implements `outbox.ports.Attempts`."""

    def __init__(self, db: Db) -> None:
        self._db = db

    def add(self, kind: OutboxKind, attempts: Sequence[Attempt]) -> None:
        self._db.many(
            ADD,
            [
                {
                    "outbox": kind.value,
                    "outbox_id": attempt.outbox_id,
                    "try_number": attempt.try_number,
                    "at": attempt.at,
                    "duration_ms": attempt.duration_ms,
                    "status": attempt.status,
                    "verdict": attempt.verdict.value,
                    "is_counted": attempt.is_counted,
                    "answer": attempt.answer or None,
                }
                for attempt in attempts
            ],
        )

    def of(self, outbox_id: OutboxId, limit: int) -> Sequence[Attempt]:
        rows = self._db.rows(OF, {"outbox_id": outbox_id, "limit": limit})
        return [
            Attempt(OutboxId(r[0]), r[1], r[2], r[3], r[4], DeliveryVerdict(r[5]), bool(r[6]), r[7] or "") for r in rows
        ]

    def count(self, outbox_ids: Sequence[OutboxId]) -> Mapping[OutboxId, int]:
        rows = self._db.rows(COUNT, ids=outbox_ids) if outbox_ids else ()
        return {OutboxId(outbox_id): number for outbox_id, number in rows}

    def forget(self, before: datetime, limit: int) -> int:
        old = [row[0] for row in self._db.rows(OLDEST, {"limit": limit}) if row[1] < before]
        return self._db.run(FORGET, {"last": old[-1], "before": before}) if old else 0
