"""GET requests over kept connections: our own asyncio protocol, because a library costs more than everything else.

Every error of asyncio, TLS or the operating system becomes a `TransportFailed`. Its detail never repeats what was sent
or received.

A request is written once. If a kept connection turns out to be closed, it is unknown whether the server saw the
request, and a second one would need its own permit: so the failure is reported and the crawl decides. To keep this
rare, the most recently used connection is taken first, and none that was idle for longer than servers usually allow.
"""

from __future__ import annotations

import asyncio
import re
import select
import socket
import ssl
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import TracebackType
from typing import Self, cast
from urllib.parse import urlsplit

from sellerwatch.adapters.http.http1 import Reader, ReceivedResponse, head_of, read_answer
from sellerwatch.adapters.http.proxy import OutboundProxy
from sellerwatch.marketplaces.ports import Reply, TransportFailed, TransportProblem

LARGEST_BODY = 5_000_000
CONNECT_SECONDS = 3.0
READ_SECONDS = 10.0
#: Shorter than the 5 s after which common servers hang up.
_KEPT_SECONDS = 4.0
#: Time-outs are looked after by one timer for all connections: each comes late by up to this part of it.
_LATENESS = 0.1
#: An identity's headers are put together once; more identities than these are not at work at a time.
_HEADS_KEPT = 1_024

_ADDRESS = re.compile(r"(https?://[^/?#\s]+)([!-\"$-~]*)(?:#.*)?", re.IGNORECASE).fullmatch


class HttpTransport:
    """`Transport` with kept connections and at most `limit` requests in flight.

    Waiting for a free slot counts against no time-out: it is our own doing, and the marketplace would be blamed for it.
    `read_seconds` bounds each pause of an answer and, with `connect_seconds`, the whole request, so that a slow drip
    ends. Connecting means looking up the name, opening the connection, a proxy's tunnel, and TLS.
    """

    def __init__(
        self,
        limit: int = 100,
        connect_seconds: float = CONNECT_SECONDS,
        read_seconds: float = READ_SECONDS,
        largest_body: int = LARGEST_BODY,
        tls: ssl.SSLContext | None = None,
        proxy: OutboundProxy | None = None,
    ) -> None:
        self._limit = limit
        self._proxy = proxy
        self._connect_seconds = connect_seconds
        self._read_seconds = read_seconds
        self._largest_body = largest_body
        self._tls = tls
        self._busy = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._origins: dict[str, _Origin] = {}
        self._head_of = lru_cache(_HEADS_KEPT)(head_of)
        self._open: set[_HttpConnection] = set()
        self._idle: list[_HttpConnection] = []
        self._timer: asyncio.TimerHandle | None = None
        self._empty = asyncio.Event()
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection. Requests in flight fail, and so does `get` afterwards."""
        self._closed = True
        for connection in tuple(self._open):
            connection.give_up(_closed())
        if self._open:
            await self._empty.wait()
        if self._timer is not None:
            self._timer.cancel()

    @property
    def connections(self) -> int:
        """Return how many connections are open, busy or idle."""
        return len(self._open)

    async def get(self, url: str, headers: Mapping[str, str]) -> Reply:
        origin, target = self._split(url)
        head = self._head_of(tuple(headers.items()))
        loop = asyncio.get_running_loop()
        if self._busy >= self._limit:
            await self._place(loop)
        self._busy += 1
        try:
            began = loop.time()
            connection = self._kept(origin, head, began) or await self._connected(origin, head, loop)
            answer = connection.ask(b"GET %b HTTP/1.1\r\nHost: %b\r\n%b" % (target, origin.host, head), began)
            try:
                return await answer
            finally:
                # An answer that is still to come must not be taken for the next one's. One that had come already has
                # freed the connection: it may be another's by now.
                if answer.cancelled():
                    connection.give_up()
        finally:
            self._busy -= 1
            if self._waiting:
                self._call_next()

    async def _place(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wait until fewer requests are in flight than `limit`. A semaphore would do, but costs a request as much as
        its headers; the callers keep to the same limit, so a request rarely waits here."""
        while self._busy >= self._limit:
            waiter = loop.create_future()
            self._waiting.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    self._call_next()  # it was ours, and we go without taking it
                raise

    def _call_next(self) -> None:
        """Let the next waiting request go."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _split(self, url: str) -> tuple[_Origin, bytes]:
        """Return origin and target of a URL. The target is sent unchanged, without its fragment."""
        found = _ADDRESS(url)
        if found is None:
            raise _not_for_http()
        origin = self._origins.get(found[1])
        if origin is None:
            origin = self._origins[found[1]] = _Origin.parse(found[1], self._proxy)
        target = found[2].encode()
        return origin, target if target.startswith(b"/") else b"/" + target

    def _kept(self, origin: _Origin, head: bytes, now: float) -> _HttpConnection | None:
        """Return the connection of this identity to there that was used last, unless even that one is old. An answer
        that comes late on a kept connection then never belongs to another identity."""
        for at in range(len(self._idle) - 1, -1, -1):
            connection = self._idle[at]
            if connection.origin is origin and connection.head == head:
                del self._idle[at]
                if connection.is_usable(now) and not connection.has_unread_bytes():
                    return connection
                connection.give_up()
        return None

    async def _connected(self, origin: _Origin, head: bytes, loop: asyncio.AbstractEventLoop) -> _HttpConnection:
        self._refuse_when_closed()
        if len(self._open) >= self._limit and self._idle:
            self._idle.pop(0).give_up()  # of another host or identity: those for this one are all at work
        connection = _HttpConnection(origin, head, self, loop)
        try:
            async with asyncio.timeout(self._connect_seconds):
                await self._connect(connection, loop)
        except (OSError, ValueError, EOFError) as error:
            raise _mapped(error) from None
        if self._closed:
            connection.give_up()
        self._refuse_when_closed()
        if self._timer is None:
            self._look_after(loop)
        return connection

    async def _connect(self, connection: _HttpConnection, loop: asyncio.AbstractEventLoop) -> None:
        origin = connection.origin
        if not origin.is_tls:
            await loop.create_connection(lambda: connection, origin.name, origin.port)
        elif origin.proxy is None:
            await loop.create_connection(
                lambda: connection, origin.name, origin.port, ssl=self._context(), server_hostname=origin.name
            )
        else:
            await origin.proxy.open_tunnel(loop, origin.name, origin.port, connection, self._context())

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise _closed()

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context()
            self._tls.set_alpn_protocols(["http/1.1"])
        return self._tls

    def reader(self) -> Reader:
        return read_answer(self._largest_body)

    def opened(self, connection: _HttpConnection) -> None:
        self._open.add(connection)
        self._empty.clear()

    def freed(self, connection: _HttpConnection) -> None:
        self._idle.append(connection)

    def lost(self, connection: _HttpConnection) -> None:
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        if not self._open:
            self._empty.set()

    def _look_after(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close connections that are overdue or idle for too long, again and again while any is open."""
        now, whole = loop.time(), self._connect_seconds + self._read_seconds
        for connection in tuple(self._open):
            if connection.is_overdue(now, self._read_seconds, whole):
                connection.give_up(TransportFailed(TransportProblem.TIMEOUT))
        for connection in [idle for idle in self._idle if not idle.is_usable(now)]:
            self._idle.remove(connection)
            connection.give_up()
        pause = _LATENESS * min(self._read_seconds, _KEPT_SECONDS)
        self._timer = loop.call_later(pause, self._look_after, loop) if self._open else None


@dataclass(frozen=True, eq=False, slots=True)
class _Origin:
    """One server to connect to, perhaps through a proxy. `host` is its name in a request."""

    name: str
    port: int
    host: bytes
    is_tls: bool
    proxy: OutboundProxy | None

    @classmethod
    def parse(cls, url: str, proxy: OutboundProxy | None) -> _Origin:
        try:
            parts = urlsplit(url)
            name, port, is_tls = parts.hostname or "", parts.port, parts.scheme == "https"
            ascii_name = name.encode("idna") if ":" not in name else b"[%b]" % name.encode("ascii")
        except ValueError:
            raise _not_for_http() from None
        if not name or "@" in parts.netloc:
            raise _not_for_http()
        usual = 443 if is_tls else 80
        host = ascii_name if port in (None, usual) else b"%b:%d" % (ascii_name, port)
        used = proxy if proxy is not None and proxy.is_for(url) else None
        return cls(ascii_name.decode().strip("[]"), port or usual, host, is_tls, used)


class _HttpConnection(asyncio.Protocol):
    """One connection: at most one request at a time, and its answer."""

    def __init__(self, origin: _Origin, head: bytes, owner: HttpTransport, loop: asyncio.AbstractEventLoop) -> None:
        self.origin = origin
        self.head = head
        self._owner = owner
        self._loop = loop
        self._reader: Reader | None = None
        self._answer: asyncio.Future[Reply] | None = None
        self._began = self._heard = 0.0
        self._stay = _KEPT_SECONDS
        self._unread = select.poll()

    def ask(self, request: bytes, began: float) -> asyncio.Future[Reply]:
        """Send it; the answer comes with the future, and the connection is free again just before."""
        self._began = began
        self._heard = self._loop.time()
        self._reader = self._owner.reader()
        next(self._reader)
        self._answer = self._loop.create_future()
        self._transport.write(request)
        return self._answer

    def is_usable(self, now: float) -> bool:
        return now - self._heard < self._stay and not self._transport.is_closing()

    def has_unread_bytes(self) -> bool:
        """Return whether bytes have arrived that the loop has not read yet, the end of the connection included."""
        return bool(self._unread.poll(0))

    def is_overdue(self, now: float, silence: float, whole: float) -> bool:
        return self._answer is not None and (now - self._heard >= silence or now - self._began >= whole)

    def give_up(self, failed: TransportFailed | None = None) -> None:
        """Close at once and fail the request that waits for an answer, if there is one."""
        self._transport.abort()
        self._end(failed)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._unread.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
        self._owner.opened(self)

    def data_received(self, data: bytes) -> None:
        self._heard = self._loop.time()
        self._read(data)

    def eof_received(self) -> None:
        self._read(b"")

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None:
            self._end(_mapped_loss(exc))
        if self._reader is not None:
            self._read(b"")
        self._owner.lost(self)

    def _read(self, data: bytes) -> None:
        if self._reader is None:
            # No request waits. What comes next on this connection would answer the wrong one.
            self._transport.abort()
            return
        try:
            self._reader.send(data)
        except StopIteration as whole:
            self._take(whole.value)
        except TransportFailed as failed:
            self.give_up(failed)

    def _take(self, received: ReceivedResponse) -> None:
        answer = self._answer
        self._reader = self._answer = None
        if received.stay is None or self._transport.is_closing():
            self._transport.abort()
        else:
            self._stay = min(_KEPT_SECONDS, received.stay - 1)
            self._owner.freed(self)
        if answer is not None and not answer.done():
            answer.set_result(received.reply)

    def _end(self, failed: TransportFailed | None) -> None:
        answer = self._answer
        self._reader = self._answer = None
        if answer is not None and not answer.done():
            if failed is None:
                answer.cancel()
            else:
                answer.set_exception(failed)


def _closed() -> TransportFailed:
    return TransportFailed(TransportProblem.UNREACHABLE, "the transport is closed")


def _not_for_http() -> TransportFailed:
    return TransportFailed(TransportProblem.UNREACHABLE, "the address or a header cannot be put into HTTP")


def _mapped(error: Exception) -> TransportFailed:
    """Return why a connection could not be opened. Subclasses come before their base classes."""
    match error:
        case TimeoutError():
            return TransportFailed(TransportProblem.TIMEOUT, "while connecting")
        case socket.gaierror():
            return TransportFailed(TransportProblem.UNREACHABLE, "the host name is not known")
        case ssl.SSLCertVerificationError():
            return TransportFailed(TransportProblem.UNREACHABLE, "its certificate is not trusted")
        case ssl.SSLError():
            return TransportFailed(TransportProblem.UNREACHABLE, "it does not speak TLS as we do")
        case OSError():
            return TransportFailed(TransportProblem.UNREACHABLE, error.strerror or "no connection")
        case _:
            return _not_for_http()


def _mapped_loss(error: Exception) -> TransportFailed:
    """Return why an open connection was lost."""
    reason = error.strerror if isinstance(error, OSError) else None
    return TransportFailed(TransportProblem.DROPPED, reason or type(error).__name__)
