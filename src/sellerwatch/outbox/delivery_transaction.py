"""The transactions of delivery, as plain functions that may run twice with the same arguments.

`record_and_claim` writes the outcomes since the last transaction, then claims as many due messages as can be sent now,
fairly from all sellers. Only the first unfinished message of a subject is claimed, so one of a subject is sent at a
time, whichever process does it. What an outcome says about the receiver goes to the channel and to the circuit of its
seller, in the same transaction.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import zip_longest

from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.ids import OutboxId, SellerId, WorkerId
from sellerwatch.kernel.notices import Notice
from sellerwatch.outbox.channel import JITTER, SendAllowance
from sellerwatch.outbox.fair_shares import fair_shares
from sellerwatch.outbox.message import Message, OutboxKind
from sellerwatch.outbox.ports import DeliveryQueue, OutboxTx
from sellerwatch.outbox.receipt import Attempt, DeliveryVerdict, Receipt
from sellerwatch.outbox.receiver_health import FailedTry, judge_failure
from sellerwatch.outbox.rules import DeliveryRules
from sellerwatch.outbox.seller_circuit import SellerCircuit

#: How long held messages are postponed, unless their subject is released before.
POSTPONE_FOR = timedelta(hours=1)
#: How many of the first due messages are checked for being held in one transaction.
POSTPONE_AT_ONCE = 20_000

WORKER_LOST = "its sender vanished"
STOPPED = "the sender stopped before there was an answer"


@dataclass(frozen=True)
class Request:
    """One request for a message: when it began and how long it took. Without a receipt: the sender stops before the
    answer."""

    receipt: Receipt | None
    began_at: datetime
    duration_ms: int | None


@dataclass(frozen=True)
class DeliveryOutcome:
    """How an attempt ended. `cut` is the request that lost its connection, where the one that decides is its
    repetition. It carries a seed instead of a random generator because the transaction that writes it may run twice and
    must then draw the same."""

    claimed: Message
    request: Request
    ended_at: datetime
    seed: int = 0
    cut: Request | None = None


@dataclass(frozen=True)
class Capacity:
    """How many messages a worker can send now, and how many of each seller it is sending (`busy`). `known` is given
    when the result of the last claim is unknown: what the worker has claimed besides these is sent too. `sellers` had
    due messages a moment ago, in the order of their turns; None: look which have."""

    worker_id: WorkerId
    slots: int
    known: frozenset[OutboxId] | None
    busy: Mapping[SellerId, int]
    sellers: Sequence[SellerId] | None


@dataclass(frozen=True)
class Recorded:
    """The messages whose outcomes were written, and the alerts that follow."""

    messages: Sequence[Message]
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True)
class DeliveryStep:
    """What one transaction did. `sellers` may have more due messages, in the order of their turns; `has_looked`: there
    are no others. `more_due`: every free slot was filled, and there may be more to claim. Otherwise `next_due` is when
    the next message is due, if that is known. `check_at`: the channel allows fewer messages than there are; ask again
    then."""

    recorded: Recorded
    claimed: Sequence[Message]
    sellers: Sequence[SellerId]
    has_looked: bool
    more_due: bool
    next_due: datetime | None
    check_at: datetime | None


class _Receiver:
    """The state of the receiver within one transaction: read first, written last."""

    def __init__(self, tx: OutboxTx, kind: OutboxKind) -> None:
        self._tx = tx
        self._kind = kind
        self._channel_before = self.channel = tx.channels.get(kind)
        self._circuits_before = tx.seller_circuits.of(kind)
        self._circuits = dict(self._circuits_before)

    def circuit(self, seller_id: SellerId) -> SellerCircuit:
        return self._circuits.get(seller_id) or SellerCircuit(self._kind, seller_id)

    def set_circuit(self, circuit: SellerCircuit) -> None:
        if not circuit.is_new or circuit.seller_id in self._circuits:
            self._circuits[circuit.seller_id] = circuit

    def accepted(self, outcome: DeliveryOutcome, rules: DeliveryRules, *, is_accepted: bool) -> None:
        """Record that the receiver accepted a message, or refused it for good: either way it is there."""
        was_closed, began_at = self.channel.state is CircuitState.CLOSED, outcome.request.began_at
        self.channel = self.channel.answered(is_accepted, began_at, rules, outcome.ended_at)
        if is_accepted and self._circuits:
            self.set_circuit(self.circuit(outcome.claimed.seller_id).accepted(began_at))
        if not was_closed and self.channel.state is CircuitState.CLOSED:
            self._circuits = {seller_id: each.after_outage() for seller_id, each in self._circuits.items()}

    def interrupted(self, outcome: DeliveryOutcome, now: datetime) -> None:
        began_at = outcome.request.began_at
        self.channel = self.channel.interrupted(began_at, now)
        self.set_circuit(self.circuit(outcome.claimed.seller_id).interrupted(began_at, now))

    def failed(self, tried: FailedTry, seller_id: SellerId, rules: DeliveryRules, rng: random.Random) -> bool:
        """Record a failure that is worth repeating, and return whether it counts as a try of its message."""
        judged = judge_failure(self.channel, self.circuit(seller_id), tried, rules, rng)
        self.channel = judged.channel
        self.set_circuit(judged.circuit)
        return judged.counts

    def send(self, messages: Sequence[Message], rules: DeliveryRules, now: datetime) -> None:
        self.channel = self.channel.send(len(messages), rules, now)
        if self._circuits:
            for seller_id in dict.fromkeys(message.seller_id for message in messages):
                self.set_circuit(self.circuit(seller_id).send(rules, now))

    def save(self, now: datetime) -> tuple[Notice, ...]:
        """Write what changed, and return the alerts that follow."""
        notices = self.channel.notices(self._channel_before)
        if self.channel != self._channel_before:
            self._tx.channels.save(self.channel, now)
        changed = [each for each in self._circuits.values() if each != self._circuits_before.get(each.seller_id)]
        for each in changed:
            before = self._circuits_before.get(each.seller_id) or SellerCircuit(self._kind, each.seller_id)
            notices += each.notices(before)
        self._tx.seller_circuits.save(changed, now)
        return notices


def record_and_claim(
    tx: OutboxTx,
    kind: OutboxKind,
    outcomes: Sequence[DeliveryOutcome],
    capacity: Capacity,
    rules: DeliveryRules,
    now: datetime,
) -> DeliveryStep:
    """Write outcomes, then claim: a message that arrived lets the next of its subject be claimed at once."""
    queue, receiver = tx.delivery_queue(kind), _Receiver(tx, kind)
    recorded = _record(tx, kind, receiver, outcomes, rules, now)
    already_claimed: Sequence[Message] = ()
    if capacity.known is not None:
        claimed = queue.claimed_by(capacity.worker_id)
        already_claimed = [message for message in claimed if message.outbox_id not in capacity.known][: capacity.slots]
    wanted = capacity.slots - len(already_claimed)
    allowed = receiver.channel.allow(wanted, queue.count_sending, rules, now)
    # What was recorded may have made the next message of its subject due.
    sellers = None if capacity.sellers is None else [*capacity.sellers, *(each.seller_id for each in recorded)]
    claim = _Claim(queue, receiver, replace(capacity, sellers=sellers), allowed, rules, now)
    sending = [message.send(capacity.worker_id) for message in claim.messages()]
    tx.outbox(kind).move(sending, now)
    receiver.send(sending, rules, now)
    check_at = allowed.check_at if allowed.slots < wanted and not claim.free_slots else None
    if receiver.channel.state is not CircuitState.CLOSED:
        check_at = receiver.channel.allow(wanted, queue.count_sending, rules, now).check_at
    return DeliveryStep(
        recorded=Recorded(recorded, receiver.save(now)),
        claimed=[*already_claimed, *sending],
        sellers=claim.sellers_left,
        has_looked=claim.has_looked,
        more_due=allowed.slots > 0 and not claim.free_slots,
        next_due=claim.next_due() if claim.free_slots and claim.has_looked else None,
        check_at=check_at,
    )


class _Claim:
    """Which messages are claimed in one transaction: the free slots are shared among the sellers with due messages."""

    def __init__(
        self,
        queue: DeliveryQueue,
        receiver: _Receiver,
        capacity: Capacity,
        allowed: SendAllowance,
        rules: DeliveryRules,
        now: datetime,
    ) -> None:
        self._queue = queue
        self._receiver = receiver
        self._allowed = allowed
        self._rules = rules
        self._now = now
        self._busy = dict(capacity.busy)
        self._found: dict[SellerId, Sequence[Message]] = {}
        self._drained: set[SellerId] = set()
        self._sellers: Sequence[SellerId] = list(dict.fromkeys(capacity.sellers or ()))
        self._must_look = capacity.sellers is None
        self.has_looked = False
        self.free_slots = allowed.slots

    def messages(self) -> Sequence[Message]:
        """Return due messages for the slots, one of each seller in turn."""
        if self.free_slots:
            if self._must_look:
                self._look()
            self._fill()
            if self.free_slots and not self.has_looked and (self._drained or not self._sellers):
                self._look()
                self._fill()
        return [message for each in zip_longest(*self._found.values()) for message in each if message is not None]

    @property
    def sellers_left(self) -> Sequence[SellerId]:
        """Return the sellers that may have more, those that were just served last."""
        left = [seller_id for seller_id in self._sellers if seller_id not in self._drained]
        return sorted(left, key=self._found.__contains__)

    def next_due(self) -> datetime | None:
        """Return when the next message is due of a seller that may send it then."""
        times = []
        for seller_id, due_at in self._queue.waiting_sellers().items():
            circuit = self._receiver.circuit(seller_id)
            if self._may_send(circuit) and self._busy.get(seller_id, 0) < circuit.most(self._rules):
                times.append(max(due_at, circuit.not_before or due_at))
        return min(times, default=None)

    def _look(self) -> None:
        waiting = self._queue.waiting_sellers()
        due = {seller_id for seller_id, due_at in waiting.items() if due_at <= self._now}
        known = [seller_id for seller_id in self._sellers if seller_id in due]
        self._sellers = [*(seller_id for seller_id in waiting if seller_id in due.difference(known)), *known]
        self.has_looked = True

    def _fill(self) -> None:
        circuits = {seller_id: self._receiver.circuit(seller_id) for seller_id in self._sellers}
        sellers = [
            seller_id
            for seller_id, circuit in circuits.items()
            if circuit.can_send(self._now) and self._may_send(circuit) and seller_id not in self._drained
        ]
        if self._receiver.channel.state is not CircuitState.CLOSED:
            sellers.sort(key=lambda seller_id: circuits[seller_id].failures)
        most = {seller_id: circuits[seller_id].most(self._rules) for seller_id in sellers}
        while shares := fair_shares(self.free_slots, sellers, self._busy, most):
            for seller_id, share in shares.items():
                self._take(seller_id, share)
            sellers = [seller_id for seller_id in sellers if seller_id not in self._drained]

    def _take(self, seller_id: SellerId, share: int) -> None:
        had = len(self._found.get(seller_id, ()))
        self._found[seller_id] = self._queue.due(self._now, seller_id, had + share)
        more = len(self._found[seller_id]) - had
        self._busy[seller_id] = self._busy.get(seller_id, 0) + more
        self.free_slots -= more
        if more < share:
            self._drained.add(seller_id)

    def _may_send(self, circuit: SellerCircuit) -> bool:
        return not self._allowed.new_sellers_only or (circuit.state is CircuitState.CLOSED and not circuit.failures)


def record_outcomes(
    tx: OutboxTx, kind: OutboxKind, outcomes: Sequence[DeliveryOutcome], rules: DeliveryRules, now: datetime
) -> Recorded:
    """Write outcomes and claim nothing."""
    receiver = _Receiver(tx, kind)
    recorded = _record(tx, kind, receiver, outcomes, rules, now)
    return Recorded(recorded, receiver.save(now))


def recover(
    tx: OutboxTx, kind: OutboxKind, heartbeat_before: datetime, now: datetime, rules: DeliveryRules, seed: int
) -> Sequence[Message]:
    """Take messages back from lost workers, counting the attempt, postpone held messages, and forget the circuits of
    sellers without a message to send."""
    queue, rng = tx.delivery_queue(kind), random.Random(seed)  # noqa: S311 - spreads retries, guards nothing
    claimed = queue.claimed_by_lost_workers(heartbeat_before)
    lost = [
        message.lose_lease(now, rules.backoff.wait(message.retry_count + 1, rng), rules.max_attempts)
        for message in claimed
    ]
    tx.outbox(kind).move(lost, now)
    tx.attempts.add(kind, [_attempt(message, Request(None, now, None), True, WORKER_LOST) for message in claimed])
    queue.postpone_held(now, now + POSTPONE_FOR, POSTPONE_AT_ONCE)
    tx.seller_circuits.forget_idle(kind)
    return lost


def _record(
    tx: OutboxTx,
    kind: OutboxKind,
    receiver: _Receiver,
    outcomes: Sequence[DeliveryOutcome],
    rules: DeliveryRules,
    now: datetime,
) -> Sequence[Message]:
    """Write the outcomes of current attempts. One whose lease was lost belongs to another worker now, and an outcome
    that was written before is not written twice."""
    if not outcomes:
        return ()
    keys = tx.delivery_queue(kind).current_attempts([outcome.claimed.outbox_id for outcome in outcomes])
    current = [each for each in outcomes if keys.get(each.claimed.outbox_id) == each.claimed.attempt_key]
    failed = [each.claimed.outbox_id for each in current if _is_worth_repeating(each)]
    previous = tx.attempts.last_ended(failed) if failed else {}
    moved: list[Message] = []
    attempts: list[Attempt] = []
    for outcome in current:
        message, attempt = _judge(receiver, outcome, previous.get(outcome.claimed.outbox_id), rules, now)
        if outcome.cut is not None and outcome.cut.receipt is not None:
            receiver.channel = receiver.channel.repeated(rules, now)
            attempts.append(_attempt(outcome.claimed, outcome.cut, False, outcome.cut.receipt.problem))
        moved.append(message)
        attempts.append(attempt)
    tx.outbox(kind).move(moved, now)
    tx.attempts.add(kind, attempts)
    return moved


def _is_worth_repeating(outcome: DeliveryOutcome) -> bool:
    receipt = outcome.request.receipt
    return receipt is not None and receipt.verdict is DeliveryVerdict.RETRY


def _judge(
    receiver: _Receiver, outcome: DeliveryOutcome, previous_at: datetime | None, rules: DeliveryRules, now: datetime
) -> tuple[Message, Attempt]:
    """Return what an outcome means for its message, and record what it says about the receiver. The next attempt is
    never before the receiver's Retry-After."""
    claimed, request, at = outcome.claimed, outcome.request, outcome.ended_at
    receipt = request.receipt
    if receipt is None:
        receiver.interrupted(outcome, now)
        return claimed.put_back(now), _attempt(claimed, request, False, STOPPED)
    answer = receipt.answer if receipt.status is not None else receipt.problem
    if receipt.verdict is not DeliveryVerdict.RETRY:
        is_accepted = receipt.verdict is DeliveryVerdict.DELIVERED
        receiver.accepted(outcome, rules, is_accepted=is_accepted)
        finished = claimed.complete(at) if is_accepted else claimed.refuse(receipt.problem)
        return finished, _attempt(claimed, request, True, answer)
    rng = random.Random(outcome.seed)  # noqa: S311 - spreads retries, guards nothing
    tried = FailedTry(receipt, request.began_at, at, previous_at, claimed.retry_count)
    counts = receiver.failed(tried, claimed.seller_id, rules, rng)
    asked = (receipt.wait or timedelta(0)) * (1 + JITTER * rng.random())
    attempt = _attempt(claimed, request, counts, answer)
    if not counts:
        return claimed.put_back(_next_uncounted(receiver, outcome, at + asked, rules, rng)), attempt
    wait = max(rules.backoff.wait(claimed.retry_count + 1, rng), asked)
    failed = claimed.fail(receipt.problem, at, wait, rules.max_attempts)
    return failed.retry() if failed.can_retry() else failed, attempt


def _next_uncounted(
    receiver: _Receiver, outcome: DeliveryOutcome, asked: datetime, rules: DeliveryRules, rng: random.Random
) -> datetime:
    """Return when a message is tried again after a failure that does not count: with the next probes where a circuit is
    open, else after the first back-off."""
    at, claimed = outcome.ended_at, outcome.claimed
    if receiver.channel.state is not CircuitState.CLOSED:
        return max(receiver.channel.not_before or at, asked)
    circuit = receiver.circuit(claimed.seller_id)
    if circuit.state is not CircuitState.CLOSED:
        return max(circuit.not_before or at, asked)
    return max(at + rules.backoff.wait(claimed.retry_count + 1, rng), asked)


def _attempt(claimed: Message, request: Request, counts: bool, answer: str) -> Attempt:
    receipt = request.receipt
    status, verdict = (None, DeliveryVerdict.RETRY) if receipt is None else (receipt.status, receipt.verdict)
    number = claimed.retry_count + 1
    return Attempt(claimed.outbox_id, number, request.began_at, request.duration_ms, status, verdict, counts, answer)
