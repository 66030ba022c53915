"""The outbox: how far behind it is, every message by state, replaying and discarding with numbers first, pausing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

import orjson
from fastapi import APIRouter
from starlette.responses import Response

from sellerwatch.kernel.bulk import BulkResult
from sellerwatch.kernel.ids import OutboxId
from sellerwatch.kernel.paging import Page, decode_cursor, encode_cursor
from sellerwatch.operations.ports import ServiceTx
from sellerwatch.outbox import commands as outbox_commands
from sellerwatch.outbox.channel import Channel
from sellerwatch.outbox.commands import find_message
from sellerwatch.outbox.message import Message, MessageStatus, OutboxKind
from sellerwatch.outbox.ports import MessageFilter, Tally
from sellerwatch.outbox.receipt import Attempt
from sellerwatch.web.api.context import Desk
from sellerwatch.web.api.cursors import seller_of
from sellerwatch.web.console import tables
from sellerwatch.web.console.page_request import Admin, Viewer, Visit
from sellerwatch.web.console.rendering import PageRoute, go, show
from sellerwatch.web.console.tables import Chart, Confirm, Filter, Table, seller_page

router = APIRouter(route_class=PageRoute, include_in_schema=False)

MOST_DELIVERIES = 400
MOST_POINTS = 120
MOST_ATTEMPTS = 50
EVENTS = ("PRODUCT_CREATED", "PRODUCT_UPDATED", "PRODUCT_DELETED")


@dataclass(frozen=True)
class Seen:
    channel: Channel
    tally: Tally
    piece: Page[Message]
    deliveries: Sequence[tuple[datetime, datetime]]


def _kind(text: str) -> OutboxKind:
    return OutboxKind(text) if text in list(OutboxKind) else OutboxKind.PRODUCT


def _choice(status: str, seller: str, event: str) -> MessageFilter:
    wanted = MessageStatus(status) if status in list(MessageStatus) else None
    return MessageFilter(wanted, seller_of(seller or None), event or None)


@router.get("/outbox")
async def outbox_page(visit: Viewer) -> Response:
    kind = _kind(visit.asked("kind"))
    status, seller, event = visit.asked("status"), visit.asked("seller"), visit.asked("event")
    choice, place = _choice(status, seller, event), decode_cursor(kind, visit.place("cursor"))

    def work(tx: ServiceTx) -> Seen:
        view = tx.outbox_view(kind)
        deliveries = tx.dashboard.deliveries(MOST_DELIVERIES) if kind is OutboxKind.PRODUCT else ()
        return Seen(tx.channels.get(kind), view.tally(), view.page(choice, place, visit.rows), deliveries)

    seen = await visit.read(work)
    cursor = encode_cursor(kind, seen.piece.next)
    table = Table(
        "messages",
        (
            "col.event",
            "col.type",
            "col.about",
            "col.seller",
            "col.status",
            "col.tries",
            "col.cause",
            "col.made",
            "col.arrived",
        ),
        [_row(message) for message in seen.piece.content],
        "outbox.none_found" if status or seller or event else "outbox.empty",
        next=visit.link(cursor=cursor) if cursor else None,
        caption="nav.outbox",
    )
    fields = [
        Filter("status", "col.status", status, [(s, f"status.{s}") for s in MessageStatus]),
        Filter("seller", "col.seller_id", seller),
        Filter("event", "col.type", event, [(e, f"event.{e}") for e in EVENTS]),
        Filter("kind", "outbox.kind", visit.asked("kind"), [(k, f"outbox.{k}") for k in OutboxKind]),
    ]
    chosen = urlencode({name: value for name, value in (("seller", seller), ("event", event), ("kind", kind)) if value})
    oldest = seen.tally.oldest_at
    return show(
        visit,
        "outbox.html",
        seen=seen,
        kind=kind,
        table=table,
        fields=fields,
        chosen=chosen,
        failed=seen.tally.by_status.get(MessageStatus.FAILED, 0),
        lag=0.0 if oldest is None else max(0.0, (visit.now - oldest).total_seconds()),
        chart=_lag(seen.deliveries),
        states=list(MessageStatus),
        has_receiver=visit.parts.service.deliveries[0 if kind is OutboxKind.PRODUCT else 1].has_receiver,
    )


def _row(message: Message) -> tuple[tables.Cell, ...]:
    about = tables.text(message.item_no, f"/products/{message.item_no}")
    return (
        tables.code(message.outbox_id, f"/outbox/{message.outbox_id}"),
        tables.pill(message.event_type, "event"),
        about if message.item_no is not None else tables.text(message.seller_id),
        tables.text(message.seller_id, seller_page(message.seller_id)),
        tables.pill(message.status),
        tables.number(message.retry_count),
        tables.raw(message.error_message),
        tables.when(message.created_at),
        tables.when(message.sent_at),
    )


def _lag(deliveries: Sequence[tuple[datetime, datetime]]) -> Chart:
    """How long the newest events took to arrive: of each span of time the slowest."""
    slowest: dict[int, float] = {}
    if deliveries:
        first, last = deliveries[0][1].timestamp(), max(sent for _, sent in deliveries).timestamp()
        width = max(1.0, (last - first) / MOST_POINTS)
        for made, sent in deliveries:
            place = int((sent.timestamp() - first) / width)
            slowest[place] = max(slowest.get(place, 0.0), (sent - made).total_seconds())
        x = [first + place * width for place in sorted(slowest)]
    else:
        x = []
    values = [round(slowest[place], 2) for place in sorted(slowest)]
    return Chart("lag", "outbox.lag_chart", x, [("chart.seconds", "accent", values)])


@router.get("/outbox/replay")
async def confirm_replay(visit: Admin) -> Response:
    return await _preview(visit, "replay")


@router.get("/outbox/discard")
async def confirm_discard(visit: Admin) -> Response:
    return await _preview(visit, "discard")


async def _preview(visit: Visit, verb: str) -> Response:
    """The choice in numbers, before anything moves."""
    kind, seller, event = _kind(visit.asked("kind")), visit.asked("seller"), visit.asked("event")
    choice = _choice(MessageStatus.FAILED, seller, event)
    chosen = await visit.read(lambda tx: tx.outbox_view(kind).count(choice))
    by_type = ", ".join(f"{visit.t(f'event.{name}')} {number:,}" for name, number in chosen.by_type.items()) or "–"
    return show(
        visit,
        "confirm.html",
        confirm=Confirm(
            f"{verb}.title",
            f"/outbox/{verb}",
            f"{verb}.button",
            [
                (f"{verb}.what", {"n": chosen.messages, "subjects": chosen.subjects}),
                ("replay.types", {"types": by_type}),
                ("replay.sellers", {"n": len(chosen.by_seller)}),
                ("replay.held", {"n": chosen.held}),
                (f"{verb}.then", {}),
            ],
            f"/outbox?status=FAILED&kind={kind}",
            hidden={"kind": kind, "seller": seller, "event": event},
            danger=verb == "discard",
        ),
    )


@router.post("/outbox/replay")
async def replay(visit: Admin) -> Response:
    return await _move_all(visit, "replay", outbox_commands.replay_chosen)


@router.post("/outbox/discard")
async def discard(visit: Admin) -> Response:
    return await _move_all(visit, "discard", outbox_commands.discard_chosen)


async def _move_all(visit: Visit, verb: str, move: Callable[..., int]) -> Response:
    form = visit.form
    kind = _kind(form.get("kind", ""))
    choice = _choice(MessageStatus.FAILED, form.get("seller", ""), form.get("event", ""))

    def work(tx: ServiceTx, desk: Desk) -> int:
        return move(tx, kind, choice, actor=desk.actor, now=desk.now)

    return go(visit, f"/outbox?kind={kind}", f"{verb}.done", n=await visit.change(work))


@router.get("/outbox/pause")
async def confirm_pause(visit: Admin) -> Response:
    kind = _kind(visit.asked("kind"))
    tally = await visit.read(lambda tx: tx.outbox_view(kind).tally())
    waiting = tally.by_status.get(MessageStatus.WAITING, 0)
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

    def work(tx: ServiceTx, desk: Desk) -> Channel:
        return outbox_commands.pause(tx, kind, reason, actor=desk.actor, now=desk.now)

    await visit.change(work)
    return go(visit, f"/outbox?kind={kind}", "pause.done")


@router.post("/outbox/resume")
async def resume(visit: Admin) -> Response:
    kind = _kind(visit.form.get("kind", ""))

    def work(tx: ServiceTx, desk: Desk) -> Channel:
        return outbox_commands.resume(tx, kind, actor=desk.actor, now=desk.now)

    await visit.change(work)
    return go(visit, f"/outbox?kind={kind}", "resume.done")


@router.get("/outbox/{outbox_id}")
async def message_page(outbox_id: str, visit: Viewer) -> Response:
    wanted = OutboxId.parse(outbox_id)

    def work(tx: ServiceTx) -> tuple[OutboxKind, Message, OutboxId | None, Sequence[Attempt]]:
        kind, message = find_message(tx, wanted)
        holder = tx.outbox_view(kind).holders([wanted]).get(wanted)
        return kind, message, holder, tx.attempts.of(wanted, MOST_ATTEMPTS)

    kind, message, holder, attempts = await visit.read(work)
    table = Table(
        "attempts",
        ("col.try", "col.verdict", "col.http", "col.took_ms", "col.counted", "col.answer", "col.time"),
        [
            (
                tables.number(attempt.try_number),
                tables.pill(attempt.verdict, "verdict"),
                tables.number(attempt.status),
                tables.number(attempt.duration_ms),
                tables.said("yes" if attempt.is_counted else "no"),
                tables.raw(attempt.answer),
                tables.when(attempt.at),
            )
            for attempt in attempts
        ],
        "message.no_attempts",
        caption="message.attempts",
    )
    body = orjson.dumps(orjson.loads(message.payload), option=orjson.OPT_INDENT_2).decode()
    return show(visit, "message.html", message=message, kind=kind, holder=holder, attempts=table, body=body)


@router.post("/outbox/{outbox_id}/replay")
async def replay_one(outbox_id: str, visit: Admin) -> Response:
    return await _move_one(visit, outbox_id, "replay", outbox_commands.replay)


@router.get("/outbox/{outbox_id}/discard")
async def confirm_discard_one(outbox_id: str, visit: Admin) -> Response:
    wanted = OutboxId.parse(outbox_id)
    _, message = await visit.read(lambda tx: find_message(tx, wanted))
    return show(
        visit,
        "confirm.html",
        confirm=Confirm(
            "discard.title",
            f"/outbox/{wanted}/discard",
            "discard.button",
            [("discard.one", {"version": message.version}), ("discard.then", {})],
            f"/outbox/{wanted}",
        ),
    )


@router.post("/outbox/{outbox_id}/discard")
async def discard_one(outbox_id: str, visit: Admin) -> Response:
    return await _move_one(visit, outbox_id, "discard", outbox_commands.discard)


async def _move_one(visit: Visit, outbox_id: str, verb: str, move: Callable[..., BulkResult]) -> Response:
    wanted = OutboxId.parse(outbox_id)

    def work(tx: ServiceTx, desk: Desk) -> None:
        handled = move(tx, [wanted], actor=desk.actor, now=desk.now)
        if handled.refused:
            raise handled.refused[0].error

    await visit.change(work)
    return go(visit, f"/outbox/{wanted}", f"{verb}.done", n=1)
