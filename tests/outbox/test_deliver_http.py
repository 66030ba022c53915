"""Delivery as the service runs it: database threads, real sockets, the machine's clock."""

from __future__ import annotations

import asyncio
import random

from msgspec import structs
from tests.builders import a_message, worker_id
from tests.outbox.delivery_world import SECRET, DeliveryWorld, Running

from sellerwatch.adapters.http.product_server import HttpReceiver
from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.kernel.backoff import Backoff
from sellerwatch.kernel.clock import SystemClock
from sellerwatch.outbox.deliver import Delivery
from sellerwatch.outbox.message import Message, MessageStatus
from sellerwatch.outbox.receipt import DeliveryVerdict
from sellerwatch.outbox.rules import DeliveryRules
from sellerwatch.simulator.http import serve
from sellerwatch.simulator.product_server import ServerMode
from sellerwatch.simulator.simulator import EVENTS_PATH
from sellerwatch.simulator.wire import SimulatedAnswer, SimulatedRequest

RULES = DeliveryRules(backoff=Backoff(0.05, 0.2), opened=Backoff(0.05, 0.1))


async def test_every_event_arrives_over_a_shaky_wire(store: SqlStore) -> None:
    world = DeliveryWorld(store)
    world.loop.close()
    for _ in range(3):
        await world.tell(*range(1, 101))
    world.behave(ServerMode.DROP_AFTER, requests=40)
    async with serve(world.simulator.answer) as server:
        receiver = HttpReceiver(server.url + EVENTS_PATH, SECRET)
        delivery = Delivery(store, receiver, SystemClock(), random.Random(0), worker_id(), RULES)
        async with Running(delivery), asyncio.timeout(600):
            while await delivery.pending():
                await SystemClock().sleep(0.05)
        await receiver.close()
    world.check_everything_arrived()
    assert (delivery.delivered, world.server.duplicates) == (300, 40)


def large(body: bytes) -> Message:
    return structs.replace(a_message(), payload=body)


class FixedReceiver:
    """A receiver over real sockets that answers as it is told and keeps the last body."""

    def __init__(self, answer: SimulatedAnswer) -> None:
        self.answer = answer
        self.body = b""

    def __call__(self, request: SimulatedRequest, now: float) -> SimulatedAnswer:
        self.body = request.body
        return self.answer


async def deliver(store: SqlStore, url: str, message: Message, rules: DeliveryRules = RULES) -> Message:
    """One event as the service delivers it, to its end."""
    await store.transact(lambda tx: tx.product_outbox.add(message))
    receiver = HttpReceiver(url, SECRET)
    delivery = Delivery(store, receiver, SystemClock(), random.Random(0), worker_id(), rules)
    async with Running(delivery), asyncio.timeout(600):
        while await delivery.pending():
            await SystemClock().sleep(0.02)
    await receiver.close()
    found = await store.read(lambda tx: tx.product_outbox.get(message.outbox_id))
    assert found is not None
    return found


async def test_an_event_of_five_megabytes_in_korean_with_emoji_arrives_byte_for_byte(store: SqlStore) -> None:
    body = ('{"x":"' + "가나다 🧵" * 400_000 + '"}').encode()
    assert len(body) > 5_000_000
    server_side = FixedReceiver(SimulatedAnswer(200, "고마워요 🙏".encode()))
    async with serve(server_side) as server:
        message = await deliver(store, server.url, large(body))
    assert message.status is MessageStatus.COMPLETED
    assert server_side.body == body
    (attempt,) = await store.read(lambda tx: tx.attempts.of(message.outbox_id, 10))
    assert attempt.answer == "고마워요 🙏"


async def test_an_error_text_of_a_megabyte_is_kept_in_part_in_the_message_and_in_its_try(store: SqlStore) -> None:
    async with serve(FixedReceiver(SimulatedAnswer(422, "잘못된 값 💥\n".encode() * 60_000))) as server:
        message = await deliver(store, server.url, large(b"{}"))
    assert message.status is MessageStatus.FAILED
    assert message.error_message is not None
    assert message.error_message.startswith("answered 422: 잘못된 값 💥\n잘못된 값")
    assert len(message.error_message) <= 520
    (attempt,) = await store.read(lambda tx: tx.attempts.of(message.outbox_id, 10))
    assert (attempt.status, attempt.verdict, len(attempt.answer)) == (422, DeliveryVerdict.REFUSED, 500)


async def test_an_address_that_does_not_resolve_fails_tries_and_never_the_sender(store: SqlStore) -> None:
    message = large(b"{}")
    await store.transact(lambda tx: tx.product_outbox.add(message))
    receiver = HttpReceiver("http://product-server.invalid/events", SECRET)
    delivery = Delivery(store, receiver, SystemClock(), random.Random(0), worker_id(), RULES)
    async with Running(delivery), asyncio.timeout(600):
        while len(tries := await store.read(lambda tx: tx.attempts.of(message.outbox_id, 10))) < 2:
            await SystemClock().sleep(0.02)
    await receiver.close()
    assert {(each.status, each.verdict, each.is_counted) for each in tries} == {(None, DeliveryVerdict.RETRY, False)}
    assert all(each.answer.startswith("no connection") for each in tries)
