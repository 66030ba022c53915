"""A service under attack while it crawls: its memory is bounded, health answers all the while, and nothing is lost.

One service for all attacks: what costs CPU seconds here is mostly its start and its two crawls.
"""

from __future__ import annotations

import asyncio
import re
import signal
from collections import Counter
from pathlib import Path

from tests.faults.attacks import ATTACKS, Attacker, BombingMarketplace
from tests.faults.processes import Program, SimulatorProcess, count, is_settled, register_at
from tests.journeys.test_api import address_of
from tests.waiting import until

SELLER = "seller_0001"
#: Megabytes that a service may grow by in its first crawl, beside bombs of 100 each (it was 100), and afterwards under
#: all attacks of its API (it was 9).
MOST_OF_CRAWL, MOST_GROWTH = 250, 60
TOO_LARGE = "SELECT COUNT(*) FROM crawler_tasks WHERE status = 'FAILED' AND failure_code = 'ANSWER_TOO_LARGE'"
UNFINISHED = "SELECT COUNT(*) FROM crawler_tasks WHERE status NOT IN ('COMPLETED', 'FAILED')"
RUNS = "SELECT COUNT(*) FROM crawling_schedule_executions WHERE status NOT IN ('PENDING', 'RUNNING')"


def megabytes(process: int, line: str) -> int:
    """VmRSS is what a process has, VmHWM the most it had."""
    found = re.search(rf"{line}:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    assert found is not None
    return int(found[1]) // 1024


async def test_a_service_under_attack_crawls_on_and_answers_health(tmp_path: Path, database_file: Path) -> None:
    with SimulatorProcess(tmp_path, "--detail-kb", "1", "--products", "60", "--sellers", "1") as simulator:
        market = BombingMarketplace(simulator.marketplace)
        async with market.open() as url:
            settings = simulator.settings(
                database_file, MARKETPLACE_URL=url, API_CONNECTIONS=100, API_REQUESTS_PER_MINUTE=100_000
            )
            with Program(tmp_path, "serve", **settings) as service:
                address = await asyncio.to_thread(address_of, service)
                start = megabytes(service.process.pid, "VmRSS")
                await crawl(database_file, 1, new=True)
                assert len(market.bombed) == count(database_file, TOO_LARGE) == 6
                assert count(database_file, UNFINISHED) == 0
                before = megabytes(service.process.pid, "VmHWM")
                assert before - start < MOST_OF_CRAWL
                market.is_bombing = False
                _, said = await asyncio.gather(crawl(database_file, 2, new=False), attack(address))
                assert set(said) == {"HTTP/1.1 200 OK"}
                assert megabytes(service.process.pid, "VmHWM") - before < MOST_GROWTH
                await until(lambda: is_settled(database_file, 2), "what the bombs held back is read and delivered")
                await asyncio.to_thread(simulator.check)
                assert await asyncio.to_thread(service.end, signal.SIGTERM) == 0
                assert "Traceback" not in service.complained


async def crawl(database: Path, runs: int, *, new: bool) -> None:
    await asyncio.to_thread(register_at, f"sqlite:///{database}", SELLER, new=new)
    await until(lambda: count(database, RUNS) == runs, f"{runs} runs are over")


async def attack(address: str) -> Counter[str]:
    """Make every attack, ask for health meanwhile, and return the answers."""
    attacker, monitor, said = Attacker(address), Attacker(address), Counter[str]()
    for each in ATTACKS.values():
        attacking = asyncio.create_task(each(attacker))
        said[await monitor.health()] += 1
        await attacking
        said[await monitor.health()] += 1
        await attacker.leave()
    return said
