"""The loop whose time is virtual: waiting is free, timers agree, a deadlock is loud, one seed is one history."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import textwrap
from datetime import UTC, datetime, timedelta

import pytest

from sellerwatch.kernel.virtual_time import START, UPTIME, Stuck, VirtualClock, VirtualLoop, run_virtually

WEEK = 7 * 24 * 3600


def test_a_week_is_slept_at_once_and_moves_the_clock() -> None:
    loop = VirtualLoop()
    clock = VirtualClock(loop)

    async def program() -> tuple[datetime, float]:
        await clock.sleep(WEEK)
        return clock.now(), clock.monotonic()

    assert run_virtually(program(), loop=loop) == (START + timedelta(weeks=1), UPTIME + WEEK)


def test_time_stands_while_nobody_waits() -> None:
    loop = VirtualLoop()
    clock = VirtualClock(loop)

    async def program() -> datetime:
        for _ in range(1000):
            await asyncio.sleep(0)
        return clock.now()

    assert run_virtually(program(), loop=loop) == START


def test_a_loop_starts_when_it_is_told() -> None:
    start = datetime(2030, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)
    loop = VirtualLoop(start)
    clock = VirtualClock(loop)

    async def program() -> datetime:
        return clock.now()

    assert run_virtually(program(), loop=loop) == start


def test_sleepers_wake_in_the_order_of_their_times() -> None:
    async def program() -> list[float]:
        woken: list[float] = []

        async def sleeper(seconds: float) -> None:
            await asyncio.sleep(seconds)
            woken.append(seconds)

        await asyncio.gather(*(sleeper(s) for s in (5, 0.001, 86400 * 3, 1, 4.999)))
        return woken

    assert run_virtually(program()) == [0.001, 1, 4.999, 5, 86400 * 3]


def test_time_outs_obey_virtual_time() -> None:
    loop = VirtualLoop()

    async def program() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3600):
                await asyncio.sleep(WEEK)
        return loop.time()

    assert run_virtually(program(), loop=loop) == pytest.approx(3600)


def test_wait_for_in_time_is_no_time_out() -> None:
    async def program() -> str:
        return await asyncio.wait_for(asyncio.sleep(599, "done"), 600)

    assert run_virtually(program()) == "done"


def test_a_deadlock_is_said_loudly() -> None:
    async def program() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Stuck, match="no timer is set"):
        run_virtually(program())


def test_two_that_wait_for_each_other_are_stuck() -> None:
    async def program() -> None:
        one, other = asyncio.Event(), asyncio.Event()

        async def waits(mine: asyncio.Event, yours: asyncio.Event) -> None:
            await mine.wait()
            yours.set()

        await asyncio.gather(waits(one, other), waits(other, one))

    with pytest.raises(Stuck):
        run_virtually(program())


@pytest.mark.parametrize("seconds", [-3600, 3600, 86400 * 365])
def test_a_clock_that_is_set_moves_the_date_but_no_timer(seconds: int) -> None:
    loop = VirtualLoop()
    clock = VirtualClock(loop)

    async def program() -> tuple[datetime, float]:
        waiting = asyncio.create_task(clock.sleep(10))
        await clock.sleep(1)
        loop.jump(seconds)
        await waiting
        return clock.now(), clock.monotonic()

    now, elapsed = run_virtually(program(), loop=loop)
    assert elapsed - UPTIME == pytest.approx(10)
    assert now == START + timedelta(seconds=10 + seconds)


def test_the_loop_is_closed_at_the_end() -> None:
    loop = VirtualLoop()
    run_virtually(asyncio.sleep(1), loop=loop)
    assert loop.is_closed()


def test_an_error_of_the_program_comes_out() -> None:
    async def program() -> None:
        await asyncio.sleep(1)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_virtually(program())


def test_many_short_sleeps_do_not_drift_by_a_microsecond() -> None:
    loop = VirtualLoop()

    async def program() -> float:
        for _ in range(10_000):
            await asyncio.sleep(0.1)
        return loop.time()

    assert run_virtually(program(), loop=loop) == pytest.approx(1000, abs=1e-6)


PROGRAM = """
import asyncio, json, random
from sellerwatch.kernel.ids import Ids
from sellerwatch.kernel.virtual_time import VirtualClock, VirtualLoop, run_virtually

loop = VirtualLoop()
clock = VirtualClock(loop)
rng = random.Random({seed})
ids = Ids(clock, rng)
history = []

async def worker(name, queue):
    while True:
        job = await queue.get()
        try:
            async with asyncio.timeout(rng.uniform(0, 8)):
                await clock.sleep(rng.expovariate(0.3))
            outcome = "done"
        except TimeoutError:
            outcome = "late"
        history.append([clock.now().isoformat(), name, job, outcome, ids.new()])
        queue.task_done()

async def program():
    queue = asyncio.Queue()
    workers = [asyncio.create_task(worker(f"w{{n}}", queue)) for n in range(5)]
    for job in range(60):
        queue.put_nowait(job)
        await clock.sleep(rng.random())
    await queue.join()
    for task in workers:
        task.cancel()
    await asyncio.gather(*workers, return_exceptions=True)

run_virtually(program(), loop=loop)
print(json.dumps(history))
"""


def history(seed: int, hash_seed: str) -> list[list[object]]:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM).format(seed=seed)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    told: list[list[object]] = json.loads(done.stdout)
    return told


def test_one_seed_is_one_history_in_two_processes() -> None:
    first, second = history(11, "1"), history(11, "2")
    assert len(first) == 60
    assert {entry[3] for entry in first} == {"done", "late"}
    assert first == second


def test_another_seed_is_another_history() -> None:
    assert history(11, "1") != history(12, "1")
