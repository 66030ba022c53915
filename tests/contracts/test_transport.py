"""What every transport does with one GET, whatever carries it: real HTTP, or the simulator in the same process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from tests.builders import StoppedClock
from tests.simulated_transport import SimulatedTransport

from sellerwatch.adapters.http.transport import HttpTransport
from sellerwatch.marketplaces.ports import Reply, Transport, TransportFailed, TransportProblem
from sellerwatch.simulator.http import serve
from sellerwatch.simulator.simulator import Simulator
from sellerwatch.simulator.wire import ConnectionFault, SimulatedAnswer, SimulatedRequest

READ_SECONDS = 0.2
LARGEST_BODY = 1_000


@dataclass
class Scripted:
    """Answers as told, and remembers what it was asked."""

    next: SimulatedAnswer = field(default_factory=lambda: SimulatedAnswer(200, b"{}"))
    asked: list[SimulatedRequest] = field(default_factory=list)

    def answer(self, request: SimulatedRequest, now: float) -> SimulatedAnswer:
        self.asked.append(request)
        return self.next


@dataclass
class Wire:
    """A transport, and the far end of it."""

    transport: Transport
    base_url: str
    far: Scripted

    async def get(self, path: str = "/", **headers: str) -> Reply:
        return await self.transport.get(self.base_url + path, {n.replace("_", "-"): v for n, v in headers.items()})

    async def failing(self, path: str = "/") -> TransportFailed:
        with pytest.raises(TransportFailed) as failed:
            await self.get(path)
        return failed.value


@pytest.fixture(params=["http", "in process"])
async def wire(request: pytest.FixtureRequest) -> AsyncIterator[Wire]:
    far = Scripted()
    if request.param == "http":
        transport = HttpTransport(read_seconds=READ_SECONDS, largest_body=LARGEST_BODY)
        async with serve(far.answer) as server, transport:
            yield Wire(transport, server.url, far)
    else:
        simulated = SimulatedTransport(far, StoppedClock(), read_seconds=READ_SECONDS, largest_body=LARGEST_BODY)
        yield Wire(simulated, "http://simulator.test", far)


async def test_status_and_body_come_back_as_they_were_sent(wire: Wire) -> None:
    wire.far.next = SimulatedAnswer(418, "차".encode())
    reply = await wire.get()
    assert (reply.status, reply.body) == (418, "차".encode())


async def test_header_names_are_lower_case_and_a_name_may_come_twice(wire: Wire) -> None:
    wire.far.next = SimulatedAnswer(200, headers=(("set-cookie", "a=1"), ("set-cookie", "b=2"), ("retry-after", "3")))
    reply = await wire.get()
    assert [value for name, value in reply.headers if name == "set-cookie"] == ["a=1", "b=2"]
    assert reply.header("retry-after") == "3"
    assert reply.header("content-type") == "application/json; charset=utf-8"
    assert reply.header("content-length") == "0"


async def test_path_query_and_headers_arrive_as_they_were_given(wire: Wire) -> None:
    await wire.get("/a%20b/c?sellerId=x%26y%3D%ED%95%9C&empty=", User_Agent="Mozilla/5.0", Cookie="nid=1")
    asked = wire.far.asked[0]
    assert (asked.method, asked.path) == ("GET", "/a b/c")
    assert asked.query == {"sellerId": "x&y=한", "empty": ""}
    assert (asked.headers["user-agent"], asked.headers["cookie"]) == ("Mozilla/5.0", "nid=1")


async def test_a_redirect_is_not_followed(wire: Wire) -> None:
    wire.far.next = SimulatedAnswer(302, headers=(("location", "/elsewhere"),))
    reply = await wire.get()
    assert (reply.status, reply.header("location")) == (302, "/elsewhere")
    assert len(wire.far.asked) == 1


async def test_cookies_of_one_answer_are_not_sent_with_the_next_request(wire: Wire) -> None:
    wire.far.next = SimulatedAnswer(200, headers=(("set-cookie", "token=secret; Path=/"),))
    await wire.get()
    await wire.get()
    assert "cookie" not in wire.far.asked[1].headers


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
async def test_an_unwelcome_status_is_a_reply_and_no_failure(wire: Wire, status: int) -> None:
    wire.far.next = SimulatedAnswer(status)
    assert (await wire.get()).status == status


@pytest.mark.parametrize("fault", [ConnectionFault.DROP, ConnectionFault.CUT])
async def test_a_connection_that_breaks_is_dropped(wire: Wire, fault: ConnectionFault) -> None:
    wire.far.next = SimulatedAnswer(200, b'{"whole": "body"}', fault=fault)
    assert (await wire.failing()).problem is TransportProblem.DROPPED


async def test_a_connection_that_is_refused_is_a_failure_of_the_network(wire: Wire) -> None:
    # The simulator's HTTP server has accepted the connection by then, so that it can only reset it.
    wire.far.next = SimulatedAnswer(0, fault=ConnectionFault.REFUSE)
    assert (await wire.failing()).problem in (TransportProblem.UNREACHABLE, TransportProblem.DROPPED)


async def test_a_request_is_put_on_the_wire_once_even_when_a_kept_connection_drops(wire: Wire) -> None:
    """aiohttp would send it again by itself, and nobody's budget would have counted that."""
    await wire.get()
    wire.far.next = SimulatedAnswer(200, fault=ConnectionFault.DROP)
    await wire.failing()
    assert len(wire.far.asked) == 2


async def test_a_server_that_hangs_is_given_up(wire: Wire) -> None:
    wire.far.next = SimulatedAnswer(200, fault=ConnectionFault.HANG)
    assert (await wire.failing()).problem is TransportProblem.TIMEOUT


async def test_an_answer_that_comes_too_late_is_given_up(wire: Wire) -> None:
    wire.far.next = SimulatedAnswer(200, delay=3 * READ_SECONDS)
    assert (await wire.failing()).problem is TransportProblem.TIMEOUT


async def test_an_answer_that_takes_its_time_is_waited_for(wire: Wire) -> None:
    wire.far.next = SimulatedAnswer(200, b"[]", delay=READ_SECONDS / 10)
    assert (await wire.get()).body == b"[]"


async def test_a_body_of_the_largest_size_is_read_and_one_byte_more_is_not(wire: Wire) -> None:
    wire.far.next = SimulatedAnswer(200, b"x" * LARGEST_BODY)
    assert len((await wire.get()).body) == LARGEST_BODY
    wire.far.next = SimulatedAnswer(200, b"x" * (LARGEST_BODY + 1))
    failed = await wire.failing()
    assert (failed.problem, failed.detail) == (TransportProblem.TOO_LARGE, "more than 1,000 bytes")


async def test_after_a_failure_the_next_request_works(wire: Wire) -> None:
    wire.far.next = SimulatedAnswer(200, b"x" * (LARGEST_BODY + 1))
    await wire.failing()
    wire.far.next = SimulatedAnswer(200, b"fine")
    assert (await wire.get()).body == b"fine"


@pytest.mark.parametrize("url", ["", "nowhere", "ftp://host/", "http:///path", "http://[::1/"])
async def test_an_address_that_is_none_is_unreachable(wire: Wire, url: str) -> None:
    with pytest.raises(TransportFailed) as failed:
        await wire.transport.get(url, {})
    assert failed.value.problem is TransportProblem.UNREACHABLE


async def test_both_transports_bring_the_same_answers_of_the_same_simulator() -> None:
    url = "/mustit-api/facade-api/v1/searchmini-shop-search?sellerId=seller_0001&pageNo=0&pageSize=5&order=LATEST"
    bodies = []
    async with serve(Simulator(seed=7).answer) as server, HttpTransport() as over_http:
        in_process = SimulatedTransport(Simulator(seed=7), StoppedClock())
        for transport, base in ((over_http, server.url), (in_process, "http://simulator.test")):
            session = await transport.get(f"{base}/", {"User-Agent": "ua"})
            cookies = dict(v.partition(";")[0].split("=", 1) for n, v in session.headers if n == "set-cookie")
            # mustit_uid holds the time of its making, which is the one thing that differs
            headers = {
                "User-Agent": "ua",
                "Authorization": f"Bearer {cookies['token']}",
                "Cookie": f"nid={cookies['nid']}; mustit_uid={cookies['mustit_uid']}",
            }
            bodies.append((await transport.get(base + url, headers)).body)
    assert bodies[0] == bodies[1]
    assert b'"count":100' in bodies[0]
