"""Delivery as the service runs it: database threads, real sockets, the machine's clock."""

from __future__ import annotations

import asyncio
import random

from tests.builders import worker_id
from tests.outbox.practice import SECRET, Practice, Running

from sellerwatch.adapters.http.product_server import HttpReceiver
from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.kernel.backoff import Backoff
from sellerwatch.kernel.clock import SystemClock
from sellerwatch.outbox.deliver import Delivery
from sellerwatch.outbox.rules import DeliveryRules
from sellerwatch.simulator.http import serve
from sellerwatch.simulator.product_server import Mode
from sellerwatch.simulator.simulator import EVENTS_PATH

RULES = DeliveryRules(backoff=Backoff(0.05, 0.2), opened=Backoff(0.05, 0.1))


async def test_every_event_arrives_over_a_shaky_wire(store: SqlStore) -> None:
    practice = Practice(store)
    practice.loop.close()
    for _ in range(3):
        await practice.tell(*range(1, 101))
    practice.behave(Mode.DROP_AFTER, requests=40)
    async with serve(practice.simulator.answer) as server:
        receiver = HttpReceiver(server.url + EVENTS_PATH, SECRET)
        delivery = Delivery(store, receiver, SystemClock(), random.Random(0), worker_id(), RULES)
        async with Running(delivery), asyncio.timeout(30):
            while await delivery.pending():
                await SystemClock().sleep(0.05)
        await receiver.close()
    practice.check_everything_arrived()
    assert (delivery.delivered, delivery.retried) == (300, 40)
    assert practice.server.duplicates == 40
