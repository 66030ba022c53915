"""The transactions of delivery, as plain functions that may run twice with the same arguments.

`record_and_claim` writes the outcomes since the last transaction, then claims as many due messages as can be sent now.
Only the first unfinished message of a subject is claimed, so one of a subject is sent at a time, whichever process does
it. What an outcome says about the receiver goes to the channel, in the same transaction.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sellerwatch.kernel.ids import OutboxId, WorkerId
from sellerwatch.kernel.notices import Notice
from sellerwatch.outbox.channel import JITTER, Channel
from sellerwatch.outbox.message import Message, OutboxKind
from sellerwatch.outbox.ports import OutboxTx
from sellerwatch.outbox.receipt import Attempt, DeliveryVerdict, Receipt
from sellerwatch.outbox.rules import DeliveryRules

#: How long held messages are postponed, unless their subject is released before.
POSTPONE_FOR = timedelta(hours=1)
#: How many of the first due messages are checked for being held in one transaction.
POSTPONE_AT_ONCE = 20_000

WORKER_LOST = "its sender vanished"
STOPPED = "the sender stopped before there was an answer"


@dataclass(frozen=True)
class DeliveryOutcome:
    """How an attempt ended. Without a receipt: the sender stops before the answer. It carries a seed instead of a
    random generator because the transaction that writes it may run twice and must then draw the same."""

    claimed: Message
    receipt: Receipt | None
    began_at: datetime
    ended_at: datetime
    duration_ms: int
    seed: int = 0


@dataclass(frozen=True)
class Capacity:
    """How many messages a worker can send now. `known` is given when the result of the last claim is unknown: what the
    worker has claimed besides these is sent too."""

    worker_id: WorkerId
    slots: int
    known: frozenset[OutboxId] | None


@dataclass(frozen=True)
class Recorded:
    """The messages whose outcomes were written, and the alerts that follow."""

    messages: Sequence[Message]
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True)
class DeliveryStep:
    """What one transaction did. `queue_drained`: everything that is due was claimed. `check_at`: the channel allows
    fewer messages than there are; ask again then."""

    recorded: Recorded
    claimed: Sequence[Message]
    queue_drained: bool
    next_due: datetime | None
    check_at: datetime | None


def record_and_claim(
    tx: OutboxTx,
    kind: OutboxKind,
    outcomes: Sequence[DeliveryOutcome],
    capacity: Capacity,
    rules: DeliveryRules,
    now: datetime,
) -> DeliveryStep:
    """Write outcomes, then claim: a message that arrived lets the next of its subject be claimed at once."""
    queue, before = tx.delivery_queue(kind), tx.channels.get(kind)
    judged, recorded = _record(tx, kind, before, outcomes, rules, now)
    already_claimed: Sequence[Message] = ()
    if capacity.known is not None:
        claimed = queue.claimed_by(capacity.worker_id)
        already_claimed = [message for message in claimed if message.outbox_id not in capacity.known][: capacity.slots]
    wanted = capacity.slots - len(already_claimed)
    allowed = judged.allow(wanted, queue.count_sending, rules, now)
    sending = [message.send(capacity.worker_id) for message in queue.due(now, allowed.slots)]
    tx.outbox(kind).move(sending, now)
    channel = judged.send(tuple(message.outbox_id for message in sending), rules, now)
    if channel != before:
        tx.channels.save(channel, now)
    drained = len(sending) < allowed.slots
    return DeliveryStep(
        recorded=Recorded(recorded, channel.notices(before)),
        claimed=[*already_claimed, *sending],
        queue_drained=drained,
        next_due=queue.next_due() if drained else None,
        check_at=allowed.check_at if allowed.slots < wanted and not drained else None,
    )


def record_outcomes(
    tx: OutboxTx, kind: OutboxKind, outcomes: Sequence[DeliveryOutcome], rules: DeliveryRules, now: datetime
) -> Recorded:
    """Write outcomes and claim nothing."""
    before = tx.channels.get(kind)
    channel, recorded = _record(tx, kind, before, outcomes, rules, now)
    if channel != before:
        tx.channels.save(channel, now)
    return Recorded(recorded, channel.notices(before))


def recover(
    tx: OutboxTx, kind: OutboxKind, heartbeat_before: datetime, now: datetime, rules: DeliveryRules, seed: int
) -> Sequence[Message]:
    """Take messages back from lost workers, counting the attempt, and postpone held messages."""
    queue, rng = tx.delivery_queue(kind), random.Random(seed)  # noqa: S311 - spreads retries, guards nothing
    claimed = queue.claimed_by_lost_workers(heartbeat_before)
    lost = [
        message.lose_lease(now, rules.backoff.wait(message.retry_count + 1, rng), rules.max_attempts)
        for message in claimed
    ]
    tx.outbox(kind).move(lost, now)
    tx.attempts.add(kind, [_attempt(message, None, now, None, True, WORKER_LOST) for message in claimed])
    queue.postpone_held(now, now + POSTPONE_FOR, POSTPONE_AT_ONCE)
    return lost


def _record(
    tx: OutboxTx,
    kind: OutboxKind,
    channel: Channel,
    outcomes: Sequence[DeliveryOutcome],
    rules: DeliveryRules,
    now: datetime,
) -> tuple[Channel, Sequence[Message]]:
    """Write the outcomes of current attempts. One whose lease was lost belongs to another worker now, and an outcome
    that was written before is not written twice."""
    if not outcomes:
        return channel, ()
    current = tx.delivery_queue(kind).current_attempts([outcome.claimed.outbox_id for outcome in outcomes])
    moved: list[Message] = []
    attempts: list[Attempt] = []
    for outcome in outcomes:
        if current.get(outcome.claimed.outbox_id) != outcome.claimed.attempt_key:
            continue
        channel, message, attempt = _judge(channel, outcome, rules, now)
        moved.append(message)
        attempts.append(attempt)
    tx.outbox(kind).move(moved, now)
    tx.attempts.add(kind, attempts)
    return channel, moved


def _judge(
    channel: Channel, outcome: DeliveryOutcome, rules: DeliveryRules, now: datetime
) -> tuple[Channel, Message, Attempt]:
    """Return what an outcome means for the channel and its message. The next attempt is never before the receiver's
    Retry-After."""
    claimed, receipt, at = outcome.claimed, outcome.receipt, outcome.ended_at
    if receipt is None:
        attempt = _attempt(claimed, None, outcome.began_at, outcome.duration_ms, False, STOPPED)
        return channel.interrupted(claimed.outbox_id, now), claimed.put_back(now), attempt
    answer = receipt.answer if receipt.status is not None else receipt.problem
    attempt = _attempt(claimed, receipt, outcome.began_at, outcome.duration_ms, True, answer)
    if receipt.verdict is not DeliveryVerdict.RETRY:
        delivered = receipt.verdict is DeliveryVerdict.DELIVERED
        finished = claimed.complete(at) if delivered else claimed.refuse(receipt.problem)
        return channel.answered(claimed.outbox_id, rules, at), finished, attempt
    rng = random.Random(outcome.seed)  # noqa: S311 - spreads retries, guards nothing
    judged, counts = channel.failed(claimed.outbox_id, receipt, rules, rng, at)
    asked = (receipt.wait or timedelta(0)) * (1 + JITTER * rng.random())
    if not counts:
        later = claimed.put_back(max(judged.not_before or at, at + asked))
        return judged, later, replace(attempt, is_counted=False)
    wait = max(rules.backoff.wait(claimed.retry_count + 1, rng), asked)
    failed = claimed.fail(receipt.problem, at, wait, rules.max_attempts)
    return judged, failed.retry() if failed.can_retry() else failed, attempt


def _attempt(
    claimed: Message, receipt: Receipt | None, at: datetime, duration_ms: int | None, counts: bool, answer: str
) -> Attempt:
    status, verdict = (None, DeliveryVerdict.RETRY) if receipt is None else (receipt.status, receipt.verdict)
    return Attempt(claimed.outbox_id, claimed.retry_count + 1, at, duration_ms, status, verdict, counts, answer)
