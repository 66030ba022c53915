"""The channels of the outboxes, the circuits of sellers at the receiver, and the log of delivery attempts, in SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from sellerwatch.adapters.sql.outbox import for_table
from sellerwatch.adapters.sql.statements import Db
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.ids import OutboxId, SellerId
from sellerwatch.outbox.channel import Channel
from sellerwatch.outbox.message import OutboxKind
from sellerwatch.outbox.receipt import Attempt, DeliveryVerdict
from sellerwatch.outbox.seller_circuit import SellerCircuit

CHANNEL = """
SELECT state, failure_count, opening_count, most_in_flight, opened_at, closed_at, not_before, probed_at, rest_until,
    accepted_at, failed_at, reason, next_send_at, paused_at, paused_by
FROM outbox_channels WHERE outbox = :outbox
"""

SAVE = """
INSERT INTO outbox_channels (outbox, state, failure_count, opening_count, most_in_flight, opened_at, closed_at,
    not_before, probed_at, rest_until, accepted_at, failed_at, reason, next_send_at, paused_at, paused_by, updated_at)
VALUES (:outbox, :state, :failures, :openings, :most, :opened_at, :closed_at, :not_before, :probed_at, :rest_until,
    :accepted_at, :failed_at, :reason, :next_send_at, :paused_at, :paused_by, :now)
ON CONFLICT (outbox) DO UPDATE SET state = :state, failure_count = :failures, opening_count = :openings,
    most_in_flight = :most, opened_at = :opened_at, closed_at = :closed_at, not_before = :not_before,
    probed_at = :probed_at, rest_until = :rest_until, accepted_at = :accepted_at, failed_at = :failed_at,
    reason = :reason, next_send_at = :next_send_at, paused_at = :paused_at, paused_by = :paused_by, updated_at = :now
"""

FIRST = """
INSERT INTO outbox_channels (outbox, state, updated_at) VALUES (:outbox, :state, CURRENT_TIMESTAMP)
ON CONFLICT (outbox) DO NOTHING
"""

CIRCUITS = """
SELECT seller_id, state, failure_count, failing_since, opening_count, opened_at, not_before, reason
FROM outbox_seller_circuits WHERE outbox = :outbox ORDER BY seller_id
"""

SAVE_CIRCUIT = """
INSERT INTO outbox_seller_circuits (outbox, seller_id, state, failure_count, failing_since, opening_count, opened_at,
    not_before, reason, updated_at)
VALUES (:outbox, :seller_id, :state, :failures, :failing_since, :openings, :opened_at, :not_before, :reason, :now)
ON CONFLICT (outbox, seller_id) DO UPDATE SET state = :state, failure_count = :failures,
    failing_since = :failing_since, opening_count = :openings, opened_at = :opened_at, not_before = :not_before,
    reason = :reason, updated_at = :now
"""

DELETE_CIRCUITS = "DELETE FROM outbox_seller_circuits WHERE outbox = :outbox AND seller_id IN (:seller_ids)"

# The sellers with a circuit and nothing to send.
IDLE = """
SELECT c.seller_id FROM outbox_seller_circuits c WHERE c.outbox = :outbox AND NOT EXISTS (
    SELECT 1 FROM {outbox} o WHERE o.status = 'WAITING' AND o.seller_id = c.seller_id) AND NOT EXISTS (
    SELECT 1 FROM {outbox} o WHERE o.status = 'SENDING' AND o.seller_id = c.seller_id)
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

# The last attempt of each of some messages.
LAST = """
SELECT a.outbox_id, a.attempted_at, a.duration_ms FROM (
    SELECT MAX(id) AS id FROM outbox_attempts WHERE outbox_id IN (:ids) GROUP BY outbox_id) newest
JOIN outbox_attempts a ON a.id = newest.id
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
            probed_at=r[7],
            rest_until=r[8],
            accepted_at=r[9],
            failed_at=r[10],
            reason=r[11],
            next_send_at=r[12],
            paused_at=r[13],
            paused_by=r[14],
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
                "probed_at": channel.probed_at,
                "rest_until": channel.rest_until,
                "accepted_at": channel.accepted_at,
                "failed_at": channel.failed_at,
                "reason": channel.reason,
                "next_send_at": channel.next_send_at,
                "paused_at": channel.paused_at,
                "paused_by": channel.paused_by,
                "now": now,
            },
        )


class SqlSellerCircuits:
    """Implements `outbox.ports.SellerCircuits`."""

    def __init__(self, db: Db) -> None:
        self._db = db

    def of(self, kind: OutboxKind) -> Mapping[SellerId, SellerCircuit]:
        rows = self._db.hold(CIRCUITS, {"outbox": kind})
        return {
            SellerId(r[0]): SellerCircuit(kind, SellerId(r[0]), CircuitState(r[1]), r[2], r[3], r[4], r[5], r[6], r[7])
            for r in rows
        }

    def save(self, circuits: Sequence[SellerCircuit], now: datetime) -> None:
        kept = [each for each in circuits if not each.is_new]
        self._db.many(
            SAVE_CIRCUIT,
            [
                {
                    "outbox": each.kind.value,
                    "seller_id": each.seller_id,
                    "state": each.state.value,
                    "failures": each.failures,
                    "failing_since": each.failing_since,
                    "openings": each.openings,
                    "opened_at": each.opened_at,
                    "not_before": each.not_before,
                    "reason": each.reason,
                    "now": now,
                }
                for each in kept
            ],
        )
        for kind in OutboxKind:
            self._delete(kind, [each.seller_id for each in circuits if each.is_new and each.kind is kind])

    def forget_idle(self, kind: OutboxKind) -> int:
        return self._delete(kind, [row[0] for row in self._db.rows(for_table(IDLE, kind), {"outbox": kind})])

    def _delete(self, kind: OutboxKind, seller_ids: Sequence[SellerId]) -> int:
        return self._db.run(DELETE_CIRCUITS, {"outbox": kind}, seller_ids=seller_ids) if seller_ids else 0


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

    def last_ended(self, outbox_ids: Sequence[OutboxId]) -> Mapping[OutboxId, datetime]:
        rows = self._db.rows(LAST, ids=outbox_ids) if outbox_ids else ()
        return {OutboxId(r[0]): r[1] + timedelta(milliseconds=r[2] or 0) for r in rows}

    def forget(self, before: datetime, limit: int) -> int:
        old = [row[0] for row in self._db.rows(OLDEST, {"limit": limit}) if row[1] < before]
        return self._db.run(FORGET, {"last": old[-1], "before": before}) if old else 0
