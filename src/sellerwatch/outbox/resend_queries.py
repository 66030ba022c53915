"""Queries over resends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from sellerwatch.kernel.ids import ResendId
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.paging import decode_cursor, page_view
from sellerwatch.kernel.views import About, CursorPageView, View, shared_fields
from sellerwatch.outbox.ports import OutboxTx
from sellerwatch.outbox.resend import Resend, ResendAnswer, ResendNotFound, ResendStatus, ResentEvent

RESENDS, ANSWERS = "resends", "answers"


@dataclass(frozen=True)
class ResendView(View):
    """A resend: which delivered events, and how many of them were answered."""

    resend_id: Annotated[str, About(example="0198c0de-0000-7000-800b-000000000001")]
    status: ResendStatus
    outbox_ids: Annotated[Sequence[str], About("Empty: chosen by the other fields.")]
    seller_id: Annotated[str | None, About(example="seller_12345")]
    event_type: Annotated[str | None, About(example="PRODUCT_UPDATED")]
    item_no: int | None
    since: Annotated[datetime | None, About("Delivered then or later.")]
    until: Annotated[datetime | None, About("Delivered before then.")]
    total: Annotated[int, About("Events that it is about.", 1200)]
    accepted: Annotated[int, About("Answered with a 2xx.", 900)]
    refused: Annotated[int, About("Answered with a 4xx that is not worth repeating.", 0)]
    failed: Annotated[int, About("Tried as often as an event is, and not accepted.", 0)]
    left: Annotated[int, About("Not answered yet; once it is over: not sent, or deleted before their turn.", 300)]
    progress_rate: Annotated[float, About("Answered events in percent.", 75.0)]
    problem: Annotated[str | None, About("Why the last round was not accepted whole.")]
    not_before: Annotated[datetime | None, About("Every event of the last round failed: when one is tried again.")]
    requested_by: str
    created_at: datetime
    ended_at: datetime | None
    ended_by: Annotated[str | None, About("Who cancelled it.")]

    @classmethod
    def of(cls, resend: Resend) -> ResendView:
        return cls(**resend_fields(resend))


@dataclass(frozen=True)
class ResendAnswerView(View):
    """What the receiver answered to one event that was sent again."""

    outbox_id: Annotated[str, About(example="0198c0de-0000-7000-8005-000000000001")]
    answer: ResendAnswer
    tries: Annotated[int, About("Failed tries that count against the event.")]
    tried_at: datetime
    duration_ms: int
    http_status_code: int | None
    text: Annotated[str | None, About("The beginning of the answer, or why there was none.")]
    next_try_at: datetime | None

    @classmethod
    def of(cls, event: ResentEvent) -> ResendAnswerView:
        return cls(**shared_fields(cls, event))


def list_resends(
    tx: OutboxTx, _: OperationContext, status: ResendStatus | None, cursor: str | None, size: int
) -> CursorPageView[ResendView]:
    """List resends, newest first."""
    return page_view(RESENDS, tx.resends.page(status, decode_cursor(RESENDS, cursor), size), ResendView.of)


def show_resend(tx: OutboxTx, _: OperationContext, resend_id: ResendId) -> ResendView:
    """Show a resend: how many events were sent again, and how they were answered."""
    return ResendView.of(find_resend(tx, resend_id))


def list_resend_answers(
    tx: OutboxTx,
    _: OperationContext,
    resend_id: ResendId,
    answer: ResendAnswer | None,
    cursor: str | None,
    size: int,
) -> CursorPageView[ResendAnswerView]:
    """List the answers to a resend, the events that were tried last first. Old ones are deleted."""
    find_resend(tx, resend_id)
    page = tx.resent_events.page(resend_id, answer, decode_cursor(ANSWERS, cursor), size)
    return page_view(ANSWERS, page, ResendAnswerView.of)


def find_resend(tx: OutboxTx, resend_id: ResendId) -> Resend:
    """Return a resend; refuse an id that no resend has."""
    resend = tx.resends.get(resend_id)
    if resend is None:
        raise ResendNotFound(resend_id=resend_id)
    return resend


def resend_fields(resend: Resend) -> dict[str, Any]:
    """Return the fields of a `ResendView`."""
    rate = round(100.0 * resend.answered / resend.total, 2) if resend.total else 100.0
    told = {"left": resend.total - resend.answered, "progress_rate": rate}
    return shared_fields(ResendView, resend) | shared_fields(ResendView, resend.choice) | told
