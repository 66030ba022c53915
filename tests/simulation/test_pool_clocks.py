"""Restarts, set clocks, second processes, restored copies: by the marketplace's own count nobody ever goes over.

The database is a file, as in a small installation; the whole service runs on virtual time.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from tests.builders import LATER
from tests.simulated_service import settings_of, simulator_of
from tests.simulation.service_world import ServiceWorld

from sellerwatch.adapters.permit_marker import PermitMarkerFile
from sellerwatch.adapters.sql.engine import make_engine
from sellerwatch.adapters.sql.store import InlineRunner, SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.kernel.virtual_time import VirtualClock, VirtualLoop, run_virtually
from sellerwatch.service.service import Service
from sellerwatch.settings.model import Settings

WINDOW = 60.0
LIMIT = 10
AGENTS = 3


def the_settings(path: Path) -> Settings:
    return settings_of(
        DATABASE_URL=f"sqlite:///{path}",
        WINDOW_LIMIT=LIMIT,
        WINDOW_SECONDS=WINDOW,
        REQUESTS_PER_SECOND=2,
        TENDING_INTERVAL_SECONDS=10,
    )


def play_on_file(path: Path, story: Callable[[ServiceWorld], Awaitable[None]], products: int = 24) -> None:
    """As `play`, on a database in a file, whose permits have a mark beside it."""
    loop, settings = VirtualLoop(LATER), the_settings(path)
    simulator = simulator_of(settings, seed=1, sellers=1, products=products)

    async def told() -> None:
        await story(ServiceWorld(loop, settings, simulator, open_file(path, loop)))

    run_virtually(told(), loop=loop)


def open_file(path: Path, loop: VirtualLoop) -> SqlStore:
    return SqlStore(make_engine(f"sqlite:///{path}"), VirtualClock(loop), InlineRunner(), InlineRunner(), rehearse=True)


@asynccontextmanager
async def process(world: ServiceWorld, *, kill: bool = False) -> AsyncIterator[Service]:
    """A process with its own connection to the file. Killed: whatever it held in memory is gone, nothing is tidied."""
    path = Path(world.settings.database_url.removeprefix("sqlite:///"))
    store, bystanders = open_file(path, world.loop), asyncio.all_tasks()
    async with world.service(store=store) as service:
        running = asyncio.create_task(service.run())
        try:
            yield service
        finally:
            if kill:
                store.close()
                service.crawl.store._engine = make_engine("sqlite://")  # type: ignore[attr-defined]
                dying = asyncio.all_tasks() - bystanders
                for task in dying:
                    task.cancel()
                await asyncio.gather(*dying, return_exceptions=True)
            else:
                service.stop.set()
                await running
                store.close()


def full_until(tx: Transaction) -> Any:
    return tx.db.value("SELECT MAX(full_until_us) FROM rate_limit_bucket")


def most(world: ServiceWorld) -> int:
    found = world.simulator.marketplace.stats()
    assert (found["over_budget"], found["over_rate"], found["ignored_retry_after"]) == (0, 0, 0)
    return int(found["most_in_a_window"])


def made(world: ServiceWorld) -> int:
    return sum(n for what, n in world.simulator.marketplace.stats()["requests"].items() if what in DATA)


DATA = ("list", "detail", "options")


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_a_restart_in_mid_window_goes_on_with_what_is_left(database_file: Path, kill: bool) -> None:
    async def story(world: ServiceWorld) -> None:
        await world.leave_agents(AGENTS)
        (seller_id,) = await world.register_all()
        async with process(world, kill=kill) as service:
            await world.start(service, seller_id)
            await world.clock.sleep(2)
        before = made(world)
        assert 0 < before < AGENTS * LIMIT
        for _ in range(3):
            async with process(world, kill=kill):
                await world.clock.sleep(WINDOW / 8)
        assert before < made(world) <= AGENTS * LIMIT, "all within one window"
        async with process(world) as service:
            await world.settle(service)
        assert most(world) <= LIMIT
        assert world.simulator.compare() == []
        await world.check_books()

    play_on_file(database_file, story)


@pytest.mark.parametrize("seconds", [-7200.0, -3600.0, 3600.0, 7200.0])
def test_a_clock_that_is_set_by_an_hour_opens_no_window(database_file: Path, seconds: float) -> None:
    async def story(world: ServiceWorld) -> None:
        await world.leave_agents(AGENTS)
        (seller_id,) = await world.register_all()
        async with process(world) as service:
            await world.start(service, seller_id)
            await world.clock.sleep(20)
            assert made(world) == AGENTS * LIMIT, "every window is full"
            world.loop.jump(seconds)
            await world.clock.sleep(15)
            assert made(world) == AGENTS * LIMIT
        async with process(world) as service:
            await world.clock.sleep(15)
            assert made(world) == AGENTS * LIMIT, "nor does a process that starts then"
            world.loop.jump(-seconds)
            await world.settle(service)
        assert most(world) <= LIMIT
        assert world.simulator.compare() == []

    play_on_file(database_file, story)


def test_a_second_process_beside_the_first_shares_its_budget(database_file: Path) -> None:
    async def story(world: ServiceWorld) -> None:
        await world.leave_agents(AGENTS)
        (seller_id,) = await world.register_all()
        async with process(world) as service, process(world) as other:
            await world.start(service, seller_id)
            await world.settle(service)
            assert service.progress.completed > 0
            assert other.progress.completed > 0
        assert most(world) == LIMIT
        assert world.simulator.compare() == []
        await world.check_books()

    play_on_file(database_file, story)


def test_a_database_restored_from_an_older_copy_waits_out_one_window_and_says_so(
    database_file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    copy = tmp_path / "copy.db"

    async def story(world: ServiceWorld) -> None:
        await world.leave_agents(AGENTS)
        (seller_id,) = await world.register_all()
        async with process(world) as service:
            await world.start(service, seller_id)
            await world.clock.sleep(1)
        world.store.close()
        early = made(world)
        shutil.copyfile(database_file, copy)
        async with process(world):
            await world.clock.sleep(20)
        assert made(world) == AGENTS * LIMIT
        shutil.copyfile(copy, database_file)
        restored = world.loop.time()
        async with process(world) as service:
            full = await cast("SqlStore", service.crawl.store).read(full_until)
            assert full is None, "it has not looked yet"
            await world.clock.sleep(0.5)
            full = await cast("SqlStore", service.crawl.store).read(full_until)
            assert full is not None
            assert full == pytest.approx((service.crawl.clock.monotonic() - 0.5 + WINDOW) * 1e6, abs=1e5)
            await world.clock.sleep(WINDOW - 2)
            assert made(world) == AGENTS * LIMIT, "nothing before the window is out"
        async with process(world) as service:
            await world.until(lambda: _more(world, AGENTS * LIMIT))
            assert world.loop.time() >= restored + WINDOW
            await world.settle(service)
        assert early < AGENTS * LIMIT
        assert most(world) <= LIMIT
        assert world.simulator.compare() == []

    play_on_file(database_file, story)
    told = [record.message for record in caplog.records if "restored from an older copy" in record.message]
    assert len(told) == 1, "said once"


async def _more(world: ServiceWorld, number: int) -> bool:
    return made(world) > number


def test_the_mark_beside_the_database_is_the_highest_permit_ever_given_out(database_file: Path) -> None:
    async def story(world: ServiceWorld) -> None:
        await world.leave_agents(AGENTS)
        (seller_id,) = await world.register_all()
        mark = PermitMarkerFile(database_file)
        async with process(world) as service:
            await world.start(service, seller_id)
            assert mark.read() >= 1, "the question for the total is a request too"
            await world.clock.sleep(15)
            highest = await world.store.read(lambda tx: tx.windows.highest())
            visits = world.simulator.marketplace.stats()["tokens_issued"]
            assert mark.read() == highest == made(world) + visits
        world.store.close()

    play_on_file(database_file, story)
