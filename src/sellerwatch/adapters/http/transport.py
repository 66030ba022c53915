"""Plain GETs over HTTP, by aiohttp. The only module that imports it for the marketplace's sake.

Every foreign error ends here: whatever aiohttp, asyncio or the operating system raise becomes a `TransportFailed`; its
detail names the trouble and never repeats what was sent or received.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Self

import aiohttp
from yarl import URL

from sellerwatch.marketplaces.ports import Reply, TransportFailed, TransportProblem

LARGEST_BODY = 5_000_000
CONNECT_SECONDS = 3.0
READ_SECONDS = 10.0
_DNS_SECONDS = 300


class HttpTransport:
    """`Transport` with connections kept alive, at most `limit` requests in flight.

    Waiting for a free place counts against no time-out: it is our own doing, and would be charged to the marketplace.
    `read_seconds` bounds each pause of an answer, and with `connect_seconds` the whole request, so that a server that
    drips a byte at a time is not waited for.
    """

    def __init__(
        self,
        limit: int = 100,
        connect_seconds: float = CONNECT_SECONDS,
        read_seconds: float = READ_SECONDS,
        largest_body: int = LARGEST_BODY,
    ) -> None:
        self._limit = limit
        whole = connect_seconds + read_seconds
        self._timeout = aiohttp.ClientTimeout(total=whole, sock_connect=connect_seconds, sock_read=read_seconds)
        self._largest_body = largest_body
        self._places = asyncio.Semaphore(limit)
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection; a `get` afterwards fails."""
        self._closed = True
        if self._session is not None:
            await self._session.close()

    async def get(self, url: str, headers: Mapping[str, str]) -> Reply:
        async with self._places:
            try:
                return await self._get(url, headers)
            except (aiohttp.ClientError, OSError, ValueError, EOFError) as error:
                raise _mapped(error) from None

    async def _get(self, url: str, headers: Mapping[str, str]) -> Reply:
        if self._closed:
            raise TransportFailed(TransportProblem.UNREACHABLE, "the transport is closed")
        session = self._session or self._open()
        # encoded=True: the address goes out as it was made, not as aiohttp would quote it.
        async with session.get(URL(url, encoded=True), headers=headers, allow_redirects=False) as response:
            if (response.content_length or 0) > self._largest_body:
                raise self._too_large(response)
            chunks, size = [], 0
            while chunk := await response.content.readany():
                size += len(chunk)
                if size > self._largest_body:
                    raise self._too_large(response)
                chunks.append(chunk)
            named = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in response.raw_headers]
            return Reply(response.status, named, chunks[0] if len(chunks) == 1 else b"".join(chunks))

    def _open(self) -> aiohttp.ClientSession:
        """Made at the first request, because aiohttp wants the loop that will run it."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._limit, ttl_dns_cache=_DNS_SECONDS),
            timeout=self._timeout,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        # aiohttp sends a GET again, unasked, when a kept connection drops: a request that nobody's budget counted.
        self._session._retry_connection = False
        return self._session

    def _too_large(self, response: aiohttp.ClientResponse) -> TransportFailed:
        response.close()
        return TransportFailed(TransportProblem.TOO_LARGE, f"more than {self._largest_body:,} bytes")


def _mapped(error: Exception) -> TransportFailed:
    """The failure in our words. Most particular first: aiohttp's classes inherit from one another and from OSError."""
    match error:
        case TimeoutError():
            while_connecting = isinstance(error, aiohttp.ConnectionTimeoutError)
            return TransportFailed(TransportProblem.TIMEOUT, "while connecting" if while_connecting else "")
        case aiohttp.ClientConnectorDNSError():
            return TransportFailed(TransportProblem.UNREACHABLE, "the host name is not known")
        case aiohttp.ClientConnectorCertificateError():
            return TransportFailed(TransportProblem.UNREACHABLE, "its certificate is not trusted")
        case aiohttp.ClientConnectorError():
            return TransportFailed(TransportProblem.UNREACHABLE, error.strerror or "no connection")
        case aiohttp.ClientResponseError():
            return TransportFailed(TransportProblem.DROPPED, "the answer is not HTTP")
        case aiohttp.ClientPayloadError():
            return TransportFailed(TransportProblem.DROPPED, "the body broke off or could not be decoded")
        case aiohttp.ServerDisconnectedError():
            return TransportFailed(TransportProblem.DROPPED, "before an answer")
        case ValueError() | aiohttp.NonHttpUrlClientError():
            return TransportFailed(TransportProblem.UNREACHABLE, "the address or a header cannot be put into HTTP")
        case OSError():
            return TransportFailed(TransportProblem.DROPPED, error.strerror or type(error).__name__)
        case _:
            return TransportFailed(TransportProblem.DROPPED, type(error).__name__)
