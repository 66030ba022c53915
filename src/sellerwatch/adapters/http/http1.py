"""HTTP/1.1 as bytes: write a GET, read its answer. No socket and no clock.

It covers what a marketplace needs, and strictly. An answer whose end is not certain makes its connection unusable,
because the beginning of the next answer would not be certain either. The details of a failure never repeat what was
received.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Generator, Sequence
from functools import lru_cache
from typing import TypeAlias

from msgspec import Struct

from sellerwatch.marketplaces.ports import Reply, TransportFailed, TransportProblem

#: Status line and headers together, and likewise what may follow the last chunk.
LARGEST_HEAD = 65_536
_LONGEST_CHUNK_LINE = 4_096
#: Answers before the answer (100 Continue), and members of a gzip body. The rest of a body is copied for each member.
_MOST_INTERIM, _MOST_MEMBERS = 10, 32
#: Longer header lines rarely repeat.
_SHORT_FIELD = 100

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+").fullmatch
#: No control character but the tab.
_TEXT = re.compile(r"[\t\x20-\x7e\x80-\U0010ffff]*").fullmatch
_STATUS_LINE = re.compile(r"HTTP/1\.([01]) ([1-5][0-9]{2})(?: [\t\x20-\x7e\x80-\xff]*)?").fullmatch
_LENGTH = re.compile(r"[0-9]{1,18}").fullmatch
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?").fullmatch
_STAY = re.compile(r"(?:^|[\s,])timeout\s*=\s*([0-9]{1,9})\b", re.IGNORECASE).search

_FOR_EVER = float("inf")
_SWITCHING = 101
_BODILESS = (204, 304)
#: The only encodings that are accepted. zlib reads gzip when 16 is added to its window bits.
_ACCEPTED = "gzip, deflate"
_GZIP_BITS = zlib.MAX_WBITS | 16

Reader: TypeAlias = "Generator[None, bytes, ReceivedResponse]"


class ReceivedResponse(Struct, frozen=True):
    """A whole answer. `stay` is how many seconds the server keeps the connection at least; None: close it."""

    reply: Reply
    stay: float | None


def head_of(headers: Sequence[tuple[str, str]]) -> bytes:
    """Return the header lines to send, ours included. They are the same for all requests of an agent and worth caching.

    `Accept-Encoding` is always ours: it must name what `read_answer` can decode.
    """
    lines = []
    for name, value in headers:
        if not _TOKEN(name) or not _TEXT(value):
            raise TransportFailed(TransportProblem.UNREACHABLE, "the address or a header cannot be put into HTTP")
        lines.append(f"{name}: {value}\r\n")
    return f"{''.join(lines)}Accept-Encoding: {_ACCEPTED}\r\n\r\n".encode()


def read_answer(largest: int) -> Reader:
    """Receive the bytes of a connection piece by piece and return the answer when it is whole.

    An empty piece means that the server closed the connection. Raises `TransportFailed` for an answer that is not HTTP,
    breaks off, or is larger than `largest` bytes, before or after decoding.
    """
    buffer = bytearray()
    for _ in range(_MOST_INTERIM):
        version, status, headers = yield from _read_head(buffer)
        if status >= 200:
            break
        if status == _SWITCHING:
            raise _not_http()
    else:
        raise _not_http()
    fields = _framing(headers)
    body, has_end = yield from _read_body(buffer, status, version, fields, largest)
    if buffer:
        # More bytes than announced: the beginning of the next answer is not certain.
        raise _not_http()
    coding = fields["content-encoding"]
    if coding and body:
        body = _unpacked(body, coding, largest)
    return ReceivedResponse(Reply(status, headers, body), _stay(version, fields) if has_end else None)


def _read_head(buffer: bytearray) -> Generator[None, bytes, tuple[int, int, list[tuple[str, str]]]]:
    """Remove the head from the buffer and return version, status and headers."""
    searched = 0
    while (end := buffer.find(b"\r\n\r\n", max(searched - 3, 0), LARGEST_HEAD)) < 0:
        searched = len(buffer)
        if searched >= LARGEST_HEAD:
            raise _not_http()
        received = yield
        if not received:
            raise TransportFailed(TransportProblem.DROPPED, "in mid-answer" if buffer else "before an answer")
        buffer += received
    first, *lines = buffer[:end].decode("latin-1").split("\r\n")
    del buffer[: end + 4]
    found = _STATUS_LINE(first)
    if found is None:
        raise _not_http()
    headers = [_known_field(line) if len(line) <= _SHORT_FIELD else _field(line) for line in lines]
    return int(found[1]), int(found[2]), headers


def _field(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or not _TOKEN(name) or not _TEXT(value):
        raise _not_http()
    return name.lower(), value.strip(" \t")


#: A server repeats most of its header lines in every answer.
_known_field = lru_cache(256)(_field)


_FRAMING = ("connection", "content-encoding", "content-length", "keep-alive", "transfer-encoding")


def _framing(headers: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return the fields that decide where the answer ends and whether the connection stays open; repeated ones
    joined."""
    found = dict.fromkeys(_FRAMING, "")
    for name, value in headers:
        if name in found:
            if not value and name in ("content-length", "transfer-encoding"):
                raise _not_http()
            found[name] = f"{found[name]}, {value}" if found[name] else value
    return found


def _read_body(
    buffer: bytearray, status: int, version: int, fields: dict[str, str], largest: int
) -> Generator[None, bytes, tuple[bytes, bool]]:
    """Return the body, and whether its end was marked; without a mark it ends where the connection does."""
    coding, length = fields["transfer-encoding"], fields["content-length"]
    # Chunks beside a length, or in HTTP/1.0: a proxy was confused, and the end is not certain.
    if coding and (coding.lower() != "chunked" or length or version == 0):
        raise _not_http()
    size, *others = {value.strip() for value in length.split(",")} if "," in length else (length,)
    if others or (length and not _LENGTH(size)):
        raise _not_http()
    if status in _BODILESS:
        return b"", True
    if coding:
        return (yield from _read_chunks(buffer, largest)), True
    if length:
        return (yield from _read_sized(buffer, int(size), largest)), True
    return (yield from _read_rest(buffer, largest)), False


def _read_sized(buffer: bytearray, size: int, largest: int) -> Generator[None, bytes, bytes]:
    if size > largest:
        raise _too_large(largest)
    while len(buffer) < size:
        buffer += yield from _next_bytes()
    return _take(buffer, size)


def _read_rest(buffer: bytearray, largest: int) -> Generator[None, bytes, bytes]:
    while True:
        if len(buffer) > largest:
            raise _too_large(largest)
        received = yield
        if not received:
            return _take(buffer, len(buffer))
        buffer += received


def _read_chunks(buffer: bytearray, largest: int) -> Generator[None, bytes, bytes]:
    chunks, size = [], 0
    while True:
        found = _CHUNK_LINE((yield from _read_line(buffer, _LONGEST_CHUNK_LINE)))
        if found is None:
            raise _not_http()
        length = int(found[1], 16)
        if not length:
            break
        size += length
        if size > largest:
            raise _too_large(largest)
        while len(buffer) < length + 2:
            buffer += yield from _next_bytes()
        chunks.append(_take(buffer, length))
        if _take(buffer, 2) != b"\r\n":
            raise _not_http()
    left = LARGEST_HEAD
    # Trailers are skipped: none of them matters here, but what has another form is no trailer.
    while trailer := (yield from _read_line(buffer, left)):
        _field(trailer.decode("latin-1"))
        left -= len(trailer)
    return b"".join(chunks)


def _read_line(buffer: bytearray, longest: int) -> Generator[None, bytes, bytes]:
    searched = 0
    while (end := buffer.find(b"\r\n", searched, longest + 2)) < 0:
        searched = max(len(buffer) - 1, 0)
        if searched > longest:
            raise _not_http()
        buffer += yield from _next_bytes()
    line = _take(buffer, end)
    del buffer[:2]
    return line


def _next_bytes() -> Generator[None, bytes, bytes]:
    received = yield
    if not received:
        raise _broken()
    return received


def _take(buffer: bytearray, size: int) -> bytes:
    """Remove and return this many bytes from the beginning of the buffer."""
    taken = bytes(buffer) if size == len(buffer) else bytes(buffer[:size])
    del buffer[:size]
    return taken


def _stay(version: int, fields: dict[str, str]) -> float | None:
    options = {option.strip() for option in fields["connection"].lower().split(",")} if fields["connection"] else ()
    if "close" in options or (version == 0 and "keep-alive" not in options):
        return None
    found = _STAY(fields["keep-alive"]) if fields["keep-alive"] else None
    return float(found[1]) if found else _FOR_EVER


def _unpacked(body: bytes, coding: str, largest: int) -> bytes:
    """Decode the body to at most `largest` bytes. 30 KB cost a seventh of a hop to a thread."""
    match coding.lower():
        case "identity":
            return body
        case "gzip" | "x-gzip":
            bits = _GZIP_BITS
        case "deflate":
            # The standard means zlib's format, but some servers send the bare stream, without zlib's header.
            is_marked = body[0] & 0x0F == zlib.DEFLATED and int.from_bytes(body[:2], "big") % 31 == 0
            bits = zlib.MAX_WBITS if is_marked else -zlib.MAX_WBITS
        case _:
            raise _broken()
    parts, size = [], 0
    try:
        # A gzip body may have several members.
        for _ in range(_MOST_MEMBERS if bits == _GZIP_BITS else 1):
            if not body:
                break
            unpacking = zlib.decompressobj(bits)
            parts.append(unpacking.decompress(body, largest + 1 - size))
            size += len(parts[-1])
            if size > largest:
                raise _too_large(largest)
            if not unpacking.eof:
                raise _broken()
            body = unpacking.unused_data
    except zlib.error:
        raise _broken() from None
    if body:
        raise _broken()
    return b"".join(parts)


def _not_http() -> TransportFailed:
    return TransportFailed(TransportProblem.DROPPED, "the answer is not HTTP")


def _broken() -> TransportFailed:
    return TransportFailed(TransportProblem.DROPPED, "the body broke off or could not be decoded")


def _too_large(largest: int) -> TransportFailed:
    return TransportFailed(TransportProblem.TOO_LARGE, f"more than {largest:,} bytes")
