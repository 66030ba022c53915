"""The simulator as a transport: no socket, no thread, so that a whole crawl runs on virtual time.

It replaces HTTP and passes the same contract suite (`tests/contracts/test_transport.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

from sellerwatch.kernel.clock import Clock
from sellerwatch.marketplaces.ports import Reply, TransportFailed, TransportProblem
from sellerwatch.simulator.wire import ConnectionFault, SimulatedAnswer, SimulatedRequest

READ_SECONDS = 10.0
LARGEST_BODY = 5_000_000


class AnswersRequests(Protocol):
    """A `Simulator`, its marketplace alone, or anything else that answers requests."""

    def answer(self, request: SimulatedRequest, now: float) -> SimulatedAnswer: ...


class SimulatedTransport:
    """`Transport` into a simulator in the same process, whatever host an address names.

    A request arrives at once; delays, and the time-out for a server that hangs, are slept on the given clock. The
    simulator gets a time that never goes back, even when the clock is set back.
    """

    def __init__(
        self,
        simulator: AnswersRequests,
        clock: Clock,
        read_seconds: float = READ_SECONDS,
        largest_body: int = LARGEST_BODY,
    ) -> None:
        self._simulator = simulator
        self._clock = clock
        self._epoch = clock.now().timestamp() - clock.monotonic()
        self._read_seconds = read_seconds
        self._largest_body = largest_body

    async def get(self, url: str, headers: Mapping[str, str]) -> Reply:
        answer = self._simulator.answer(_request(url, headers), self._epoch + self._clock.monotonic())
        if answer.fault is ConnectionFault.HANG or answer.delay > self._read_seconds:
            await self._clock.sleep(self._read_seconds)
            raise TransportFailed(TransportProblem.TIMEOUT)
        if answer.fault is ConnectionFault.REFUSE:
            await self._clock.sleep(0)
            raise TransportFailed(TransportProblem.UNREACHABLE, "connection refused")
        await self._clock.sleep(answer.delay)  # also for 0: others get a turn, as they would over a socket
        if answer.fault is ConnectionFault.DROP:
            raise TransportFailed(TransportProblem.DROPPED, "before an answer")
        if len(answer.body) > self._largest_body:
            raise TransportFailed(TransportProblem.TOO_LARGE, f"more than {self._largest_body:,} bytes")
        if answer.fault is ConnectionFault.CUT:
            raise TransportFailed(TransportProblem.DROPPED, "the body broke off or could not be decoded")
        described = (("content-type", answer.content_type), ("content-length", str(len(answer.body))))
        return Reply(answer.status, (*described, *answer.headers), answer.body)


def _request(url: str, headers: Mapping[str, str]) -> SimulatedRequest:
    """Return the request as the HTTP server would have read it."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        usable = False
    if not usable:
        raise TransportFailed(TransportProblem.UNREACHABLE, "the address or a header cannot be put into HTTP")
    return SimulatedRequest(
        "GET",
        unquote(parts.path or "/"),
        dict(parse_qsl(parts.query, keep_blank_values=True)),
        {name.lower(): value for name, value in headers.items()},
    )
