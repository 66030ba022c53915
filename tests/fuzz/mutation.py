"""Inputs made from good ones: a seed with a few edits, as a Hypothesis strategy. One strategy serves every target."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import orjson
from hypothesis import strategies as st

#: Places are taken modulo the length of the input, or the number of values in it.
_PLACE = st.integers(0, 4095)
#: What a value of JSON is replaced by.
VALUES: Sequence[Any] = (
    None,
    True,
    0,
    -1,
    1.5,
    2**63,
    "",
    "x",
    "한",
    "\0",
    [],
    {},
    [[]],
    {"a": {}},
    ["x", 1],
    "9" * 400,
    "1h",
)


def edited(seeds: Sequence[bytes], tokens: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """Return a strategy of one seed with edits: values of its JSON replaced, then bytes put in, cut out or repeated."""
    put = st.one_of(st.sampled_from(tokens), st.binary(max_size=4))
    replace = st.tuples(_PLACE, st.one_of(st.just(0), st.integers(0, 40)), put)
    repeat = st.tuples(_PLACE, _PLACE, st.integers(0, 80))
    values = st.lists(st.tuples(_PLACE, st.sampled_from(VALUES)), max_size=3)
    return st.builds(_with_edits, st.sampled_from(seeds), values, st.lists(st.one_of(replace, repeat), max_size=6))


def _with_edits(
    seed: bytes, values: Sequence[tuple[int, Any]], edits: Sequence[tuple[int, int, bytes] | tuple[int, int, int]]
) -> bytes:
    data = with_values(seed, values)
    for place, second, third in edits:
        at = place % (len(data) + 1)
        if isinstance(third, bytes):
            data = data[:at] + third + data[at + second :]
        else:
            begin = second % (len(data) + 1)
            data = data[:at] + data[begin : begin + third] + data[at:]
    return data


def with_values(seed: bytes, values: Sequence[tuple[int, Any]]) -> bytes:
    """Return the seed with values of its JSON replaced: of the whole seed, or of what comes after its first line."""
    line, _, rest = seed.partition(b"\n")
    for head, body in ((b"", seed), (line + b"\n", rest)):
        try:
            root = [orjson.loads(body)]
        except orjson.JSONDecodeError:
            continue
        try:
            for place, value in values:
                nodes = _nodes(root)
                parent, key = nodes[place % len(nodes)]
                parent[key] = copy.deepcopy(value)
            return head + orjson.dumps(root[0])
        except (RecursionError, TypeError):  # nested too deep to be written
            return seed
    return seed


def _nodes(parent: Any) -> list[tuple[Any, Any]]:
    """Return every place of a value, as what it is in and its key there."""
    found: list[tuple[Any, Any]] = []
    for key, value in list(parent.items() if isinstance(parent, dict) else enumerate(parent)):
        found.append((parent, key))
        if isinstance(value, dict | list):
            found += _nodes(value)
    return found
