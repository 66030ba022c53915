"""/api/v1/outbox: what the outside is to be told, what it would not take, and what waits behind that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Path, Query, Request
from pydantic import Field, StrictBool, StrictStr

from sellerwatch.kernel.bulk import BulkResult
from sellerwatch.kernel.ids import OutboxId
from sellerwatch.kernel.paging import decode_cursor, encode_cursor
from sellerwatch.operations.ports import ServiceTx
from sellerwatch.outbox import commands as outbox_commands
from sellerwatch.outbox.channel import Channel
from sellerwatch.outbox.commands import find_message
from sellerwatch.outbox.message import Message, MessageStatus, OutboxKind
from sellerwatch.outbox.ports import MessageFilter, Tally
from sellerwatch.outbox.receipt import Attempt
from sellerwatch.web.api.authorization import Admin, Viewer
from sellerwatch.web.api.context import Desk, parts_of
from sellerwatch.web.api.cursors import (
    MOST_NAMED,
    CursorParameter,
    DryRun,
    RefusedOne,
    SellerFilter,
    Since,
    Until,
    known_seller,
    one_way,
    refused_of,
    seller_of,
    unreadable,
    utc,
)
from sellerwatch.web.api.errors import refusals
from sellerwatch.web.api.models import CursorPage, PageSize, RequestModel, ResponseModel, Stamp

router = APIRouter(prefix="/outbox", tags=["outbox"])

AN_ID = "0198c0de-0000-7000-8005-000000000001"

MessagePath = Annotated[str, Path(alias="outboxId", max_length=100, examples=[AN_ID])]
Kind = Annotated[OutboxKind, Query(alias="kind", description="Messages about products, or about schedules.")]
TypeFilter = Annotated[
    str | None, Query(alias="eventType", min_length=1, max_length=50, description="E.g. PRODUCT_UPDATED.")
]


class MessageShown(ResponseModel):
    """`heldBy` is the one that failed for good before it. A schedule's message has a `scheduleId`, else `productId`."""

    outbox_id: str = Field(examples=[AN_ID])
    kind: OutboxKind
    product_id: str | None
    schedule_id: str | None
    seller_id: str = Field(examples=["seller_12345"])
    item_no: int | None
    execution_id: str | None
    event_type: str = Field(examples=["PRODUCT_UPDATED"])
    version: int
    status: MessageStatus
    retry_count: int
    error_message: str | None
    held_by: str | None
    created_at: Stamp
    next_attempt_at: Stamp | None
    sent_at: Stamp | None


class MessageDetail(MessageShown):
    payload: dict[str, Any]


class AttemptShown(ResponseModel):
    try_number: int
    at: Stamp
    duration_ms: int | None
    http_status_code: int | None
    verdict: str = Field(examples=["DELIVERED"])
    is_counted: bool
    answer: str | None


class AttemptsShown(ResponseModel):
    """Newest first."""

    content: list[AttemptShown]


class ChannelCircuit(ResponseModel):
    state: str = Field(examples=["CLOSED"])
    failures_in_a_row: int
    opened_at: Stamp | None
    closed_at: Stamp | None
    not_before: Stamp | None
    most_under_way: int | None
    reason: str | None


class ChannelShown(ResponseModel):
    kind: OutboxKind
    is_paused: bool
    paused_at: Stamp | None
    paused_by: str | None
    circuit: ChannelCircuit


class OutboxShown(ChannelShown):
    """`lagSeconds` is the age of the oldest that waits and may go; `held` wait behind one that failed for good."""

    counts: dict[MessageStatus, int]
    held: int
    lag_seconds: float = Field(examples=[1.25])
    oldest_waiting_at: Stamp | None


class OutboxesShown(ResponseModel):
    content: list[OutboxShown]


class ChooseBody(RequestModel):
    """By ids, or by a choice among all that failed for good: `allFailed`, or what narrows it."""

    outbox_ids: list[StrictStr] | None = Field(None, max_length=MOST_NAMED, examples=[[AN_ID]])
    all_failed: StrictBool = False
    kind: OutboxKind = Field(OutboxKind.PRODUCT, strict=False, examples=["product"])
    seller_id: StrictStr | None = Field(None, max_length=100)
    event_type: StrictStr | None = Field(None, min_length=1, max_length=50)
    since: datetime | None = Field(None, strict=False, examples=["2026-11-15T06:00:00Z"])
    until: datetime | None = Field(None, strict=False)


class MovedMessages(ResponseModel):
    """`messages` were moved, or with `dryRun` would be. `left` of the choice remain: ask again for them."""

    dry_run: bool
    messages: int
    left: int
    subjects: int | None = None
    held: int | None = None
    by_type: dict[str, int] = Field(default_factory=dict)
    by_seller: dict[str, int] = Field(default_factory=dict)
    done: list[str] = Field(default_factory=list)
    refused: list[RefusedOne] = Field(default_factory=list)


class PauseBody(RequestModel):
    kind: OutboxKind = Field(OutboxKind.PRODUCT, strict=False, examples=["product"])
    reason: StrictStr | None = Field(None, max_length=500, examples=["the product server is being moved"])


class ResumeBody(RequestModel):
    kind: OutboxKind = Field(OutboxKind.PRODUCT, strict=False, examples=["product"])


@router.get("", responses=refusals(404))
async def list_messages(
    request: Request,
    _: Viewer,
    kind: Kind = OutboxKind.PRODUCT,
    seller_id: SellerFilter = None,
    status: Annotated[MessageStatus | None, Query()] = None,
    event_type: TypeFilter = None,
    since: Since = None,
    until: Until = None,
    cursor: CursorParameter = None,
    size: PageSize = 20,
) -> CursorPage[MessageShown]:
    """Messages, newest first. A slice may be short and not the last: only `next: null` is the end."""
    choice = MessageFilter(status, seller_of(seller_id), event_type, utc(since), utc(until))
    place = decode_cursor(kind, cursor)

    def work(tx: ServiceTx) -> CursorPage[MessageShown]:
        known_seller(tx, choice.seller_id)
        view = tx.outbox_view(kind)
        piece = view.page(choice, place, size)
        holders = view.holders([message.outbox_id for message in piece.content])
        content = [MessageShown(**_message(message, holders)) for message in piece.content]
        return CursorPage[MessageShown](content=content, next=encode_cursor(kind, piece.next))

    return await parts_of(request).read(work)


@router.get("/status")
async def outbox_status(request: Request, _: Viewer) -> OutboxesShown:
    """Both outboxes in numbers: counts, lag, what is held, and whether anything is sent."""
    now = parts_of(request).clock.now()

    def work(tx: ServiceTx) -> OutboxesShown:
        both = [_outbox(tx.channels.get(kind), tx.outbox_view(kind).tally(), now) for kind in OutboxKind]
        return OutboxesShown(content=both)

    return await parts_of(request).read(work)


@router.post("/replay", responses=refusals(404))
async def replay_messages(body: ChooseBody, request: Request, caller: Admin, dry_run: DryRun = False) -> MovedMessages:
    """Send messages that failed for good once more, with the same key and body; at most 10,000 of a choice."""
    return await _move(request, caller.actor, body, dry_run, is_replay=True)


@router.post("/discard", responses=refusals(404))
async def discard_messages(body: ChooseBody, request: Request, caller: Admin, dry_run: DryRun = False) -> MovedMessages:
    """Give up messages that failed for good; what waits behind them goes on. At most 10,000 of a choice."""
    return await _move(request, caller.actor, body, dry_run, is_replay=False)


@router.post("/pause", responses=refusals(409))
async def pause_outbox(body: PauseBody, request: Request, caller: Admin) -> ChannelShown:
    """Send nothing more until somebody resumes, over restarts too. What is under way finishes."""

    def work(tx: ServiceTx, desk: Desk) -> Channel:
        return outbox_commands.pause(tx, body.kind, body.reason, actor=desk.actor, now=desk.now)

    return ChannelShown(**_channel(await parts_of(request).change(caller.actor, work)))


@router.post("/resume", responses=refusals(409))
async def resume_outbox(body: ResumeBody, request: Request, caller: Admin) -> ChannelShown:
    """Send again after a pause. A circuit that the receiver's failures opened is tried at once, with one message."""

    def work(tx: ServiceTx, desk: Desk) -> Channel:
        return outbox_commands.resume(tx, body.kind, actor=desk.actor, now=desk.now)

    return ChannelShown(**_channel(await parts_of(request).change(caller.actor, work)))


@router.get("/{outboxId}", responses=refusals(404))
async def get_message(outbox_id: MessagePath, request: Request, _: Viewer) -> MessageDetail:
    """One message, with its payload."""
    wanted = OutboxId.parse(outbox_id)

    def work(tx: ServiceTx) -> MessageDetail:
        kind, found = find_message(tx, wanted)
        holders = tx.outbox_view(kind).holders([wanted])
        return MessageDetail(**_message(found, holders) | {"payload": orjson.loads(found.payload)})

    return await parts_of(request).read(work)


@router.get("/{outboxId}/attempts", responses=refusals(404))
async def get_attempts(outbox_id: MessagePath, request: Request, _: Viewer, size: PageSize = 20) -> AttemptsShown:
    """Every try of a message: when, how long, the receiver's answer, and whether it counted."""
    wanted = OutboxId.parse(outbox_id)

    def work(tx: ServiceTx) -> Sequence[Attempt]:
        find_message(tx, wanted)
        return tx.attempts.of(wanted, size)

    found = await parts_of(request).read(work)
    return AttemptsShown(content=[_attempt(attempt) for attempt in found])


async def _move(request: Request, actor: str, body: ChooseBody, dry_run: bool, *, is_replay: bool) -> MovedMessages:
    """Messages by their ids, each handled by itself; or those of a choice."""
    parts = parts_of(request)
    chosen = body.all_failed or any((body.seller_id, body.event_type, body.since, body.until))
    one_way(body.outbox_ids, "outboxIds", chosen=chosen)
    if body.outbox_ids:
        if dry_run:
            raise unreadable("outboxIds", "dryRun is for a choice")
        named = [OutboxId.parse(outbox_id) for outbox_id in body.outbox_ids]
        move = outbox_commands.replay if is_replay else outbox_commands.discard

        def by_ids(tx: ServiceTx, desk: Desk) -> BulkResult:
            return move(tx, named, actor=desk.actor, now=desk.now)

        handled = await parts.change(actor, by_ids)
        refused = refused_of(handled, request)
        done = [str(outbox_id) for outbox_id in handled.done]
        return MovedMessages(dry_run=False, messages=len(done), left=0, done=done, refused=refused)
    seller_id, since, until = seller_of(body.seller_id), utc(body.since), utc(body.until)
    choice = MessageFilter(MessageStatus.FAILED, seller_id, body.event_type, since, until)
    return await _move_chosen(request, actor, body.kind, choice, dry_run=dry_run, is_replay=is_replay)


async def _move_chosen(
    request: Request, actor: str, kind: OutboxKind, choice: MessageFilter, *, dry_run: bool, is_replay: bool
) -> MovedMessages:
    parts = parts_of(request)
    move = outbox_commands.replay_chosen if is_replay else outbox_commands.discard_chosen

    def count(tx: ServiceTx, moved: int = 0) -> MovedMessages:
        known_seller(tx, choice.seller_id)
        chosen = tx.outbox_view(kind).count(choice)
        return MovedMessages(
            dry_run=dry_run,
            messages=chosen.messages if dry_run else moved,
            left=chosen.messages,
            subjects=chosen.subjects,
            held=chosen.held,
            by_type=dict(chosen.by_type),
            by_seller=dict(chosen.by_seller),
        )

    def work(tx: ServiceTx, desk: Desk) -> MovedMessages:
        known_seller(tx, choice.seller_id)
        return count(tx, move(tx, kind, choice, actor=desk.actor, now=desk.now))

    return await (parts.read(count) if dry_run else parts.change(actor, work))


def _message(message: Message, holders: Mapping[OutboxId, OutboxId]) -> dict[str, Any]:
    is_schedules = message.kind is OutboxKind.SCHEDULER
    return vars(message) | {
        "kind": message.kind,
        "product_id": None if is_schedules else message.subject_id,
        "schedule_id": message.subject_id if is_schedules else None,
        "held_by": holders.get(message.outbox_id),
    }


def _attempt(attempt: Attempt) -> AttemptShown:
    return AttemptShown(
        try_number=attempt.try_number,
        at=attempt.at,
        duration_ms=attempt.duration_ms,
        http_status_code=attempt.status,
        verdict=attempt.verdict,
        is_counted=attempt.is_counted,
        answer=attempt.answer or None,
    )


def _channel(channel: Channel) -> dict[str, Any]:
    return {
        "kind": channel.kind,
        "is_paused": channel.is_paused,
        "paused_at": channel.paused_at,
        "paused_by": channel.paused_by,
        "circuit": ChannelCircuit(
            state=channel.state,
            failures_in_a_row=channel.failures,
            opened_at=channel.opened_at,
            closed_at=channel.closed_at,
            not_before=channel.not_before,
            most_under_way=channel.most,
            reason=channel.reason,
        ),
    }


def _outbox(channel: Channel, tally: Tally, now: datetime) -> OutboxShown:
    lag = 0.0 if tally.oldest_at is None else max(0.0, (now - tally.oldest_at).total_seconds())
    return OutboxShown(
        **_channel(channel),
        counts={status: tally.by_status.get(status, 0) for status in MessageStatus},
        held=tally.held,
        lag_seconds=round(lag, 3),
        oldest_waiting_at=tally.oldest_at,
    )
