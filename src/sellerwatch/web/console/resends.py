"""Resends: ask for one after a preview in numbers, see how far each is and what was answered, cancel one."""

from __future__ import annotations

from datetime import datetime

from fastapi import APIRouter
from starlette.responses import Response

from sellerwatch.kernel.errors import SellerwatchError
from sellerwatch.kernel.ids import ItemNo, OutboxId, ResendId
from sellerwatch.kernel.store import StoreFailed
from sellerwatch.operations.resends import cancel_resend, start_resend
from sellerwatch.outbox import resend_queries
from sellerwatch.outbox.resend import ResendAnswer, ResendChoice, ResendStatus
from sellerwatch.outbox.resend_queries import ResendAnswerView, ResendView
from sellerwatch.web.api.cursors import seller_of, utc
from sellerwatch.web.api.errors import status_of
from sellerwatch.web.console import tables
from sellerwatch.web.console.page_request import Admin, Viewer, Visit, one_of
from sellerwatch.web.console.rendering import PageRoute, ask_first, go, show, show_list
from sellerwatch.web.console.tables import Columns, Filter, Table

router = APIRouter(route_class=PageRoute, include_in_schema=False)

EVENTS = ("PRODUCT_CREATED", "PRODUCT_UPDATED", "PRODUCT_DELETED", "PRODUCT_SNAPSHOT")
CHOICE = ("event_id", "seller", "event", "item", "since", "until")

RESENDS: Columns[ResendView] = {
    "resend": lambda resend: tables.code(resend.resend_id, f"/resends/{resend.resend_id}"),
    "status": lambda resend: tables.pill(resend.status),
    "answered": lambda resend: tables.bar(resend.total - resend.left, resend.total),
    "accepted": lambda resend: tables.number(resend.accepted),
    "requested_by": lambda resend: tables.code(resend.requested_by),
    "made": lambda resend: tables.when(resend.created_at),
    "ended": lambda resend: tables.when(resend.ended_at),
}
ANSWERS: Columns[ResendAnswerView] = {
    "event": lambda event: tables.code(event.outbox_id, f"/outbox/{event.outbox_id}"),
    "answer": lambda event: tables.said(f"resend.{event.answer}"),
    "http": lambda event: tables.number(event.http_status_code),
    "took_ms": lambda event: tables.number(event.duration_ms),
    "answer_text": lambda event: tables.raw(event.text),
    "time": lambda event: tables.when(event.tried_at),
}


@router.get("/resends")
async def resends(visit: Viewer) -> Response:
    status = visit.asked("status")
    wanted = one_of(ResendStatus, status)
    page = await visit.operations.ask(resend_queries.list_resends, wanted, visit.cursor, visit.rows)
    return show_list(
        visit,
        "resends",
        page.content,
        RESENDS,
        fields=[Filter("status", "col.status", status, [(s, f"status.{s}") for s in ResendStatus])],
        next_=visit.page_after(page),
        live="resend",
        buttons=[("/outbox/resend", "resend.button")],
    )


@router.get("/outbox/resend")
async def ask_resend(visit: Admin) -> Response:
    """Show in numbers what a resend of this choice would send."""
    return await _ask(visit, {name: visit.asked(name) for name in CHOICE})


@router.post("/outbox/resend")
async def resend(visit: Admin) -> Response:
    typed = {name: visit.form.get(name, "").strip() for name in CHOICE}
    try:
        started = await visit.operations.run(start_resend, _choice(visit, typed))
    except StoreFailed:
        raise
    except SellerwatchError:
        return await _ask(visit, typed)
    return go(visit, f"/resends/{started.resend_id}", "resend.started", n=started.messages)


async def _ask(visit: Visit, typed: dict[str, str]) -> Response:
    found, problem, status = None, None, 200
    try:
        found = await visit.operations.run(start_resend, _choice(visit, typed), dry_run=True)
    except StoreFailed:
        raise
    except SellerwatchError as error:
        problem, status = visit.refusal(error), status_of(type(error))
    fields = [
        Filter("event_id", "col.event", typed["event_id"]),
        Filter("seller", "col.seller_id", typed["seller"]),
        Filter("event", "col.type", typed["event"], [(each, f"event.{each}") for each in EVENTS]),
        Filter("item", "col.item", typed["item"]),
        Filter("since", "resend.since", typed["since"], kind="datetime-local"),
        Filter("until", "resend.until", typed["until"], kind="datetime-local"),
    ]
    by_type = [] if found is None else [(visit.t(f"event.{name}"), n) for name, n in found.by_type.items()]
    return show(
        visit,
        "resend_ask.html",
        status=status,
        found=found,
        by_type=by_type,
        problem=problem,
        fields=fields,
        typed=typed,
    )


def _choice(visit: Visit, typed: dict[str, str]) -> ResendChoice:
    """Return the choice that was typed. A time without a zone is one of the zone in which the console shows times;
    what is no time is left out."""
    if typed["event_id"]:
        return ResendChoice((OutboxId.parse(typed["event_id"]),))
    return ResendChoice(
        seller_id=seller_of(typed["seller"] or None),
        event_type=typed["event"] or None,
        item_no=ItemNo.parse_text(typed["item"]) if typed["item"] else None,
        since=_time(visit, typed["since"]),
        until=_time(visit, typed["until"]),
    )


def _time(visit: Visit, text: str) -> datetime | None:
    try:
        typed = datetime.fromisoformat(text) if text else None
    except ValueError:
        typed = None
    return utc(typed.replace(tzinfo=visit.zone) if typed is not None and typed.tzinfo is None else typed)


@router.get("/resends/{resend_id}")
async def resend_page(resend_id: str, visit: Viewer) -> Response:
    wanted, answer = ResendId.parse(resend_id), one_of(ResendAnswer, visit.asked("answer"))
    found = await visit.operations.ask(resend_queries.show_resend, wanted)
    page = await visit.operations.ask(resend_queries.list_resend_answers, wanted, answer, visit.cursor, visit.rows)
    table = Table.of(
        "answers", page.content, ANSWERS, "resend.no_answers", caption="resend.answers", next_=visit.page_after(page)
    )
    return show(visit, "resend.html", resend=found, answers=table)


@router.get("/resends/{resend_id}/cancel")
async def confirm_cancel(resend_id: str, visit: Admin) -> Response:
    wanted = ResendId.parse(resend_id)
    found = await visit.operations.run(cancel_resend, wanted, dry_run=True)
    sentences = [("resend.left_now", {"n": found.left}), ("resend.sent", {"n": found.total - found.left})]
    return ask_first(visit, "resend.cancel_title", "resend.cancel", sentences, f"/resends/{wanted}")


@router.post("/resends/{resend_id}/cancel")
async def cancel(resend_id: str, visit: Admin) -> Response:
    found = await visit.operations.run(cancel_resend, ResendId.parse(resend_id))
    return go(visit, f"/resends/{found.resend_id}", "resend.cancelled", n=found.total - found.left)
