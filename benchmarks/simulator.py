"""How fast the simulator answers over real HTTP, so that it is known not to be the bottleneck of other benchmarks.

    python benchmarks/simulator.py [--requests 60000] [--connections 32] [--products 2000] [--detail-kb 4]

One server process pinned to the first core, one lean client (this process) on the last; half details, half options, all
authorised, the limits raised. Prints requests a second, and the server's CPU seconds per 1,000 requests.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import resource
import time
from functools import partial
from multiprocessing.connection import Connection
from typing import cast

import uvloop

from sellerwatch.simulator.http import serve
from sellerwatch.simulator.marketplace import DETAIL_PREFIX, DETAIL_SUFFIX, OPTIONS_PREFIX, OPTIONS_SUFFIX
from sellerwatch.simulator.simulator import Simulator

AGENT = "benchmark/1.0"
RAISED = 1_000_000_000


def server(pipe: Connection, core: int, products: int, detail_kb: int, warm: bool) -> None:
    """Serve until told to stop, then say how much CPU that took."""
    os.sched_setaffinity(0, {core})
    simulator = Simulator(
        sellers=1, products=products, detail_kb=detail_kb, window_limit=RAISED, requests_per_second=None
    )
    if warm:
        simulator.marketplace.warm()

    async def run() -> None:
        async with serve(simulator.answer) as listening:
            pipe.send((listening.port, list(simulator.world.listing("seller_0001"))))
            began = time.process_time()
            await asyncio.get_running_loop().run_in_executor(None, pipe.recv)
            peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            pipe.send((time.process_time() - began, peak_mb))

    uvloop.run(run())


class Client(asyncio.Protocol):
    """One keep-alive connection that sends the next request when the last one is answered."""

    def __init__(self, requests: list[bytes], done: asyncio.Future[None]) -> None:
        self._requests = requests
        self._done = done
        self._missing = 0
        self.answered = 0
        self.bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._send()

    def _send(self) -> None:
        if self._requests:
            self._transport.write(self._requests.pop())
        elif not self._done.done():
            self._done.set_result(None)

    def data_received(self, data: bytes) -> None:
        self.bytes += len(data)
        if not self._missing:
            head, _, body = data.partition(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200"):
                self._done.set_exception(RuntimeError(data.decode(errors="replace")[:300]))
                return
            length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
            self._missing = length - len(body)
        else:
            self._missing -= len(data)
        if not self._missing:
            self.answered += 1
            self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._done.done():
            self._done.set_exception(exc or ConnectionError("the server hung up"))


async def session(port: int) -> bytes:
    """The headers of an authorised request."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET / HTTP/1.1\r\nhost: x\r\nuser-agent: {AGENT}\r\nconnection: close\r\n\r\n".encode())
    head = (await reader.read()).decode().partition("\r\n\r\n")[0]
    writer.close()
    lines = [line.partition(": ")[2] for line in head.split("\r\n") if line.startswith("set-cookie")]
    cookies = dict(line.partition(";")[0].split("=", 1) for line in lines)
    cookie = f"nid={cookies['nid']}; mustit_uid={cookies['mustit_uid']}"
    wanted = f"user-agent: {AGENT}\r\nauthorization: Bearer {cookies['token']}\r\ncookie: {cookie}\r\n"
    return f"host: 127.0.0.1\r\naccept: */*\r\naccept-encoding: gzip, deflate\r\n{wanted}\r\n".encode()


async def measure(port: int, items: list[int], number: int, connections: int) -> dict[str, float]:
    loop = asyncio.get_running_loop()
    headers = await session(port)
    requests = []
    for at in range(number):
        item_no = items[at // 2 % len(items)]
        detail, options = f"{DETAIL_PREFIX}{item_no}{DETAIL_SUFFIX}", f"{OPTIONS_PREFIX}{item_no}{OPTIONS_SUFFIX}"
        requests.append(f"GET {options if at % 2 else detail} HTTP/1.1\r\n".encode() + headers)
    requests.reverse()
    done: list[asyncio.Future[None]] = [loop.create_future() for _ in range(connections)]
    began = time.perf_counter()
    made = [await loop.create_connection(partial(Client, requests, end), "127.0.0.1", port) for end in done]
    await asyncio.gather(*done)
    seconds = time.perf_counter() - began
    clients = [client for _, client in made]
    answered = sum(client.answered for client in clients)
    return {"requests": answered, "req/s": answered / seconds, "MB/s": sum(c.bytes for c in clients) / seconds / 1e6}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--requests", type=int, default=60_000)
    options.add_argument("--connections", type=int, default=32)
    options.add_argument("--products", type=int, default=2_000)
    options.add_argument("--detail-kb", type=int, default=4)
    options.add_argument("--cold", action="store_true", help="do not render the products before measuring")
    given = options.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    arguments = (theirs, cores[0], given.products, given.detail_kb, not given.cold)
    process = multiprocessing.get_context("spawn").Process(target=server, args=arguments)
    process.start()
    try:
        os.sched_setaffinity(0, {cores[-1]})
        port, items = ours.recv()
        result = uvloop.run(measure(port, items, given.requests, given.connections))
        ours.send("stop")
        cpu, peak_mb = ours.recv()
        process.join()
    finally:
        process.kill()
    result |= {"server CPU s/1k": cpu / given.requests * 1000, "server peak MB": peak_mb}
    print(json.dumps({name: round(value, 3) for name, value in result.items()}))


if __name__ == "__main__":
    main()
