"""Connections of callers: how many there may be, and how large and how slow a request may be, before a route sees it.

- The head of a request is at most 64 KB and 100 fields, and complete within 10 s; its body within another 30 s.
- There are at most API_CONNECTIONS connections, and API_CONNECTIONS_PER_ADDRESS from one address, except from
  TRUSTED_PROXIES. One beyond that is accepted into a reserve, where only health and metrics are served. When the
  reserve is full, its oldest connection is closed: half-open connections cannot keep a monitor out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from sellerwatch.access.logins import network
from sellerwatch.kernel.errors import SellerwatchError
from sellerwatch.web.api.errors import HeadTooLarge, MalformedRequest, RequestTooSlow
from sellerwatch.web.api.request_guard import OVER_LIMIT

if TYPE_CHECKING:
    from uvicorn.config import Config

    from sellerwatch.web.api.proxies import TrustedProxies

LARGEST_HEAD, MOST_FIELDS = 65_536, 100
HEAD_SECONDS, BODY_SECONDS = 10.0, 30.0
#: Connections beyond the limits that are open at a time.
RESERVE = 20

#: Makes the answer to a request that no route sees, from the headers that were read so far.
Refuse: TypeAlias = "Callable[[SellerwatchError, Sequence[tuple[bytes, bytes]]], Response]"


class ConnectionCounts:
    """The open connections: in all, by address, and the reserve beyond the limits, oldest first."""

    def __init__(self, most: int, most_per_address: int, trusted: TrustedProxies) -> None:
        self._most, self._most_per_address, self._trusted = most, most_per_address, trusted
        self._by_network: dict[str, int] = {}
        self._within = 0
        self._reserve: dict[BoundedConnection, None] = {}

    @property
    def open(self) -> int:
        return self._within + len(self._reserve)

    def enter(self, connection: BoundedConnection, address: str) -> bool:
        """Count a connection, and return whether it is within the limits."""
        place = network(address)
        is_crowded = self._by_network.get(place, 0) >= self._most_per_address and not self._trusted.includes(address)
        if self._within < self._most and not is_crowded:
            self._within += 1
            self._by_network[place] = self._by_network.get(place, 0) + 1
            return True
        if len(self._reserve) >= RESERVE:
            oldest = next(iter(self._reserve))
            del self._reserve[oldest]
            oldest.close_now()
        self._reserve[connection] = None
        return False

    def leave(self, connection: BoundedConnection, address: str, is_within: bool) -> None:
        if not is_within:
            self._reserve.pop(connection, None)
            return
        place = network(address)
        self._within -= 1
        self._by_network[place] -= 1
        if not self._by_network[place]:
            del self._by_network[place]


class BoundedState(ServerState):
    """What the connections of one server share."""

    def __init__(self, counts: ConnectionCounts, refuse: Refuse) -> None:
        super().__init__()
        self.counts = counts
        self.refuse = refuse


class BoundedConnection(HttpToolsProtocol):
    """One connection. A request beyond a limit is answered in our shape, and the connection is closed."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._shared = cast("BoundedState", server_state)
        self._address = ""
        self._is_within = True
        #: Whether a head is awaited or being read, how much of it arrived, and how much of it was parsed.
        self._reads_head, self._arrived, self._parsed = True, 0, 0
        self._refusal: SellerwatchError | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        self._is_within = self._shared.counts.enter(self, self._address)
        self._end_in(HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_in(None)
        self._shared.counts.leave(self, self._address, self._is_within)
        super().connection_lost(exc)

    def close_now(self) -> None:
        """Close without an answer."""
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._reads_head:
            self._arrived += len(data)
            if self._deadline is None:
                self._end_in(HEAD_SECONDS)
        super().data_received(data)
        if self._reads_head and self._arrived > LARGEST_HEAD and not self.transport.is_closing():
            self._refuse(HeadTooLarge())

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._parsed = 0
        self.scope["state"][OVER_LIMIT] = not self._is_within

    def on_url(self, url: bytes) -> None:
        self._take(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._take(len(name) + len(value))
        super().on_header(name, value)
        if len(self.headers) > MOST_FIELDS:
            self._stop(HeadTooLarge())

    def on_headers_complete(self) -> None:
        self._reads_head = False
        self._end_in(BODY_SECONDS)
        super().on_headers_complete()
        if not self._is_within:
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        self._reads_head, self._arrived = True, 0
        self._end_in(None)
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer a request that the parser refused, or one of the methods above."""
        self._refuse(self._refusal or MalformedRequest())

    def _take(self, size: int) -> None:
        self._parsed += size
        if self._parsed > LARGEST_HEAD:
            self._stop(HeadTooLarge())

    def _stop(self, error: SellerwatchError) -> None:
        """Stop the parser: it ends in `send_400_response`."""
        self._refusal = error
        raise ValueError(error.code)

    def _end_in(self, seconds: float | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if seconds is None else self.loop.call_later(seconds, self._too_slow, seconds)

    def _too_slow(self, seconds: float) -> None:
        if self._reads_head and not self._arrived:
            self.transport.close()
        else:
            self._refuse(RequestTooSlow(seconds))

    def _refuse(self, error: SellerwatchError) -> None:
        """Answer and close; without an answer where another one is under way."""
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or cycle.response_complete or not (self._reads_head or cycle.response_started):
            response = self._shared.refuse(error, self.headers or ())
            lines = [name + b": " + value + b"\r\n" for name, value in response.raw_headers]
            head = b"".join([STATUS_LINE[response.status_code], *lines, b"connection: close\r\n\r\n"])
            self.transport.write(head + bytes(response.body))
        self.transport.close()
