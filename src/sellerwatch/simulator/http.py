"""A small HTTP/1.1 server for the simulator: keep-alive, delays, and the faults that an answer asks for.

Requests of one connection are answered strictly one after the other, as HTTP/1.1 requires. It is made for loopback: no
TLS, no compression, no time-outs against slow clients. Do not expose it to a network.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import cast
from urllib.parse import parse_qsl, unquote

import httptools

from sellerwatch.simulator.wire import ConnectionFault, Handler, SimulatedAnswer, SimulatedRequest, refusal

MAX_BODY_BYTES = 16 * 1024 * 1024
MAX_HEAD_BYTES = 64 * 1024
_MAX_WAITING = 64
_BACKLOG = 1024
_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}


@dataclass(frozen=True, slots=True)
class SimulatorServer:
    """A listening server."""

    host: str
    port: int

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


@asynccontextmanager
async def serve(handler: Handler, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[SimulatorServer]:
    """Listen while the block runs; port 0 takes a free one. Raise OSError when the port is used.

    At the end every connection is closed, also those with an answer in progress.
    """
    loop = asyncio.get_running_loop()
    epoch = time.time() - loop.time()
    connections: set[_SimulatorConnection] = set()

    def connect() -> _SimulatorConnection:
        return _SimulatorConnection(handler, loop, epoch, connections)

    listening = await loop.create_server(connect, host, port, backlog=_BACKLOG)
    try:
        yield SimulatorServer(host, listening.sockets[0].getsockname()[1])
    finally:
        listening.close()
        for connection in tuple(connections):
            connection.abort()
        await listening.wait_closed()


class _TooLarge(Exception):
    """A request that is too large for this server."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class _SimulatorConnection(asyncio.Protocol):
    """One client's connection. The parser calls the methods named `on_...`."""

    def __init__(
        self, handler: Handler, loop: asyncio.AbstractEventLoop, epoch: float, connections: "set[_SimulatorConnection]"
    ) -> None:
        self._handler = handler
        self._loop = loop
        self._epoch = epoch
        self._connections = connections
        self._parser = httptools.HttpRequestParser(self)
        self._waiting: deque[tuple[SimulatedRequest, bool, float]] = deque()
        self._busy = False
        self._writable = True
        self._reading = True
        self._timer: asyncio.TimerHandle | None = None
        self._start_message()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()

    def abort(self) -> None:
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # not taken up: the request was answered as any other, and that answer closes the connection
        except httptools.HttpParserError as error:
            cause = error.__context__
            if isinstance(cause, _TooLarge):
                self._refuse(cause.status, "the request is too large")
            else:
                self._refuse(HTTPStatus.BAD_REQUEST, "not HTTP")

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        self._next()

    def _start_message(self) -> None:
        self._url = b""
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._head_size = 0
        self._body_size = 0

    def on_message_begin(self) -> None:
        self._start_message()

    def on_url(self, url: bytes) -> None:
        self._url += url
        self._measure_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")
        self._measure_head(len(name) + len(value))

    def on_headers_complete(self) -> None:
        if self._headers.get("expect", "").lower() == "100-continue":
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._body_size += len(body)
        if self._body_size > MAX_BODY_BYTES:
            raise _TooLarge(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        self._body.append(body)

    def on_message_complete(self) -> None:
        path, _, query = self._url.decode("latin-1").partition("?")
        request = SimulatedRequest(
            self._parser.get_method().decode("latin-1"),
            unquote(path) if "%" in path else path,
            dict(parse_qsl(query, keep_blank_values=True)) if query else {},
            self._headers,
            b"".join(self._body),
        )
        arrived = self._epoch + self._loop.time()
        keep_alive = self._parser.should_keep_alive() and not self._parser.should_upgrade()
        self._waiting.append((request, keep_alive, arrived))
        if len(self._waiting) > _MAX_WAITING and self._reading:
            self._reading = False
            self._transport.pause_reading()
        self._next()

    def _measure_head(self, size: int) -> None:
        self._head_size += size
        if self._head_size > MAX_HEAD_BYTES:
            raise _TooLarge(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def _next(self) -> None:
        """Answer the next request, unless an answer is in progress or the client does not read."""
        while self._waiting and not self._busy and self._writable and not self._transport.is_closing():
            request, keep_alive, arrived = self._waiting.popleft()
            with_body = request.method != "HEAD"
            if not with_body:
                request = SimulatedRequest("GET", request.path, request.query, request.headers, request.body)
            answer = self._ask(request, arrived)
            if answer.delay > 0 or answer.fault is ConnectionFault.HANG:
                self._busy = True
            if answer.fault is ConnectionFault.HANG:
                return
            if answer.delay > 0:
                self._timer = self._loop.call_later(answer.delay, self._finish, answer, keep_alive, with_body)
            else:
                self._send(answer, keep_alive, with_body)
        if not self._reading and len(self._waiting) <= _MAX_WAITING and not self._transport.is_closing():
            self._reading = True
            self._transport.resume_reading()

    def _ask(self, request: SimulatedRequest, arrived: float) -> SimulatedAnswer:
        try:
            return self._handler(request, arrived)
        except Exception as error:
            context = {"message": f"{request.method} {request.path} failed", "exception": error}
            self._loop.call_exception_handler(context)
            return refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "the simulator itself failed")

    def _finish(self, answer: SimulatedAnswer, keep_alive: bool, with_body: bool) -> None:
        self._busy = False
        self._timer = None
        if not self._transport.is_closing():
            self._send(answer, keep_alive, with_body)
            self._next()

    def _send(self, answer: SimulatedAnswer, keep_alive: bool, with_body: bool) -> None:
        if answer.fault in (ConnectionFault.DROP, ConnectionFault.REFUSE):
            self._transport.abort()
            return
        body = answer.body if with_body else b""
        if answer.fault is ConnectionFault.CUT:
            body = body[: len(body) // 2]
            keep_alive = False
        self._transport.write(_head(answer, keep_alive) + body)
        if not keep_alive:
            self._transport.close()

    def _refuse(self, status: int, message: str) -> None:
        """Answer why and close: after a broken request the parser cannot tell where the next one begins."""
        self._waiting.clear()
        if not self._transport.is_closing():
            self._send(refusal(status, message), keep_alive=False, with_body=True)


def _head(answer: SimulatedAnswer, keep_alive: bool) -> bytes:
    line = _STATUS_LINES.get(answer.status) or f"HTTP/1.1 {answer.status} Unknown\r\n".encode()
    lines = [f"content-type: {answer.content_type}\r\ncontent-length: {len(answer.body)}\r\n"]
    lines += [f"{name}: {value}\r\n" for name, value in answer.headers]
    if not keep_alive:
        lines.append("connection: close\r\n")
    lines.append("\r\n")
    return line + "".join(lines).encode("latin-1")
