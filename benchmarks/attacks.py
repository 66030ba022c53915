"""A crawl beside attacks: its speed and CPU alone and beside each, and how long health takes meanwhile.

    python -m benchmarks.attacks [--products 1500]

The service crawls and serves its API in one process on the second core; the simulator and the attacker are on the
first. The attacker makes one attack again and again (`tests/faults/attacks.py`) until the crawl is over. The crawl's
share is what its tasks cost alone, of all the CPU that was spent beside the attack. Health is asked ten times a second.
Every task of every crawl is counted. Trust CPU and ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.api import pin, simulator
from benchmarks.contest import ROOT, say, show
from tests.faults.attacks import ATTACKS, Attack, Attacker, BombingMarketplace

ALONE, FRONT, BOMBS = "alone", "alone, behind a front", "decompression floods"
HEALTHY = "HTTP/1.1 200 OK"


@dataclass(frozen=True)
class Measured:
    """One crawl, and what was done beside it."""

    beside: str
    tasks: int
    seconds: float
    cpu: float
    #: Requests of the attacker, or details that were bombs.
    attacks: int
    health_ms: float
    health_worst_ms: float
    unhealthy: int

    @property
    def rate(self) -> float:
        return self.tasks / self.seconds


async def monitored(monitor: Attacker, over: asyncio.Event) -> tuple[list[float], int]:
    """How many milliseconds each answer took, and how many were not what they should be."""
    spent, unhealthy = [], 0
    while not over.is_set():
        began = time.perf_counter()
        unhealthy += await monitor.health() != HEALTHY
        spent.append(1000 * (time.perf_counter() - began))
        with suppress(TimeoutError):
            await asyncio.wait_for(over.wait(), 0.1)
    return spent, unhealthy


async def attacked(attack: Attack | None, attacker: Attacker, over: asyncio.Event) -> None:
    while attack is not None and not over.is_set():
        await attack(attacker)
        await attacker.leave()


async def crawl_beside(name: str, url: str, database: Path, attack: Attack | None) -> Measured:
    async with AsyncExitStack() as stack:
        market = None
        if name in (FRONT, BOMBS):
            market = BombingMarketplace(url)
            market.is_bombing = name == BOMBS
            url = await stack.enter_async_context(market.open())
        command = [sys.executable, str(ROOT / "benchmarks/api.py"), "--served", url, "--database", str(database)]
        process = await asyncio.create_subprocess_exec(
            *command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=lambda: pin(1)
        )
        assert process.stdin is not None
        assert process.stdout is not None
        address, _ = json.loads(await process.stdout.readline())
        over, attacker = asyncio.Event(), Attacker(address)
        attacking = asyncio.create_task(attacked(attack, attacker, over))
        watching = asyncio.create_task(monitored(Attacker(address), over))
        process.stdin.write(b"go\n")
        tasks, seconds, cpu = json.loads(await process.stdout.readline())
        over.set()
        await attacking
        spent, unhealthy = await watching
        process.stdin.write(b"stop\n")
        await process.stdin.drain()
        await process.wait()
    bombed = len(market.bombed) if market else 0
    return Measured(
        *(name, tasks + bombed, seconds, cpu, attacker.sent + bombed),
        *(statistics.median(spent), max(spent), unhealthy),
    )


async def measure(products: int) -> list[Measured]:
    found = []
    turns: dict[str, Attack | None] = {ALONE: None, **ATTACKS, FRONT: None, BOMBS: None}
    with tempfile.TemporaryDirectory() as folder, simulator(products) as url:
        for number, (name, attack) in enumerate(turns.items()):
            say(f"a crawl: {name} ...")
            found.append(await crawl_beside(name, url, Path(folder) / f"{number}.db", attack))
    return found


def rows(found: list[Measured]) -> list[list[str]]:
    shown = []
    for each in found:
        alone = next(one for one in found if one.beside == (FRONT if each.beside == BOMBS else ALONE))
        share = 100 * each.tasks * alone.cpu / alone.tasks / each.cpu
        shown.append(
            [
                *(each.beside, f"{each.rate:,.0f}", f"{1000 * each.cpu / each.tasks:.3f}", f"{share:.0f} %"),
                *(f"{each.attacks:,}", f"{each.health_ms:.1f}", f"{each.health_worst_ms:.0f}"),
            ]
        )
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--products", type=int, default=1_500)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    pin(0)
    found = asyncio.run(measure(args.products))
    if args.json:
        print(json.dumps([asdict(each) for each in found]))
    else:
        columns = ["beside", "tasks/s", "CPU s / 1,000", "share", "attacks", "health ms", "worst ms"]
        show("a crawl beside attacks", columns, rows(found))
    if len({each.tasks for each in found}) > 1 or any(each.unhealthy for each in found):
        raise SystemExit("tasks are missing or health did not answer: the figures above are worth nothing")


if __name__ == "__main__":
    main()
