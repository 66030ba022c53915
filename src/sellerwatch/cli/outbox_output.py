"""How outboxes are shown: as JSON for scripts, as tables and facts for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sellerwatch.cli import session
from sellerwatch.cli.output import ago, print_facts, print_table
from sellerwatch.cli.session import say, stamp
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.ids import OutboxId
from sellerwatch.outbox.channel import Channel
from sellerwatch.outbox.message import Message, MessageStatus, OutboxKind
from sellerwatch.outbox.ports import Chosen, Tally
from sellerwatch.outbox.receipt import Attempt

Holders = dict[OutboxId, OutboxId]

TITLES = {OutboxKind.PRODUCT: "Outbox of products", OutboxKind.SCHEDULER: "Outbox of the scheduler"}


@dataclass(frozen=True)
class Shown:
    """An outbox at one moment."""

    channel: Channel
    tally: Tally
    now: datetime

    @property
    def lag(self) -> float:
        """Seconds since the oldest was made of those that wait and may go; 0 when none does."""
        oldest = self.tally.oldest_at
        return 0.0 if oldest is None else max(0.0, (self.now - oldest).total_seconds())


def message_json(message: Message, holders: Holders) -> dict[str, Any]:
    subject = "scheduleId" if message.kind is OutboxKind.SCHEDULER else "productId"
    return {
        "outboxId": message.outbox_id,
        subject: message.subject_id,
        "sellerId": message.seller_id,
        "itemNo": message.item_no,
        "executionId": message.execution_id,
        "eventType": message.event_type,
        "version": message.version,
        "status": message.status,
        "retryCount": message.retry_count,
        "errorMessage": message.error_message,
        "heldBy": holders.get(message.outbox_id),
        "createdAt": stamp(message.created_at),
        "nextAttemptAt": stamp(message.next_attempt_at),
        "sentAt": stamp(message.sent_at),
    }


def attempt_json(attempt: Attempt) -> dict[str, Any]:
    return {
        "tryNumber": attempt.try_number,
        "at": stamp(attempt.at),
        "durationMs": attempt.duration_ms,
        "httpStatusCode": attempt.status,
        "verdict": attempt.verdict,
        "isCounted": attempt.is_counted,
        "answer": attempt.answer,
    }


def outbox_json(shown: Shown) -> dict[str, Any]:
    channel, tally = shown.channel, shown.tally
    return {
        "kind": channel.kind,
        "isPaused": channel.is_paused,
        "pausedAt": stamp(channel.paused_at),
        "pausedBy": channel.paused_by,
        "circuit": {
            "state": channel.state,
            "failuresInARow": channel.failures,
            "openedAt": stamp(channel.opened_at),
            "closedAt": stamp(channel.closed_at),
            "notBefore": stamp(channel.not_before),
            "mostUnderWay": channel.most,
            "reason": channel.reason,
        },
        "counts": {status.value: tally.by_status.get(status, 0) for status in MessageStatus},
        "held": tally.held,
        "lagSeconds": round(shown.lag, 3),
        "oldestWaitingAt": stamp(tally.oldest_at),
    }


def chosen_json(chosen: Chosen) -> dict[str, Any]:
    return {
        "messages": chosen.messages,
        "subjects": chosen.subjects,
        "held": chosen.held,
        "byType": chosen.by_type,
        "bySeller": chosen.by_seller,
    }


def show_messages(
    kind: OutboxKind, messages: Sequence[Message], holders: Holders, now: datetime, *, empty: str
) -> None:
    print_table(
        TITLES[kind],
        ("message", "event", "seller", "item", "status", "created", "tries", "next try", "error"),
        [
            (
                message.outbox_id,
                message.event_type,
                message.seller_id,
                message.item_no,
                message.status,
                ago(message.created_at, now),
                message.retry_count,
                "held" if message.outbox_id in holders else _next_try(message, now),
                session.short(message.error_message, 40),
            )
            for message in messages
        ],
        empty=empty,
    )
    if holders:
        say("Held: one before it failed for good; replay or discard that one. `outbox show` says which it is.", "dim")


def show_attempts(attempts: Sequence[Attempt], now: datetime) -> None:
    print_table(
        "Tries, newest first",
        ("try", "at (UTC)", "", "verdict", "status", "took", "answer"),
        [
            (
                f"{a.try_number}" if a.is_counted else f"{a.try_number} (not counted)",
                a.at,
                ago(a.at, now),
                a.verdict,
                a.status,
                None if a.duration_ms is None else f"{a.duration_ms} ms",
                session.short(a.answer, 60),
            )
            for a in attempts
        ],
        empty="It was never sent, or longer ago than tries are kept.",
    )


def show_outbox(shown: Shown) -> None:
    channel, counts, now = shown.channel, shown.tally.by_status, shown.now
    say(TITLES[channel.kind], "bold")
    print_facts(
        [
            ("sending", _sending(channel, now)),
            ("lag", f"{shown.lag:,.0f} s: the oldest that waits and may go" if shown.tally.oldest_at else "none waits"),
            *((status.value.lower(), f"{counts.get(status, 0):,}") for status in MessageStatus),
            ("held", f"{shown.tally.held:,} wait behind one that failed for good"),
        ]
    )


def say_chosen(chosen: Chosen, what: str) -> None:
    what = f"{chosen.messages:,} message(s) of {chosen.subjects:,} subject(s) would be {what}"
    say(f"{what}; {chosen.held:,} wait behind them.")
    counted = [*chosen.by_type.items(), *sorted(chosen.by_seller.items(), key=lambda entry: -entry[1])[:10]]
    for name, number in counted:
        say(f"  {name}: {number:,}", "dim")


def _sending(channel: Channel, now: datetime) -> str:
    if channel.paused_at is not None:
        return f"paused by {channel.paused_by} {ago(channel.paused_at, now)}; go on: sellerwatch outbox resume"
    if channel.state is CircuitState.OPEN:
        probe = "now" if channel.not_before is None or channel.not_before <= now else ago(channel.not_before, now)
        return f"stopped {ago(channel.opened_at, now)}: {channel.reason}; one message finds out {probe}"
    if channel.state is CircuitState.HALF_OPEN:
        return f"stopped {ago(channel.opened_at, now)}: {channel.reason}; one message is finding out"
    return (
        "yes"
        if channel.most is None
        else f"yes, after a stop: at most {channel.most} under way, more with each success"
    )


def _next_try(message: Message, now: datetime) -> str | None:
    if message.next_attempt_at is None:
        return None
    return ago(message.next_attempt_at, now) if message.next_attempt_at > now else "now"
