"""HTTP's own troubles: each foreign error becomes a `TransportFailed` and says nothing of what was sent."""

from __future__ import annotations

import asyncio
import gzip
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from sellerwatch.adapters.http import transport as module
from sellerwatch.adapters.http.transport import HttpTransport
from sellerwatch.marketplaces.ports import TransportFailed, TransportProblem
from sellerwatch.simulator.http import serve
from sellerwatch.simulator.wire import Answer, Request

SECRET = {"Authorization": "Bearer very-secret", "Cookie": "nid=very-secret"}
Speak = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


@asynccontextmanager
async def talking(speak: Speak) -> AsyncIterator[str]:
    """A server that says whatever bytes it likes."""

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.read(65_536)
            await speak(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(once, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    finally:
        server.close()


def saying(*parts: bytes, pause: float = 0.0) -> Speak:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(pause)

    return speak


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
    assert "Connect call failed" in failed.detail


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
    arrived: list[Request] = []

    def answer(request: Request, now: float) -> Answer:
        arrived.append(request)
        return Answer(200)

    async with serve(answer) as server, HttpTransport() as transport:
        with pytest.raises(TransportFailed) as failed:
            await transport.get(server.url, {"X-Odd": value})
    assert failed.value.problem is TransportProblem.UNREACHABLE
    assert not arrived


@pytest.mark.parametrize("used", [False, True])
async def test_a_closed_transport_fails_as_unreachable(used: bool) -> None:
    transport = HttpTransport()
    if used:
        async with serve(lambda request, now: Answer(200)) as server:
            await transport.get(server.url, {})
    await transport.close()
    with pytest.raises(TransportFailed, match="unreachable"):
        await transport.get("http://127.0.0.1:9/", {})


async def test_closing_with_a_request_under_way_fails_that_request() -> None:
    async with talking(saying(b"", pause=5)) as url:
        transport = HttpTransport()
        request = asyncio.create_task(transport.get(url, {}))
        await asyncio.sleep(0.05)
        await transport.close()
        with pytest.raises(TransportFailed):
            await request


async def test_a_cancelled_request_is_cancelled_and_not_a_failure() -> None:
    async with talking(saying(b"", pause=5)) as url, HttpTransport() as transport:
        request = asyncio.create_task(transport.get(url, {}))
        await asyncio.sleep(0.05)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request


async def test_connections_are_kept_and_no_more_are_in_flight_than_the_limit() -> None:
    in_flight = most = 0
    loop = asyncio.get_running_loop()

    def answer(request: Request, now: float) -> Answer:
        nonlocal in_flight, most
        in_flight += 1
        most = max(most, in_flight)
        loop.call_later(0.01, leave)
        return Answer(200, delay=0.01)

    def leave() -> None:
        nonlocal in_flight
        in_flight -= 1

    async with serve(answer) as server, HttpTransport(limit=3) as transport:
        await asyncio.gather(*(transport.get(f"{server.url}/", {}) for _ in range(30)))
    assert most <= 4  # one more may arrive before the timer of an answered one has run


async def test_waiting_for_a_free_place_is_not_charged_to_the_server() -> None:
    """Ten requests of 0.1 s one after the other take longer than any of them may."""
    transport = HttpTransport(limit=1, connect_seconds=0.2, read_seconds=0.2)
    async with serve(lambda request, now: Answer(200, delay=0.1)) as server, transport:
        replies = await asyncio.gather(*(transport.get(f"{server.url}/", {}) for _ in range(10)))
    assert [reply.status for reply in replies] == [200] * 10


def every(root: type[BaseException]) -> list[type[BaseException]]:
    return [root, *(below for child in root.__subclasses__() for below in every(child))]


@pytest.mark.parametrize("kind", list(dict.fromkeys(every(aiohttp.ClientError))))
def test_every_error_of_aiohttp_is_mapped(kind: type[Exception]) -> None:
    """Those no server can be made to cause, too; a new one of a new release shows here."""
    error = kind.__new__(kind)
    assert isinstance(module._mapped(error), TransportFailed)
    assert issubclass(kind, aiohttp.ClientError | OSError | ValueError | EOFError)


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (TimeoutError(), TransportProblem.TIMEOUT),
        (aiohttp.SocketTimeoutError("x"), TransportProblem.TIMEOUT),
        (aiohttp.ConnectionTimeoutError("x"), TransportProblem.TIMEOUT),
        (ConnectionResetError(104, "Connection reset by peer"), TransportProblem.DROPPED),
        (BrokenPipeError(), TransportProblem.DROPPED),
        (aiohttp.ClientOSError(104, "reset"), TransportProblem.DROPPED),
        (asyncio.IncompleteReadError(b"", 3), TransportProblem.DROPPED),
        (UnicodeEncodeError("ascii", "한", 0, 1, "no"), TransportProblem.UNREACHABLE),
        (aiohttp.InvalidURL("x"), TransportProblem.UNREACHABLE),
    ],
)
def test_errors_are_mapped_to_what_happened(error: Exception, problem: TransportProblem) -> None:
    assert module._mapped(error).problem is problem
