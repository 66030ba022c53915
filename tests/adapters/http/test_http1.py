"""The reader of answers alone: whatever comes, in whatever pieces, it gives an answer or a `TransportFailed`."""

from __future__ import annotations

import gzip
import zlib
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sellerwatch.adapters.http.http1 import ReceivedResponse, _read_line, read_answer
from sellerwatch.marketplaces.ports import TransportFailed

LARGEST = 2_000

HALVES = st.sampled_from(
    [
        *(b"HTTP/1.1 200 OK\r\n", b"HTTP/1.0 404 No\r\n", b"HTTP/1.1 100 Continue\r\n\r\n", b"content-length: 5\r\n"),
        *(b"transfer-encoding: chunked\r\n", b"content-encoding: gzip\r\n", b"content-encoding: deflate\r\n"),
        *(b"connection: close\r\n", b"keep-alive: timeout=9\r\n", b"\r\n", b"5\r\nhello\r\n", b"0\r\n\r\n", b"hello"),
    ]
)
NOISE = st.lists(st.one_of(HALVES, st.binary(max_size=8)), max_size=12).map(b"".join)


def read(wire: bytes, cuts: list[int]) -> ReceivedResponse | TransportFailed:
    reader = read_answer(LARGEST)
    next(reader)
    edges = [0, *sorted(cut % (len(wire) + 1) for cut in cuts), len(wire)]
    pieces = [wire[a:b] for a, b in pairwise(edges) if a < b]
    try:
        for piece in (*pieces, b""):
            reader.send(piece)
    except StopIteration as whole:
        received: ReceivedResponse = whole.value
        return received
    except TransportFailed as failed:
        return failed
    raise AssertionError("it waits for more after the end")


@given(NOISE, st.lists(st.integers(0, 10_000), max_size=6))
def test_whatever_comes_is_an_answer_or_a_failure(wire: bytes, cuts: list[int]) -> None:
    received = read(wire, cuts)
    if isinstance(received, ReceivedResponse):
        assert len(received.reply.body) <= LARGEST


@given(
    st.binary(max_size=1_000),
    st.sampled_from(["sized", "chunked", "endless"]),
    st.booleans(),
    st.integers(1, 300),
    st.lists(st.integers(0, 10_000), max_size=6),
)
def test_the_pieces_it_comes_in_make_no_difference(
    body: bytes, framing: str, is_packed: bool, chunk: int, cuts: list[int]
) -> None:
    sent = zlib.compress(body) if is_packed else body
    head = b"HTTP/1.1 200 OK\r\n" + (b"content-encoding: deflate\r\n" if is_packed else b"")
    if framing == "sized":
        wire = head + b"content-length: %d\r\n\r\n" % len(sent) + sent
    elif framing == "chunked":
        parts = [sent[at : at + chunk] for at in range(0, len(sent), chunk)]
        wire = head + b"transfer-encoding: chunked\r\n\r\n" + b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in parts)
        wire += b"0\r\n\r\n"
    else:
        wire = head + b"\r\n" + sent
    received = read(wire, cuts)
    assert isinstance(received, ReceivedResponse)
    assert (received.reply.status, received.reply.body) == (200, body)
    assert (received.stay is None) == (framing == "endless")


class CountedBuffer(bytearray):
    """A buffer that counts the bytes that searches look at."""

    searched = 0

    def find(self, sub: Any, start: Any = 0, end: Any = None) -> int:
        last = len(self) if end is None else min(end, len(self))
        found = super().find(sub, start, last)
        self.searched += (last if found < 0 else found + len(sub)) - start
        return found


def test_a_line_in_many_pieces_is_searched_once() -> None:
    buffer, longest = CountedBuffer(), 10_000
    reader = _read_line(buffer, longest)
    next(reader)
    for _ in range(longest - 1):
        reader.send(b"x")
    with pytest.raises(StopIteration) as whole:
        reader.send(b"x\r\n")
    assert len(whole.value.value) == longest
    assert buffer.searched < 4 * longest


@pytest.mark.parametrize("piece", [1, 100_000])
def test_a_line_longer_than_it_may_be_is_refused(piece: int) -> None:
    reader = _read_line(bytearray(), 1_000)
    next(reader)
    for _ in range(1_001 if piece == 1 else 0):
        reader.send(b"x")
    with pytest.raises(TransportFailed):
        reader.send(b"x" * piece)


@pytest.mark.parametrize(("members", "is_whole"), [(1, True), (32, True), (33, False), (20_000, False)])
def test_a_gzip_body_has_a_bounded_number_of_members(members: int, is_whole: bool) -> None:
    packed = gzip.compress(b"") * (members - 1) + gzip.compress(b"hello")
    received = read_packed(b"gzip", packed)
    assert isinstance(received, ReceivedResponse) == is_whole
    assert not is_whole or received.reply.body == b"hello"  # type: ignore[union-attr]


def test_a_deflate_body_is_one_stream() -> None:
    packed = zlib.compress(b"hello")
    assert isinstance(read_packed(b"deflate", packed), ReceivedResponse)
    assert isinstance(read_packed(b"deflate", packed * 2), TransportFailed)


def read_packed(coding: bytes, packed: bytes) -> ReceivedResponse | TransportFailed:
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: %b\r\ncontent-length: %d\r\n\r\n" % (coding, len(packed))
    reader = read_answer(1_000_000)
    next(reader)
    try:
        reader.send(head + packed)
    except StopIteration as whole:
        received: ReceivedResponse = whole.value
        return received
    except TransportFailed as failed:
        return failed
    raise AssertionError("it waits for more after the end")


def test_answers_before_the_answer_are_bounded() -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\n"
    last = b"HTTP/1.1 204 No Content\r\n\r\n"
    assert isinstance(read(interim * 9 + last, []), ReceivedResponse)
    assert isinstance(read(interim * 10 + last, []), TransportFailed)
