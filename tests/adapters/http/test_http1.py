"""The reader of answers alone: whatever comes, in whatever pieces, it gives an answer or a `TransportFailed`."""

from __future__ import annotations

import zlib
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sellerwatch.adapters.http.http1 import ReceivedResponse, read_answer
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
