"""The events of a simulated world's life, as the outbox holds them, and a wire to a real receiver that has faults."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping
from datetime import datetime
from typing import Any

from sellerwatch.adapters.http.product_server import HttpReceiver
from sellerwatch.catalog.differences import differences
from sellerwatch.kernel.clock import Clock
from sellerwatch.kernel.ids import Ids, ItemNo, OutboxId, ProductId, SellerId
from sellerwatch.outbox.event import SNAPSHOT, data_json, event_body, snapshot_body
from sellerwatch.outbox.message import Message
from sellerwatch.outbox.ports import EventBody
from sellerwatch.outbox.receipt import Receipt
from sellerwatch.simulator.simulator import Simulator

Data = Mapping[str, Any]


class EventStream:
    """Makes the messages that a crawl of the world would write: `found` after each change, `snapshots` when asked."""

    def __init__(self, simulator: Simulator, ids: Ids, clock: Clock) -> None:
        self._simulator, self._ids, self._clock = simulator, ids, clock
        self._products: dict[int, ProductId] = {}
        self._versions: Counter[int] = Counter()
        self._known: dict[int, Data] = {}
        self._gone: dict[int, Data] = {}

    @property
    def truth(self) -> dict[int, Data]:
        """The products that there are, by number."""
        world = self._simulator.world
        return {number: data for seller in world.sellers for number, data in world.catalogue(seller)}

    def found(self) -> Iterator[Message]:
        """An event for each product that differs from what was found before."""
        truth = self.truth
        for number, data in truth.items():
            if number not in self._known:
                yield self._event("PRODUCT_CREATED", number, data)
            elif changes := differences(self._known[number], data):
                yield self._event("PRODUCT_UPDATED", number, data, changes)
        self._gone = {**self._gone, **{n: data for n, data in self._known.items() if n not in truth}}
        for number in self._known.keys() - truth.keys():
            yield self._event("PRODUCT_DELETED", number, self._known[number])
        self._known = truth

    def snapshots(self) -> Iterator[Message]:
        """The present state of each product, those that are gone included."""
        for number, data in {**self._gone, **self._known}.items():
            yield self._event(SNAPSHOT, number, data)

    def _event(self, kind: str, number: int, data: Data, changes: Any = ()) -> Message:
        self._versions[number] += 1
        outbox_id, now, version = OutboxId.generate(self._ids), self._clock.now(), self._versions[number]
        product_id = self._products.setdefault(number, ProductId.generate(self._ids))
        about = (outbox_id, ItemNo(number), SellerId(data["sellerId"]), version, now)
        if kind == SNAPSHOT:
            payload = snapshot_body(*about, data_json(data), deleted=number not in self._known)
        else:
            payload = event_body(outbox_id, kind, *about[1:], changes, data_json(data))
        return Message(
            outbox_id=outbox_id,
            subject_id=product_id,
            seller_id=about[2],
            event_type=kind,
            payload=payload,
            created_at=now,
            next_attempt_at=now,
            item_no=about[1],
            version=version,
        )


class FaultyWire(HttpReceiver):
    """Requests arrive twice, or late copies of them after newer events, or their answers are lost.

    `incident` begins once, when `after` requests were made; meanwhile requests go on.
    """

    def __init__(
        self, url: str, secret: str, incident: Callable[[], Coroutine[Any, Any, None]] | None = None, after: int = 0
    ) -> None:
        super().__init__(url, secret)
        self._incident, self._after = incident, after
        self._rng = random.Random(7)
        self._attempts: Counter[str] = Counter()
        self._late: list[EventBody] = []
        self._recovery: asyncio.Task[None] | None = None
        self.faults: Counter[str] = Counter()

    async def deliver(self, message: EventBody, now: datetime) -> Receipt:
        self._attempts[message.outbox_id] += 1
        if self._incident is not None and self._attempts.total() == self._after:
            self._recovery = asyncio.create_task(self._incident())
        fate = self._rng.choice(["well", "lost", "twice", "late"]) if self._attempts[message.outbox_id] < 3 else "well"
        self.faults[fate] += 1
        if fate == "late":
            self._late.append(message)
        if fate == "twice":
            first, _ = await asyncio.gather(super().deliver(message, now), super().deliver(message, now))
            return first
        receipt = await super().deliver(message, now)
        return Receipt.of_silence("the answer was lost") if fate == "lost" else receipt

    async def deliver_late_copies(self, now: datetime) -> None:
        """What was held up on its way arrives in the end, in any order."""
        self._rng.shuffle(self._late)
        for message in self._late:
            await super().deliver(message, now)
