"""The transactions of delivery, as plain functions: safe to run twice, whatever they are given.

A turn writes the outcomes since the last one, then claims as many due messages as can start now. A message is claimed
only when nothing of its subject stands before it, so one of a subject is in flight at a time, whoever sends it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sellerwatch.kernel.backoff import Backoff
from sellerwatch.kernel.ids import OutboxId, WorkerId
from sellerwatch.outbox.message import TRIES, Message
from sellerwatch.outbox.ports import Outbox, Receipt, Verdict

#: What a receiver asked for is stretched by up to this share, lest everybody come back in the same second.
STRETCH = 0.1
_BACKOFF = Backoff(first=30.0, longest=3600.0)


@dataclass(frozen=True)
class DeliveryRules:
    """`interval`: how often to look without a nudge; `grace`: how long a stop waits for answers; both in seconds."""

    concurrency: int = 20
    batch: int = 100
    tries: int = TRIES
    interval: float = 300.0
    backoff: Backoff = _BACKOFF
    grace: float = 6.0


@dataclass(frozen=True)
class Outcome:
    """What is to become of a claimed message. `move` is pure: it is given the message as it stands in the table."""

    claimed: Message
    move: Callable[[Message], Message]


@dataclass(frozen=True)
class Room:
    """Who claims how many. What `worker_id` holds beside `known` is taken up again: the answer to a claim was lost."""

    worker_id: WorkerId
    slots: int
    known: frozenset[OutboxId] | None


@dataclass(frozen=True)
class Turn:
    """What one transaction did. `drained`: everything that could go at its time was claimed."""

    settled: Sequence[Message]
    claimed: Sequence[Message]
    drained: bool
    next_due: datetime | None


def take_turn(outbox: Outbox, outcomes: Sequence[Outcome], room: Room, now: datetime) -> Turn:
    """Outcomes first: a message that arrived frees the next of its subject at once."""
    settled = settle(outbox, outcomes, now)
    claimed = claim(outbox, room, now)
    drained = len(claimed) < room.slots
    return Turn(settled, claimed, drained, outbox.next_due() if drained else None)


def settle(outbox: Outbox, outcomes: Sequence[Outcome], now: datetime) -> Sequence[Message]:
    """Write outcomes of tries that are still ours; one whose lease was lost in between is left to its new holder."""
    held = {message.outbox_id: message for message in outbox.get_many([o.claimed.outbox_id for o in outcomes])}
    moved = []
    for outcome in outcomes:
        message = held.get(outcome.claimed.outbox_id)
        if message is not None and message.is_same_try(outcome.claimed):
            moved.append(outcome.move(message))
    outbox.save(moved, now)
    return moved


def claim(outbox: Outbox, room: Room, now: datetime) -> Sequence[Message]:
    """Up to as many as there are slots: SENDING from here on, by this worker."""
    mine: Sequence[Message] = ()
    if room.known is not None:
        mine = [m for m in outbox.held_by(room.worker_id) if m.outbox_id not in room.known][: room.slots]
    sending = [message.send(room.worker_id) for message in outbox.due(now, room.slots - len(mine))]
    outbox.save(sending, now)
    return [*mine, *sending]


def recover(outbox: Outbox, beat_before: datetime, now: datetime, rules: DeliveryRules, seed: int) -> Sequence[Message]:
    """Take back what vanished senders held, the try counted. A seed, not luck: run twice it must draw the same."""
    luck = random.Random(seed)  # noqa: S311 - spreads retries, guards nothing
    lost = [
        message.lose_lease(now, rules.backoff.wait(message.retry_count + 1, luck), rules.tries)
        for message in outbox.held_by_lapsed(beat_before)
    ]
    outbox.save(lost, now)
    return lost


def outcome_of(claimed: Message, receipt: Receipt, now: datetime, rules: DeliveryRules, luck: random.Random) -> Outcome:
    """What an answer means for its message. The next try is never before the time the receiver asked for."""

    def complete(held: Message) -> Message:
        return held.complete(now)

    def refuse(held: Message) -> Message:
        return held.refuse(receipt.problem)

    def fail(held: Message) -> Message:
        failed = held.fail(receipt.problem, now, wait, rules.tries)
        return failed.retry() if failed.can_retry() else failed

    if receipt.verdict is Verdict.DELIVERED:
        return Outcome(claimed, complete)
    if receipt.verdict is Verdict.REFUSED:
        return Outcome(claimed, refuse)
    asked = (receipt.wait or timedelta(0)) * (1 + STRETCH * luck.random())
    wait = max(rules.backoff.wait(claimed.retry_count + 1, luck), asked)
    return Outcome(claimed, fail)


def put_back(claimed: Message, now: datetime) -> Outcome:
    """The sender stops before there is an answer: due again at once, and no try is counted."""
    return Outcome(claimed, lambda held: held.put_back(now))
