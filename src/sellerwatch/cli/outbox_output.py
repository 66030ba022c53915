"""Outboxes, messages and attempts as tables and facts for people."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import orjson

from sellerwatch.cli.output import print_facts
from sellerwatch.cli.session import say, short
from sellerwatch.cli.tables import Columns, print_views
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.outbox.message import MessageStatus, OutboxKind

if TYPE_CHECKING:
    from sellerwatch.cli.texts import Texts
    from sellerwatch.kernel.views import CursorPageView
    from sellerwatch.operations.resends import StartedResendView
    from sellerwatch.outbox.commands import MessageAction, MovedMessagesView
    from sellerwatch.outbox.ping import PingView
    from sellerwatch.outbox.queries import (
        AttemptView,
        ChannelView,
        DeliveryTimeView,
        MessageDetailView,
        MessageView,
        OutboxView,
        RefusedSellerView,
    )

#: Sellers shown by a dry run, those with the most messages first.
MOST_SELLERS = 10


def _next_try(message: MessageView, text: Texts) -> str | None:
    if message.held_by is not None:
        return text("list.held")
    return None if message.next_attempt_at is None else _from_now(message.next_attempt_at, text)


def _try(attempt: AttemptView, text: Texts) -> str:
    return str(attempt.try_number) if attempt.is_counted else text("attempts.not_counted", number=attempt.try_number)


def _from_now(time: datetime | None, text: Texts) -> str | None:
    return text("now") if time is None or time <= text.now else text.ago(time)


MESSAGES: Columns[MessageView] = {
    "message": lambda message, _: message.outbox_id,
    "event": lambda message, _: message.event_type,
    "seller": lambda message, _: message.seller_id,
    "item": lambda message, _: message.item_no,
    "status": lambda message, _: message.status,
    "made": lambda message, text: text.ago(message.created_at),
    "tries": lambda message, _: message.attempts,
    "next_try": _next_try,
    "error": lambda message, _: short(message.error_message, 40),
}
DELIVERY_TIMES: Columns[DeliveryTimeView] = {
    "created": lambda delivery, _: delivery.created_at,
    "delivered": lambda delivery, _: delivery.sent_at,
    "seconds": lambda delivery, _: f"{delivery.seconds:.1f}",
}
ATTEMPTS: Columns[AttemptView] = {
    "try": _try,
    "at": lambda attempt, _: attempt.at,
    "age": lambda attempt, text: text.ago(attempt.at),
    "verdict": lambda attempt, _: attempt.verdict,
    "http": lambda attempt, _: attempt.http_status_code,
    "took_ms": lambda attempt, _: attempt.duration_ms,
    "answer": lambda attempt, _: short(attempt.answer, 60),
}


def show_messages(kind: OutboxKind, page: CursorPageView[MessageView], text: Texts, *, filtered: bool) -> None:
    empty = text("list.none_found" if filtered else "list.empty")
    print_views(text(f"title.{kind}"), page.content, MESSAGES, text, empty=empty)
    if page.next is not None:
        say(text("list.more", cursor=page.next), "dim")
    if any(message.held_by is not None for message in page.content):
        say(text("list.about_held"), "dim")


def show_message(message: MessageDetailView, text: Texts) -> None:
    facts = (
        ("id", message.outbox_id),
        ("event", message.event_type),
        ("seller", message.seller_id),
        ("item", message.item_no),
        ("version", message.version if message.item_no is not None else None),
        ("execution", message.execution_id),
        ("status", message.status),
        ("failed_attempts", message.retry_count),
        ("error", message.error_message),
        ("held_by", message.held_by),
        ("created", message.created_at),
        ("next", message.next_attempt_at),
        ("sent", message.sent_at),
        ("payload", orjson.dumps(message.payload, option=orjson.OPT_INDENT_2).decode()),
    )
    print_facts([(text(f"message.{name}"), value) for name, value in facts])
    if message.status is MessageStatus.FAILED:
        say(text("message.replay", outbox_id=message.outbox_id), "dim")


def show_outbox(outbox: OutboxView, text: Texts) -> None:
    names = {status: str(status).lower() for status in MessageStatus} | {MessageStatus.SENDING: "sending_now"}
    has_lag = outbox.oldest_waiting_at is not None
    lag = text("status.lag_of", seconds=f"{outbox.lag_seconds:,.0f}") if has_lag else text("status.none_waits")
    say(text(f"title.{outbox.kind}"), "bold")
    print_facts(
        [
            (text("status.sending"), _sending(outbox, text)),
            (text("status.lag"), lag),
            *((text(f"status.{name}"), f"{outbox.counts[status]:,}") for status, name in names.items()),
            (text("status.held"), text("status.held_behind", n=outbox.held)),
            (text("status.tried"), text("status.tried_before", n=outbox.tried)),
            *((text("status.refused"), _refused(each, text)) for each in outbox.refused_sellers),
        ]
    )


def say_dry_run(counts: MovedMessagesView, action: MessageAction, text: Texts) -> None:
    say(text(f"{action}.dry_run", n=counts.messages, subjects=counts.subjects, held=counts.held))
    sellers = sorted(counts.by_seller.items(), key=lambda entry: -entry[1])[:MOST_SELLERS]
    for name, number in [*counts.by_type.items(), *sellers]:
        say(text("count", name=name, n=number), "dim")


def _refused(seller: RefusedSellerView, text: Texts) -> str:
    probe, when = _from_now(seller.not_before, text), text.ago(seller.refused_since)
    return text("status.refused_since", seller=seller.seller_id, when=when, reason=seller.reason, probe=probe)


def _sending(channel: ChannelView, text: Texts) -> str:
    circuit = channel.circuit
    if channel.is_paused:
        return text("status.paused", by=channel.paused_by, when=text.ago(channel.paused_at))
    if circuit.state is CircuitState.OPEN:
        probe = _from_now(circuit.not_before, text)
        return text("status.open", when=text.ago(circuit.opened_at), reason=circuit.reason, probe=probe)
    if circuit.state is CircuitState.HALF_OPEN:
        return text("status.half_open", when=text.ago(circuit.opened_at), reason=circuit.reason)
    return text("status.yes") if circuit.most_under_way is None else text("status.limited", most=circuit.most_under_way)


def show_ping(view: PingView, text: Texts) -> None:
    if view.http_status_code is None:
        say(text("ping.no_answer", ms=view.duration_ms), "red")
    else:
        key, style = ("ping.accepted", "green") if view.is_accepted else ("ping.not_accepted", "red")
        say(text(key, status=view.http_status_code, ms=view.duration_ms), style)
    print_facts(
        [
            (text("ping.answer"), view.answer),
            (text("ping.event"), view.event_id),
            (text("ping.sent"), text.when(view.sent_at)),
        ]
    )


def say_resend(started: StartedResendView, text: Texts) -> None:
    say(
        text("resend.dry" if started.dry_run else "resend.done", n=started.messages),
        "yellow" if started.dry_run else "green",
    )
    for name, number in {**started.by_type, **dict(list(started.by_seller.items())[:MOST_SELLERS])}.items():
        say(text("count", name=name, n=number))
    if started.resend_id is not None:
        say(text("resend.follow", resend=started.resend_id), "dim")
