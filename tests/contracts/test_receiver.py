"""One suite for every receiver of events: over HTTP, and the simulator's in process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest
from msgspec import structs
from tests.builders import ITEM, NOW, SELLER, a_message
from tests.simulated_receiver import SimulatedReceiver

from sellerwatch.adapters.http.product_server import HttpReceiver
from sellerwatch.kernel.clock import SystemClock
from sellerwatch.outbox.event import data_json, event_body
from sellerwatch.outbox.message import Message
from sellerwatch.outbox.ports import Receiver
from sellerwatch.outbox.receipt import DeliveryVerdict
from sellerwatch.simulator.http import serve
from sellerwatch.simulator.product_server import ServerBehaviour, ServerMode
from sellerwatch.simulator.simulator import EVENTS_PATH, Simulator

SECRET = "whsec_bm9ib2R5IGtub3dzIHRoaXM="
READ = 0.2


def an_event(version: int = 1) -> Message:
    made = a_message(version)
    data = {"itemNo": ITEM, "sellerId": SELLER, "name": "셔츠 🧵"}
    return structs.replace(
        made, payload=event_body(made.outbox_id, "PRODUCT_CREATED", ITEM, SELLER, version, NOW, (), data_json(data))
    )


@dataclass(frozen=True)
class Pair:
    receiver: Receiver
    simulator: Simulator

    def behave(self, mode: ServerMode, retry_after: int = 1) -> None:
        self.simulator.product_server.behave(ServerBehaviour(mode, retry_after=retry_after))


@asynccontextmanager
async def over_http(simulator: Simulator, secrets: str) -> AsyncIterator[Receiver]:
    async with serve(simulator.answer) as server:
        receiver = HttpReceiver(
            server.url + EVENTS_PATH, secrets, connect=READ, read=READ, longest_wait=timedelta(hours=1)
        )
        yield receiver
        await receiver.close()


@asynccontextmanager
async def in_process(simulator: Simulator, secrets: str) -> AsyncIterator[Receiver]:
    yield SimulatedReceiver(simulator, SystemClock(), secrets.split(), read=READ, longest_wait=timedelta(hours=1))


RECEIVERS = {"http": over_http, "in process": in_process}


@pytest.fixture(params=RECEIVERS)
async def pair(request: pytest.FixtureRequest) -> AsyncIterator[Pair]:
    simulator = Simulator(sellers=1, products=1, secret=SECRET)
    async with RECEIVERS[request.param](simulator, SECRET) as receiver:
        yield Pair(receiver, simulator)


async def test_a_2xx_is_delivered_with_key_and_signature_and_the_body_as_it_is(pair: Pair) -> None:
    receipt = await pair.receiver.deliver(an_event(), NOW)
    assert (receipt.verdict, receipt.status, receipt.problem) == (DeliveryVerdict.DELIVERED, 200, "")
    assert pair.simulator.product_server.violations == []
    assert pair.simulator.product_server.product(ITEM) == {"itemNo": ITEM, "sellerId": SELLER, "name": "셔츠 🧵"}


async def test_the_same_message_again_is_known_by_its_key(pair: Pair) -> None:
    await pair.receiver.deliver(an_event(), NOW)
    receipt = await pair.receiver.deliver(an_event(), NOW + timedelta(minutes=1))
    assert receipt.verdict is DeliveryVerdict.DELIVERED
    assert pair.simulator.product_server.duplicates == 1


@pytest.mark.parametrize("mode", [ServerMode.ERROR, ServerMode.ERROR_AFTER])
async def test_a_500_is_tried_again(pair: Pair, mode: ServerMode) -> None:
    pair.behave(mode)
    receipt = await pair.receiver.deliver(an_event(), NOW)
    assert (receipt.verdict, receipt.status, receipt.wait) == (DeliveryVerdict.RETRY, 500, None)
    assert receipt.problem == 'answered 500: {"status":500,"message":"out of order"}'


async def test_a_redirect_is_no_success_and_is_not_followed(pair: Pair) -> None:
    pair.behave(ServerMode.REDIRECT)
    receipt = await pair.receiver.deliver(an_event(), NOW)
    assert (receipt.verdict, receipt.status, receipt.problem) == (DeliveryVerdict.RETRY, 302, "answered 302")
    assert len(pair.simulator.product_server) == 0


@pytest.mark.parametrize(("asked", "kept"), [(7, 7), (1_000_000, 3600)])
async def test_retry_after_is_told_up_to_the_longest_that_is_believed(pair: Pair, asked: int, kept: int) -> None:
    pair.behave(ServerMode.THROTTLE, retry_after=asked)
    receipt = await pair.receiver.deliver(an_event(), NOW)
    assert (receipt.verdict, receipt.status, receipt.wait) == (DeliveryVerdict.RETRY, 429, timedelta(seconds=kept))


@pytest.mark.parametrize("mode", [ServerMode.DOWN, ServerMode.DROP_AFTER])
async def test_a_dropped_connection_is_tried_again(pair: Pair, mode: ServerMode) -> None:
    pair.behave(mode)
    receipt = await pair.receiver.deliver(an_event(), NOW)
    assert (receipt.verdict, receipt.status) == (DeliveryVerdict.RETRY, None)
    assert receipt.problem == "the connection was lost: Server disconnected"


async def test_silence_ends_after_the_time_to_read(pair: Pair) -> None:
    pair.behave(ServerMode.HANG)
    receipt = await pair.receiver.deliver(an_event(), NOW)
    assert (receipt.verdict, receipt.status) == (DeliveryVerdict.RETRY, None)
    assert receipt.problem == "no answer within 0.2 s"


async def test_a_4xx_is_refused_for_good_and_says_why(pair: Pair) -> None:
    receipt = await pair.receiver.deliver(structs.replace(an_event(), payload=b"{}"), NOW)
    assert (receipt.verdict, receipt.status) == (DeliveryVerdict.REFUSED, 400)
    assert receipt.problem == 'answered 400: {"status":400,"message":"eventId is missing or not str"}'


@pytest.mark.parametrize("way", RECEIVERS)
@pytest.mark.parametrize(
    ("ours", "theirs", "accepted"),
    [
        ("old-secret", "old-secret", True),
        ("new-secret old-secret", "old-secret", True),
        ("new-secret old-secret", "new-secret", True),
        ("another-secret", "old-secret", False),
        ("", "old-secret", False),
    ],
)
async def test_while_a_secret_is_rotated_old_and_new_both_verify(
    way: str, ours: str, theirs: str, accepted: bool
) -> None:
    simulator = Simulator(sellers=1, products=1, secret=theirs)
    async with RECEIVERS[way](simulator, ours) as receiver:
        receipt = await receiver.deliver(an_event(), datetime.fromisoformat("2026-11-15T06:04:05+00:00"))
    assert receipt.verdict is (DeliveryVerdict.DELIVERED if accepted else DeliveryVerdict.REFUSED)
