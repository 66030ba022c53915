"""The transactions of a round of a resend, as plain functions that may run twice with the same arguments.

`choose` takes the next events and their share of the receiver's rate; `record` writes the answers and moves the cursor,
all or nothing. Killed in between, the round is made again: the receiver gets the same keys and bodies once more.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sellerwatch.kernel.activity import Activity
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.ids import OutboxId, ResendId
from sellerwatch.outbox.channel import Channel
from sellerwatch.outbox.message import Message, OutboxKind
from sellerwatch.outbox.ports import OutboxTx
from sellerwatch.outbox.receipt import DeliveryVerdict, Receipt
from sellerwatch.outbox.resend import BESIDE_OTHERS, Resend, ResendAnswer, ResentEvent
from sellerwatch.outbox.rules import DeliveryRules
from sellerwatch.oversight.audit import AuditEntry, record_audit

#: The share of OUTBOX_CONCURRENCY that a resend has beside the ordinary delivery.
SHARE = 4
#: How often the activity feed gets the progress of a resend, at most.
PROGRESS_EVERY = timedelta(seconds=1)
BY_ITSELF = "service"
DELETED = "the event is deleted meanwhile"


@dataclass(frozen=True)
class Round:
    """The events that are sent now: `resend` as it was then, and the row up to which they were chosen. `tried` are the
    earlier tries of those that are tried again.

    `witness` is a delivered event that is sent beside them where it is not known whether the receiver is up: it was
    accepted once, and a receiver ignores it by its key.
    """

    resend: Resend
    after_row: int
    messages: Sequence[Message]
    tried: Sequence[ResentEvent]
    witness: Message | None = None

    @property
    def all_messages(self) -> Sequence[Message]:
        return [*self.messages, *([self.witness] if self.witness is not None else [])]


@dataclass(frozen=True)
class ResendOutcome:
    """The answer to one event."""

    message: Message
    receipt: Receipt
    at: datetime
    duration_ms: int


def choose(tx: OutboxTx, resend_id: ResendId, rules: DeliveryRules, now: datetime) -> Round | None:
    """Return the next round of a resend; None while it has to wait, and when it is over."""
    resend = tx.resends.get(resend_id)
    if resend is None or not resend.is_running or (resend.not_before is not None and resend.not_before > now):
        return None
    channel = tx.channels.get(OutboxKind.PRODUCT)
    room = _room(tx, channel, resend, rules, now)
    if not room:
        return None
    tried = tx.resent_events.due(resend_id, now, room)
    is_down = resend.failures > 0
    # While the receiver accepts nothing, no further event is begun: few are tried again and again.
    must_wait = is_down and (bool(tried) or tx.resent_events.next_try_at(resend_id) is not None)
    rows = [] if must_wait else tx.resends.next_events(resend, room - len(tried))
    messages, after_row = _messages(tx, resend, tried, rows)
    if not tried and not messages:
        _end_if_over(tx, resend, now)
        return None
    needs_witness = is_down or (bool(tried) and not tx.resends.next_events(resend, 1))
    witness = tx.resends.witness([message.outbox_id for message in messages]) if needs_witness else None
    found = None if witness is None else tx.product_outbox.get(witness)
    made = Round(resend, after_row, messages, tried, found)
    tx.channels.save(_spend(channel, made.all_messages, rules, now), now)
    return made


def record(
    tx: OutboxTx, made: Round, outcomes: Sequence[ResendOutcome], rules: DeliveryRules, seed: int, now: datetime
) -> None:
    """Write the answers of a round, unless another process has recorded a round of this resend since."""
    resend = tx.resends.get(made.resend.resend_id)
    if resend is None or _progress(resend) != _progress(made.resend):
        return
    rng = random.Random(seed)  # noqa: S311 - spreads retries, guards nothing
    earlier = {one.outbox_id: one for one in made.tried}
    answered_at = _answered_at(tx, resend, outcomes)
    events = list[ResentEvent]()
    for each in outcomes:
        if made.witness is None or each.message.outbox_id != made.witness.outbox_id:
            events.append(_judge(each, earlier.pop(each.message.outbox_id, None), resend, answered_at, rules, rng))
    events += [
        replace(each, answer=ResendAnswer.FAILED, tried_at=now, next_try_at=None, text=DELETED)
        for each in earlier.values()
    ]
    tx.resent_events.save(events)
    not_accepted = [each.receipt for each in outcomes if each.receipt.verdict is not DeliveryVerdict.DELIVERED]
    failed = [receipt for receipt in not_accepted if receipt.verdict is DeliveryVerdict.RETRY]
    not_before = None
    if failed and len(failed) == len(outcomes):
        waits = [receipt.wait or timedelta(0) for receipt in failed]
        not_before = now + max(rules.opened.wait(resend.failures + 1, rng), *waits)
    problem = not_accepted[0].problem if not_accepted else None
    resend = resend.record(events, made.after_row, answered_at, not_before, problem)
    tx.resends.save(resend)
    data = {"total": resend.total, "answered": resend.answered, "accepted": resend.accepted}
    tx.activity.add_unless_lately(Activity(now, "resend.progress", "resend", resend.resend_id, data), PROGRESS_EVERY)
    if resend.is_running:
        _end_if_over(tx, resend, now)


def next_round_at(tx: OutboxTx, resend_id: ResendId, now: datetime) -> datetime | None:
    """Return when a resend may go on: now, or later where it waits; None when it is over."""
    resend = tx.resends.get(resend_id)
    if resend is None or not resend.is_running:
        return None
    if resend.not_before is not None and resend.not_before > now:
        return resend.not_before
    has_new = bool(tx.resends.next_events(resend, 1))
    return now if has_new else tx.resent_events.next_try_at(resend_id) or now


def _room(tx: OutboxTx, channel: Channel, resend: Resend, rules: DeliveryRules, now: datetime) -> int:
    """Return how many events may be sent: none while the outbox is paused or the receiver is down, one while it is not
    known whether it is up or while new events wait, else a share of what may be sent together."""
    if channel.is_paused or channel.state is not CircuitState.CLOSED:
        return 0
    is_careful = resend.failures > 0 or tx.resends.has_due_events(now)
    most = BESIDE_OTHERS if is_careful else max(1, rules.concurrency // SHARE)
    return channel.allow(most, tx.delivery_queue(OutboxKind.PRODUCT).count_sending, rules, now).slots


def _messages(
    tx: OutboxTx, resend: Resend, tried: Sequence[ResentEvent], rows: Sequence[tuple[int, OutboxId]]
) -> tuple[Sequence[Message], int]:
    """Return the events of a round and the row of the last new one. Of each product one is under way at a time: the
    round ends before a second one."""
    found = tx.product_outbox.get_many([*(one.outbox_id for one in tried), *(outbox_id for _, outbox_id in rows)])
    by_id = {message.outbox_id: message for message in found}
    messages = [by_id[one.outbox_id] for one in tried if one.outbox_id in by_id]
    products, after_row = {message.subject_id for message in messages}, resend.after_row
    for row, outbox_id in rows:
        message = by_id[outbox_id]
        if message.subject_id in products:
            break
        messages.append(message)
        products.add(message.subject_id)
        after_row = row
    return messages, after_row


def _spend(channel: Channel, messages: Sequence[Message], rules: DeliveryRules, now: datetime) -> Channel:
    return channel.send(len(messages), rules, now)


def _progress(resend: Resend) -> tuple[int, int, int]:
    return resend.after_row, resend.answered, resend.failures


def _answered_at(tx: OutboxTx, resend: Resend, outcomes: Sequence[ResendOutcome]) -> datetime | None:
    """Return when the receiver last accepted or refused an event of this resend, or accepted an ordinary one."""
    times = [each.at for each in outcomes if each.receipt.verdict is not DeliveryVerdict.RETRY]
    times += [sent_at for _, sent_at in tx.outbox_queries(OutboxKind.PRODUCT).deliveries(1)]
    return max([*times, *([resend.answered_at] if resend.answered_at else [])], default=None)


def _judge(
    outcome: ResendOutcome,
    earlier: ResentEvent | None,
    resend: Resend,
    answered_at: datetime | None,
    rules: DeliveryRules,
    rng: random.Random,
) -> ResentEvent:
    """Return what an answer means for its event. A failed try counts if the receiver answered another event since the
    try before: where it answers nothing, the receiver is down, and no event is to blame."""
    receipt = outcome.receipt
    tries, since = (0, resend.created_at) if earlier is None else (earlier.tries, earlier.tried_at)
    answer, next_try_at = ResendAnswer.ACCEPTED, None
    if receipt.verdict is DeliveryVerdict.REFUSED:
        answer = ResendAnswer.REFUSED
    elif receipt.verdict is DeliveryVerdict.RETRY:
        tries += answered_at is not None and answered_at > since
        answer = ResendAnswer.FAILED if tries >= rules.max_attempts else ResendAnswer.RETRYING
        if answer is ResendAnswer.RETRYING:
            next_try_at = outcome.at + max(rules.backoff.wait(tries + 1, rng), receipt.wait or timedelta(0))
    return ResentEvent(
        resend_id=resend.resend_id,
        outbox_id=outcome.message.outbox_id,
        answer=answer,
        tries=tries,
        tried_at=outcome.at,
        duration_ms=outcome.duration_ms,
        http_status_code=receipt.status,
        text=(receipt.answer if receipt.status is not None else receipt.problem) or None,
        next_try_at=next_try_at,
    )


def _end_if_over(tx: OutboxTx, resend: Resend, now: datetime) -> None:
    """Complete a resend whose events all came to an end; give one up of which nothing is accepted."""
    if not (tx.resends.next_events(resend, 1) or tx.resent_events.next_try_at(resend.resend_id) is not None):
        verb, ended = "complete", resend.complete(now)
    elif resend.is_hopeless:
        verb, ended = "give_up", resend.give_up(now)
    else:
        return
    tx.resends.save(ended)
    after = {"accepted": ended.accepted, "refused": ended.refused, "failed": ended.failed, "problem": ended.problem}
    record_audit(tx, AuditEntry(now, BY_ITSELF, f"resend.{verb}", "resend", ended.resend_id, after=after))
