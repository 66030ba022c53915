"""Send delivered events again: ask for a resend, cancel it. The service sends them (`outbox/resending.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from sellerwatch.kernel.clock import stamp
from sellerwatch.kernel.ids import OutboxId, ResendId
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.views import About, View
from sellerwatch.operations.ports import ServiceTx
from sellerwatch.outbox.message import MessageNotFound, MessageStatus
from sellerwatch.outbox.resend import RESEND_LIFE, NotDelivered, NothingToResend, Resend, ResendChoice
from sellerwatch.outbox.resend_queries import ResendView, find_resend, resend_fields
from sellerwatch.oversight.audit import AuditEntry, record_audit
from sellerwatch.sellers.queries import require_seller


@dataclass(frozen=True)
class StartedResendView(View):
    """A resend that was asked for, in numbers. In a dry run it has no id: nothing is kept."""

    dry_run: bool
    resend_id: Annotated[str | None, About(example="0198c0de-0000-7000-800b-000000000001")]
    messages: Annotated[int, About("Events that are sent again.", 1200)]
    by_type: Mapping[str, int]
    by_seller: Mapping[str, int]


@dataclass(frozen=True)
class CancelledResendView(ResendView):
    """A resend after it was cancelled. Requests under way are still answered."""

    dry_run: bool


def start_resend(
    tx: ServiceTx, context: OperationContext, choice: ResendChoice, *, dry_run: bool = False
) -> StartedResendView:
    """Ask for delivered events to be sent again, with the keys and bodies that they had. Each id must be of an event
    that was delivered."""
    require_seller(tx, choice.seller_id)
    _check_ids(tx, choice.outbox_ids)
    found = tx.resends.counts(choice)
    if not found.messages:
        raise NothingToResend
    resend_id = ResendId(next(context.ids))
    if not dry_run:
        tx.resends.add(Resend(resend_id, choice, found.messages, found.last_row, context.actor, context.now))
        after = {"chosenBy": _shown(choice), "messages": found.messages}
        record_audit(tx, AuditEntry(context.now, context.actor, "resend.start", "resend", resend_id, after=after))
    return StartedResendView(
        dry_run=dry_run,
        resend_id=None if dry_run else resend_id,
        messages=found.messages,
        by_type=found.by_type,
        by_seller=found.by_seller,
    )


def cancel_resend(
    tx: ServiceTx, context: OperationContext, resend_id: ResendId, *, dry_run: bool = False
) -> CancelledResendView:
    """End a resend before all its events were sent."""
    resend = find_resend(tx, resend_id)
    RESEND_LIFE.after(resend.status, "cancel", resend_id)
    if not dry_run:
        before = {"status": resend.status}
        resend = resend.cancel(context.actor, context.now)
        tx.resends.save(resend)
        after = {"status": resend.status, "answered": resend.answered}
        record_audit(tx, AuditEntry(context.now, context.actor, "resend.cancel", "resend", resend_id, before, after))
    return CancelledResendView(**resend_fields(resend), dry_run=dry_run)


def _check_ids(tx: ServiceTx, outbox_ids: tuple[OutboxId, ...]) -> None:
    found = {message.outbox_id: message for message in tx.product_outbox.get_many(outbox_ids)}
    for outbox_id in outbox_ids:
        message = found.get(outbox_id)
        if message is None:
            raise MessageNotFound(outbox_id=outbox_id)
        if message.status is not MessageStatus.COMPLETED:
            raise NotDelivered(outbox_id=outbox_id, status=message.status)


def _shown(choice: ResendChoice) -> dict[str, Any]:
    if choice.outbox_ids:
        return {"outboxIds": [*choice.outbox_ids]}
    given = {
        "sellerId": choice.seller_id,
        "eventType": choice.event_type,
        "itemNo": choice.item_no,
        "since": None if choice.since is None else stamp(choice.since),
        "until": None if choice.until is None else stamp(choice.until),
    }
    return {name: value for name, value in given.items() if value is not None}
