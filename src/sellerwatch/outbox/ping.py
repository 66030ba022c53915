"""A ping: a signed event about no product, which shows whether the receiver answers.

It is sent at once, whatever the state of the outbox is, and its answer changes nothing: no message, no circuit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Self

from sellerwatch.kernel.errors import Conflict
from sellerwatch.kernel.ids import OutboxId
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.views import About, View
from sellerwatch.outbox.event import ping_body
from sellerwatch.outbox.message import OutboxKind
from sellerwatch.outbox.ports import OutboxTx
from sellerwatch.outbox.receipt import DeliveryVerdict, Receipt
from sellerwatch.oversight.audit import AuditEntry, record_audit


@dataclass(eq=False)
class NoReceiver(Conflict):
    """There is no receiver to send to: PRODUCT_SERVER_URL is not set."""


@dataclass(frozen=True)
class Ping:
    """A ping that is sent once, under a key of its own."""

    outbox_id: OutboxId
    payload: bytes

    @classmethod
    def create(cls, ids: Iterator[str], now: datetime) -> Self:
        event_id = OutboxId(next(ids))
        return cls(event_id, ping_body(event_id, now))


@dataclass(frozen=True)
class PingView(View):
    """The receiver's answer to a ping."""

    event_id: Annotated[str, About("The key that the ping was sent with.", "0198c0de-0000-7000-8005-000000000001")]
    is_accepted: Annotated[bool, About("Whether the answer was a 2xx.", True)]
    verdict: Annotated[DeliveryVerdict, About("What the answer would mean for an event.", "DELIVERED")]
    http_status_code: Annotated[int | None, About("Null: there was no answer.", 200)]
    duration_ms: Annotated[int, About("Time until the answer, or until it was given up.", 12)]
    answer: Annotated[str | None, About("The beginning of the answer, or why there was none.", "ok")]
    sent_at: datetime

    @classmethod
    def of(cls, ping: Ping, receipt: Receipt, duration_ms: int, sent_at: datetime) -> Self:
        return cls(
            event_id=ping.outbox_id,
            is_accepted=receipt.verdict is DeliveryVerdict.DELIVERED,
            verdict=receipt.verdict,
            http_status_code=receipt.status,
            duration_ms=duration_ms,
            answer=(receipt.answer if receipt.status is not None else receipt.problem) or None,
            sent_at=sent_at,
        )


def record_ping(tx: OutboxTx, context: OperationContext, view: PingView) -> PingView:
    """Record on the audit trail who sent a ping, and what was answered."""
    after = {
        "eventId": view.event_id,
        "verdict": view.verdict,
        "httpStatusCode": view.http_status_code,
        "durationMs": view.duration_ms,
        "answer": view.answer,
    }
    entry = AuditEntry(context.now, context.actor, "outbox.ping", "outbox", OutboxKind.PRODUCT, after=after)
    record_audit(tx, entry)
    return view
