"""HTTP's own troubles: each foreign error becomes a `TransportFailed` and says nothing of what was sent."""

from __future__ import annotations

import asyncio
import gzip
import os
import socket
import ssl
import struct
import zlib
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.builders import DAY
from tests.waiting import until

from sellerwatch.adapters.http.transport import HttpTransport
from sellerwatch.marketplaces.ports import TransportFailed, TransportProblem
from sellerwatch.simulator.http import serve
from sellerwatch.simulator.wire import SimulatedAnswer, SimulatedRequest

SECRET = {"Authorization": "Bearer very-secret", "Cookie": "nid=very-secret"}
Speak = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


@asynccontextmanager
async def talking(speak: Speak, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """A server that says whatever bytes it likes, once a connection."""

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.read(65_536)
            await speak(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(once, "127.0.0.1", 0, ssl=tls)
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    finally:
        server.close()


def saying(*parts: bytes, pause: float = 0.0) -> Speak:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(pause)

    return speak


class Silent:
    """Takes a request and never answers it."""

    def __init__(self) -> None:
        self.has_request = False

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.has_request = True
        await asyncio.Event().wait()


async def failing(url: str, **limits: Any) -> TransportFailed:
    async with HttpTransport(**limits) as transport:
        with pytest.raises(TransportFailed) as failed:
            await transport.get(url, SECRET)
    assert "very-secret" not in f"{failed.value} {failed.value.detail}"
    return failed.value


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def test_a_refused_connection_is_unreachable() -> None:
    failed = await failing(f"http://127.0.0.1:{free_port()}/")
    assert failed.problem is TransportProblem.UNREACHABLE
    assert "Connect call failed" in failed.detail or "refused" in failed.detail


async def test_an_unknown_host_name_is_unreachable() -> None:
    failed = await failing("http://no-such-host.invalid/")
    assert (failed.problem, failed.detail) == (TransportProblem.UNREACHABLE, "the host name is not known")


async def test_a_server_that_does_not_speak_tls_is_unreachable() -> None:
    async with talking(saying(b"HTTP/1.1 200 OK\r\n\r\n")) as url:
        assert (await failing(url.replace("http:", "https:"))).problem is TransportProblem.UNREACHABLE


async def test_a_connection_that_is_never_accepted_times_out() -> None:
    """A full backlog lets no handshake through."""
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        filling = []
        for _ in range(4):
            sock = socket.socket()
            sock.setblocking(False)
            sock.connect_ex(deaf.getsockname())
            filling.append(sock)
        failed = await failing(f"http://127.0.0.1:{deaf.getsockname()[1]}/", connect_seconds=0.1, read_seconds=5)
        for sock in filling:
            sock.close()
    assert (failed.problem, failed.detail) == (TransportProblem.TIMEOUT, "while connecting")


async def test_a_silence_in_mid_body_times_out() -> None:
    async with talking(saying(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc", pause=3)) as url:
        assert (await failing(url, read_seconds=0.1)).problem is TransportProblem.TIMEOUT


async def test_a_server_that_drips_is_not_waited_for() -> None:
    """Each pause is short enough, the whole is not."""
    drips = [b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n", *[b"x"] * 99]
    async with talking(saying(*drips, pause=0.05)) as url:
        assert (await failing(url, connect_seconds=0.1, read_seconds=0.2)).problem is TransportProblem.TIMEOUT


async def test_a_connection_closed_before_the_answer_is_dropped() -> None:
    async with talking(saying()) as url:
        failed = await failing(url)
    assert (failed.problem, failed.detail) == (TransportProblem.DROPPED, "before an answer")


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\nhalf of it",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\ncontent-encoding: gzip\r\n\r\nnope",
    ],
)
async def test_a_body_that_breaks_off_or_cannot_be_decoded_is_dropped(answer: bytes) -> None:
    async with talking(saying(answer)) as url:
        assert (await failing(url)).problem is TransportProblem.DROPPED


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.2 very-secret\r\n\r\n",
        b"HTTP/1.1 hello\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon very-secret\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 100_000 + b"\r\n\r\n",
        b"\x16\x03\x01\x00\xff",
    ],
)
async def test_an_answer_that_is_not_http_is_dropped_and_not_repeated_in_the_message(answer: bytes) -> None:
    async with talking(saying(answer)) as url:
        assert (await failing(url)).problem is TransportProblem.DROPPED


async def test_a_body_without_a_length_is_read_only_up_to_the_cap() -> None:
    endless = [b"HTTP/1.1 200 OK\r\n\r\n", *[b"x" * 1000] * 1000]
    async with talking(saying(*endless)) as url:
        assert (await failing(url, largest_body=10_000)).problem is TransportProblem.TOO_LARGE


async def test_a_length_beyond_the_cap_is_refused_before_the_body_comes() -> None:
    async with talking(saying(b"HTTP/1.1 200 OK\r\ncontent-length: 6000000\r\n\r\n", pause=3)) as url:
        assert (await failing(url)).problem is TransportProblem.TOO_LARGE


async def test_what_unpacks_to_more_than_the_cap_is_too_large() -> None:
    bomb = gzip.compress(b"x" * 2_000_000)
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(bomb)
    async with talking(saying(head + bomb)) as url:
        assert (await failing(url, largest_body=1_000_000)).problem is TransportProblem.TOO_LARGE


async def test_a_packed_body_is_unpacked() -> None:
    body = gzip.compress(b'{"count": 1}')
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(body)
    async with talking(saying(head + body)) as url, HttpTransport() as transport:
        assert (await transport.get(url, {})).body == b'{"count": 1}'


async def test_a_length_that_is_too_small_spoils_the_answer() -> None:
    """Where the next answer begins is anybody's guess then, so nothing on that connection is believed."""
    async with talking(saying(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[][][]")) as url:
        assert (await failing(url)).problem is TransportProblem.DROPPED


@pytest.mark.parametrize("value", ["line\r\nInjected: yes", "line\nbreak", "\x00"])
async def test_a_header_that_would_break_out_is_never_sent(value: str) -> None:
    arrived: list[SimulatedRequest] = []

    def answer(request: SimulatedRequest, now: float) -> SimulatedAnswer:
        arrived.append(request)
        return SimulatedAnswer(200)

    async with serve(answer) as server, HttpTransport() as transport:
        with pytest.raises(TransportFailed) as failed:
            await transport.get(server.url, {"X-Odd": value})
    assert failed.value.problem is TransportProblem.UNREACHABLE
    assert not arrived


@pytest.mark.parametrize("used", [False, True])
async def test_a_closed_transport_fails_as_unreachable(used: bool) -> None:
    transport = HttpTransport()
    if used:
        async with serve(lambda request, now: SimulatedAnswer(200)) as server:
            await transport.get(server.url, {})
    await transport.close()
    with pytest.raises(TransportFailed, match="unreachable"):
        await transport.get("http://127.0.0.1:9/", {})


async def test_closing_with_a_request_under_way_fails_that_request() -> None:
    server = Silent()
    async with talking(server) as url:
        transport = HttpTransport()
        request = asyncio.create_task(transport.get(url, {}))
        await until(lambda: server.has_request)
        await transport.close()
        with pytest.raises(TransportFailed):
            await request


async def test_a_cancelled_request_is_cancelled_and_not_a_failure() -> None:
    server = Silent()
    async with talking(server) as url, HttpTransport() as transport:
        request = asyncio.create_task(transport.get(url, {}))
        await until(lambda: server.has_request)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request


async def test_connections_are_kept_and_no_more_are_in_flight_than_the_limit() -> None:
    in_flight = most = 0
    loop = asyncio.get_running_loop()

    def answer(request: SimulatedRequest, now: float) -> SimulatedAnswer:
        nonlocal in_flight, most
        in_flight += 1
        most = max(most, in_flight)
        loop.call_later(0.01, leave)
        return SimulatedAnswer(200, delay=0.01)

    def leave() -> None:
        nonlocal in_flight
        in_flight -= 1

    async with serve(answer) as server, HttpTransport(limit=3) as transport:
        await asyncio.gather(*(transport.get(f"{server.url}/", {}) for _ in range(30)))
    assert most <= 4  # one more may arrive before the timer of an answered one has run


async def test_waiting_for_a_free_place_is_not_charged_to_the_server() -> None:
    """Requests of 0.1 s one after the other take longer than any of them may."""
    transport = HttpTransport(limit=1, connect_seconds=2, read_seconds=2)
    async with serve(lambda request, now: SimulatedAnswer(200, delay=0.1)) as server, transport:
        replies = await asyncio.gather(*(transport.get(f"{server.url}/", {}) for _ in range(25)))
    assert [reply.status for reply in replies] == [200] * 25


async def test_who_gives_up_waiting_for_a_place_leaves_it_to_the_next() -> None:
    async with (
        serve(lambda request, now: SimulatedAnswer(200, delay=0.02)) as server,
        HttpTransport(limit=1) as transport,
    ):
        for gone in range(1, 4):
            asked = [asyncio.create_task(transport.get(f"{server.url}/", {})) for _ in range(5)]
            await asyncio.sleep(0.01 if gone == 1 else 0.025)
            asked[gone].cancel()
            async with asyncio.timeout(600):
                ended = await asyncio.gather(*asked, return_exceptions=True)
            assert sum(isinstance(one, asyncio.CancelledError) for one in ended) <= 1
            assert [one.status for one in ended if not isinstance(one, BaseException)][:4] == [200] * 4


# What is read, however it comes.

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", b"hello"),
        (b"HTTP/1.1 200\r\nContent-Length:5 \r\n\r\nhello", b"hello"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 5\r\n\r\nhello", b"hello"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n", b"hello"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n0\r\nx-sum: 1\r\ny: 2\r\n\r\n", b"hello"),
        (CONTINUE + b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", b"hello"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\ncontent-encoding: gzip\r\n\r\n", b""),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", b"until the end"),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 5\r\n\r\nhello", b"hello"),
    ],
    ids=[
        "sized",
        "bare",
        "twice sized",
        "chunked",
        "with trailers",
        "after others",
        "none",
        "none packed",
        "endless",
        "1.0",
    ],
)
@pytest.mark.parametrize("size", [1, 7, 100_000])
async def test_an_answer_is_read_whatever_pieces_it_comes_in(answer: bytes, body: bytes, size: int) -> None:
    pieces = [answer[at : at + size] for at in range(0, len(answer), size)]

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces:
            writer.write(piece)
            await asyncio.sleep(0)

    async with talking(speak) as url, HttpTransport() as transport:
        assert (await transport.get(url, {})).body == body


@pytest.mark.parametrize(
    ("coding", "packed"),
    [
        (b"gzip", gzip.compress(b"hello", mtime=0)),
        (b"x-gzip", gzip.compress(b"hel", mtime=0) + gzip.compress(b"lo", mtime=0)),
        (b"deflate", zlib.compress(b"hello")),
        (b"deflate", zlib.compress(b"hello")[2:-4]),
        (b"identity", b"hello"),
    ],
)
async def test_every_packing_we_ask_for_is_unpacked(coding: bytes, packed: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: %b\r\ncontent-length: %d\r\n\r\n" % (coding, len(packed))
    async with talking(saying(head + packed)) as url, HttpTransport() as transport:
        assert (await transport.get(url, {})).body == b"hello"


@pytest.mark.parametrize(
    "packed",
    [
        b"HTTP/1.1 200 OK\r\ncontent-encoding: br\r\ncontent-length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip, gzip\r\ncontent-length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n" + gzip.compress(b"hello" * 99, mtime=0)[:-9],
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n" + gzip.compress(b"hello", mtime=0) + b"more",
        b"HTTP/1.1 200 OK\r\ncontent-encoding: deflate\r\n\r\n\xff\xff\xff",
    ],
)
async def test_what_we_did_not_ask_for_or_cannot_unpack_is_dropped(packed: bytes) -> None:
    async with talking(saying(packed)) as url:
        assert (await failing(url)).problem is TransportProblem.DROPPED


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 999 Odd\r\n\r\n",
        b"HTTP/1.1 200 OK\nx: y\n\n" + b" " * 70_000,
        b"HTTP/1.1 200 OK\r\nx: y\nz: 1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: y\r\n folded\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx : y\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n: y\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1e3\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n-1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + b"0" * 9_999,
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n" + b"x: y\r\n" * 19_999,
        b"HTTP/1.1 204 No Content\r\n\r\nwith one",
    ],
    ids=range(20),
)
async def test_an_answer_whose_end_cannot_be_told_is_dropped(answer: bytes) -> None:
    async with talking(saying(answer, pause=0.2)) as url:
        assert (await failing(url)).problem is TransportProblem.DROPPED


async def test_chunks_that_go_beyond_the_cap_are_too_large_before_they_come() -> None:
    async with talking(saying(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffff\r\n", pause=3)) as url:
        assert (await failing(url)).problem is TransportProblem.TOO_LARGE


async def test_a_connection_reset_in_mid_body_is_dropped() -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\nhalf")
        await writer.drain()
        await asyncio.sleep(0.05)
        kept = writer.get_extra_info("socket")
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    async with talking(speak) as url:
        assert (await failing(url)).problem is TransportProblem.DROPPED


# Which connection a request goes out on.


class Counting:
    """A server that answers on kept connections, says what `after` makes of each, and counts."""

    def __init__(self, headers: bytes = b"", after: Speak | None = None) -> None:
        self.connections = self.requests = 0
        self._headers = headers
        self._after = after

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                self.requests += 1
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n%b\r\nok" % self._headers)
                if self._after is not None:
                    await self._after(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def chatter(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """What nobody asked for, after the answer has been taken."""
    await asyncio.sleep(0.02)  # so that the answer is read alone
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nforged")


@pytest.mark.parametrize(
    ("server", "connections"),
    [
        (Counting(), 1),
        (Counting(b"connection: close\r\n"), 3),
        (Counting(b"keep-alive: timeout=5, max=100\r\n"), 1),
        (Counting(b"keep-alive: timeout=1\r\n"), 3),
        (Counting(after=hang_up), 3),
        (Counting(after=chatter), 3),
    ],
    ids=["kept", "to be closed", "kept for long", "kept too shortly", "closed between requests", "spoilt"],
)
async def test_a_connection_is_used_again_only_while_its_next_answer_can_be_trusted(
    server: Counting, connections: int
) -> None:
    server.connections = server.requests = 0
    async with server.listening() as url, HttpTransport() as transport:
        for _ in range(3):
            assert (await transport.get(url, {})).body == b"ok"
            await until(lambda: transport.connections == (connections == 1))
        assert (server.requests, server.connections) == (3, connections)


async def test_a_kept_connection_belongs_to_one_identity() -> None:
    server = Counting()
    async with server.listening() as url, HttpTransport() as transport:
        for _ in range(3):
            for agent in ("one", "two"):
                assert (await transport.get(url, {"User-Agent": agent})).body == b"ok"
        assert (server.requests, server.connections) == (6, 2)


async def test_an_answer_that_came_before_its_request_is_not_taken_for_its_answer() -> None:
    """The loop has not read it yet when the next request begins: only the socket knows."""
    writers: list[asyncio.StreamWriter] = []

    async def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)

    server = Counting(after=keep)
    async with server.listening() as url, HttpTransport() as transport:
        for number in range(1, 11):
            assert (await transport.get(url, {})).body == b"ok"
            assert server.connections == number
            kept = writers[-1].get_extra_info("socket")
            os.write(kept.fileno(), b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nforged")


async def test_a_connection_that_was_still_for_longer_than_servers_wait_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sellerwatch.adapters.http.transport._KEPT_SECONDS", 0.05)
    server = Counting()
    async with server.listening() as url, HttpTransport() as transport:
        await transport.get(url, {})
        await until(lambda: transport.connections == 0)
        await transport.get(url, {})
    assert server.connections == 2


async def test_a_cancelled_request_costs_its_connection_and_no_other() -> None:
    """Its answer may still come, and must not be taken for the next one's."""

    seen: list[str] = []

    def answer(request: SimulatedRequest, now: float) -> SimulatedAnswer:
        seen.append(request.path)
        return SimulatedAnswer(200, request.path.encode(), delay=60 if request.path == "/0" else 0.05)

    async with serve(answer) as server, HttpTransport() as transport:
        first, second = (asyncio.create_task(transport.get(f"{server.url}/{n}", {})) for n in range(2))
        await until(lambda: len(seen) == 2)
        first.cancel()
        assert (await second).body == b"/1"
        assert transport.connections == 1
        assert (await transport.get(f"{server.url}/2", {})).body == b"/2"


async def test_a_request_cancelled_after_its_answer_came_leaves_the_connection_to_its_next_user() -> None:
    server = Counting()
    async with server.listening() as url, HttpTransport(limit=2) as transport:
        await transport.get(url, {})
        for _ in range(20):
            tasks = [asyncio.create_task(transport.get(url, {})) for _ in range(3)]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            tasks[1].cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            for result in (results[0], results[2]):
                assert not isinstance(result, BaseException)


async def test_requests_to_several_hosts_keep_no_more_connections_than_the_limit() -> None:
    servers = [Counting() for _ in range(4)]
    async with HttpTransport(limit=2) as transport:
        for server in servers:
            async with server.listening() as url:
                await transport.get(url, {})
                assert transport.connections <= 2


async def test_nothing_is_left_open_when_a_transport_is_closed() -> None:
    async with serve(lambda request, now: SimulatedAnswer(200, delay=0.01)) as server:
        transport = HttpTransport()
        await asyncio.gather(*(transport.get(server.url, {}) for _ in range(5)))
        assert transport.connections == 5
        await transport.close()
        assert transport.connections == 0


# TLS.


def certificate(folder: Path, name: str) -> Path:
    """A key and a certificate that signs itself."""
    key, subject = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - DAY)
        .not_valid_after(now + DAY)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = folder / f"{name}.pem"
    plain, pem = serialization.NoEncryption(), serialization.Encoding.PEM
    path.write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain) + made.public_bytes(serialization.Encoding.PEM)
    )
    return path


def at_home(path: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


async def test_answers_come_over_tls_from_whom_we_trust(tmp_path: Path) -> None:
    path = certificate(tmp_path, "localhost")
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 300000\r\n\r\n" + b"x" * 300_000
    trusting = ssl.create_default_context(cafile=str(path))
    async with talking(saying(answer), at_home(path)) as url, HttpTransport(tls=trusting) as transport:
        assert len((await transport.get(url.replace("127.0.0.1", "localhost"), {})).body) == 300_000


@pytest.mark.parametrize("name", ["localhost", "somebody-else"])
async def test_a_certificate_that_is_not_trusted_or_not_its_own_is_unreachable(tmp_path: Path, name: str) -> None:
    path = certificate(tmp_path, name)
    tls = None if name == "localhost" else ssl.create_default_context(cafile=str(path))
    async with talking(saying(b"HTTP/1.1 200 OK\r\n\r\n"), at_home(path)) as url:
        failed = await failing(url.replace("127.0.0.1", "localhost"), tls=tls)
    assert (failed.problem, failed.detail) == (TransportProblem.UNREACHABLE, "its certificate is not trusted")


# Addresses.


async def test_an_address_goes_out_as_it_was_made() -> None:
    said = b""

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal said
        said = await reader.readuntil(b"\r\n\r\n")
        await speak(reader, writer)
        writer.close()

    server = await asyncio.start_server(once, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with HttpTransport() as transport:
        await transport.get(f'http://127.0.0.1:{port}?q=%7e|"#here', {"Accept": "a/b"})
    server.close()
    assert said == (
        b'GET /?q=%%7e|" HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAccept: a/b\r\nAccept-Encoding: gzip, deflate\r\n\r\n' % port
    )


@pytest.mark.parametrize(
    "url",
    [
        "http://user:secret@host/",
        "http://host:port/",
        "http://host:99999/",
        "http://host/a b",
        "http://host/\r\nx: y",
        "http://host/한",
        "http://" + "a" * 70 + ".test/",
    ],
)
async def test_an_address_that_does_not_fit_into_http_is_never_asked(url: str) -> None:
    failed = await failing(url)
    assert (failed.problem, "cannot be put into HTTP" in failed.detail) == (TransportProblem.UNREACHABLE, True)
