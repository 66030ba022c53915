"""`sellerwatch simulator`: the practice marketplace and product server, alone in a process."""

from __future__ import annotations

import asyncio
import errno
import signal
from dataclasses import dataclass
from typing import Annotated

import typer
import uvloop

from sellerwatch.cli.output import err, print_facts, print_json
from sellerwatch.cli.texts import Texts
from sellerwatch.kernel.errors import Failed, Invalid
from sellerwatch.simulator.chaos import PROFILES
from sellerwatch.simulator.http import SimulatorServer, serve
from sellerwatch.simulator.simulator import EVENTS_PATH, Simulator


@dataclass(eq=False)
class PortInUse(Failed):
    host: str
    port: int


@dataclass(eq=False)
class AddressUnusable(Failed):
    host: str
    port: int
    problem: str


@dataclass(eq=False)
class UnknownProfile(Invalid):
    given: str
    known: tuple[str, ...]


def simulator(
    host: str = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 9000,
    sellers: Annotated[int, typer.Option(min=1)] = 3,
    products: Annotated[int, typer.Option(min=0)] = 100,
    seed: str = "0",
    profile: str = "calm",
    latency_ms: Annotated[float | None, typer.Option(min=0)] = None,
    detail_kb: Annotated[int | None, typer.Option(min=1)] = None,
    random_text: Annotated[bool, typer.Option("--random-text")] = False,
    window_limit: Annotated[int, typer.Option(min=1)] = 80,
    window_seconds: Annotated[float, typer.Option(min=0.001)] = 3600,
    requests_per_second: Annotated[float, typer.Option(min=0)] = 1,
    steady: Annotated[bool, typer.Option("--steady")] = False,
    secret: str | None = None,
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> None:
    """Examples:

    sellerwatch simulator --port 9000 --sellers 3 --products 1000
    sellerwatch simulator --profile hostile --latency-ms 20 --seed 7
    """
    if profile not in PROFILES:
        raise UnknownProfile(given=profile, known=tuple(PROFILES))
    world = Simulator(
        seed=seed,
        sellers=sellers,
        products=products,
        profile=profile,
        latency_ms=latency_ms,
        detail_kb=detail_kb,
        random_text=random_text,
        volatile=not steady,
        window_limit=window_limit,
        window_seconds=window_seconds,
        requests_per_second=requests_per_second or None,
        secret=secret,
    )

    def announce(server: SimulatorServer) -> None:
        facts = {
            "marketplace": server.url,
            "product_server": server.url + EVENTS_PATH,
            "control": f"{server.url}/__simulator__/stats",
            "sellers": sellers,
            "products": sellers * products,
            "profile": profile,
        }
        if as_json:
            print_json(facts)
        else:
            text = Texts("cli_demo")
            print_facts((text(f"simulator.{name}"), value) for name, value in facts.items())
            err.print(text("simulator.end"), style="dim")

    async def run() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        async with serve(world.answer, host, port) as server:
            announce(server)
            await stop.wait()

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run())
    except OSError as error:
        raise listening_problem(error, host, port) from None


def listening_problem(error: OSError, host: str, port: int) -> Failed:
    """Return why a server cannot listen."""
    if error.errno == errno.EADDRINUSE:
        return PortInUse(host=host, port=port)
    return AddressUnusable(host=host, port=port, problem=error.strerror or str(error))
