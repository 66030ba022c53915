"""Requests and answers of the simulator as values, without a socket.

The marketplace and the product server are plain functions from a `SimulatedRequest` and the time to a
`SimulatedAnswer`. The HTTP server calls them, and so does a simulation on virtual time, which needs no socket. A fault
of the connection is therefore data: the answer names it, and the caller carries it out.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

import orjson


class ConnectionFault(Enum):
    """What happens to the connection instead of a proper answer."""

    NONE = "none"
    DROP = "drop"  # closed before one byte of the answer
    CUT = "cut"  # the head and half of the body, then closed
    HANG = "hang"  # nothing at all, until the caller gives up
    REFUSE = "refuse"  # the connection is not accepted; over HTTP, where it has been, it is reset


@dataclass(frozen=True, slots=True)
class SimulatedRequest:
    """One request as received. Header names are lower case; of a repeated query field the last one counts."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class SimulatedAnswer:
    """An answer to send after `delay` seconds, subject to `fault`.

    Headers are pairs, not a mapping, because `set-cookie` comes three times.
    """

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    content_type: str = "application/json; charset=utf-8"
    delay: float = 0.0
    fault: ConnectionFault = ConnectionFault.NONE


Handler = Callable[[SimulatedRequest, float], SimulatedAnswer]
"""Answers a request that arrived at `now`: Unix seconds that never go back."""


def json_answer(status: int, value: object, headers: tuple[tuple[str, str], ...] = ()) -> SimulatedAnswer:
    """Return an answer whose body is `value` as JSON."""
    return SimulatedAnswer(status, orjson.dumps(value), headers)


def refusal(status: int, message: str, headers: tuple[tuple[str, str], ...] = ()) -> SimulatedAnswer:
    """Return a refusal, in the shape of Mustit's errors."""
    return json_answer(status, {"status": status, "message": message}, headers)
