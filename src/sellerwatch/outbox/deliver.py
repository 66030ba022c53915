"""Delivering an outbox: claim what is due, give it to the receiver, write down what became of it.

One loop decides, sends run beside it. A turn of the loop is one transaction (see `turn.py`). Nothing is on the wire
before its claim is committed, and no transaction waits for the wire. Killed anywhere, a message is either still WAITING
or SENDING by a worker whose heartbeat lapses, and `recover` brings it back.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from sellerwatch.kernel.activity import Activity
from sellerwatch.kernel.backoff import Backoff
from sellerwatch.kernel.clock import Clock
from sellerwatch.kernel.errors import Failed
from sellerwatch.kernel.ids import OutboxId, WorkerId
from sellerwatch.kernel.notices import Notice
from sellerwatch.kernel.store import Store
from sellerwatch.outbox.delivery_transaction import Outcome, Room, Settled, Turn, recover, settle, take_turn
from sellerwatch.outbox.message import Message, MessageStatus, OutboxKind
from sellerwatch.outbox.ports import OutboxTx, Receiver
from sellerwatch.outbox.receipt import Receipt
from sellerwatch.outbox.rules import DeliveryRules

log = logging.getLogger(__name__)

#: While the channel is paused or its circuit is open, this is how late it is noticed that somebody changed that.
HELD_LOOK = 5.0
#: Outcomes wait this long for others to share a transaction with, unless half of the slots are free by then.
LINGER = 0.01
#: How often at most it is told how many arrived.
TELL_EVERY = timedelta(seconds=1)
_TROUBLE = Backoff(first=1.0, longest=30.0)
_RULES = DeliveryRules()


TxT = TypeVar("TxT", bound=OutboxTx)


@dataclass(frozen=True)
class _Told:
    """How far whoever watches has been told."""

    delivered: int = 0
    failed: int = 0
    at: datetime | None = None


@dataclass(frozen=True)
class _Flight:
    claimed: Message
    task: asyncio.Task[None]
    began_at: datetime
    began: float


def _nothing_more(_tx: OutboxTx, _settled: Sequence[Message], _now: datetime) -> Sequence[Notice]:
    return ()


def _nobody(_notices: Sequence[Notice]) -> None:
    return None


class Delivery(Generic[TxT]):
    """One sender of one outbox. Its worker must have a heartbeat row before it runs: the heartbeat is the lease.

    Without a receiver it waits and claims nothing. `consequences` is what else changes with what became of messages, in
    the same transaction; `tell` hears of it after the commit. `delivered`, `retried` and `failed` (for good) count what
    this object has committed, for whoever shows progress.
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
        consequences: Callable[[TxT, Sequence[Message], datetime], Sequence[Notice]] = _nothing_more,
        tell: Callable[[Sequence[Notice]], None] = _nobody,
    ) -> None:
        self._store = store
        self._receiver = receiver
        self._clock = clock
        self._luck = rng
        self._worker_id = worker_id
        self._rules = rules
        self._kind = kind
        self._consequences = consequences
        self._tell = tell
        self._wake = asyncio.Event()
        self._flying: dict[OutboxId, _Flight] = {}
        self._ended: list[Outcome] = []
        self._unsettled: list[Outcome] = []
        self._unsure = True
        self._troubles = 0
        self.delivered = 0
        self.retried = 0
        self.failed = 0
        self._told = _Told()

    def nudge(self) -> None:
        """There may be something new to send. Called on the loop's own thread, after the commit that wrote it."""
        self._wake.set()

    @property
    def is_busy(self) -> bool:
        """Messages are on the wire, or their outcomes wait to be written."""
        return bool(self._flying or self._ended or self._unsettled)

    @property
    def has_receiver(self) -> bool:
        return self._receiver is not None

    async def pending(self) -> int:
        """How many messages will still move by themselves; 0 is an empty outbox."""
        return await self._store.read(lambda tx: tx.outbox(self._kind).pending())

    async def recover(self, silent_for: timedelta) -> int:
        """Bring back what senders held that have not been heard of for so long; says how many messages."""
        now, rules, seed = self._clock.now(), self._rules, self._luck.getrandbits(64)

        def work(tx: TxT) -> Settled:
            lost = recover(tx, self._kind, now - silent_for, now, rules, seed)
            return Settled(lost, tuple(self._consequences(tx, lost, now)))

        recovered = await self._store.transact(work)
        self._tell(recovered.notices)
        if recovered.messages:
            self.nudge()
        return len(recovered.messages)

    async def run(self, stop: asyncio.Event) -> None:
        """Deliver until told to stop; then let answers come in for a while and put back what has none."""
        if self._receiver is None:
            await stop.wait()
            return
        watch = asyncio.create_task(self._wake_on(stop))
        rest: float | None = 0.0
        try:
            while not stop.is_set():
                await self._rest(rest)
                if not stop.is_set():
                    await self._linger()
                    rest = await self._turn(self._receiver)
            await self._land()
        finally:
            watch.cancel()
            for flight in self._flying.values():
                flight.task.cancel()

    async def _wake_on(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._wake.set()

    async def _rest(self, seconds: float | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        self._wake.clear()

    async def _linger(self) -> None:
        """One transaction for several outcomes, when more are on their way."""
        if self._ended:
            await self._land_until(LINGER, max(1, self._rules.concurrency // 2))

    async def _land_until(self, seconds: float, ended: int) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._flying and len(self._ended) < ended:
                    self._wake.clear()
                    await self._wake.wait()

    async def _turn(self, receiver: Receiver) -> float | None:
        """Write, claim, start; returns for how long there is nothing to do unless somebody wakes the loop. None: until
        somebody does."""
        if not self._ended and self._unsettled:
            again, self._unsettled = self._unsettled, []
            await self._settle_singly(again)
        outcomes, self._ended = self._ended, []
        now, room, news = self._clock.now(), self._room(), self._news()

        def work(tx: TxT) -> Turn:
            if news is not None:
                tx.activity.add(news)
            turn = take_turn(tx, self._kind, outcomes, room, self._rules, now)
            return replace(turn, settled=self._followed_up(tx, turn.settled, now))

        try:
            turn = await self._store.transact(work)
        except Exception as error:
            self._unsure = True
            self._troubles += 1
            if isinstance(error, Failed):
                log.warning("an outbox turn failed", extra={"outcomes": len(outcomes), "problem": str(error)})
                self._ended = outcomes + self._ended
            else:
                log.exception("an outbox turn failed", extra={"outcomes": len(outcomes)})
                await self._settle_singly(outcomes)
            return _TROUBLE.wait(self._troubles, self._luck).total_seconds()
        self._unsure = False
        self._troubles = 0
        if news is not None:
            self._told = _Told(self.delivered, self.failed, now)
        self._heed(turn.settled)
        for message in turn.claimed:
            self._start(message, receiver)
        return self._until_next(turn)

    def _room(self) -> Room:
        slots = min(self._rules.concurrency - len(self._flying), self._rules.batch)
        known = frozenset((*self._flying, *(outcome.claimed.outbox_id for outcome in self._unsettled)))
        return Room(self._worker_id, slots, known if self._unsure or not known else None)

    def _news(self) -> Activity | None:
        """What arrived or failed for good since that was last told, at most once a second."""
        now, told = self._clock.now(), self._told
        delivered, failed = self.delivered - told.delivered, self.failed - told.failed
        if not (delivered or failed) or (told.at is not None and abs(now - told.at) < TELL_EVERY):
            return None
        data = {"delivered": delivered, "failed": failed}
        return Activity(now, "outbox.delivered", "outbox", self._kind, data)

    def _until_next(self, turn: Turn) -> float | None:
        waits: list[float] = []
        if self._store.commits is None:
            # Another process may have added a message, or opened the channel.
            waits.append(HELD_LOOK if turn.look_at is not None else self._rules.interval)
        if self._unsettled:
            waits.append(_TROUBLE.longest)
        if turn.look_at is None and (self.delivered, self.failed) != (self._told.delivered, self._told.failed):
            waits.append(TELL_EVERY.total_seconds())
        if turn.look_at is None and not turn.drained and len(self._flying) < self._rules.concurrency:
            waits.append(0.0)
        next_at = turn.look_at or (turn.next_due if turn.drained else None)
        if next_at is not None:
            waits.append(max((next_at - self._clock.now()).total_seconds(), 0.0))
        return min(waits, default=None)

    def _start(self, message: Message, receiver: Receiver) -> None:
        stale = self._flying.pop(message.outbox_id, None)
        if stale is not None:
            # We were silent for so long that it was taken from us, and came back: one of a subject in flight is enough.
            stale.task.cancel()
        task = asyncio.create_task(self._send(message, receiver))
        self._flying[message.outbox_id] = _Flight(message, task, self._clock.now(), self._clock.monotonic())

    async def _send(self, message: Message, receiver: Receiver) -> None:
        try:
            receipt = await receiver.deliver(message, self._clock.now())
        except Exception as error:
            log.exception("a receiver raised instead of answering", extra={"outbox_id": message.outbox_id})
            receipt = Receipt.of_silence(f"the sender itself failed: {type(error).__name__}")
        flight = self._flying.get(message.outbox_id)
        if flight is not None and flight.claimed is message:
            del self._flying[message.outbox_id]
            self._ended.append(self._outcome(flight, receipt))
            self._wake.set()

    def _outcome(self, flight: _Flight, receipt: Receipt | None) -> Outcome:
        took = round((self._clock.monotonic() - flight.began) * 1000)
        seed = self._luck.getrandbits(32)
        return Outcome(flight.claimed, receipt, flight.began_at, self._clock.now(), took, seed)

    async def _settle_singly(self, outcomes: Sequence[Outcome]) -> None:
        """One bad message spoils only itself: it is tried again later, and comes back by its lease at the worst."""
        for number, outcome in enumerate(outcomes):
            try:
                await self._settle([outcome])
            except Failed:
                log.exception("outcomes could not be written", extra={"outcomes": len(outcomes) - number})
                self._unsettled += outcomes[number:]
                return
            except Exception:
                log.exception("an outcome could not be written", extra={"outbox_id": outcome.claimed.outbox_id})
                self._unsettled.append(outcome)

    async def _settle(self, outcomes: Sequence[Outcome]) -> None:
        now = self._clock.now()

        def work(tx: TxT) -> Settled:
            return self._followed_up(tx, settle(tx, self._kind, outcomes, self._rules, now), now)

        self._heed(await self._store.transact(work))

    def _followed_up(self, tx: TxT, settled: Settled, now: datetime) -> Settled:
        return replace(settled, notices=(*settled.notices, *self._consequences(tx, settled.messages, now)))

    async def _land(self) -> None:
        """Stopping: what is on the wire has `grace` seconds to be answered, the rest goes back."""
        await self._land_until(self._rules.grace, len(self._ended) + len(self._flying))
        left = list(self._flying.values())
        for flight in left:
            flight.task.cancel()
        await asyncio.gather(*(flight.task for flight in left), return_exceptions=True)
        back = [self._outcome(flight, None) for flight in self._flying.values()]
        outcomes = [*self._unsettled, *self._ended, *back]
        self._flying, self._unsettled, self._ended = {}, [], []
        try:
            await self._settle(outcomes)
        except Exception:
            log.exception("the last outcomes could not be written together", extra={"outcomes": len(outcomes)})
            await self._settle_singly(outcomes)

    def _heed(self, settled: Settled) -> None:
        """After the commit: count what became of messages, and tell what people should hear of."""
        for message in settled.messages:
            self.delivered += message.status is MessageStatus.COMPLETED
            self.failed += message.status is MessageStatus.FAILED
            self.retried += message.status is MessageStatus.WAITING
        self._tell(settled.notices)
