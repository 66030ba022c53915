"""docs/examples/receivers: each is sent a world's life over a wire with faults, is killed, and holds the truth."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from datetime import timedelta
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from scripts.get_servers import NPM
from tests.builders import outbox_id, worker_id
from tests.event_stream import EventStream, FaultyWire
from tests.outbox.delivery_world import Running
from tests.servers import Server, program

from sellerwatch.adapters.http.signing import signature_header, signing_keys
from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.kernel.backoff import Backoff
from sellerwatch.kernel.clock import SystemClock
from sellerwatch.kernel.ids import Ids
from sellerwatch.outbox.deliver import Delivery
from sellerwatch.outbox.event import ping_body
from sellerwatch.outbox.message import Message
from sellerwatch.outbox.rules import DeliveryRules
from sellerwatch.simulator.rng import seeded_rng
from sellerwatch.simulator.simulator import Simulator

EXAMPLES = Path(__file__).parents[2] / "docs/examples/receivers"
SECRET = "whsec_cHJhY3Rpc2UgbWFrZXMgcGVyZmVjdA=="
#: Faults are dealt by chance: an event must not run out of attempts.
RULES = DeliveryRules(
    max_attempts=50, backoff=Backoff(0.05, 0.2), opened=Backoff(0.05, 0.1), patience=timedelta(seconds=1)
)


class Example(Server):
    """A receiver as its first lines say that it is started."""

    def __init__(self, folder: Path, command: Callable[[int], list[str]]) -> None:
        super().__init__(folder)
        self._command = command
        self.events = f"http://127.0.0.1:{self.port}/events"

    def command(self) -> list[str]:
        return self._command(self.port)

    def environment(self) -> dict[str, str]:
        return {"SECRET": SECRET, "PORT": str(self.port)}

    def products(self) -> dict[int, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/products") as answer:
            return {int(number): data for number, data in json.load(answer).items()}

    def lose_everything(self) -> None:
        self.kill()
        for stored in self.folder.glob("products.*"):
            stored.unlink()
        self.start()

    def post(self, body: bytes, signature: str, now: int) -> int:
        key = outbox_id()
        headers = {"webhook-id": key, "webhook-timestamp": str(now), "idempotency-key": key}
        connection = HTTPConnection("127.0.0.1", self.port, timeout=600)
        connection.request("POST", "/events", body, headers | {"webhook-signature": signature})
        status = connection.getresponse().status
        connection.close()
        return status


def plain(folder: Path) -> Example:
    return Example(folder, lambda _: [sys.executable, str(EXAMPLES / "plain_receiver.py")])


def fastapi(folder: Path) -> Example:
    application = ["--app-dir", str(EXAMPLES), "fastapi_receiver:app"]
    return Example(folder, lambda port: [sys.executable, "-m", "uvicorn", *application, "--port", str(port)])


def express(folder: Path) -> Example:
    (folder / "node_modules").symlink_to(NPM / "node_modules")
    shutil.copy(EXAMPLES / "express_receiver.ts", folder)
    options = ["--strict", "--skipLibCheck", "--module", "nodenext", "--target", "es2022", "--types", "node"]
    done = subprocess.run(
        [program("node"), "node_modules/typescript/bin/tsc", *options, "express_receiver.ts"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return Example(folder, lambda _: [program("node"), "express_receiver.js"])


@pytest.fixture(params=[plain, fastapi, express])
def example(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Example]:
    made: Example = request.param(tmp_path)
    made.start()
    yield made
    made.stop()


async def send(store: SqlStore, messages: list[Message], wire: FaultyWire) -> None:
    await store.transact(lambda tx: tx.product_outbox.add_all(messages))
    delivery = Delivery(store, wire, SystemClock(), random.Random(0), worker_id(), RULES)
    async with Running(delivery), asyncio.timeout(600):
        while await delivery.pending():
            await SystemClock().sleep(0.05)


async def test_a_copied_receiver_holds_the_truth_whatever_the_wire_does(store: SqlStore, example: Example) -> None:
    simulator, clock = Simulator(seed=3, sellers=2, products=15, detail_kb=1), SystemClock()
    stream = EventStream(simulator, Ids(clock, random.Random(1)), clock)
    rng = seeded_rng("receivers")
    messages = list(stream.found())
    for _ in range(3):
        simulator.world.mutate(12, rng)
        simulator.world.vanish(next(iter(stream.truth)))
        messages += stream.found()
    snapshots = list(stream.snapshots())
    messages += snapshots

    async def restart() -> None:
        await asyncio.to_thread(example.kill)
        await asyncio.to_thread(example.start)

    wire = FaultyWire(example.events, SECRET, restart, after=len(messages) // 2)
    await send(store, messages, wire)
    await wire.deliver_late_copies(clock.now())
    assert min(wire.faults[fate] for fate in ("lost", "twice", "late")) > 0
    assert {each.event_type for each in messages} >= {"PRODUCT_UPDATED", "PRODUCT_DELETED", "PRODUCT_SNAPSHOT"}
    assert example.products() == stream.truth

    await asyncio.to_thread(example.lose_everything)
    assert example.products() == {}
    for message in (*snapshots, *reversed(messages)):  # what a resync and a resend bring back
        await wire.deliver(message, clock.now())
    await wire.close()
    assert example.products() == stream.truth

    now = clock.now()
    seconds, ping = int(now.timestamp()), ping_body(outbox_id(), now)
    signed = signature_header(signing_keys(SECRET), outbox_id(), seconds, ping)
    forged = signature_header(signing_keys("another"), outbox_id(), seconds, ping)
    assert example.post(ping, signed, seconds) == 200
    assert example.post(ping, forged, seconds) == 401
    assert example.post(ping + b" ", signed, seconds) == 401


def test_each_example_is_short() -> None:
    lengths = {path.name: len(path.read_text("utf-8").splitlines()) for path in EXAMPLES.iterdir() if path.is_file()}
    assert len(lengths) == 3
    assert max(lengths.values()) < 80, lengths
