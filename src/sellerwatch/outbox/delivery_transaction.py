"""The transactions of delivery, as plain functions: safe to run twice, whatever they are given.

A turn writes the outcomes since the last one, then claims as many due messages as can start now. A message is claimed
only when nothing of its subject stands before it, so one of a subject is in flight at a time, whoever sends it. What an
answer says about the receiver goes to the channel, which says how many may leave, in the same transaction.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sellerwatch.kernel.ids import OutboxId, WorkerId
from sellerwatch.kernel.notices import Notice
from sellerwatch.outbox.channel import STRETCH, Channel
from sellerwatch.outbox.message import Message, OutboxKind
from sellerwatch.outbox.ports import OutboxTx
from sellerwatch.outbox.receipt import Attempt, Receipt, Verdict
from sellerwatch.outbox.rules import DeliveryRules

#: Messages behind one that failed for good are looked at again this much later, should nobody have freed them by name.
ASIDE = timedelta(hours=1)
#: So many of the first that are due are looked at for it in one transaction.
ASIDE_AT_ONCE = 20_000

VANISHED = "its sender vanished"
STOPPED = "the sender stopped before there was an answer"


@dataclass(frozen=True)
class Outcome:
    """How a try ended. No receipt: the sender stops before there is an answer. A seed, not rng: the transaction that
    writes it may run twice and must then draw the same."""

    claimed: Message
    receipt: Receipt | None
    began_at: datetime
    ended_at: datetime
    duration_ms: int
    seed: int = 0


@dataclass(frozen=True)
class Room:
    """Who claims how many. What `worker_id` holds beside `known` is taken up again: the answer to a claim was lost."""

    worker_id: WorkerId
    slots: int
    known: frozenset[OutboxId] | None


@dataclass(frozen=True)
class Settled:
    """What outcomes came to."""

    messages: Sequence[Message]
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True)
class Turn:
    """What one transaction did. `drained`: everything that could go at its time was claimed. `look_at`: the channel
    holds messages back, and may hold fewer from then on."""

    settled: Settled
    claimed: Sequence[Message]
    drained: bool
    next_due: datetime | None
    look_at: datetime | None


def take_turn(
    tx: OutboxTx, kind: OutboxKind, outcomes: Sequence[Outcome], room: Room, rules: DeliveryRules, now: datetime
) -> Turn:
    """Outcomes first: a message that arrived frees the next of its subject at once."""
    outbox, was = tx.outbox(kind), tx.channels.get(kind)
    heard, settled = _settle(tx, kind, was, outcomes, rules, now)
    mine: Sequence[Message] = ()
    if room.known is not None:
        mine = [m for m in outbox.held_by(room.worker_id) if m.outbox_id not in room.known][: room.slots]
    wanted = room.slots - len(mine)
    allowed = heard.allow(wanted, outbox.under_way, rules, now)
    sending = [message.send(room.worker_id) for message in outbox.due(now, allowed.slots)]
    outbox.move(sending, now)
    channel = heard.send(tuple(message.outbox_id for message in sending), rules, now)
    if channel != was:
        tx.channels.save(channel, now)
    drained = len(sending) < allowed.slots
    return Turn(
        settled=Settled(settled, channel.notices(was)),
        claimed=[*mine, *sending],
        drained=drained,
        next_due=outbox.next_due() if drained else None,
        look_at=allowed.look_at if allowed.slots < wanted and not drained else None,
    )


def settle(tx: OutboxTx, kind: OutboxKind, outcomes: Sequence[Outcome], rules: DeliveryRules, now: datetime) -> Settled:
    """Write outcomes and claim nothing."""
    was = tx.channels.get(kind)
    channel, settled = _settle(tx, kind, was, outcomes, rules, now)
    if channel != was:
        tx.channels.save(channel, now)
    return Settled(settled, channel.notices(was))


def recover(
    tx: OutboxTx, kind: OutboxKind, beat_before: datetime, now: datetime, rules: DeliveryRules, seed: int
) -> Sequence[Message]:
    """Take back what vanished senders held, the try counted. What waits behind messages that failed for good is put
    out of the way of the others."""
    outbox, rng = tx.outbox(kind), random.Random(seed)  # noqa: S311 - spreads retries, guards nothing
    held = outbox.held_by_lapsed(beat_before)
    lost = [message.lose_lease(now, rules.backoff.wait(message.retry_count + 1, rng), rules.tries) for message in held]
    outbox.move(lost, now)
    tx.attempts.add(kind, [_attempt(message, None, now, None, True, VANISHED) for message in held])
    outbox.set_aside(now, now + ASIDE, ASIDE_AT_ONCE)
    return lost


def _settle(
    tx: OutboxTx, kind: OutboxKind, channel: Channel, outcomes: Sequence[Outcome], rules: DeliveryRules, now: datetime
) -> tuple[Channel, Sequence[Message]]:
    """Only of tries that are still ours: one whose lease was lost in between is left to its new holder, and an outcome
    that was written already is not written twice."""
    if not outcomes:
        return channel, ()
    attempt_guards = tx.outbox(kind).attempt_guards([outcome.claimed.outbox_id for outcome in outcomes])
    moved: list[Message] = []
    attempts: list[Attempt] = []
    for outcome in outcomes:
        if attempt_guards.get(outcome.claimed.outbox_id) != outcome.claimed.grip:
            continue
        channel, message, attempt = _judge(channel, outcome, rules, now)
        moved.append(message)
        attempts.append(attempt)
    tx.outbox(kind).move(moved, now)
    tx.attempts.add(kind, attempts)
    return channel, moved


def _judge(channel: Channel, outcome: Outcome, rules: DeliveryRules, now: datetime) -> tuple[Channel, Message, Attempt]:
    """What an end means for the channel and for its message. The next try is never before the time the receiver asked
    for; a try that does not count is no nearer to the last one."""
    claimed, receipt, at = outcome.claimed, outcome.receipt, outcome.ended_at
    if receipt is None:
        attempt = _attempt(claimed, None, outcome.began_at, outcome.duration_ms, False, STOPPED)
        return channel.miss(claimed.outbox_id, now), claimed.put_back(now), attempt
    said = receipt.answer if receipt.status is not None else receipt.problem
    attempt = _attempt(claimed, receipt, outcome.began_at, outcome.duration_ms, True, said)
    if receipt.verdict is not Verdict.RETRY:
        delivered = receipt.verdict is Verdict.DELIVERED
        over = claimed.complete(at) if delivered else claimed.refuse(receipt.problem)
        return channel.answered(claimed.outbox_id, rules, at), over, attempt
    rng = random.Random(outcome.seed)  # noqa: S311 - spreads retries, guards nothing
    heard, counts = channel.failed(claimed.outbox_id, receipt, rules, rng, at)
    asked = (receipt.wait or timedelta(0)) * (1 + STRETCH * rng.random())
    if not counts:
        later = claimed.put_back(max(heard.not_before or at, at + asked))
        return heard, later, replace(attempt, is_counted=False)
    wait = max(rules.backoff.wait(claimed.retry_count + 1, rng), asked)
    failed = claimed.fail(receipt.problem, at, wait, rules.tries)
    return heard, failed.retry() if failed.can_retry() else failed, attempt


def _attempt(
    claimed: Message, receipt: Receipt | None, at: datetime, duration_ms: int | None, counts: bool, said: str
) -> Attempt:
    status, verdict = (None, Verdict.RETRY) if receipt is None else (receipt.status, receipt.verdict)
    return Attempt(claimed.outbox_id, claimed.retry_count + 1, at, duration_ms, status, verdict, counts, said)
