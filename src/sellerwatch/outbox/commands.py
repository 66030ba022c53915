"""What operators do with the outbox: replay and discard failed messages, pause and resume sending.

Each command is one transaction and leaves its entry in the audit trail; many messages moved by a filter are one entry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Any

from sellerwatch.kernel.bulk import BulkResultView, RefusedView, handle_each, refused_views
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.ids import OutboxId
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.views import About
from sellerwatch.outbox.channel import Channel
from sellerwatch.outbox.message import Message, MessageStatus, OutboxKind
from sellerwatch.outbox.ports import MessageFilter, OutboxTx
from sellerwatch.outbox.queries import ChannelView, find_message
from sellerwatch.oversight.audit import AuditEntry, record_audit

#: How many messages one transaction moves: a running service waits for it.
AT_ONCE = 10_000
#: How many messages are in memory at a time, with their bodies.
BATCH = 500


class MessageAction(StrEnum):
    """What an operator does with messages that failed for good: send them again, or give them up."""

    REPLAY = "replay"
    DISCARD = "discard"


@dataclass(frozen=True)
class MovedMessagesView(BulkResultView):
    """The result of a replay or a discard, by ids (`done`, `refused`) or by a filter (the counts)."""

    messages: Annotated[int, About("How many were moved, or would be with dryRun.")] = 0
    left: Annotated[int, About("How many of the filter remain: ask again for them.")] = 0
    subjects: int | None = None
    held: Annotated[int | None, About("How many wait behind messages of the filter.")] = None
    by_type: Mapping[str, int] = field(default_factory=dict)
    by_seller: Mapping[str, int] = field(default_factory=dict)


def move_messages(
    tx: OutboxTx,
    context: OperationContext,
    action: MessageAction,
    outbox_ids: Sequence[OutboxId],
    dry_run: bool = False,
) -> MovedMessagesView:
    """Replay or discard failed messages by their ids. A replayed message keeps its key and body."""

    def move_one(outbox_id: OutboxId) -> None:
        kind, message = find_message(tx, outbox_id)
        moved = _moved(message, action, context)
        if dry_run:
            return
        tx.outbox(kind).move([moved], context.now)
        tx.outbox(kind).release_held([message.subject_id], context.now)
        _record(tx, context, f"message.{action}", "message", outbox_id, _state(message), _state(moved))

    result = handle_each(outbox_ids, move_one)
    refused: Sequence[RefusedView] = refused_views(result, context.language)
    return MovedMessagesView(result.done, refused, dry_run, messages=len(result.done))


def move_chosen(
    tx: OutboxTx,
    context: OperationContext,
    action: MessageAction,
    kind: OutboxKind,
    chosen: MessageFilter,
    dry_run: bool = False,
) -> MovedMessagesView:
    """Replay or discard the failed messages of a filter, oldest first, at most `AT_ONCE`."""
    outbox, queries = tx.outbox(kind), tx.outbox_queries(kind)
    failed = replace(chosen, status=MessageStatus.FAILED)
    moved = [] if dry_run else queries.ids(failed, AT_ONCE)
    for first in range(0, len(moved), BATCH):
        messages = outbox.get_many(moved[first : first + BATCH])
        outbox.move([_moved(message, action, context) for message in messages], context.now)
        outbox.release_held([message.subject_id for message in messages], context.now)
    if moved:
        given = {name: value for name, value in vars(chosen).items() if value is not None}
        after = {"messages": len(moved), "first": moved[0], "last": moved[-1]}
        _record(tx, context, f"message.{action}", "outbox", kind, {"chosenBy": given}, after)
    rest = queries.count(failed)
    return MovedMessagesView(
        done=(),
        refused=(),
        dry_run=dry_run,
        messages=rest.messages if dry_run else len(moved),
        left=rest.messages,
        subjects=rest.subjects,
        held=rest.held,
        by_type=rest.by_type,
        by_seller=rest.by_seller,
    )


def pause(
    tx: OutboxTx, context: OperationContext, kind: OutboxKind, reason: str | None, dry_run: bool = False
) -> ChannelView:
    """Stop sending, in every process and over restarts; attempts already sent finish."""
    return _change_channel(tx, context, kind, "pause", lambda c: c.pause(context.actor, context.now), reason, dry_run)


def resume(tx: OutboxTx, context: OperationContext, kind: OutboxKind, dry_run: bool = False) -> ChannelView:
    """Send again. Where the circuit of the receiver or of a seller is open, probes are sent at once."""
    refused = [each for each in tx.seller_circuits.of(kind).values() if each.state is not CircuitState.CLOSED]

    def change(channel: Channel) -> Channel:
        is_stopped = channel.is_paused or channel.state is CircuitState.OPEN
        return channel.resume(context.now) if is_stopped or not refused else channel

    facts = {"sellers": [each.seller_id for each in refused]} if refused else {}
    resumed = _change_channel(tx, context, kind, "resume", change, None, dry_run, facts)
    if not dry_run:
        tx.seller_circuits.save([each.resume(context.now) for each in refused], context.now)
    return resumed


def _moved(message: Message, action: MessageAction, context: OperationContext) -> Message:
    return message.replay(context.now) if action is MessageAction.REPLAY else message.discard()


def _change_channel(
    tx: OutboxTx,
    context: OperationContext,
    kind: OutboxKind,
    verb: str,
    change: Callable[[Channel], Channel],
    note: str | None,
    dry_run: bool,
    facts: Mapping[str, Any] = MappingProxyType({}),
) -> ChannelView:
    before = tx.channels.get(kind)
    after = change(before)
    if not dry_run:
        tx.channels.save(after, context.now)
        states = _channel_state(before), {**_channel_state(after), **facts}
        _record(tx, context, f"outbox.{verb}", "outbox", kind, *states, note)
    return ChannelView.of(after)


def _record(
    tx: OutboxTx,
    context: OperationContext,
    action: str,
    subject_type: str,
    subject_id: str,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    note: str | None = None,
) -> None:
    record_audit(tx, AuditEntry(context.now, context.actor, action, subject_type, subject_id, before, after, note))


def _channel_state(channel: Channel) -> dict[str, Any]:
    return {"isPaused": channel.is_paused, "circuit": channel.state}


def _state(message: Message) -> dict[str, Any]:
    return {
        "status": message.status,
        "eventType": message.event_type,
        "retryCount": message.retry_count,
        "errorMessage": message.error_message,
    }
