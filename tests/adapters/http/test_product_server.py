"""Events over real sockets: the exact headers and body, and the answers that a contract alone does not show."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from email.utils import format_datetime

import pytest
from msgspec import structs
from tests.builders import NOW, a_message, outbox_id

from sellerwatch.adapters.http.product_server import HttpReceiver
from sellerwatch.adapters.http.signing import InvalidSigningSecret, signature_header, signing_keys
from sellerwatch.outbox.message import Message
from sellerwatch.outbox.receipt import DeliveryVerdict, Receipt
from sellerwatch.simulator.http import serve
from sellerwatch.simulator.wire import ConnectionFault, SimulatedAnswer, SimulatedRequest

EVENT = structs.replace(a_message(), payload='{"이름":"셔츠 🧵"}'.encode())


class Server:
    """Answers as it is told and keeps what it was asked."""

    def __init__(self, answer: SimulatedAnswer) -> None:
        self.answer = answer
        self.requests: list[SimulatedRequest] = []

    def __call__(self, request: SimulatedRequest, now: float) -> SimulatedAnswer:
        self.requests.append(request)
        return self.answer


async def deliver(
    server: Server, *, secrets: str | None = None, message: Message = EVENT, path: str = "/", now: datetime = NOW
) -> Receipt:
    async with serve(server) as listening:
        receiver = HttpReceiver(listening.url + path, secrets, connect=20, read=20)
        try:
            return await receiver.deliver(message, now)
        finally:
            await receiver.close()


@asynccontextmanager
async def raw_server(answer: Callable[[asyncio.StreamWriter], Awaitable[None]]) -> AsyncIterator[str]:
    """A server below HTTP: whatever it writes to its one caller is the answer."""
    done = asyncio.Event()

    async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await answer(writer)
        writer.close()
        done.set()

    listening = await asyncio.start_server(serve_one, "127.0.0.1", 0)
    async with listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"
        await done.wait()


async def deliver_to(url: str, read: float = 5) -> Receipt:
    receiver = HttpReceiver(url, connect=read, read=read)
    try:
        return await receiver.deliver(EVENT, NOW)
    finally:
        await receiver.close()


async def test_the_request_is_the_specification_word_for_word() -> None:
    server = Server(SimulatedAnswer(204))
    await deliver(server, secrets="one whsec_dHdv", path="/hooks/%7Eshop?key=a%2Fb")
    (request,) = server.requests
    assert (request.method, request.path, request.query) == ("POST", "/hooks/~shop", {"key": "a/b"})
    assert request.body == '{"이름":"셔츠 🧵"}'.encode()
    assert request.headers["content-type"] == "application/json; charset=utf-8"
    assert request.headers["content-length"] == str(len(request.body))
    assert request.headers["idempotency-key"] == request.headers["webhook-id"] == outbox_id()
    assert request.headers["webhook-timestamp"] == "1794722645"
    signed = f"{outbox_id()}.1794722645.".encode() + request.body
    expected = [base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode() for key in (b"one", b"two")]
    assert request.headers["webhook-signature"] == " ".join(f"v1,{one}" for one in expected)


async def test_without_a_secret_nothing_is_signed() -> None:
    server = Server(SimulatedAnswer(200))
    await deliver(server)
    assert "webhook-signature" not in server.requests[0].headers


@pytest.mark.parametrize(
    "answer",
    [
        SimulatedAnswer(200, b"<html>a proxy</html>", content_type="text/html"),
        SimulatedAnswer(200, b'{"ok": false}'),
        SimulatedAnswer(201, b"\xff\xfe\x00"),
        SimulatedAnswer(202, b"x" * 300_000),
        SimulatedAnswer(204),
        SimulatedAnswer(200, b"half of it is missing", fault=ConnectionFault.CUT),
    ],
)
async def test_a_2xx_is_success_whatever_its_body(answer: SimulatedAnswer) -> None:
    assert (await deliver(Server(answer))).verdict is DeliveryVerdict.DELIVERED


@pytest.mark.parametrize("status", [301, 302, 307, 308, 408, 429, 500, 502, 503, 504, 599])
async def test_these_answers_are_worth_another_try(status: int) -> None:
    server = Server(SimulatedAnswer(status, b"later", headers=(("location", "/elsewhere"),)))
    receipt = await deliver(server)
    assert (receipt.verdict, receipt.status, receipt.problem) == (
        DeliveryVerdict.RETRY,
        status,
        f"answered {status}: later",
    )
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 410, 413, 415, 422, 425, 451])
async def test_other_client_errors_are_refusals_with_their_first_lines_kept(status: int) -> None:
    receipt = await deliver(Server(SimulatedAnswer(status, "상품이 없습니다\n줄 2\n".encode() + b"z" * 2000)))
    assert (receipt.verdict, receipt.status, receipt.wait) == (DeliveryVerdict.REFUSED, status, None)
    assert receipt.problem.startswith(f"answered {status}: 상품이 없습니다\n줄 2\nzzz")
    assert len(receipt.problem) < 520


@pytest.mark.parametrize(
    ("header", "wait"),
    [
        ("120", timedelta(seconds=120)),
        (format_datetime((NOW + timedelta(minutes=5)).replace(microsecond=0), usegmt=True), timedelta(minutes=5)),
        ("-5", None),
        ("soon", None),
        ("99999999999", timedelta(days=1)),
    ],
)
async def test_retry_after_is_understood_as_seconds_or_date(header: str, wait: timedelta | None) -> None:
    now = NOW.replace(microsecond=0)
    receipt = await deliver(Server(SimulatedAnswer(503, headers=(("retry-after", header),))), now=now)
    assert (receipt.verdict, receipt.wait) == (DeliveryVerdict.RETRY, wait)


async def test_a_port_where_nobody_listens_is_no_connection() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        receipt = await deliver_to(f"http://127.0.0.1:{taken.getsockname()[1]}/")
    assert (receipt.verdict, receipt.status) == (DeliveryVerdict.RETRY, None)
    assert receipt.problem.startswith("no connection: Cannot connect to host 127.0.0.1")


async def test_a_name_that_does_not_resolve_is_no_connection() -> None:
    receipt = await deliver_to("http://product-server.invalid/")
    assert (receipt.verdict, receipt.status) == (DeliveryVerdict.RETRY, None)
    assert receipt.problem.startswith("no connection")


@pytest.mark.parametrize("url", ["http://a..b/", "http://[::1/", "http://x:99999/"])
async def test_an_address_that_cannot_be_used_never_raises_at_delivery(url: str) -> None:
    try:
        receiver = HttpReceiver(url, connect=0.2, read=0.2)
    except ValueError:
        return
    receipt = await receiver.deliver(EVENT, NOW)
    await receiver.close()
    assert receipt.verdict is DeliveryVerdict.RETRY


async def test_an_answer_that_is_not_http_is_tried_again() -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-nothing here\r\n\r\n")

    async with raw_server(answer) as url:
        receipt = await deliver_to(url)
    assert (receipt.verdict, receipt.status) == (DeliveryVerdict.RETRY, None)


async def test_an_answer_that_trickles_for_ever_is_cut_off() -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 500 No\r\ntransfer-encoding: chunked\r\n\r\n")
        for _ in range(1000):
            if writer.is_closing():
                return
            writer.write(b"1\r\nx\r\n")
            await asyncio.sleep(0.05)

    async with raw_server(answer) as url:
        async with asyncio.timeout(600):
            receipt = await deliver_to(url, read=0.4)
    assert (receipt.verdict, receipt.status) == (DeliveryVerdict.RETRY, 500)


async def test_an_answer_without_end_is_read_only_in_part() -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 No\r\ncontent-length: 1000000000\r\n\r\n")
        for _ in range(20):
            writer.write(b"y" * 65536)
            await asyncio.sleep(0)

    async with raw_server(answer) as url:
        receipt = await deliver_to(url)
    assert (receipt.verdict, receipt.status) == (DeliveryVerdict.REFUSED, 400)
    assert receipt.problem == "answered 400: " + "y" * 500


async def test_a_body_of_five_megabytes_goes_through_whole() -> None:
    server = Server(SimulatedAnswer(200))
    payload = ('{"x":"' + "가" * 1_700_000 + '"}').encode()
    receipt = await deliver(server, message=structs.replace(EVENT, payload=payload))
    assert receipt.verdict is DeliveryVerdict.DELIVERED
    assert server.requests[0].body == payload


async def test_connections_are_used_again_for_the_next_event() -> None:
    peers = set()

    async def serve_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peers.add(writer.get_extra_info("peername"))
        while await reader.readline():
            size = 0
            while (line := await reader.readline()) != b"\r\n":
                if line.lower().startswith(b"content-length"):
                    size = int(line.split(b":")[1])
            await reader.readexactly(size)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        writer.close()

    listening = await asyncio.start_server(serve_all, "127.0.0.1", 0)
    async with listening:
        receiver = HttpReceiver(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/")
        for _ in range(3):
            assert (await receiver.deliver(EVENT, NOW)).verdict is DeliveryVerdict.DELIVERED
        await receiver.close()
    assert len(peers) == 1


@pytest.mark.parametrize("setting", ["one,whsec_dHdv", "one whsec_dHdv", " one ,\n whsec_dHdv "])
def test_a_setting_holds_several_secrets(setting: str) -> None:
    assert signing_keys(setting) == (b"one", b"two")


@pytest.mark.parametrize("setting", [None, "", " , "])
def test_no_secret_is_no_key(setting: str | None) -> None:
    assert signing_keys(setting) == ()


@pytest.mark.parametrize("secret", ["whsec_", "whsec_***", "whsec_abc"])
def test_a_secret_that_is_not_what_it_says_is_refused_without_being_shown(secret: str) -> None:
    with pytest.raises(InvalidSigningSecret) as refusal:
        signing_keys(secret)
    assert str(refusal.value) == "A signing secret cannot be used: what follows whsec_ must be base64."


def test_the_signature_is_the_example_of_standard_webhooks() -> None:
    keys = signing_keys("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    header = signature_header(keys, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert header == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
