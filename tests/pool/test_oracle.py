"""Our window against `limits`' moving window, a well-known implementation: they agree where both can be asked."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from limits import RateLimitItemPerSecond
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter
from tests.pool.pool_world import Computer, PoolWorld, small_pool

from sellerwatch.agents.limits import Limits


@pytest.mark.parametrize(("limit", "seconds"), [(1, 10), (5, 60), (80, 3600)])
@pytest.mark.parametrize("seed", range(3))
def test_when_answers_come_back_at_once_our_window_lets_through_what_the_oracle_does(
    migrated_template: Path, monkeypatch: pytest.MonkeyPatch, limit: int, seconds: int, seed: int
) -> None:
    """Demand above the budget, in bursts and lulls. The oracle goes by true time; our wall clock is set about."""
    computer, rng = Computer(), random.Random(seed)
    limits = Limits(window_limit=limit, window=timedelta(seconds=seconds), per_second=1_000_000, margin=timedelta(0))
    world = PoolWorld(small_pool(migrated_template, 1), computer, limits=limits)
    process = world.start()
    world.issue_tokens(world.claims(process))
    oracle = MovingWindowRateLimiter(MemoryStorage())
    item = RateLimitItemPerSecond(limit, seconds)
    # The oracle reads the clock itself: it gets the computer's, in its own module alone.
    true_time = SimpleNamespace(time=lambda: 1_000_000 + computer.true_us / 1e6)
    monkeypatch.setattr("limits.storage.memory.time", true_time)
    ours: list[bool] = []
    theirs: list[bool] = []
    for _ in range(200):
        # Twice as often as the limit allows, so that no instant falls on the very edge, where floats are compared.
        computer.passes(rng.expovariate(2 * limit / seconds))
        if rng.random() < 0.1:
            computer.set_by = timedelta(minutes=rng.randrange(-100, 100))
        found = world.claim(process, 1)
        if not found.taken:
            world.issue_tokens(world.claims(process))
        world.answer(process, list(process.in_flight), arrived_us=computer.true_us)
        ours.append(bool(found.taken))
        theirs.append(oracle.hit(item, "agent"))
    world.close()
    assert ours == theirs
    assert True in ours
    assert False in ours
