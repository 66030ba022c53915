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
async def process(stage: ServiceWorld, *, kill: bool = False) -> AsyncIterator[Service]:
    """A process with its own connection to the file. Killed: whatever it held in memory is gone, nothing is tidied."""
    path = Path(stage.settings.database_url.removeprefix("sqlite:///"))
    store, bystanders = open_file(path, stage.loop), asyncio.all_tasks()
    async with stage.service(store=store) as service:
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


def most(stage: ServiceWorld) -> int:
    found = stage.simulator.marketplace.stats()
    assert (found["over_budget"], found["over_rate"], found["ignored_retry_after"]) == (0, 0, 0)
    return int(found["most_in_a_window"])


def made(stage: ServiceWorld) -> int:
    return sum(n for what, n in stage.simulator.marketplace.stats()["requests"].items() if what in DATA)


DATA = ("list", "detail", "options")


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_a_restart_in_mid_window_goes_on_with_what_is_left(database_file: Path, kill: bool) -> None:
    async def story(stage: ServiceWorld) -> None:
        await stage.leave_agents(AGENTS)
        (seller_id,) = await stage.register_all()
        async with process(stage, kill=kill) as service:
            await stage.start(service, seller_id)
            await stage.clock.sleep(2)
        before = made(stage)
        assert 0 < before < AGENTS * LIMIT
        for _ in range(3):
            async with process(stage, kill=kill):
                await stage.clock.sleep(WINDOW / 8)
        assert before < made(stage) <= AGENTS * LIMIT, "all within one window"
        async with process(stage) as service:
            await stage.settle(service)
        assert most(stage) <= LIMIT
        assert stage.simulator.compare() == []
        await stage.check_books()

    play_on_file(database_file, story)


@pytest.mark.parametrize("seconds", [-7200.0, -3600.0, 3600.0, 7200.0])
def test_a_clock_that_is_set_by_an_hour_opens_no_window(database_file: Path, seconds: float) -> None:
    async def story(stage: ServiceWorld) -> None:
        await stage.leave_agents(AGENTS)
        (seller_id,) = await stage.register_all()
        async with process(stage) as service:
            await stage.start(service, seller_id)
            await stage.clock.sleep(20)
            assert made(stage) == AGENTS * LIMIT, "every window is full"
            stage.loop.jump(seconds)
            await stage.clock.sleep(15)
            assert made(stage) == AGENTS * LIMIT
        async with process(stage) as service:
            await stage.clock.sleep(15)
            assert made(stage) == AGENTS * LIMIT, "nor does a process that starts then"
            stage.loop.jump(-seconds)
            await stage.settle(service)
        assert most(stage) <= LIMIT
        assert stage.simulator.compare() == []

    play_on_file(database_file, story)


def test_a_second_process_beside_the_first_shares_its_budget(database_file: Path) -> None:
    async def story(stage: ServiceWorld) -> None:
        await stage.leave_agents(AGENTS)
        (seller_id,) = await stage.register_all()
        async with process(stage) as service, process(stage) as other:
            await stage.start(service, seller_id)
            await stage.settle(service)
            assert service.progress.completed > 0
            assert other.progress.completed > 0
        assert most(stage) == LIMIT
        assert stage.simulator.compare() == []
        await stage.check_books()

    play_on_file(database_file, story)


def test_a_database_restored_from_an_older_copy_waits_out_one_window_and_says_so(
    database_file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    copy = tmp_path / "copy.db"

    async def story(stage: ServiceWorld) -> None:
        await stage.leave_agents(AGENTS)
        (seller_id,) = await stage.register_all()
        async with process(stage) as service:
            await stage.start(service, seller_id)
            await stage.clock.sleep(1)
        stage.store.close()
        early = made(stage)
        shutil.copyfile(database_file, copy)
        async with process(stage):
            await stage.clock.sleep(20)
        assert made(stage) == AGENTS * LIMIT
        shutil.copyfile(copy, database_file)
        restored = stage.loop.time()
        async with process(stage) as service:
            full = await cast("SqlStore", service.crawl.store).read(full_until)
            assert full is None, "it has not looked yet"
            await stage.clock.sleep(0.5)
            full = await cast("SqlStore", service.crawl.store).read(full_until)
            assert full is not None
            assert full == pytest.approx((service.crawl.clock.monotonic() - 0.5 + WINDOW) * 1e6, abs=1e5)
            await stage.clock.sleep(WINDOW - 2)
            assert made(stage) == AGENTS * LIMIT, "nothing before the window is out"
        async with process(stage) as service:
            await stage.until(lambda: _more(stage, AGENTS * LIMIT))
            assert stage.loop.time() >= restored + WINDOW
            await stage.settle(service)
        assert early < AGENTS * LIMIT
        assert most(stage) <= LIMIT
        assert stage.simulator.compare() == []

    play_on_file(database_file, story)
    told = [record.message for record in caplog.records if "restored from an older copy" in record.message]
    assert len(told) == 1, "said once"


async def _more(stage: ServiceWorld, number: int) -> bool:
    return made(stage) > number


def test_the_mark_beside_the_database_is_the_highest_permit_ever_given_out(database_file: Path) -> None:
    async def story(stage: ServiceWorld) -> None:
        await stage.leave_agents(AGENTS)
        (seller_id,) = await stage.register_all()
        mark = PermitMarkerFile(database_file)
        async with process(stage) as service:
            await stage.start(service, seller_id)
            assert mark.read() >= 1, "the question for the total is a request too"
            await stage.clock.sleep(15)
            highest = await stage.store.read(lambda tx: tx.windows.highest())
            visits = stage.simulator.marketplace.stats()["tokens_issued"]
            assert mark.read() == highest == made(stage) + visits
        stage.store.close()

    play_on_file(database_file, story)
