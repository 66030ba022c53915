"""What goes over the wire, without a wire.

The marketplace and the product server are plain functions from a `Request` and the time to an `Answer`. The HTTP server
is one way to call them; a simulation on virtual time is another, and needs no socket. A fault is therefore data: the
answer says what should happen to the connection, and whoever carries it makes that happen.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

import orjson


class Fault(Enum):
    """What is done to the connection instead of answering properly."""

    NONE = "none"
    DROP = "drop"  # closed before one byte of the answer
    CUT = "cut"  # the head and half of the body, then closed
    HANG = "hang"  # nothing at all, until the caller gives up
    REFUSE = "refuse"  # the connection is not accepted; over HTTP, where it has been, it is reset


@dataclass(frozen=True, slots=True)
class Request:
    """One request as received. Header names are lower case; of a repeated query field the last one counts."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Answer:
    """What to send back: after `delay` seconds, and subject to `fault`.

    Headers are pairs, not a mapping, because `set-cookie` comes three times.
    """

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    content_type: str = "application/json; charset=utf-8"
    delay: float = 0.0
    fault: Fault = Fault.NONE


Handler = Callable[[Request, float], Answer]
"""Answers a request that arrived at `now`: Unix seconds that never go back."""


def json_answer(status: int, value: object, headers: tuple[tuple[str, str], ...] = ()) -> Answer:
    """An answer whose body is `value` as JSON."""
    return Answer(status, orjson.dumps(value), headers)


def refusal(status: int, message: str, headers: tuple[tuple[str, str], ...] = ()) -> Answer:
    """An answer that says no, in the shape Mustit uses for its errors."""
    return json_answer(status, {"status": status, "message": message}, headers)
