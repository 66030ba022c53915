"""Deliver an outbox: claim what is due, send it to the receiver, record the outcome.

One loop decides, requests run beside it. Each step of the loop is one transaction (`delivery_transaction.py`). Nothing
is sent before its claim is committed, and no transaction waits for the network. If the process is killed, a message is
either still WAITING, or SENDING by a worker whose heartbeat stops, and `recover` takes it back.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from sellerwatch.kernel.activity import Activity
from sellerwatch.kernel.backoff import Backoff
from sellerwatch.kernel.clock import Clock
from sellerwatch.kernel.errors import Failed
from sellerwatch.kernel.ids import OutboxId, SellerId, WorkerId
from sellerwatch.kernel.notices import Notice
from sellerwatch.kernel.store import Store
from sellerwatch.outbox.delivery_transaction import (
    Capacity,
    DeliveryOutcome,
    DeliveryStep,
    Recorded,
    Request,
    record_and_claim,
    record_outcomes,
    recover,
)
from sellerwatch.outbox.message import Message, MessageStatus, OutboxKind
from sellerwatch.outbox.ports import OutboxTx, Receiver
from sellerwatch.outbox.receipt import Receipt
from sellerwatch.outbox.rules import DeliveryRules

log = logging.getLogger(__name__)

#: How often a paused channel or an open circuit is read again, in seconds: another process may have changed it.
STOPPED_CHECK = 5.0
#: How long an outcome waits for others to share a transaction with, unless half of the slots are free by then.
GATHER_SECONDS = 0.01
#: How often at most the activity feed gets the number of delivered messages.
REPORT_EVERY = timedelta(seconds=1)
#: How often at least the sellers with due messages are looked for, in seconds: one's flood hides no other for longer.
LOOK_EVERY = 1.0
_AFTER_FAILED_TRANSACTION = Backoff(first=1.0, longest=30.0)
_RULES = DeliveryRules()


TxT = TypeVar("TxT", bound=OutboxTx)


@dataclass(frozen=True)
class _Reported:
    """The counts that the activity feed has got, and when."""

    delivered: int = 0
    failed: int = 0
    at: datetime | None = None


@dataclass(frozen=True)
class _Sending:
    claimed: Message
    task: asyncio.Task[None]
    began_at: datetime
    began: float
    cut: Request | None = None


def _no_consequences(_tx: OutboxTx, _recorded: Sequence[Message], _now: datetime) -> Sequence[Notice]:
    return ()


def _no_alerts(_notices: Sequence[Notice]) -> None:
    return None


class Delivery(Generic[TxT]):
    """One sender of one outbox. Its worker must have a heartbeat row before it runs: the heartbeat is the lease.

    Without a receiver it waits and claims nothing. `consequences` changes what depends on the recorded messages, in the
    same transaction; `alert` gets the notices after the commit. `delivered`, `retried` and `failed` count the messages
    that this object has committed.
    """

    def __init__(
        self,
        store: Store[TxT],
        receiver: Receiver | None,
        clock: Clock,
        rng: random.Random,
        worker_id: WorkerId,
        rules: DeliveryRules = _RULES,
        kind: OutboxKind = OutboxKind.PRODUCT,
        *,
        consequences: Callable[[TxT, Sequence[Message], datetime], Sequence[Notice]] = _no_consequences,
        alert: Callable[[Sequence[Notice]], None] = _no_alerts,
    ) -> None:
        self._store = store
        self._receiver = receiver
        self._clock = clock
        self._rng = rng
        self._worker_id = worker_id
        self._rules = rules
        self._kind = kind
        self._consequences = consequences
        self._alert = alert
        self._wake = asyncio.Event()
        self._requests: dict[OutboxId, _Sending] = {}
        self._outcomes: list[DeliveryOutcome] = []
        self._unrecorded: list[DeliveryOutcome] = []
        self._claim_outcome_unknown = True
        self._failed_transactions = 0
        self._sellers: Sequence[SellerId] = ()
        self._look_at = 0.0
        self.delivered = 0
        self.retried = 0
        self.failed = 0
        self._reported = _Reported()

    def nudge(self) -> None:
        """Look for due messages now. Call it on the loop's own thread, after the commit that wrote them."""
        self._look_at = 0.0
        self._wake.set()

    @property
    def is_busy(self) -> bool:
        """Whether messages are being sent or their outcomes are not recorded yet."""
        return bool(self._requests or self._outcomes or self._unrecorded)

    @property
    def has_receiver(self) -> bool:
        return self._receiver is not None

    async def pending(self) -> int:
        """Return how many messages are still to be sent without an operator."""
        return await self._store.read(lambda tx: tx.outbox_queries(self._kind).pending())

    async def recover(self, silent_for: timedelta) -> int:
        """Take messages back from workers without a heartbeat for that long, and return how many."""
        now, rules, seed = self._clock.now(), self._rules, self._rng.getrandbits(64)

        def work(tx: TxT) -> Recorded:
            lost = recover(tx, self._kind, now - silent_for, now, rules, seed)
            return Recorded(lost, tuple(self._consequences(tx, lost, now)))

        recovered = await self._store.transact(work)
        self._alert(recovered.notices)
        if recovered.messages:
            self.nudge()
        return len(recovered.messages)

    async def run(self, stop: asyncio.Event) -> None:
        """Deliver until `stop`; then wait for answers and put back messages without one."""
        if self._receiver is None:
            await stop.wait()
            return
        watch = asyncio.create_task(self._wake_on(stop))
        wait: float | None = 0.0
        try:
            while not stop.is_set():
                await self._sleep(wait)
                if not stop.is_set():
                    await self._gather_outcomes()
                    wait = await self._step(self._receiver)
            await self._finish()
        finally:
            watch.cancel()
            for request in self._requests.values():
                request.task.cancel()

    async def _wake_on(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._wake.set()

    async def _sleep(self, seconds: float | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        self._wake.clear()

    async def _gather_outcomes(self) -> None:
        """Wait a moment for more outcomes, to record them in one transaction."""
        if self._outcomes:
            await self._wait_for_outcomes(GATHER_SECONDS, max(1, self._rules.concurrency // 2))

    async def _wait_for_outcomes(self, seconds: float, number: int) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._requests and len(self._outcomes) < number:
                    self._wake.clear()
                    await self._wake.wait()

    async def _step(self, receiver: Receiver) -> float | None:
        """Record outcomes, claim, send. Return after how many seconds to step again; None: only when woken."""
        if not self._outcomes and self._unrecorded:
            again, self._unrecorded = self._unrecorded, []
            await self._record_singly(again)
        outcomes, self._outcomes = self._outcomes, []
        now, capacity, activity = self._clock.now(), self._capacity(), self._activity()

        def work(tx: TxT) -> DeliveryStep:
            if activity is not None:
                tx.activity.add(activity)
            step = record_and_claim(tx, self._kind, outcomes, capacity, self._rules, now)
            return replace(step, recorded=self._with_consequences(tx, step.recorded, now))

        try:
            step = await self._store.transact(work)
        except Exception as error:
            self._claim_outcome_unknown = True
            self._failed_transactions += 1
            if isinstance(error, Failed):
                details = {"outcomes": len(outcomes), "problem": str(error)}
                log.warning("a transaction of delivery failed", extra=details)
                self._outcomes = outcomes + self._outcomes
            else:
                log.exception("a transaction of delivery failed", extra={"outcomes": len(outcomes)})
                await self._record_singly(outcomes)
            return _AFTER_FAILED_TRANSACTION.wait(self._failed_transactions, self._rng).total_seconds()
        self._claim_outcome_unknown = False
        self._failed_transactions = 0
        self._sellers = step.sellers
        if step.has_looked:
            self._look_at = self._clock.monotonic() + LOOK_EVERY
        if activity is not None:
            self._reported = _Reported(self.delivered, self.failed, now)
        self._count(step.recorded)
        for message in step.claimed:
            self._start(message, receiver)
        return self._until_next(step)

    def _capacity(self) -> Capacity:
        slots = min(self._rules.concurrency - len(self._requests), self._rules.batch)
        known = frozenset((*self._requests, *(outcome.claimed.outbox_id for outcome in self._unrecorded)))
        busy = Counter(request.claimed.seller_id for request in self._requests.values())
        sellers = self._sellers if self._clock.monotonic() < self._look_at else None
        return Capacity(
            self._worker_id, slots, known if self._claim_outcome_unknown or not known else None, busy, sellers
        )

    def _activity(self) -> Activity | None:
        """Return the counts since the last report, at most once a second."""
        now, reported = self._clock.now(), self._reported
        delivered, failed = self.delivered - reported.delivered, self.failed - reported.failed
        if not (delivered or failed) or (reported.at is not None and abs(now - reported.at) < REPORT_EVERY):
            return None
        data = {"delivered": delivered, "failed": failed}
        return Activity(now, "outbox.delivered", "outbox", self._kind, data)

    def _until_next(self, step: DeliveryStep) -> float | None:
        waits: list[float] = []
        if self._store.commits is None:
            # Another process may have added a message or changed the channel.
            waits.append(STOPPED_CHECK if step.check_at is not None else self._rules.interval)
        if self._unrecorded:
            waits.append(_AFTER_FAILED_TRANSACTION.longest)
        is_reported = (self.delivered, self.failed) == (self._reported.delivered, self._reported.failed)
        if step.check_at is None and not is_reported:
            waits.append(REPORT_EVERY.total_seconds())
        if not step.has_looked and step.check_at is None:
            waits.append(LOOK_EVERY)
        if step.check_at is None and step.more_due and len(self._requests) < self._rules.concurrency:
            waits.append(0.0)
        for next_at in (step.check_at, step.next_due):
            if next_at is not None:
                waits.append(max((next_at - self._clock.now()).total_seconds(), 0.0))
        return min(waits, default=None)

    def _start(self, message: Message, receiver: Receiver) -> None:
        stale = self._requests.pop(message.outbox_id, None)
        if stale is not None:
            # Our heartbeat was late, the message was taken from us and claimed again: send it only once at a time.
            stale.task.cancel()
        task = asyncio.create_task(self._send(message, receiver))
        self._requests[message.outbox_id] = _Sending(message, task, self._clock.now(), self._clock.monotonic())

    async def _send(self, message: Message, receiver: Receiver) -> None:
        """Send once; once more at once where the connection was lost: the key makes a repetition harmless."""
        receipt = await self._ask(message, receiver)
        sending = self._requests.get(message.outbox_id)
        if receipt.is_cut and sending is not None and sending.claimed is message:
            cut = self._request(sending, receipt)
            repeated = replace(sending, began_at=self._clock.now(), began=self._clock.monotonic(), cut=cut)
            self._requests[message.outbox_id] = repeated
            receipt = await self._ask(message, receiver)
            sending = self._requests.get(message.outbox_id)
        if sending is not None and sending.claimed is message:
            del self._requests[message.outbox_id]
            self._outcomes.append(self._outcome(sending, receipt))
            self._wake.set()

    async def _ask(self, message: Message, receiver: Receiver) -> Receipt:
        if message.is_damaged:
            return Receipt.of_damage()
        try:
            return await receiver.deliver(message, self._clock.now())
        except Exception as error:
            log.exception("a receiver raised instead of answering", extra={"outbox_id": message.outbox_id})
            return Receipt.of_silence(f"the sender itself failed: {type(error).__name__}")

    def _request(self, sending: _Sending, receipt: Receipt | None) -> Request:
        return Request(receipt, sending.began_at, round((self._clock.monotonic() - sending.began) * 1000))

    def _outcome(self, sending: _Sending, receipt: Receipt | None) -> DeliveryOutcome:
        seed = self._rng.getrandbits(32)
        request = self._request(sending, receipt)
        return DeliveryOutcome(sending.claimed, request, self._clock.now(), seed, sending.cut)

    async def _record_singly(self, outcomes: Sequence[DeliveryOutcome]) -> None:
        """Record each outcome in its own transaction, so that one bad message does not stop the others. What cannot be
        recorded is tried again later."""
        for number, outcome in enumerate(outcomes):
            try:
                await self._record([outcome])
            except Failed:
                log.exception("outcomes could not be written", extra={"outcomes": len(outcomes) - number})
                self._unrecorded += outcomes[number:]
                return
            except Exception:
                log.exception("an outcome could not be written", extra={"outbox_id": outcome.claimed.outbox_id})
                self._unrecorded.append(outcome)

    async def _record(self, outcomes: Sequence[DeliveryOutcome]) -> None:
        now = self._clock.now()

        def work(tx: TxT) -> Recorded:
            return self._with_consequences(tx, record_outcomes(tx, self._kind, outcomes, self._rules, now), now)

        self._count(await self._store.transact(work))

    def _with_consequences(self, tx: TxT, recorded: Recorded, now: datetime) -> Recorded:
        return replace(recorded, notices=(*recorded.notices, *self._consequences(tx, recorded.messages, now)))

    async def _finish(self) -> None:
        """Wait `grace` seconds for answers, then put back the messages without one."""
        await self._wait_for_outcomes(self._rules.grace, len(self._outcomes) + len(self._requests))
        left = list(self._requests.values())
        for request in left:
            request.task.cancel()
        await asyncio.gather(*(request.task for request in left), return_exceptions=True)
        unanswered = [self._outcome(request, None) for request in self._requests.values()]
        outcomes = [*self._unrecorded, *self._outcomes, *unanswered]
        self._requests, self._unrecorded, self._outcomes = {}, [], []
        try:
            await self._record(outcomes)
        except Exception:
            log.exception("the last outcomes could not be written together", extra={"outcomes": len(outcomes)})
            await self._record_singly(outcomes)

    def _count(self, recorded: Recorded) -> None:
        """After a commit: count the messages by their state and send alerts."""
        for message in recorded.messages:
            self.delivered += message.status is MessageStatus.COMPLETED
            self.failed += message.status is MessageStatus.FAILED
            self.retried += message.status is MessageStatus.WAITING
        self._alert(recorded.notices)
