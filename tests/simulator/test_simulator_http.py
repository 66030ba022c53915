"""The simulator over real HTTP on loopback."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import orjson
import pytest
from tests.simulator.visiting import AGENT, detail_path, event, open_simulator, posted

from sellerwatch.simulator.http import MAX_BODY_BYTES, SimulatorServer, serve
from sellerwatch.simulator.simulator import EVENTS_PATH
from sellerwatch.simulator.wire import ConnectionFault, Handler, SimulatedAnswer, SimulatedRequest

GET = b"GET /x HTTP/1.1\r\nhost: x\r\n\r\n"


@dataclass
class Connection:
    """A raw connection, so that the tests see what is really on the wire."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ask(self, request: bytes) -> tuple[int, dict[str, str], bytes]:
        self.writer.write(request)
        return await self.answer()

    async def answer(self, with_body: bool = True) -> tuple[int, dict[str, str], bytes]:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        line, *rest = head.strip().split("\r\n")
        headers = dict(each.split(": ", 1) for each in rest)
        body = await self.reader.readexactly(int(headers["content-length"])) if with_body else b""
        return int(line.split()[1]), headers, body


@asynccontextmanager
async def connected(server: SimulatorServer) -> AsyncIterator[Connection]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        yield Connection(reader, writer)
    finally:
        writer.close()


def always(answer: SimulatedAnswer) -> Handler:
    return lambda request, now: answer


def echo(request: SimulatedRequest, now: float) -> SimulatedAnswer:
    said = [request.method, request.path, dict(request.query), request.headers.get("x-y"), request.body.decode()]
    return SimulatedAnswer(200, orjson.dumps(said))


@pytest.mark.asyncio
async def test_a_request_arrives_as_it_was_sent() -> None:
    async with serve(echo) as server, connected(server) as connection:
        request = b"POST /a%20b?c=%ED%95%9C&d= HTTP/1.1\r\nHost: x\r\nX-Y: Z\r\nContent-Length: 4\r\n\r\nbody"
        status, headers, body = await connection.ask(request)
    assert status == 200
    assert headers["content-type"] == "application/json; charset=utf-8"
    assert orjson.loads(body) == ["POST", "/a b", {"c": "한", "d": ""}, "Z", "body"]


@pytest.mark.asyncio
async def test_a_chunked_body_is_put_together() -> None:
    async with serve(echo) as server, connected(server) as connection:
        request = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"
        assert orjson.loads((await connection.ask(request))[2])[4] == "abc"


@pytest.mark.asyncio
async def test_a_connection_is_kept_alive() -> None:
    async with serve(echo) as server, connected(server) as connection:
        assert [(await connection.ask(GET))[0] for _ in range(5)] == [200] * 5


@pytest.mark.asyncio
async def test_a_client_that_wants_to_close_is_obeyed() -> None:
    async with serve(echo) as server, connected(server) as connection:
        _, headers, _ = await connection.ask(GET.replace(b"host: x", b"connection: close"))
        assert headers["connection"] == "close"
        assert await connection.reader.read() == b""


@pytest.mark.asyncio
async def test_requests_sent_together_are_answered_in_their_order() -> None:
    def slower_first(request: SimulatedRequest, now: float) -> SimulatedAnswer:
        return SimulatedAnswer(200, request.path.encode(), delay=0.02 if request.path == "/x" else 0)

    async with serve(slower_first) as server, connected(server) as connection:
        connection.writer.write(GET + GET.replace(b"/x", b"/y") * 100)
        bodies = [(await connection.answer())[2] for _ in range(101)]
    assert bodies == [b"/x"] + [b"/y"] * 100


@pytest.mark.asyncio
async def test_a_client_that_does_not_read_gets_everything_when_it_does() -> None:
    big = bytes(1_000_000)
    async with serve(always(SimulatedAnswer(200, big))) as server, connected(server) as connection:
        connection.writer.write(GET * 20)
        await asyncio.sleep(0.05)
        assert [len((await connection.answer())[2]) for _ in range(20)] == [len(big)] * 20


@pytest.mark.asyncio
async def test_a_dropped_connection_answers_nothing() -> None:
    async with serve(always(SimulatedAnswer(0, fault=ConnectionFault.DROP))) as server, connected(server) as connection:
        connection.writer.write(GET)
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await connection.reader.readexactly(1)


@pytest.mark.asyncio
async def test_a_cut_body_is_announced_whole_and_sent_half() -> None:
    async with (
        serve(always(SimulatedAnswer(200, bytes(1000), fault=ConnectionFault.CUT))) as server,
        connected(server) as connection,
    ):
        connection.writer.write(GET)
        head, _, body = (await connection.reader.read()).partition(b"\r\n\r\n")
    assert b"content-length: 1000" in head
    assert len(body) == 500


@pytest.mark.asyncio
async def test_a_hanging_server_answers_nothing_until_the_client_gives_up() -> None:
    async with serve(always(SimulatedAnswer(0, fault=ConnectionFault.HANG))) as server, connected(server) as connection:
        connection.writer.write(GET)
        reading = asyncio.create_task(connection.reader.read(1))
        assert await asyncio.wait([reading], timeout=0.05) == (set(), {reading})
        reading.cancel()


@pytest.mark.asyncio
async def test_a_delayed_answer_comes_after_its_delay() -> None:
    loop = asyncio.get_running_loop()
    async with serve(always(SimulatedAnswer(200, delay=0.05))) as server, connected(server) as connection:
        began = loop.time()
        await connection.ask(GET)
        assert loop.time() - began >= 0.049


@pytest.mark.asyncio
async def test_a_used_port_raises_an_os_error() -> None:
    async with serve(echo) as server:
        with pytest.raises(OSError, match="address already in use"):
            async with serve(echo, port=server.port):
                pass


@pytest.mark.asyncio
async def test_a_closed_server_frees_its_port_and_drops_its_clients() -> None:
    async with serve(always(SimulatedAnswer(200, delay=60))) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(GET)
        await writer.drain()
    with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
        await reader.readexactly(1)
    writer.close()
    async with serve(echo, port=server.port) as again:
        assert again.url == f"http://127.0.0.1:{server.port}"


@pytest.mark.asyncio
async def test_an_oversized_body_is_refused_with_413() -> None:
    async with serve(echo) as server, connected(server) as connection:
        connection.writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % (MAX_BODY_BYTES + 1))
        block = bytes(1024 * 1024)
        for _ in range(MAX_BODY_BYTES // len(block)):
            connection.writer.write(block)
            await connection.writer.drain()
        connection.writer.write(b"x")
        assert (await connection.answer())[0] == 413


@pytest.mark.asyncio
async def test_an_oversized_head_is_refused_with_431() -> None:
    async with serve(echo) as server, connected(server) as connection:
        assert (await connection.ask(b"GET / HTTP/1.1\r\nx: " + b"y" * 70_000 + b"\r\n\r\n"))[0] == 431


@pytest.mark.asyncio
async def test_what_is_not_http_is_refused_and_hung_up_on() -> None:
    async with serve(echo) as server, connected(server) as connection:
        assert (await connection.ask(b"rubbish\r\n\r\n"))[0] == 400
        assert await connection.reader.read() == b""


@pytest.mark.asyncio
async def test_an_upgrade_is_not_taken_up_and_the_request_answered_once() -> None:
    async with serve(echo) as server, connected(server) as connection:
        upgrade = GET.replace(b"host: x", b"connection: upgrade\r\nupgrade: websocket")
        assert (await connection.ask(upgrade))[0] == 200
        assert await connection.reader.read() == b""


@pytest.mark.asyncio
async def test_a_head_request_is_answered_without_the_body() -> None:
    async with serve(always(SimulatedAnswer(200, b"12345"))) as server, connected(server) as connection:
        connection.writer.write(GET.replace(b"GET", b"HEAD"))
        status, headers, _ = await connection.answer(with_body=False)
        assert (status, headers["content-length"]) == (200, "5")
        assert (await connection.ask(GET))[2] == b"12345"


@pytest.mark.asyncio
async def test_expect_100_continue_is_answered_before_the_body() -> None:
    async with serve(echo) as server, connected(server) as connection:
        connection.writer.write(b"POST / HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n")
        assert b"100 Continue" in await connection.reader.readuntil(b"\r\n\r\n")
        assert orjson.loads((await connection.ask(b"ab"))[2])[4] == "ab"


@pytest.mark.asyncio
async def test_a_failure_of_the_simulator_itself_is_reported_and_answered_500() -> None:
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context["exception"]))

    def failing(request: SimulatedRequest, now: float) -> SimulatedAnswer:
        raise ZeroDivisionError

    async with serve(failing) as server, connected(server) as connection:
        assert (await connection.ask(GET))[0] == 500
    assert [type(error) for error in reported] == [ZeroDivisionError]


@pytest.mark.asyncio
async def test_the_time_told_is_unix_time_and_never_goes_back() -> None:
    times: list[float] = []

    def noting(request: SimulatedRequest, now: float) -> SimulatedAnswer:
        times.append(now)
        return SimulatedAnswer(200)

    async with serve(noting) as server, connected(server) as connection:
        for _ in range(3):
            await connection.ask(GET)
    assert times == sorted(times)
    assert times[0] > 1_700_000_000


@pytest.mark.asyncio
async def test_the_whole_simulator_is_at_one_address() -> None:
    simulator = open_simulator()
    truth = simulator.world.truth(900_000_001)
    assert truth is not None
    async with serve(simulator.answer) as server, connected(server) as connection:
        home = f"GET / HTTP/1.1\r\nuser-agent: {AGENT}\r\n\r\n".encode()
        connection.writer.write(home)
        head = (await connection.reader.readuntil(b"\r\n\r\n")).decode()
        length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
        await connection.reader.readexactly(length)
        assert head.count("set-cookie: ") == 3
        assert (await connection.ask(f"GET {detail_path(900_000_001)} HTTP/1.1\r\n\r\n".encode()))[0] == 401
        delivery = posted(event("CREATED", truth))
        headers = "".join(f"{name}: {value}\r\n" for name, value in delivery.headers.items())
        start = f"POST {EVENTS_PATH} HTTP/1.1\r\n{headers}content-length: {len(delivery.body)}\r\n\r\n"
        assert (await connection.ask(start.encode() + delivery.body))[0] == 200
        status, _, body = await connection.ask(b"GET /__simulator__/stats HTTP/1.1\r\n\r\n")
        assert status == 200
        assert orjson.loads(body)["productServer"]["products"] == 1
