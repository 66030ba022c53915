"""Outboxes, messages and attempts as tables and facts for people."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import orjson

from sellerwatch.cli.output import print_facts, print_table
from sellerwatch.cli.session import say, short
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.outbox.message import MessageStatus, OutboxKind

if TYPE_CHECKING:
    from sellerwatch.cli.texts import Texts
    from sellerwatch.kernel.views import CursorPageView
    from sellerwatch.outbox.commands import MessageAction, MovedMessagesView
    from sellerwatch.outbox.queries import (
        AttemptsView,
        ChannelView,
        DeliveryTimesView,
        MessageDetailView,
        MessageView,
        OutboxView,
        RefusedSellerView,
    )

#: Sellers shown by a dry run, those with the most messages first.
MOST_SELLERS = 10


def show_messages(
    kind: OutboxKind, page: CursorPageView[MessageView], now: datetime, t: Texts, *, filtered: bool
) -> None:
    columns = ("message.id", "col.event", "col.seller", "col.item", "col.status", "col.made")
    print_table(
        t(f"title.{kind}"),
        [t(key) for key in (*columns, "col.tries", "col.next_try", "message.error")],
        [
            (
                message.outbox_id,
                message.event_type,
                message.seller_id,
                message.item_no,
                message.status,
                t.ago(message.created_at, now),
                message.attempts,
                _next_attempt(message, now, t) if message.held_by is None else t("list.held"),
                short(message.error_message, 40),
            )
            for message in page.content
        ],
        empty=t("list.none_found" if filtered else "list.empty"),
    )
    if page.next is not None:
        say(t("list.more", cursor=page.next), "dim")
    if any(message.held_by is not None for message in page.content):
        say(t("list.about_held"), "dim")


def show_delivery_times(times: DeliveryTimesView, t: Texts) -> None:
    print_table(
        t("times.title"),
        [t(key) for key in ("message.created", "message.sent", "times.seconds")],
        [(each.created_at, each.sent_at, f"{each.seconds:.1f}") for each in times.content],
        empty=t("times.none"),
    )


def show_message(message: MessageDetailView, t: Texts) -> None:
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
    print_facts([(t(f"message.{name}"), value) for name, value in facts])
    if message.status is MessageStatus.FAILED:
        say(t("message.replay", outbox_id=message.outbox_id), "dim")


def show_attempts(view: AttemptsView, now: datetime, t: Texts) -> None:
    columns = ("col.try", "attempts.at", "attempts.age", "col.verdict", "attempts.status", "col.took", "col.answer")
    print_table(
        t("attempts.title"),
        [t(key) for key in columns],
        [
            (
                f"{each.try_number}" if each.is_counted else t("attempts.not_counted", number=each.try_number),
                each.at,
                t.ago(each.at, now),
                each.verdict,
                each.http_status_code,
                None if each.duration_ms is None else t("attempts.took", n=each.duration_ms),
                short(each.answer, 60),
            )
            for each in view.content
        ],
        empty=t("attempts.empty"),
    )


def show_outbox(outbox: OutboxView, now: datetime, t: Texts) -> None:
    names = {status: str(status).lower() for status in MessageStatus} | {MessageStatus.SENDING: "sending_now"}
    has_lag = outbox.oldest_waiting_at is not None
    lag = t("status.lag_of", seconds=f"{outbox.lag_seconds:,.0f}") if has_lag else t("status.none_waits")
    say(t(f"title.{outbox.kind}"), "bold")
    print_facts(
        [
            (t("status.sending"), _sending(outbox, now, t)),
            (t("status.lag"), lag),
            *((t(f"status.{name}"), f"{outbox.counts[status]:,}") for status, name in names.items()),
            (t("status.held"), t("status.held_behind", n=outbox.held)),
            (t("status.tried"), t("status.tried_before", n=outbox.tried)),
            *((t("status.refused"), _refused(each, now, t)) for each in outbox.refused_sellers),
        ]
    )


def say_dry_run(counts: MovedMessagesView, action: MessageAction, t: Texts) -> None:
    say(t(f"{action}.dry_run", n=counts.messages, subjects=counts.subjects, held=counts.held))
    sellers = sorted(counts.by_seller.items(), key=lambda entry: -entry[1])[:MOST_SELLERS]
    for name, number in [*counts.by_type.items(), *sellers]:
        say(t("count", name=name, n=number), "dim")


def _refused(seller: RefusedSellerView, now: datetime, t: Texts) -> str:
    probe, when = _from_now(seller.not_before, now, t), t.ago(seller.refused_since, now)
    return t("status.refused_since", seller=seller.seller_id, when=when, reason=seller.reason, probe=probe)


def _sending(channel: ChannelView, now: datetime, t: Texts) -> str:
    circuit = channel.circuit
    if channel.is_paused:
        return t("status.paused", by=channel.paused_by, when=t.ago(channel.paused_at, now))
    if circuit.state is CircuitState.OPEN:
        probe = _from_now(circuit.not_before, now, t)
        return t("status.open", when=t.ago(circuit.opened_at, now), reason=circuit.reason, probe=probe)
    if circuit.state is CircuitState.HALF_OPEN:
        return t("status.half_open", when=t.ago(circuit.opened_at, now), reason=circuit.reason)
    return t("status.yes") if circuit.most_under_way is None else t("status.limited", most=circuit.most_under_way)


def _next_attempt(message: MessageView, now: datetime, t: Texts) -> str | None:
    return None if message.next_attempt_at is None else _from_now(message.next_attempt_at, now, t)


def _from_now(time: datetime | None, now: datetime, t: Texts) -> str | None:
    return t("now") if time is None or time <= now else t.ago(time, now)
