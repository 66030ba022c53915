"""Queries over the outboxes: messages, delivery attempts, and counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import orjson

from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.ids import OutboxId
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.paging import decode_cursor, encode_cursor
from sellerwatch.kernel.views import About, CursorPageView, View
from sellerwatch.outbox.channel import Channel
from sellerwatch.outbox.message import Message, MessageNotFound, MessageStatus, OutboxKind
from sellerwatch.outbox.ports import MessageFilter, OutboxTx
from sellerwatch.outbox.receipt import Attempt, DeliveryVerdict

AN_ID = "0198c0de-0000-7000-8005-000000000001"


@dataclass(frozen=True)
class MessageView(View):
    """One message. A message about a schedule has a `scheduleId`, one about a product has the fields of a product."""

    outbox_id: Annotated[str, About(example=AN_ID)]
    kind: OutboxKind
    product_id: str | None
    schedule_id: str | None
    seller_id: Annotated[str, About(example="seller_12345")]
    item_no: int | None
    execution_id: str | None
    event_type: Annotated[str, About(example="PRODUCT_UPDATED")]
    version: int
    status: MessageStatus
    retry_count: Annotated[int, About("How many attempts failed.")]
    attempts: Annotated[int, About("Attempts that were made: 1 after a first success. Deleted some months later.", 1)]
    error_message: str | None
    held_by: Annotated[str | None, About("The FAILED message of the same subject that this one waits behind.")]
    created_at: datetime
    next_attempt_at: datetime | None
    sent_at: datetime | None


@dataclass(frozen=True)
class MessageDetailView(MessageView):
    """One message with the body that is sent."""

    payload: Annotated[Mapping[str, Any], About("The body that is sent.", shape="MessagePayload")]


@dataclass(frozen=True)
class AttemptView(View):
    """One attempt to deliver a message."""

    try_number: Annotated[int, About("Counts from 1, again after a replay.")]
    at: datetime
    duration_ms: int | None
    http_status_code: int | None
    verdict: Annotated[DeliveryVerdict, About(example="DELIVERED")]
    is_counted: Annotated[bool, About("False where the receiver was away: the attempt costs the message nothing.")]
    answer: Annotated[str | None, About("The beginning of the answer, or why there was none.")]


@dataclass(frozen=True)
class AttemptsView(View):
    """The attempts of a message, newest first."""

    content: Sequence[AttemptView]


@dataclass(frozen=True)
class DeliveryTimeView(View):
    """How long one message took from its change to the receiver."""

    created_at: datetime
    sent_at: datetime
    seconds: Annotated[float, About(example=1.25)]

    @classmethod
    def of(cls, created_at: datetime, sent_at: datetime) -> DeliveryTimeView:
        return cls(created_at, sent_at, round((sent_at - created_at).total_seconds(), 3))


@dataclass(frozen=True)
class DeliveryTimesView(View):
    """The newest delivered messages, oldest first."""

    content: Sequence[DeliveryTimeView]


@dataclass(frozen=True)
class ChannelCircuitView(View):
    """The circuit of the receiver: it is open while the receiver takes nothing."""

    state: Annotated[CircuitState, About(example="CLOSED")]
    failures_in_a_row: int
    opened_at: datetime | None
    closed_at: datetime | None
    not_before: Annotated[datetime | None, About("When the next probe may be sent.")]
    most_under_way: Annotated[int | None, About("How many may be sending after an outage; null: no limit.")]
    reason: str | None


@dataclass(frozen=True)
class RefusedSellerView(View):
    """A seller whose messages the receiver does not accept, while it accepts those of others."""

    seller_id: Annotated[str, About(example="seller_12345")]
    refused_since: datetime
    not_before: Annotated[datetime | None, About("When some of its messages are next sent as probes.")]
    reason: str | None


@dataclass(frozen=True)
class ChannelView(View):
    """Whether an outbox sends."""

    kind: OutboxKind
    is_paused: bool
    paused_at: datetime | None
    paused_by: str | None
    circuit: ChannelCircuitView

    @classmethod
    def of(cls, channel: Channel) -> ChannelView:
        return cls(**_channel_fields(channel))


@dataclass(frozen=True)
class OutboxView(ChannelView):
    """One outbox in numbers."""

    counts: Mapping[MessageStatus, int]
    held: Annotated[int, About("How many wait behind a FAILED message.")]
    tried: Annotated[
        int, About("WAITING messages that were sent before. While the circuit is open none of them was accepted.")
    ]
    refused_sellers: Sequence[RefusedSellerView]
    lag_seconds: Annotated[float, About("Age of the oldest message that waits and is not held.", 1.25)]
    oldest_waiting_at: datetime | None


@dataclass(frozen=True)
class OutboxesView(View):
    """Both outboxes in numbers."""

    content: Sequence[OutboxView]
    has_receiver: Annotated[bool, About("Whether PRODUCT_SERVER_URL is set; events of products wait without it.")]


def list_messages(
    tx: OutboxTx, _: OperationContext, kind: OutboxKind, chosen: MessageFilter, cursor: str | None, size: int
) -> CursorPageView[MessageView]:
    """List messages, newest first. A page may be short and not the last: only `next: null` is the end."""
    page = tx.outbox_queries(kind).page(chosen, decode_cursor(kind, cursor), size)
    holders = tx.outbox_queries(kind).holders([message.outbox_id for message in page.content])
    attempts = tx.attempts.count([message.outbox_id for message in page.content])
    content = [MessageView(**_message_fields(message, holders, attempts)) for message in page.content]
    return CursorPageView(content, encode_cursor(kind, page.next))


def show_message(tx: OutboxTx, _: OperationContext, outbox_id: OutboxId) -> MessageDetailView:
    """Show one message with its payload."""
    kind, message = find_message(tx, outbox_id)
    holders = tx.outbox_queries(kind).holders([outbox_id])
    fields = _message_fields(message, holders, tx.attempts.count([outbox_id]))
    return MessageDetailView(**fields, payload=orjson.loads(message.payload))


def list_attempts(tx: OutboxTx, _: OperationContext, outbox_id: OutboxId, size: int) -> AttemptsView:
    """List the attempts of one message, newest first."""
    find_message(tx, outbox_id)
    return AttemptsView([_attempt_view(attempt) for attempt in tx.attempts.of(outbox_id, size)])


def outbox_status(tx: OutboxTx, context: OperationContext, has_receiver: bool) -> OutboxesView:
    """Show both outboxes in numbers: counts, lag, held messages, and whether anything is sent."""
    return OutboxesView([_outbox_queries(tx, kind, context.now) for kind in OutboxKind], has_receiver)


def delivery_times(tx: OutboxTx, _: OperationContext, kind: OutboxKind, limit: int) -> DeliveryTimesView:
    """Show how long the newest delivered messages took."""
    return DeliveryTimesView([DeliveryTimeView.of(*times) for times in tx.outbox_queries(kind).deliveries(limit)])


def find_message(tx: OutboxTx, outbox_id: OutboxId) -> tuple[OutboxKind, Message]:
    """Return a message and its outbox."""
    for kind in OutboxKind:
        message = tx.outbox(kind).get(outbox_id)
        if message is not None:
            return kind, message
    raise MessageNotFound(outbox_id=outbox_id)


def _message_fields(
    message: Message, holders: Mapping[OutboxId, OutboxId], attempts: Mapping[OutboxId, int]
) -> dict[str, Any]:
    is_schedule = message.kind is OutboxKind.SCHEDULER
    return {
        "outbox_id": message.outbox_id,
        "kind": message.kind,
        "product_id": None if is_schedule else message.subject_id,
        "schedule_id": message.subject_id if is_schedule else None,
        "seller_id": message.seller_id,
        "item_no": message.item_no,
        "execution_id": message.execution_id,
        "event_type": message.event_type,
        "version": message.version,
        "status": message.status,
        "retry_count": message.retry_count,
        "attempts": attempts.get(message.outbox_id, 0),
        "error_message": message.error_message,
        "held_by": holders.get(message.outbox_id),
        "created_at": message.created_at,
        "next_attempt_at": message.next_attempt_at,
        "sent_at": message.sent_at,
    }


def _attempt_view(attempt: Attempt) -> AttemptView:
    return AttemptView(
        try_number=attempt.try_number,
        at=attempt.at,
        duration_ms=attempt.duration_ms,
        http_status_code=attempt.status,
        verdict=attempt.verdict,
        is_counted=attempt.is_counted,
        answer=attempt.answer or None,
    )


def _channel_fields(channel: Channel) -> dict[str, Any]:
    circuit = ChannelCircuitView(
        state=channel.state,
        failures_in_a_row=channel.failures,
        opened_at=channel.opened_at,
        closed_at=channel.closed_at,
        not_before=channel.not_before,
        most_under_way=channel.send_limit,
        reason=channel.reason,
    )
    return {
        "kind": channel.kind,
        "is_paused": channel.is_paused,
        "paused_at": channel.paused_at,
        "paused_by": channel.paused_by,
        "circuit": circuit,
    }


def _outbox_queries(tx: OutboxTx, kind: OutboxKind, now: datetime) -> OutboxView:
    counts = tx.outbox_queries(kind).counts()
    lag = 0.0 if counts.oldest_at is None else max(0.0, (now - counts.oldest_at).total_seconds())
    return OutboxView(
        **_channel_fields(tx.channels.get(kind)),
        counts={status: counts.by_status.get(status, 0) for status in MessageStatus},
        held=counts.held,
        tried=counts.tried,
        refused_sellers=[
            RefusedSellerView(each.seller_id, each.opened_at, each.not_before, each.reason)
            for each in tx.seller_circuits.of(kind).values()
            if each.opened_at is not None
        ],
        lag_seconds=round(lag, 3),
        oldest_waiting_at=counts.oldest_at,
    )
