"""The outbox: its lag, messages by state, replay and discard with numbers first, pause and resume."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

import orjson
from fastapi import APIRouter
from starlette.responses import Response

from sellerwatch.kernel.ids import OutboxId
from sellerwatch.operations import outbox as operations
from sellerwatch.operations.ping import ping_receiver
from sellerwatch.outbox import commands, queries
from sellerwatch.outbox.commands import MessageAction
from sellerwatch.outbox.message import MessageStatus, OutboxKind
from sellerwatch.outbox.ports import MessageFilter
from sellerwatch.outbox.queries import AttemptView, DeliveryTimeView, MessageView
from sellerwatch.web.api.cursors import seller_of
from sellerwatch.web.console import tables
from sellerwatch.web.console.page_request import Admin, Viewer, Visit
from sellerwatch.web.console.rendering import PageRoute, go, refuse, show
from sellerwatch.web.console.tables import Chart, Columns, Confirm, Filter, Table, seller_page

router = APIRouter(route_class=PageRoute, include_in_schema=False)

MOST_DELIVERIES = 400
MOST_POINTS = 120
MOST_ATTEMPTS = 50
#: How much of an answer a toast shows.
LONGEST_ANSWER = 200
EVENTS = ("PRODUCT_CREATED", "PRODUCT_UPDATED", "PRODUCT_DELETED", "PRODUCT_SNAPSHOT")


def _about(message: MessageView) -> tables.Cell:
    if message.item_no is None:
        return tables.text(message.seller_id)
    return tables.text(message.item_no, f"/products/{message.item_no}")


MESSAGES: Columns[MessageView] = {
    "event": lambda message: tables.code(message.outbox_id, f"/outbox/{message.outbox_id}"),
    "type": lambda message: tables.pill(message.event_type, "event"),
    "about": _about,
    "seller": lambda message: tables.text(message.seller_id, seller_page(message.seller_id)),
    "status": lambda message: tables.pill(message.status),
    "tries": lambda message: tables.number(message.attempts),
    "cause": lambda message: tables.raw(message.error_message),
    "made": lambda message: tables.when(message.created_at),
    "arrived": lambda message: tables.when(message.sent_at),
}
ATTEMPTS: Columns[AttemptView] = {
    "try": lambda attempt: tables.number(attempt.try_number),
    "verdict": lambda attempt: tables.pill(attempt.verdict, "verdict"),
    "http": lambda attempt: tables.number(attempt.http_status_code),
    "took_ms": lambda attempt: tables.number(attempt.duration_ms),
    "counted": lambda attempt: tables.said("yes" if attempt.is_counted else "no"),
    "answer": lambda attempt: tables.raw(attempt.answer),
    "time": lambda attempt: tables.when(attempt.at),
}


def _kind(text: str) -> OutboxKind:
    return OutboxKind(text) if text in list(OutboxKind) else OutboxKind.PRODUCT


def _filter(status: str, seller: str, event: str) -> MessageFilter:
    wanted = MessageStatus(status) if status in list(MessageStatus) else None
    return MessageFilter(wanted, seller_of(seller or None), event or None)


@router.get("/outbox")
async def outbox_page(visit: Viewer) -> Response:
    kind = _kind(visit.asked("kind"))
    status, seller, event = visit.asked("status"), visit.asked("seller"), visit.asked("event")
    ask, has_receiver = visit.operations.ask, visit.parts.settings.product_server_url is not None
    filter_ = _filter(status, seller, event)
    page = await ask(operations.list_messages, kind, filter_, visit.cursor, visit.rows)
    outboxes = await ask(queries.outbox_status, has_receiver)
    outbox = next(each for each in outboxes.content if each.kind is kind)
    chosen = urlencode({name: value for name, value in (("seller", seller), ("event", event), ("kind", kind)) if value})
    return show(
        visit,
        "outbox.html",
        outbox=outbox,
        table=Table.of(
            "messages",
            page.content,
            MESSAGES,
            "outbox.none_found" if status or seller or event else "outbox.empty",
            caption="nav.outbox",
            next_=visit.page_after(page),
        ),
        fields=[
            Filter("status", "col.status", status, [(s, f"status.{s}") for s in MessageStatus]),
            Filter("seller", "col.seller_id", seller),
            Filter("event", "col.type", event, [(e, f"event.{e}") for e in EVENTS]),
            Filter("kind", "outbox.kind", visit.asked("kind"), [(k, f"outbox.{k}") for k in OutboxKind]),
        ],
        chosen=chosen,
        chart=_lag((await ask(queries.delivery_times, kind, MOST_DELIVERIES)).content),
        can_ping=visit.operations.receiver is not None,
        has_receiver=has_receiver or kind is OutboxKind.SCHEDULER,
    )


def _lag(deliveries: Sequence[DeliveryTimeView]) -> Chart:
    """Return the chart of delivery times: the slowest of each span."""
    slowest: dict[int, float] = {}
    if deliveries:
        first, last = deliveries[0].sent_at.timestamp(), max(each.sent_at for each in deliveries).timestamp()
        width = max(1.0, (last - first) / MOST_POINTS)
        for each in deliveries:
            span = int((each.sent_at.timestamp() - first) / width)
            slowest[span] = max(slowest.get(span, 0.0), each.seconds)
        x = [first + span * width for span in sorted(slowest)]
    else:
        x = []
    values = [round(slowest[span], 2) for span in sorted(slowest)]
    return Chart("lag", "outbox.lag_chart", x, [("chart.seconds", "accent", values)])


@router.get("/outbox/replay")
async def confirm_replay(visit: Admin) -> Response:
    return await _preview(visit, MessageAction.REPLAY)


@router.get("/outbox/discard")
async def confirm_discard(visit: Admin) -> Response:
    return await _preview(visit, MessageAction.DISCARD)


async def _preview(visit: Visit, action: MessageAction) -> Response:
    """Show in numbers what would be moved."""
    kind, seller, event = _kind(visit.asked("kind")), visit.asked("seller"), visit.asked("event")
    chosen = _filter(MessageStatus.FAILED, seller, event)
    counts = await visit.operations.ask(operations.move_chosen, action, kind, chosen, dry_run=True)
    by_type = ", ".join(f"{visit.t(f'event.{name}')} {number:,}" for name, number in counts.by_type.items()) or "–"
    return show(
        visit,
        "confirm.html",
        confirm=Confirm(
            f"{action}.title",
            f"/outbox/{action}",
            f"{action}.button",
            [
                (f"{action}.what", {"n": counts.messages, "subjects": counts.subjects}),
                ("replay.types", {"types": by_type}),
                ("replay.sellers", {"n": len(counts.by_seller)}),
                ("replay.held", {"n": counts.held}),
                (f"{action}.then", {}),
            ],
            f"/outbox?status=FAILED&kind={kind}",
            hidden={"kind": kind, "seller": seller, "event": event},
            danger=action is MessageAction.DISCARD,
        ),
    )


@router.post("/outbox/replay")
async def replay(visit: Admin) -> Response:
    return await _move_chosen(visit, MessageAction.REPLAY)


@router.post("/outbox/discard")
async def discard(visit: Admin) -> Response:
    return await _move_chosen(visit, MessageAction.DISCARD)


async def _move_chosen(visit: Visit, action: MessageAction) -> Response:
    form, kind = visit.form, _kind(visit.form.get("kind", ""))
    chosen = _filter(MessageStatus.FAILED, form.get("seller", ""), form.get("event", ""))
    moved = await visit.operations.run(operations.move_chosen, action, kind, chosen)
    return go(visit, f"/outbox?kind={kind}", f"{action}.done", n=moved.messages)


@router.get("/outbox/pause")
async def confirm_pause(visit: Admin) -> Response:
    kind = _kind(visit.asked("kind"))
    outboxes = await visit.operations.ask(queries.outbox_status, True)
    waiting = next(each.counts[MessageStatus.WAITING] for each in outboxes.content if each.kind is kind)
    return show(
        visit,
        "confirm.html",
        confirm=Confirm(
            "pause.title",
            "/outbox/pause",
            "pause.button",
            [("pause.what", {}), ("pause.waiting", {"n": waiting}), ("pause.until", {})],
            f"/outbox?kind={kind}",
            fields=[Filter("reason", "col.reason", "", kind="text")],
            hidden={"kind": kind},
        ),
    )


@router.post("/outbox/pause")
async def pause(visit: Admin) -> Response:
    kind, reason = _kind(visit.form.get("kind", "")), visit.form.get("reason", "").strip()[:500] or None
    await visit.operations.run(commands.pause, kind, reason)
    return go(visit, f"/outbox?kind={kind}", "pause.done")


@router.post("/outbox/resume")
async def resume(visit: Admin) -> Response:
    kind = _kind(visit.form.get("kind", ""))
    await visit.operations.run(commands.resume, kind)
    return go(visit, f"/outbox?kind={kind}", "resume.done")


@router.post("/outbox/ping")
async def ping(visit: Admin) -> Response:
    found = await ping_receiver(visit.operations)
    status = visit.t("ping.no_answer") if found.http_status_code is None else str(found.http_status_code)
    answer = "–" if found.answer is None else found.answer[:LONGEST_ANSWER]
    key, tone = ("ping.accepted", "ok") if found.is_accepted else ("ping.not_accepted", "bad")
    return go(visit, "/outbox", key, tone=tone, status=status, ms=found.duration_ms, answer=answer)


@router.get("/outbox/{outbox_id}")
async def message_page(outbox_id: str, visit: Viewer) -> Response:
    wanted = OutboxId.parse(outbox_id)
    message = await visit.operations.ask(queries.show_message, wanted)
    attempts = await visit.operations.ask(queries.list_attempts, wanted, MOST_ATTEMPTS)
    table = Table.of("attempts", attempts.content, ATTEMPTS, "message.no_attempts", caption="message.attempts")
    body = orjson.dumps(message.payload, option=orjson.OPT_INDENT_2).decode()
    return show(visit, "message.html", message=message, attempts=table, body=body)


@router.post("/outbox/{outbox_id}/replay")
async def replay_one(outbox_id: str, visit: Admin) -> Response:
    return await _move_one(visit, outbox_id, MessageAction.REPLAY)


@router.get("/outbox/{outbox_id}/discard")
async def confirm_discard_one(outbox_id: str, visit: Admin) -> Response:
    message = await visit.operations.ask(queries.show_message, OutboxId.parse(outbox_id))
    return show(
        visit,
        "confirm.html",
        confirm=Confirm(
            "discard.title",
            f"/outbox/{message.outbox_id}/discard",
            "discard.button",
            [("discard.one", {"version": message.version}), ("discard.then", {})],
            f"/outbox/{message.outbox_id}",
        ),
    )


@router.post("/outbox/{outbox_id}/discard")
async def discard_one(outbox_id: str, visit: Admin) -> Response:
    return await _move_one(visit, outbox_id, MessageAction.DISCARD)


async def _move_one(visit: Visit, outbox_id: str, action: MessageAction) -> Response:
    wanted = OutboxId.parse(outbox_id)
    result = await visit.operations.run(commands.move_messages, action, [wanted])
    if result.refused:
        return refuse(visit, result.refused[0], f"/outbox/{wanted}")
    return go(visit, f"/outbox/{wanted}", f"{action}.done", n=1)
