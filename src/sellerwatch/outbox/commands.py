"""What an operator does to messages by hand: replay, discard, pause and resume, and telling the scheduler once more.
Each verb is one transaction, and handle_each thing it changed is on the audit trail; many at once are one line of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sellerwatch.kernel.bulk import BulkResult, handle_each
from sellerwatch.kernel.ids import OutboxId
from sellerwatch.outbox.channel import Channel
from sellerwatch.outbox.message import Message, MessageNotFound, MessageStatus, OutboxKind
from sellerwatch.outbox.ports import MessageFilter, OutboxTx
from sellerwatch.oversight.audit import AuditEntry

#: So many messages are moved in one transaction: a running service waits for it.
AT_ONCE = 10_000
#: So many are in memory at a time, bodies and all.
PIECE = 500

Move = Callable[[Message], Message]


def replay(tx: OutboxTx, outbox_ids: Sequence[OutboxId], *, actor: str, now: datetime) -> BulkResult:
    """Messages that failed for good are sent once more, with a fresh count and the same key and body."""
    return _move_each(tx, outbox_ids, "message.replay", lambda message: message.replay(now), actor, now)


def discard(tx: OutboxTx, outbox_ids: Sequence[OutboxId], *, actor: str, now: datetime) -> BulkResult:
    """Messages that failed for good are given up; what waits behind them goes on without them."""
    return _move_each(tx, outbox_ids, "message.discard", Message.discard, actor, now)


def replay_chosen(tx: OutboxTx, kind: OutboxKind, choice: MessageFilter, *, actor: str, now: datetime) -> int:
    """Those of a choice that failed for good, oldest first and at most `AT_ONCE`; says how many that were."""
    return _move_chosen(tx, kind, choice, "message.replay", lambda message: message.replay(now), actor, now)


def discard_chosen(tx: OutboxTx, kind: OutboxKind, choice: MessageFilter, *, actor: str, now: datetime) -> int:
    return _move_chosen(tx, kind, choice, "message.discard", Message.discard, actor, now)


def pause(tx: OutboxTx, kind: OutboxKind, reason: str | None, *, actor: str, now: datetime) -> Channel:
    """Nothing more leaves, by any process and over restarts; what is under way finishes."""
    return _turn_channel(tx, kind, "outbox.pause", lambda channel: channel.pause(actor, now), actor, now, reason)


def resume(tx: OutboxTx, kind: OutboxKind, *, actor: str, now: datetime) -> Channel:
    """Messages leave again; an open circuit is found out about at once, with one of them."""
    return _turn_channel(tx, kind, "outbox.resume", lambda channel: channel.resume(now), actor, now)


def find_message(tx: OutboxTx, outbox_id: OutboxId) -> tuple[OutboxKind, Message]:
    """A message, and the outbox of the two in which it stands."""
    for kind in OutboxKind:
        message = tx.outbox(kind).get(outbox_id)
        if message is not None:
            return kind, message
    raise MessageNotFound(outbox_id=outbox_id)


def _move_each(
    tx: OutboxTx, outbox_ids: Sequence[OutboxId], action: str, move: Move, actor: str, now: datetime
) -> BulkResult:
    def one(outbox_id: OutboxId) -> None:
        kind, message = find_message(tx, outbox_id)
        moved = move(message)
        tx.outbox(kind).move([moved], now)
        tx.outbox(kind).free([message.subject_id], now)
        shown = _shown(message), _shown(moved)
        tx.audit.record(AuditEntry(now, actor, action, "message", outbox_id, *shown))

    return handle_each(outbox_ids, one)


def _move_chosen(
    tx: OutboxTx, kind: OutboxKind, choice: MessageFilter, action: str, move: Move, actor: str, now: datetime
) -> int:
    outbox = tx.outbox(kind)
    failed = tx.outbox_view(kind).ids(replace(choice, status=MessageStatus.FAILED), AT_ONCE)
    for first in range(0, len(failed), PIECE):
        messages = outbox.get_many(failed[first : first + PIECE])
        outbox.move([move(message) for message in messages], now)
        outbox.free([message.subject_id for message in messages], now)
    if failed:
        given = {name: value for name, value in vars(choice).items() if value is not None}
        after = {"messages": len(failed), "first": failed[0], "last": failed[-1]}
        tx.audit.record(AuditEntry(now, actor, action, "outbox", kind, {"chosenBy": given}, after))
    return len(failed)


def _turn_channel(
    tx: OutboxTx,
    kind: OutboxKind,
    action: str,
    turn: Callable[[Channel], Channel],
    actor: str,
    now: datetime,
    note: str | None = None,
) -> Channel:
    before = tx.channels.get(kind)
    after = turn(before)
    tx.channels.save(after, now)
    was, now_is = ({"isPaused": channel.is_paused, "circuit": channel.state} for channel in (before, after))
    tx.audit.record(AuditEntry(now, actor, action, "outbox", kind, was, now_is, note))
    return after


def _shown(message: Message) -> dict[str, Any]:
    return {
        "status": message.status,
        "eventType": message.event_type,
        "retryCount": message.retry_count,
        "errorMessage": message.error_message,
    }
