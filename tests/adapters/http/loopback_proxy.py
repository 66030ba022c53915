"""A proxy on loopback that opens tunnels to hosts whose names it alone knows, and a server with TLS behind it."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress

Take = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class LoopbackProxy:
    """`asked` holds the head of each request. `hosts` maps `name:port` to a port here."""

    def __init__(self, hosts: Mapping[str, int], password: str | None = None, answer: bytes | None = None) -> None:
        self.asked: list[str] = []
        self._hosts = hosts
        self._password = password
        self._answer = answer

    @property
    def targets(self) -> list[str]:
        return [head.split(" ")[1] for head in self.asked]

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        self.asked.append(head)
        expected = "" if self._password is None else f"Basic {base64.b64encode(self._password.encode()).decode()}"
        port = self._hosts.get(head.split(" ")[1])
        if self._answer is not None:
            writer.write(self._answer)
        elif expected and f"Proxy-Authorization: {expected}\r\n" not in head:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
        elif port is None:
            writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
        else:
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            there, back = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(_pass_on(reader, back), _pass_on(there, writer))
        with suppress(ConnectionError):
            await writer.drain()
        writer.close()


async def _pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await source.read(65_536):
            target.write(data)
            await target.drain()
    target.close()


@asynccontextmanager
async def listening(proxy: LoopbackProxy) -> AsyncIterator[str]:
    """Serve the proxy until the block ends; yield its `host:port`."""
    async with _serving(proxy.take) as port:
        yield f"127.0.0.1:{port}"


@asynccontextmanager
async def answering(tls: ssl.SSLContext) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server with TLS that answers every request with 204; yield its port and the heads of the requests."""
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                heads.append(await reader.readuntil(b"\r\n\r\n"))
                for line in heads[-1].split(b"\r\n"):
                    if line.lower().startswith(b"content-length:"):
                        await reader.readexactly(int(line.partition(b":")[2]))
                writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
                await writer.drain()
        writer.close()

    async with _serving(serve, tls) as port:
        yield port, heads


@asynccontextmanager
async def _serving(take: Take, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    at_work: set[asyncio.Task[None]] = set()

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        at_work.add(task)
        try:
            await take(reader, writer)
        except asyncio.CancelledError:
            writer.transport.abort()

    server = await asyncio.start_server(one, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in at_work:
            task.cancel()
        await asyncio.gather(*at_work)
