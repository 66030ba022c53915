"""An HTTP proxy on the way out: which addresses are asked through it, and the tunnel that it opens to them."""

from __future__ import annotations

import asyncio
import base64
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypedDict, cast
from urllib.parse import unquote, urlsplit
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]

from sellerwatch.marketplaces.ports import TransportFailed, TransportProblem

_LARGEST_HEAD = 65_536
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] (\d{3})[ \r]").match


@dataclass(frozen=True, slots=True)
class OutboundProxy:
    """The proxy for `https://` addresses, as HTTPS_PROXY and NO_PROXY are commonly understood: the proxy connects, and
    sees nothing of what is said over TLS."""

    url: str = field(repr=False)
    not_for: str = ""

    def is_for(self, address: str) -> bool:
        """Return whether this address is asked through the proxy."""
        parts = urlsplit(address)
        return parts.scheme == "https" and not proxy_bypass_environment(parts.netloc, {"no": self.not_for})

    @property
    def address(self) -> str:
        """Return the address without user and password."""
        parts = urlsplit(self.url)
        return f"http://{parts.netloc.rpartition('@')[2]}"

    @property
    def headers(self) -> Mapping[str, str]:
        """Return what the proxy is told beside the host."""
        parts = urlsplit(self.url)
        if parts.username is None:
            return {}
        given = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        return {"Proxy-Authorization": f"Basic {base64.b64encode(given.encode()).decode()}"}

    async def open_tunnel(
        self,
        loop: asyncio.AbstractEventLoop,
        host: str,
        port: int,
        connection: asyncio.Protocol,
        tls: ssl.SSLContext,
    ) -> None:
        """Connect to a host through the proxy, with TLS from here to the host."""
        proxy = urlsplit(self.url)
        try:
            transport, waiting = await loop.create_connection(
                lambda: _ProxyAnswer(loop), proxy.hostname or "", proxy.port or 80
            )
        except OSError:
            raise TransportFailed(TransportProblem.UNREACHABLE, "the proxy cannot be reached") from None
        try:
            target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
            lines += [f"{name}: {value}" for name, value in self.headers.items()]
            transport.write("".join(f"{line}\r\n" for line in [*lines, ""]).encode())
            _refuse_unless_open(await waiting.head)
            secured = await loop.start_tls(transport, connection, tls, server_hostname=host)
        except BaseException:
            transport.abort()
            raise
        connection.connection_made(cast("asyncio.Transport", secured))


class AskedThrough(TypedDict, total=False):
    """Arguments of an aiohttp request."""

    proxy: str
    proxy_headers: Mapping[str, str]


def way_through(proxy: OutboundProxy | None, address: str) -> AskedThrough:
    """Return what an aiohttp request of this address is told about the proxy; nothing without one."""
    if proxy is None or not proxy.is_for(address):
        return {}
    return {"proxy": proxy.address, "proxy_headers": proxy.headers}


class _ProxyAnswer(asyncio.Protocol):
    """Reads the head of the proxy's answer. Nothing may follow it: the first words are ours."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.head: asyncio.Future[bytes] = loop.create_future()
        self._received = b""

    def data_received(self, data: bytes) -> None:
        self._received += data
        if b"\r\n\r\n" in self._received or len(self._received) > _LARGEST_HEAD:
            self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    def _end(self) -> None:
        if not self.head.done():
            self.head.set_result(self._received)


def _refuse_unless_open(head: bytes) -> None:
    found = _STATUS_LINE(head)
    if found is None or not head.endswith(b"\r\n\r\n"):
        raise TransportFailed(TransportProblem.UNREACHABLE, "the proxy's answer is not HTTP")
    if not 200 <= int(found[1]) < 300:
        raise TransportFailed(TransportProblem.UNREACHABLE, f"the proxy answered {int(found[1])}")
