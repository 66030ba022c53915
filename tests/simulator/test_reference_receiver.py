"""The reference receiver stores what it is sent, across restarts, and finds what breaks a rule."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.builders import NOW
from tests.event_stream import EventStream

from sellerwatch.kernel.clock import SystemClock
from sellerwatch.kernel.ids import Ids
from sellerwatch.simulator.events import signature
from sellerwatch.simulator.receiving import Reception
from sellerwatch.simulator.reference_receiver import ReferenceReceiver, SqliteLedger
from sellerwatch.simulator.rng import seeded_rng
from sellerwatch.simulator.simulator import Simulator
from sellerwatch.simulator.wire import SimulatedRequest

SECRET = "whsec_c2VjcmV0"
AT = NOW.timestamp()


class ReceiverWorld:
    """A receiver on a file, and the events of a small world."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.simulator = Simulator(seed=3, sellers=1, products=10, detail_kb=1)
        clock = SystemClock()
        self.stream = EventStream(self.simulator, Ids(clock, random.Random(1)), clock)
        self.found: list[str] = []
        self.start()

    def start(self) -> None:
        self.ledger = SqliteLedger(self.file)
        self.receiver = ReferenceReceiver(self.ledger, SECRET, self._note)

    def _note(self, reception: Reception) -> None:
        self.found += [each.rule for each in reception.violations]

    def post(self, body: bytes, key: str = "", age: int = 0, secret: str = SECRET) -> int:
        key = key or orjson.loads(body)["eventId"]
        time = str(int(AT) - age)
        headers = {"idempotency-key": key, "webhook-id": key, "webhook-timestamp": time}
        headers["webhook-signature"] = signature(secret, key, time, body)
        return self.receiver.answer(SimulatedRequest("POST", "/events", {}, headers, body), AT).status

    def stored(self) -> dict[int, Any]:
        with closing(sqlite3.connect(self.file)) as db:
            rows = db.execute("SELECT item_no, product_data FROM products WHERE product_data IS NOT NULL").fetchall()
        return {number: orjson.loads(data) for number, data in rows}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ReceiverWorld]:
    made = ReceiverWorld(tmp_path / "received.db")
    yield made
    made.ledger.close()


def test_it_holds_the_truth_after_a_world_has_changed_and_after_a_restart(world: ReceiverWorld) -> None:
    rng = seeded_rng("reference")
    for _ in range(3):
        for message in world.stream.found():
            assert world.post(message.payload) == 200
        world.simulator.world.mutate(5, rng)
        world.simulator.world.vanish(next(iter(world.stream.truth)))
    messages = [*world.stream.found(), *world.stream.snapshots()]
    for message in messages:
        assert world.post(message.payload) == 200
    world.ledger.close()
    world.start()
    for message in messages:
        assert world.post(message.payload) == 200
    assert (world.stored(), world.found) == (world.stream.truth, [])
    assert world.receiver.summary() == {
        "products": len(world.stream.truth),
        "events": {},
        "duplicates": len(messages),
        "violations": 0,
    }


Spoil = Callable[[dict[str, Any]], Any]


@pytest.mark.parametrize(
    ("spoil", "rule"),
    [
        (lambda event: event.update(version=3), "version 3 follows 0"),
        (lambda event: event["productData"]["prices"].pop("rate"), "schema: productData.prices.rate is missing"),
        (lambda event: event.update(occurredAt="today"), "schema: occurredAt is not a date-time"),
        (lambda event: event.update(sellerId="another"), "productData is of seller seller_0001"),
    ],
)
def test_an_event_that_breaks_a_rule_is_stored_and_reported(world: ReceiverWorld, spoil: Spoil, rule: str) -> None:
    event = orjson.loads(next(world.stream.found()).payload)
    spoil(event)
    assert world.post(orjson.dumps(event)) == 200
    assert world.found == [rule]
    assert world.stored() == {event["itemNo"]: event["productData"]}


def test_it_finds_forged_old_reused_and_late_requests(world: ReceiverWorld) -> None:
    first, *_ = world.stream.found()
    body = first.payload
    assert world.post(body, secret="another") == 401
    assert world.post(body, age=301) == 200
    assert world.post(body.replace(b'"version":1', b'"version":2')) == 409
    assert world.post(body.replace(first.outbox_id.encode(), b"0198c0de-0000-7000-8005-00000000ffff")) == 200
    assert world.found == [
        "the signature is missing or wrong",
        "the signature's time is not ours",
        "the same Idempotency-Key with another body",
        "version 1 follows 1",
        "CREATED, but the item is there already",
    ]
    assert world.stored()[first.item_no or 0] == orjson.loads(body)["productData"]


def test_a_key_that_is_not_the_event_is_reported(world: ReceiverWorld) -> None:
    first, *_ = world.stream.found()
    assert world.post(first.payload, key="another") == 200
    assert world.found == ["idempotency-key is another", "webhook-id is another"]
