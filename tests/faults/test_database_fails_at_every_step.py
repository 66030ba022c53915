"""A database that fails once, at any transaction of a crawl: the service goes on by itself and nothing is lost.

Two ways to fail: nothing was done, or all of it was done and only the answer was lost.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.faults.test_killed_at_every_step import SETTINGS, begin, check, is_done
from tests.simulation.doors import ShakyStore
from tests.simulation.service_world import ServiceWorld, play

from sellerwatch.adapters.sql.engine import DatabaseUnavailable

#: Transactions of a start: entering, looking after what is there, and after each of the two outboxes.
STARTING = 4


class Countdown:
    """True at one call only, counted from 1; never for 0."""

    def __init__(self, strikes_at: int) -> None:
        self.calls = 0
        self._strikes_at = strikes_at

    def __call__(self) -> bool:
        self.calls += 1
        return self.calls == self._strikes_at


def crawl(template: Path, *, away_at: int = 0, too_late_at: int = 0) -> dict[str, int]:
    """A whole crawl by one service; returns how often it could have failed in each way: a read changes nothing, so its
    answer cannot come too late."""

    async def story(world: ServiceWorld) -> dict[str, int]:
        await begin(world)
        away, too_late = Countdown(away_at), Countdown(too_late_at)
        store = ShakyStore(world.store, world.clock, away, too_late=too_late)
        async with world.serving(schedules=True, store=store) as service:
            await world.until(lambda: is_done(world), service)
        await check(world)
        return {"away_at": away.calls, "too_late_at": too_late.calls}

    return play(template, story, settings=SETTINGS, sellers=1, products=4)


@pytest.mark.parametrize("way", ["away_at", "too_late_at"])
def test_a_service_outlives_any_single_failure_of_its_database(migrated_template: Path, way: str) -> None:
    harmed = []
    # The first few are the start itself and the last one the stop: whoever starts or stops it is told.
    for number in range(STARTING + 1, crawl(migrated_template)[way]):
        try:
            crawl(migrated_template, **{way: number})
        except (AssertionError, DatabaseUnavailable) as harm:
            harmed.append(f"{way} {number}: {harm}")
    assert harmed == []
