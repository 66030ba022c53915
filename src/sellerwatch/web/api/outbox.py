"""/api/v1/outbox: events on their way, attempts to deliver them, replay, discard, pause and resume."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field, StrictBool, StrictStr

from sellerwatch.kernel.ids import ItemNo, OutboxId
from sellerwatch.kernel.views import CursorPageView
from sellerwatch.operations import outbox as operations
from sellerwatch.operations import ping
from sellerwatch.operations.resends import StartedResendView, start_resend
from sellerwatch.operations.session import OperationSession
from sellerwatch.outbox import commands, queries
from sellerwatch.outbox.commands import MessageAction, MovedMessagesView
from sellerwatch.outbox.message import MessageStatus, OutboxKind
from sellerwatch.outbox.ping import PingView
from sellerwatch.outbox.ports import MessageFilter
from sellerwatch.outbox.queries import (
    AN_ID,
    AttemptsView,
    ChannelView,
    DeliveryTimesView,
    MessageDetailView,
    MessageView,
    OutboxesView,
)
from sellerwatch.outbox.resend import ResendChoice
from sellerwatch.web.api.authorization import AdminSession, ViewerSession
from sellerwatch.web.api.context import parts_of
from sellerwatch.web.api.cursors import (
    MOST_NAMED,
    CursorParameter,
    DryRun,
    SellerFilter,
    Since,
    Until,
    one_way,
    seller_of,
    utc,
)
from sellerwatch.web.api.errors import refusals
from sellerwatch.web.api.models import PageSize, RequestModel
from sellerwatch.web.api.view_route import ViewRoute

router = APIRouter(prefix="/outbox", tags=["outbox"], route_class=ViewRoute)

MessagePath = Annotated[str, Path(alias="outboxId", max_length=100, examples=[AN_ID])]
Kind = Annotated[OutboxKind, Query(alias="kind", description="Messages about products, or about schedules.")]
TypeFilter = Annotated[
    str | None, Query(alias="eventType", min_length=1, max_length=50, description="E.g. PRODUCT_UPDATED.")
]


class ChooseBody(RequestModel):
    """By ids, or by a filter over all failed messages: `allFailed`, or what narrows it."""

    outbox_ids: list[StrictStr] | None = Field(None, max_length=MOST_NAMED, examples=[[AN_ID]])
    all_failed: StrictBool = False
    kind: OutboxKind = Field(OutboxKind.PRODUCT, strict=False, examples=["product"])
    seller_id: StrictStr | None = Field(None, max_length=100)
    event_type: StrictStr | None = Field(None, min_length=1, max_length=50)
    since: datetime | None = Field(None, strict=False, examples=["2026-11-15T06:00:00Z"])
    until: datetime | None = Field(None, strict=False)


class ResendBody(RequestModel):
    """By ids, or by a choice of delivered events: `allDelivered`, or what narrows it."""

    outbox_ids: list[StrictStr] | None = Field(None, max_length=MOST_NAMED, examples=[[AN_ID]])
    all_delivered: StrictBool = False
    seller_id: StrictStr | None = Field(None, max_length=100)
    event_type: StrictStr | None = Field(None, min_length=1, max_length=50)
    item_no: int | None = Field(None, ge=1, le=ItemNo.LARGEST, examples=[900000001])
    since: datetime | None = Field(
        None, strict=False, description="Delivered then or later.", examples=["2026-11-15T06:00:00Z"]
    )
    until: datetime | None = Field(None, strict=False, description="Delivered before then.")


class PauseBody(RequestModel):
    kind: OutboxKind = Field(OutboxKind.PRODUCT, strict=False, examples=["product"])
    reason: StrictStr | None = Field(None, max_length=500, examples=["the product server is being moved"])


class ResumeBody(RequestModel):
    kind: OutboxKind = Field(OutboxKind.PRODUCT, strict=False, examples=["product"])


@router.get("", responses=refusals(404))
async def list_messages(
    session: ViewerSession,
    kind: Kind = OutboxKind.PRODUCT,
    seller_id: SellerFilter = None,
    status: Annotated[MessageStatus | None, Query()] = None,
    event_type: TypeFilter = None,
    since: Since = None,
    until: Until = None,
    cursor: CursorParameter = None,
    size: PageSize = 20,
) -> CursorPageView[MessageView]:
    """List messages, newest first. A page may be short and not the last: only `next: null` is the end."""
    chosen = MessageFilter(status, seller_of(seller_id), event_type, utc(since), utc(until))
    return await session.ask(operations.list_messages, kind, chosen, cursor, size)


@router.get("/status")
async def show_outbox_status(session: ViewerSession, request: Request) -> OutboxesView:
    """Show both outboxes in numbers: counts, lag, held messages, and whether anything is sent."""
    has_receiver = parts_of(request).settings.product_server_url is not None
    return await session.ask(queries.outbox_status, has_receiver)


@router.get("/delivery-times")
async def show_delivery_times(
    session: ViewerSession, kind: Kind = OutboxKind.PRODUCT, size: PageSize = 20
) -> DeliveryTimesView:
    """Show how long the newest delivered messages took, oldest first."""
    return await session.ask(queries.delivery_times, kind, size)


@router.post("/replay", responses=refusals(404))
async def replay_messages(session: AdminSession, body: ChooseBody, dry_run: DryRun = False) -> MovedMessagesView:
    """Send failed messages again, with the same key and body; at most 10,000 of a filter."""
    return await _move(session, MessageAction.REPLAY, body, dry_run)


@router.post("/discard", responses=refusals(404))
async def discard_messages(session: AdminSession, body: ChooseBody, dry_run: DryRun = False) -> MovedMessagesView:
    """Give up failed messages; what waits behind them is sent. At most 10,000 of a filter."""
    return await _move(session, MessageAction.DISCARD, body, dry_run)


@router.post("/pause", responses=refusals(409))
async def pause_outbox(session: AdminSession, body: PauseBody, dry_run: DryRun = False) -> ChannelView:
    """Stop sending until it is resumed, over restarts too. Attempts already sent finish."""
    return await session.run(commands.pause, body.kind, body.reason, dry_run)


@router.post("/resume", responses=refusals(409))
async def resume_outbox(session: AdminSession, body: ResumeBody, dry_run: DryRun = False) -> ChannelView:
    """Send again after a pause. Where the circuit of the receiver or of a seller is open, probes are sent at once."""
    return await session.run(commands.resume, body.kind, dry_run)


@router.post("/resend", status_code=202, responses=refusals(404, 409))
async def resend_messages(session: AdminSession, body: ResendBody, dry_run: DryRun = False) -> StartedResendView:
    """Ask for delivered events to be sent again, with the keys and bodies that they had. They stay COMPLETED.

    They are sent beside new events, within the receiver's rate: `GET /api/v1/resends/{resendId}` says how far it is.
    """
    chosen = any((body.all_delivered, body.seller_id, body.event_type, body.item_no, body.since, body.until))
    one_way(body.outbox_ids, "outboxIds", chosen=chosen)
    item_no = None if body.item_no is None else ItemNo(body.item_no)
    choice = ResendChoice(
        tuple(OutboxId.parse(outbox_id) for outbox_id in dict.fromkeys(body.outbox_ids or ())),
        seller_of(body.seller_id),
        body.event_type,
        item_no,
        utc(body.since),
        utc(body.until),
    )
    return await session.run(start_resend, choice, dry_run=dry_run)


@router.post("/ping", responses=refusals(409))
async def ping_receiver(session: AdminSession) -> PingView:
    """Send a signed PING to the receiver at once and show its answer. No product and no event is touched."""
    return await ping.ping_receiver(session)


@router.get("/{outboxId}", responses=refusals(404))
async def show_message(session: ViewerSession, outbox_id: MessagePath) -> MessageDetailView:
    """Show one message with its payload."""
    return await session.ask(queries.show_message, OutboxId.parse(outbox_id))


@router.get("/{outboxId}/attempts", responses=refusals(404))
async def list_attempts(session: ViewerSession, outbox_id: MessagePath, size: PageSize = 20) -> AttemptsView:
    """List the attempts of a message: when, how long, the receiver's answer, and whether each counted."""
    return await session.ask(queries.list_attempts, OutboxId.parse(outbox_id), size)


async def _move(session: OperationSession, action: MessageAction, body: ChooseBody, dry_run: bool) -> MovedMessagesView:
    is_filter = body.all_failed or any((body.seller_id, body.event_type, body.since, body.until))
    one_way(body.outbox_ids, "outboxIds", chosen=is_filter)
    if body.outbox_ids:
        outbox_ids = [OutboxId.parse(outbox_id) for outbox_id in body.outbox_ids]
        return await session.run(commands.move_messages, action, outbox_ids, dry_run)
    seller_id, since, until = seller_of(body.seller_id), utc(body.since), utc(body.until)
    chosen = MessageFilter(MessageStatus.FAILED, seller_id, body.event_type, since, until)
    return await session.run(operations.move_chosen, action, body.kind, chosen, dry_run)
