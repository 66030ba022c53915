"""HTTP/1.1 as bytes: how a GET is written and how its answer is read. No socket and no clock in here.

Only as much of it as a marketplace needs, and strictly: an answer whose end cannot be told for certain spoils the
connection it came on, because the next answer on it would be anybody's guess. Details of failures name the trouble and
never repeat what came.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from sellerwatch.marketplaces.ports import Reply, TransportFailed, TransportProblem

#: Status line and headers together, and likewise what may follow the last chunk.
LARGEST_HEAD = 65_536
_LONGEST_CHUNK_LINE = 4_096
#: Longer header lines are hardly ever the same twice.
_SHORT_FIELD = 100

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+").fullmatch
_SENDABLE = re.compile(r"[\t\x20-\x7e\x80-\U0010ffff]*").fullmatch
_STATUS_LINE = re.compile(r"HTTP/1\.([01]) ([1-5][0-9]{2})(?: .*)?").fullmatch
_LENGTH = re.compile(r"[0-9]{1,18}").fullmatch
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?").fullmatch
_STAY = re.compile(r"(?:^|[\s,])timeout\s*=\s*([0-9]{1,9})\b", re.IGNORECASE).search

_FOR_EVER = float("inf")
_SWITCHING = 101
_BODILESS = (204, 304)
#: What we say we can read, so nothing else is ever read. One byte more than zlib's own window bits means gzip.
_ACCEPTED = "gzip, deflate"
_GZIP_BITS = zlib.MAX_WBITS | 16

Reader: TypeAlias = "Generator[None, bytes, Received]"


@dataclass(frozen=True, slots=True)
class Received:
    """A whole answer. `stay` is for how many seconds the peer keeps the connection at least; None: it is done with."""

    reply: Reply
    stay: float | None


def head_of(headers: Sequence[tuple[str, str]]) -> bytes:
    """The headers as they go out, with ours. The same for every request of an agent, so that it is worth keeping.

    `Accept-Encoding` is ours alone: it must name what `read_answer` can unpack.
    """
    lines = []
    for name, value in headers:
        if not _TOKEN(name) or not _SENDABLE(value):
            raise TransportFailed(TransportProblem.UNREACHABLE, "the address or a header cannot be put into HTTP")
        lines.append(f"{name}: {value}\r\n")
    return f"{''.join(lines)}Accept-Encoding: {_ACCEPTED}\r\n\r\n".encode()


def read_answer(largest: int) -> Reader:
    """Takes what the connection brings, piece by piece, and returns the answer when it is whole.

    An empty piece says that the peer has hung up. Raises `TransportFailed` for everything that is not HTTP, breaks off,
    or is larger than `largest` bytes, packed or unpacked.
    """
    buffer = bytearray()
    while True:
        version, status, headers = yield from _read_head(buffer)
        if status >= 200:
            break
        if status == _SWITCHING:
            raise _not_http()
    fields = _framing(headers)
    body, has_end = yield from _read_body(buffer, status, version, fields, largest)
    if buffer:
        # More than was announced: where the next answer begins is anybody's guess.
        raise _not_http()
    coding = fields["content-encoding"]
    if coding and body:
        body = _unpacked(body, coding, largest)
    return Received(Reply(status, headers, body), _stay(version, fields) if has_end else None)


def _read_head(buffer: bytearray) -> Generator[None, bytes, tuple[int, int, list[tuple[str, str]]]]:
    """Version, status and headers; they are taken off the buffer."""
    searched = 0
    while (end := buffer.find(b"\r\n\r\n", max(searched - 3, 0), LARGEST_HEAD)) < 0:
        searched = len(buffer)
        if searched >= LARGEST_HEAD:
            raise _not_http()
        piece = yield
        if not piece:
            raise TransportFailed(TransportProblem.DROPPED, "in mid-answer" if buffer else "before an answer")
        buffer += piece
    first, *lines = buffer[:end].decode("latin-1").split("\r\n")
    del buffer[: end + 4]
    said = _STATUS_LINE(first)
    if said is None:
        raise _not_http()
    headers = [_known_field(line) if len(line) <= _SHORT_FIELD else _field(line) for line in lines]
    return int(said[1]), int(said[2]), headers


def _field(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or not _TOKEN(name) or "\n" in value or "\r" in value or "\0" in value:
        raise _not_http()
    return name.lower(), value.strip(" \t")


#: A server says most of its headers again with every answer.
_known_field = lru_cache(256)(_field)


_FRAMING = ("connection", "content-encoding", "content-length", "keep-alive", "transfer-encoding")


def _framing(headers: Sequence[tuple[str, str]]) -> dict[str, str]:
    """The fields that say where an answer ends and what becomes of its connection; of a repeated one, all values."""
    found = dict.fromkeys(_FRAMING, "")
    for name, value in headers:
        if name in found:
            found[name] = f"{found[name]}, {value}" if found[name] else value
    return found


def _read_body(
    buffer: bytearray, status: int, version: int, fields: dict[str, str], largest: int
) -> Generator[None, bytes, tuple[bytes, bool]]:
    """The body, and whether it had an end of its own; without one it ends where the connection does."""
    coding, length = fields["transfer-encoding"], fields["content-length"]
    if status in _BODILESS:
        return b"", True
    if coding:
        # Both, or one that HTTP/1.0 does not know: somebody between us was confused, and may be about the end as well.
        if coding.lower() != "chunked" or length or version == 0:
            raise _not_http()
        return (yield from _read_chunks(buffer, largest)), True
    if length:
        size, *others = {value.strip() for value in length.split(",")} if "," in length else (length,)
        if others or not _LENGTH(size):
            raise _not_http()
        return (yield from _read_sized(buffer, int(size), largest)), True
    return (yield from _read_rest(buffer, largest)), False


def _read_sized(buffer: bytearray, size: int, largest: int) -> Generator[None, bytes, bytes]:
    if size > largest:
        raise _too_large(largest)
    while len(buffer) < size:
        buffer += yield from _piece()
    return _taken(buffer, size)


def _read_rest(buffer: bytearray, largest: int) -> Generator[None, bytes, bytes]:
    while True:
        if len(buffer) > largest:
            raise _too_large(largest)
        piece = yield
        if not piece:
            return _taken(buffer, len(buffer))
        buffer += piece


def _read_chunks(buffer: bytearray, largest: int) -> Generator[None, bytes, bytes]:
    chunks, size = [], 0
    while True:
        said = _CHUNK_LINE((yield from _read_line(buffer, _LONGEST_CHUNK_LINE)))
        if said is None:
            raise _not_http()
        length = int(said[1], 16)
        if not length:
            break
        size += length
        if size > largest:
            raise _too_large(largest)
        while len(buffer) < length + 2:
            buffer += yield from _piece()
        chunks.append(_taken(buffer, length))
        if _taken(buffer, 2) != b"\r\n":
            raise _not_http()
    left = LARGEST_HEAD
    # Trailers are read over: nothing of ours is ever in them.
    while trailer := (yield from _read_line(buffer, left)):
        left -= len(trailer)
    return b"".join(chunks)


def _read_line(buffer: bytearray, longest: int) -> Generator[None, bytes, bytes]:
    while (end := buffer.find(b"\r\n")) < 0 and len(buffer) <= longest:
        buffer += yield from _piece()
    if not 0 <= end <= longest:
        raise _not_http()
    line = _taken(buffer, end)
    del buffer[:2]
    return line


def _piece() -> Generator[None, bytes, bytes]:
    piece = yield
    if not piece:
        raise _broken()
    return piece


def _taken(buffer: bytearray, size: int) -> bytes:
    """That many bytes off the beginning."""
    taken = bytes(buffer) if size == len(buffer) else bytes(buffer[:size])
    del buffer[:size]
    return taken


def _stay(version: int, fields: dict[str, str]) -> float | None:
    wishes = {wish.strip() for wish in fields["connection"].lower().split(",")} if fields["connection"] else ()
    if "close" in wishes or (version == 0 and "keep-alive" not in wishes):
        return None
    said = _STAY(fields["keep-alive"]) if fields["keep-alive"] else None
    return float(said[1]) if said else _FOR_EVER


def _unpacked(body: bytes, coding: str, largest: int) -> bytes:
    """At most `largest` bytes come out, whatever was promised. 30 KB cost a seventh of a hop to a thread."""
    match coding.lower():
        case "identity":
            return body
        case "gzip" | "x-gzip":
            bits = _GZIP_BITS
        case "deflate":
            # By the letter it is zlib's format; some send the bare stream, which does not begin with zlib's mark.
            is_marked = body[0] & 0x0F == zlib.DEFLATED and int.from_bytes(body[:2], "big") % 31 == 0
            bits = zlib.MAX_WBITS if is_marked else -zlib.MAX_WBITS
        case _:
            raise _broken()
    parts, size = [], 0
    try:
        # A gzip body may be several, one after the other.
        while body:
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
    return b"".join(parts)


def _not_http() -> TransportFailed:
    return TransportFailed(TransportProblem.DROPPED, "the answer is not HTTP")


def _broken() -> TransportFailed:
    return TransportFailed(TransportProblem.DROPPED, "the body broke off or could not be decoded")


def _too_large(largest: int) -> TransportFailed:
    return TransportFailed(TransportProblem.TOO_LARGE, f"more than {largest:,} bytes")
