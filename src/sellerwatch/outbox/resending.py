"""Send the events of resends: round by round, each two transactions with the requests between them.

One process at a time makes rounds. Nothing is claimed: killed in a round, it is made again, with the same keys.
"""

from __future__ import annotations

import asyncio
import logging
import random
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from sellerwatch.kernel.clock import Clock
from sellerwatch.kernel.ids import ResendId
from sellerwatch.kernel.store import Store
from sellerwatch.outbox.message import Message
from sellerwatch.outbox.ports import EventReceiver, OutboxTx
from sellerwatch.outbox.receipt import Receipt
from sellerwatch.outbox.resend_transaction import ResendOutcome, Round, choose, next_round_at, record
from sellerwatch.outbox.rules import DeliveryRules

log = logging.getLogger(__name__)

#: Rounds follow each other for so long before another process may make them.
TURN = timedelta(seconds=2)
#: When a resend that could send nothing is looked at again.
LOOK_AGAIN = timedelta(seconds=1)

TxT = TypeVar("TxT", bound=OutboxTx)


class Resending(Generic[TxT]):
    """Resends to one receiver."""

    def __init__(
        self, store: Store[TxT], receiver: EventReceiver, clock: Clock, rng: random.Random, rules: DeliveryRules
    ) -> None:
        self._store = store
        self._receiver = receiver
        self._clock = clock
        self._rng = rng
        self._rules = rules

    async def is_asked_for(self) -> bool:
        return bool(await self._store.read(lambda tx: tx.resends.running()))

    async def send(self) -> int:
        """Make rounds of all resends until none can go on now, or a turn is over; return how many events were sent."""
        began, sent = self._clock.now(), 0
        while self._clock.now() - began < TURN:
            made = [await self._round(each) for each in await self._store.read(lambda tx: tx.resends.running())]
            sent += sum(made)
            if not any(made):
                break
        return sent

    async def next_at(self) -> datetime | None:
        """Return when the next round may be made; None when nothing is left to send again."""
        now = self._clock.now()

        def work(tx: TxT) -> list[datetime]:
            times = [next_round_at(tx, each, now) for each in tx.resends.running()]
            return [time for time in times if time is not None]

        times = await self._store.read(work)
        return max(min(times), now + LOOK_AGAIN) if times else None

    async def _round(self, resend_id: ResendId) -> int:
        now, rules = self._clock.now(), self._rules
        made: Round | None = await self._store.transact(lambda tx: choose(tx, resend_id, rules, now))
        if made is None:
            return 0
        outcomes = await asyncio.gather(*(self._send(message) for message in made.all_messages))
        seed, ended = self._rng.getrandbits(32), self._clock.now()
        await self._store.transact(lambda tx: record(tx, made, outcomes, rules, seed, ended))
        return len(outcomes)

    async def _send(self, message: Message) -> ResendOutcome:
        began = self._clock.monotonic()
        try:
            damaged = Receipt.of_damage() if message.is_damaged else None
            receipt = damaged or await self._receiver.deliver(message, self._clock.now())
        except Exception as error:
            log.exception("a receiver raised instead of answering", extra={"outbox_id": message.outbox_id})
            receipt = Receipt.of_silence(f"the sender itself failed: {type(error).__name__}")
        took = round((self._clock.monotonic() - began) * 1000)
        return ResendOutcome(message, receipt, self._clock.now(), took)
