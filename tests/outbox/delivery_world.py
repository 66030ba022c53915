"""The world of delivery on virtual time: an outbox, and the simulator's product server with every request watched."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar

from tests.builders import worker_id
from tests.simulated_receiver import SimulatedReceiver
from tests.world import StoreWorld

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.kernel.ids import Ids, ItemNo, OutboxId, ProductId, SellerId
from sellerwatch.kernel.notices import Notice
from sellerwatch.kernel.store import Store
from sellerwatch.kernel.virtual_time import VirtualClock, VirtualLoop, run_virtually
from sellerwatch.outbox.channel import Channel
from sellerwatch.outbox.deliver import Delivery
from sellerwatch.outbox.event import FieldChange, data_json, event_body
from sellerwatch.outbox.message import Message, OutboxKind
from sellerwatch.outbox.ports import OutboxTx, Receiver
from sellerwatch.outbox.receipt import Receipt
from sellerwatch.outbox.rules import DeliveryRules
from sellerwatch.outbox.seller_circuit import SellerCircuit
from sellerwatch.simulator.product_server import ServerBehaviour, ServerMode
from sellerwatch.simulator.simulator import Simulator

T = TypeVar("T")

SELLER = SellerId("seller_0001")
SECRET = "whsec_cHJhY3Rpc2UgbWFrZXMgcGVyZmVjdA=="
LAPSE = timedelta(seconds=30)


def seller_of(number: int) -> SellerId:
    """The seller of a product."""
    return SellerId(f"seller_{1 + number // 1000:04}")


def stock_event(outbox_id: OutboxId, product_id: ProductId, number: int, version: int, now: datetime) -> Message:
    """The event of a product of which each version changes the stock."""
    item_no, seller_id = ItemNo(900_000_000 + number), seller_of(number)
    kind = "PRODUCT_CREATED" if version == 1 else "PRODUCT_UPDATED"
    changes = [] if version == 1 else [FieldChange("stock", version - 1, version)]
    data = {"itemNo": item_no, "sellerId": seller_id, "name": "반팔 티셔츠 🧵", "stock": version}
    return Message(
        outbox_id=outbox_id,
        subject_id=product_id,
        seller_id=seller_id,
        event_type=kind,
        payload=event_body(outbox_id, kind, item_no, seller_id, version, now, changes, data_json(data)),
        created_at=now,
        next_attempt_at=now,
        item_no=item_no,
        version=version,
    )


@dataclass(frozen=True)
class Sent:
    """One request as it left."""

    outbox_id: str
    item_no: int | None
    body: bytes
    at: datetime


@dataclass
class Wire:
    """The receiver, watched: a request travels `latency` seconds, and two of one product never travel together."""

    receiver: SimulatedReceiver
    clock: VirtualClock
    latency: float = 0.05
    sent: list[Sent] = field(default_factory=list)
    flying: list[str] = field(default_factory=list)
    most: int = 0

    async def deliver(self, message: Message, now: datetime) -> Receipt:
        assert message.subject_id not in self.flying, "two events of one product in flight"
        assert message.next_attempt_at is not None
        assert message.next_attempt_at <= now, "sent before its time"
        self.sent.append(Sent(message.outbox_id, message.item_no, message.payload, now))
        self.flying.append(message.subject_id)
        self.most = max(self.most, len(self.flying))
        try:
            await self.clock.sleep(self.latency)
            return await self.receiver.deliver(message, self.clock.now())
        finally:
            self.flying.remove(message.subject_id)


@dataclass
class Failing:
    """The receiver, which answers 500 to the events of some products or sellers, or hangs on them."""

    wire: Wire
    bad: set[str]
    hangs: bool = False

    async def deliver(self, message: Message, now: datetime) -> Receipt:
        if not {message.subject_id, message.seller_id} & self.bad:
            return await self.wire.deliver(message, now)
        self.wire.sent.append(Sent(message.outbox_id, message.item_no, message.payload, now))
        await self.wire.clock.sleep(5.0 if self.hangs else self.wire.latency)
        return Receipt.of_silence("no answer within 5 s") if self.hangs else Receipt.of_answer(500, b"a bug of theirs")


class DeliveryWorld(StoreWorld):
    """Products are numbers from 1, the first 1,000 of one seller, each further 1,000 of another; each event of one
    changes its stock, as a catalogue would report it."""

    clock: VirtualClock

    def __init__(self, store: SqlStore, seed: int = 0, loop: VirtualLoop | None = None) -> None:
        self.loop = loop or VirtualLoop()
        self.rng = random.Random(seed)
        clock = VirtualClock(self.loop)
        super().__init__(store, clock, Ids(clock, self.rng))
        self.workers = 0
        self.heard: list[Notice] = []
        self.simulator = Simulator(seed=seed, sellers=1, products=1, secret=SECRET)
        self.server = self.simulator.product_server
        self.wire = Wire(SimulatedReceiver(self.simulator, self.clock, (SECRET,)), self.clock)
        self.products: dict[int, ProductId] = {}
        self.versions: dict[int, int] = {}

    def play(self, scenario: Coroutine[Any, Any, T]) -> T:
        return run_virtually(scenario, loop=self.loop)

    async def delivery(
        self,
        rules: DeliveryRules | None = None,
        *,
        store: Store[OutboxTx] | None = None,
        receiver: Receiver | None = None,
        alert: Callable[[Sequence[Notice]], None] = lambda _: None,
    ) -> Delivery[Any]:
        """A sender with a worker of its own, who is alive from now on."""
        self.workers += 1
        await self.enter_worker(self.workers)
        rules, number = rules or DeliveryRules(), worker_id(self.workers)
        return Delivery(store or self.store, receiver or self.wire, self.clock, self.rng, number, rules, alert=alert)

    async def beat(self, delivery: Delivery[Any]) -> None:
        now = self.now
        await self.transact(lambda tx: tx.workers.beat(delivery._worker_id, now))

    async def tell(self, *numbers: int) -> list[OutboxId]:
        """One more event of each of these products, in one transaction."""
        messages = [self._event(number) for number in numbers]

        def work(tx: Transaction) -> None:
            for message in messages:
                tx.product_outbox.add(message)

        await self.transact(work)
        return [message.outbox_id for message in messages]

    def _event(self, number: int) -> Message:
        product_id = self.products.get(number) or ProductId.generate(self.ids)
        self.products[number] = product_id
        version = self.versions[number] = self.versions.get(number, 0) + 1
        return stock_event(OutboxId.generate(self.ids), product_id, number, version, self.clock.now())

    def behave(self, mode: ServerMode, *, requests: int | None = None, probability: float = 1.0, wait: int = 1) -> None:
        self.server.behave(ServerBehaviour(mode, probability, requests, wait))

    async def messages(self) -> list[Message]:
        def work(tx: Transaction) -> list[Message]:
            ids = [OutboxId(row[0]) for row in tx.db.rows("SELECT outbox_id FROM product_outbox ORDER BY id")]
            return list(tx.product_outbox.get_many(ids))

        return await self.read(work)

    async def messages_waiting(self) -> int:
        return sum(message.status == "WAITING" for message in await self.messages())

    async def circuits(self) -> dict[SellerId, SellerCircuit]:
        return dict(await self.read(lambda tx: tx.seller_circuits.of(OutboxKind.PRODUCT)))

    async def channel(self) -> Channel:
        return await self.read(lambda tx: tx.channels.get(OutboxKind.PRODUCT))

    async def pause(self, paused: bool) -> None:
        """What an operator does; False resumes."""
        now = self.clock.now()

        def work(tx: Transaction) -> None:
            channel = tx.channels.get(OutboxKind.PRODUCT)
            tx.channels.save(channel.pause("test", now) if paused else channel.resume(now), now)

        await self.transact(work)

    async def verdicts(self) -> list[str]:
        """Of every try there was."""
        rows = await self.read(lambda tx: tx.db.rows("SELECT verdict FROM outbox_attempts ORDER BY id"))
        return [row[0] for row in rows]

    async def replay_failed(self) -> int:
        """What an operator does with what failed for good."""
        now = self.clock.now()
        failed = [m for m in await self.messages() if m.status == "FAILED"]
        await self.transact(lambda tx: tx.product_outbox.move([m.replay(now) for m in failed], now))
        return len(failed)

    async def until_empty(self, delivery: Delivery[Any], longest: float = 1_000_000) -> None:
        end = self.clock.monotonic() + longest
        while await delivery.pending():
            assert self.clock.monotonic() < end, "the outbox does not drain"
            await self.clock.sleep(1)

    def check_everything_arrived(self) -> None:
        """Effects equal events, each applied once and in order."""
        assert [v.rule for v in self.server.violations] == []
        assert {n: self.server.version(900_000_000 + n) for n in self.versions} == self.versions
        assert self.server.stats()["events"] == sum(self.versions.values())
        bodies: dict[str, bytes] = {}
        for sent in self.wire.sent:
            assert bodies.setdefault(sent.outbox_id, sent.body) == sent.body, "one key, two bodies"


class Running:
    """`async with Running(delivery)`: it runs, and is stopped as a service stops it; `crash` is kill -9."""

    def __init__(self, delivery: Delivery[Any]) -> None:
        self.delivery = delivery
        self.stop = asyncio.Event()

    async def __aenter__(self) -> Running:
        self.task = asyncio.create_task(self.delivery.run(self.stop))
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop.set()
        with suppress(asyncio.CancelledError):
            await self.task

    async def crash(self) -> None:
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task
