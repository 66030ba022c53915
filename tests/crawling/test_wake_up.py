"""When a loop runs again: at its due time, at a nudge, or when something may have changed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from sellerwatch.kernel.store import Commits
from sellerwatch.kernel.virtual_time import Stuck, VirtualClock, VirtualLoop, run_virtually
from sellerwatch.service.wake_up import WakeUp

SECONDS = 10.0


def waited(
    commits: Commits | None, happens: dict[float, Callable[[WakeUp], object]], due: float | None = None
) -> float:
    """How long a loop waits while these things happen at their seconds."""
    loop = VirtualLoop()
    clock = VirtualClock(loop)

    async def story() -> float:
        wake_up = WakeUp(clock, commits, SECONDS)
        wake_up.begin()
        for second, happen in happens.items():
            loop.call_later(second, happen, wake_up)
        await wake_up.wait(None if due is None else clock.now() + timedelta(seconds=due))
        return round(loop.time(), 6)

    return run_virtually(story(), loop=loop)


def test_where_others_may_write_it_runs_again_after_its_seconds() -> None:
    assert waited(None, {}) == SECONDS


def test_where_nobody_else_can_write_and_nothing_is_committed_it_does_not_wake() -> None:
    with pytest.raises(Stuck):
        waited(Commits(), {})


def test_where_nobody_else_can_write_it_runs_its_seconds_after_the_first_commit() -> None:
    commits = Commits()
    assert waited(commits, {100.0: lambda _: commits.count(), 105.0: lambda _: commits.count()}) == 100 + SECONDS


@pytest.mark.parametrize("commits", [None, Commits()], ids=["shared", "alone"])
def test_it_runs_when_it_is_due_or_nudged_whatever_comes_first(commits: Commits | None) -> None:
    assert waited(commits, {}, due=3) == 3
    assert waited(commits, {2.0: WakeUp.nudge}, due=3) == 2
    assert waited(commits, {2.0: WakeUp.nudge}) == 2


def test_a_due_time_that_has_passed_is_now() -> None:
    assert waited(None, {}, due=-5) == 0
    assert waited(Commits(), {}, due=-5) == 0


def test_what_is_committed_or_asked_for_during_a_turn_is_not_lost() -> None:
    async def during(happen: Callable[[WakeUp, Commits], object]) -> None:
        commits = Commits()
        wake_up = WakeUp(VirtualClock(loop), commits, SECONDS)
        wake_up.begin()
        happen(wake_up, commits)
        await wake_up.wait()

    async def took(story: Awaitable[None]) -> float:
        began = loop.time()
        await story
        return round(loop.time() - began, 6)

    async def story() -> None:
        assert await took(during(lambda _, commits: commits.count())) == SECONDS
        assert await took(during(lambda wake_up, _: wake_up.nudge())) == 0

    loop = VirtualLoop()
    run_virtually(story(), loop=loop)


def test_all_who_wait_for_a_commit_hear_of_it() -> None:
    loop, commits = VirtualLoop(), Commits()

    async def one() -> float:
        wake_up = WakeUp(VirtualClock(loop), commits, SECONDS)
        wake_up.begin()
        await wake_up.wait()
        return round(loop.time(), 6)

    async def story() -> tuple[float, float]:
        loop.call_later(1, commits.count)
        first, second = await asyncio.gather(one(), one())
        return first, second

    assert run_virtually(story(), loop=loop) == (1 + SECONDS, 1 + SECONDS)
