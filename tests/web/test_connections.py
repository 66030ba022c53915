"""Hostile connections: heads without an end, requests that never finish, and more connections than there may be. Health
and metrics answer all the while. Time is virtual; nothing depends on how fast the machine is."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from typing import Any

import pytest
import uvicorn
from starlette.responses import JSONResponse
from tests.web.served import KEY, Served, served

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.kernel.errors import SellerwatchError
from sellerwatch.kernel.virtual_time import run_virtually
from sellerwatch.web.api.errors import status_of
from sellerwatch.web.api.proxies import TrustedProxies
from sellerwatch.web.connections import (
    BODY_SECONDS,
    HEAD_SECONDS,
    LARGEST_HEAD,
    MOST_FIELDS,
    RESERVE,
    BoundedConnection,
    BoundedState,
    ConnectionCounts,
)

GET = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"


class Wire(asyncio.Transport):
    """What a connection writes, kept."""

    def __init__(self, address: str) -> None:
        super().__init__({"peername": (address, 1), "sockname": ("127.0.0.1", 80)})
        self.sent, self.closed = b"", False
        self.protocol: BoundedConnection | None = None

    def write(self, data: Any) -> None:
        if not self.closed:
            self.sent += data

    def close(self) -> None:
        if not self.closed and self.protocol is not None:
            self.closed = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    @property
    def status(self) -> int:
        return int(self.sent.split(b" ", 2)[1]) if self.sent else 0


class Door:
    """A server's connections without sockets. The app reads the body and answers with its size."""

    def __init__(self, most: int = 10, per_address: int = 10, trusted: str = "") -> None:
        self.counts = ConnectionCounts(most, per_address, TrustedProxies(trusted))
        self.state = BoundedState(self.counts, lambda error, _: _refusal(error))
        self.config = uvicorn.Config(self._app, interface="asgi3", lifespan="off", log_config=None, proxy_headers=False)
        self.bodies: list[bytes] = []
        self.over_limit: list[bool] = []

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        self.over_limit.append(scope["state"]["over_limit"])
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body, more = body + message["body"], message["more_body"]
        self.bodies.append(body)
        await JSONResponse(len(body))(scope, receive, send)

    def open(self, address: str = "192.0.2.1") -> tuple[BoundedConnection, Wire]:
        wire = Wire(address)
        connection = wire.protocol = BoundedConnection(self.config, self.state, {}, asyncio.get_running_loop())
        connection.connection_made(wire)
        return connection, wire


def _refusal(error: SellerwatchError) -> JSONResponse:
    return JSONResponse({"errorCode": error.code}, status_of(type(error)))


def virtual(story: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """A test on virtual time."""

    def test() -> None:
        async def main() -> None:
            await story()

        run_virtually(main())

    test.__name__, test.__doc__ = story.__name__, story.__doc__
    return test


@virtual
async def test_requests_on_one_connection_are_answered_in_order() -> None:
    door = Door()
    connection, wire = door.open()
    for _ in range(3):
        connection.data_received(GET)
        await asyncio.sleep(HEAD_SECONDS / 4)
    connection.data_received(b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello")
    await asyncio.sleep(0.1)
    assert door.bodies == [b"", b"", b"", b"hello"]
    assert wire.sent.count(b"200 OK") == 4
    assert not wire.closed


@virtual
async def test_a_head_without_an_end_is_refused_after_64_kb() -> None:
    door = Door()
    for begin in (b"GET /a HTTP/1.1\r\nx: ", b"GET /", b"", b"GET /a HTTP/1.1\r\nx"):
        connection, wire = door.open()
        connection.data_received(begin)
        fed = len(begin)
        while not wire.closed and fed < 10 * LARGEST_HEAD:
            connection.data_received(b"a" * 1000)
            fed += 1000
        assert wire.status in (400, 431)
        assert fed <= LARGEST_HEAD + 1000
        await asyncio.sleep(0)
    assert (door.bodies, door.counts.open) == ([], 0)


@virtual
async def test_a_head_too_large_in_one_piece_is_refused() -> None:
    door = Door()
    heads = (
        b"GET /a HTTP/1.1\r\nx: " + b"a" * LARGEST_HEAD + b"\r\n\r\n",
        b"GET /" + b"a" * LARGEST_HEAD + b" HTTP/1.1\r\n\r\n",
        b"GET /a HTTP/1.1\r\n" + b"x: y\r\n" * (MOST_FIELDS + 1) + b"\r\n",
        b"GET /a HTTP/1.1\r\n" + b"".join(b"x%d: y\r\n" % n for n in range(1000)) + b"\r\n",
    )
    for head in heads:
        connection, wire = door.open()
        connection.data_received(head)
        await asyncio.sleep(0)
        assert (wire.status, wire.closed) == (431, True)
    connection, wire = door.open()
    connection.data_received(b"GET /a HTTP/1.1\r\n" + b"x: y\r\n" * MOST_FIELDS + b"\r\n")
    await asyncio.sleep(0.1)
    assert wire.status == 200
    assert len(door.bodies) == 1


@virtual
async def test_a_head_that_is_not_complete_in_time_ends_its_connection() -> None:
    door = Door()
    for begin in (b"", b"\r\n", b"GET /a HTTP/1.1\r\n", GET + b"GET /a HT"):
        connection, wire = door.open()
        await asyncio.sleep(HEAD_SECONDS - 1)
        if begin:
            connection.data_received(begin)
        await asyncio.sleep(1 if GET not in begin else HEAD_SECONDS)
        assert wire.closed, begin
        assert (b" 408 " in wire.sent) == (begin not in (b"", GET + b"GET /a HT")), begin
        await asyncio.sleep(0)
    assert door.counts.open == 0


@virtual
async def test_a_drip_does_not_make_the_time_longer() -> None:
    door = Door()
    connection, wire = door.open()
    connection.data_received(b"GET /a HTTP/1.1\r\n")
    for _ in range(int(HEAD_SECONDS)):
        connection.data_received(b"x: y\r\n")
        await asyncio.sleep(1)
    assert (wire.status, wire.closed) == (408, True)


@virtual
async def test_a_body_that_is_not_complete_in_time_ends_its_connection() -> None:
    door = Door()
    connection, wire = door.open()
    connection.data_received(b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n")
    for _ in range(int(BODY_SECONDS)):
        connection.data_received(b"x")
        await asyncio.sleep(1)
    assert (wire.status, wire.closed, door.bodies) == (408, True, [])
    await asyncio.sleep(0)
    assert door.counts.open == 0


@virtual
async def test_what_is_not_http_is_answered_in_our_shape() -> None:
    connection, wire = Door().open()
    connection.data_received(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
    assert (wire.status, wire.closed) == (400, True)
    assert json.loads(wire.sent.partition(b"\r\n\r\n")[2]) == {"errorCode": "MALFORMED_REQUEST"}


@virtual
async def test_connections_are_bounded_in_all_and_by_address() -> None:
    door = Door(most=6, per_address=2, trusted="198.51.100.0/24")
    for address in ("192.0.2.1",) * 3 + ("::ffff:192.0.2.1", "2001:db8::1", "2001:db8::2", "2001:db8::3"):
        door.open(address)[0].data_received(GET)
    await asyncio.sleep(0)
    assert door.over_limit == [False, False, True, True, False, False, True]
    for _ in range(3):
        door.open("198.51.100.7")[0].data_received(GET)
    await asyncio.sleep(0)
    assert door.over_limit[7:] == [False, False, True]


@virtual
async def test_the_reserve_is_bounded_and_replaces_its_oldest_connection() -> None:
    door = Door(most=5)
    wires = [door.open()[1] for _ in range(5 + 3 * RESERVE)]
    assert door.counts.open == 5 + RESERVE
    assert [wire.closed for wire in wires] == [False] * 5 + [True] * 2 * RESERVE + [False] * RESERVE
    connection, wire = door.open()
    connection.data_received(GET)
    await asyncio.sleep(0.1)
    assert (wire.status, wire.closed, door.over_limit) == (200, True, [True])
    await asyncio.sleep(HEAD_SECONDS)
    assert door.counts.open == 0


@virtual
async def test_the_place_of_a_connection_that_ends_is_free_again() -> None:
    door = Door(most=2)
    for _ in range(10):
        connection, wire = door.open()
        connection.data_received(GET)
        await asyncio.sleep(0.1)
        connection.data_received(b"rubbish\r\n\r\n")
        await asyncio.sleep(0.1)
        assert wire.closed
    assert set(door.over_limit) == {False}
    assert door.counts.open == 0


async def half_open(api: Served, number: int, closing: ExitStack) -> None:
    port = int(api.address.rpartition(":")[2])
    for _ in range(number):
        opened = closing.enter_context(socket.create_connection(("127.0.0.1", port)))
        opened.sendall(b"GET /api/v1/sellers HTTP/1.1\r\nHost: x\r\nx: ")
        await asyncio.sleep(0)


async def answer(api: Served, path: str, *headers: str) -> bytes:
    """Head and body."""
    port = int(api.address.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    lines = "".join(f"{each}\r\n" for each in ("Host: x", *headers))
    writer.write(f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode())
    async with asyncio.timeout(600):
        received = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", received)
        received += await reader.readexactly(int(length[1]) if length else 0)
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()
    return received


async def test_health_and_metrics_answer_beside_500_half_open_connections(store: SqlStore) -> None:
    async with served(store, API_CONNECTIONS=50, API_CONNECTIONS_PER_ADDRESS=40) as api:
        with ExitStack() as closing:
            await half_open(api, 500, closing)
            refused = await answer(api, "/api/v1/sellers")
            assert refused.startswith(b"HTTP/1.1 503")
            assert b"retry-after: 5\r\n" in refused
            for path in ("/actuator/health/liveness", "/actuator/health/readiness", "/metrics"):
                received = await answer(api, path, f"X-API-Key: {KEY}")
                assert received.partition(b"\r\n\r\n")[2] != refused.partition(b"\r\n\r\n")[2], path
                assert received[9:12] in (b"200", b"503"), path
                assert b"connection: close" in received


@pytest.mark.parametrize("path", ["/actuator/health/liveness", "/metrics"])
async def test_monitors_are_not_under_the_callers_rate(store: SqlStore, path: str) -> None:
    async with served(store, API_REQUESTS_PER_MINUTE=1) as api:
        received = [await answer(api, path, f"X-API-Key: {KEY}") for _ in range(3)]
        assert all(each.startswith(b"HTTP/1.1 200") for each in received)
