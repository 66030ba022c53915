"""The limits of the marketplace are kept, whatever they are: waiting costs time and nobody's retries."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import event
from tests.simulated_service import settings_of
from tests.simulation.service_world import ServiceWorld, play, simulated

DEFAULT_LIMITS = {"WINDOW_LIMIT": 80, "WINDOW_SECONDS": 3600, "REQUESTS_PER_SECOND": 1}


@simulated(settings=settings_of(**DEFAULT_LIMITS), agents=100, sellers=1, products=300)
async def test_a_hundred_agents_at_the_default_limits_crawl_a_seller_without_one_going_over(
    world: ServiceWorld,
) -> None:
    sellers = await world.register_all()
    async with world.serving() as service:
        await world.crawl_all(service, sellers)
        world.check_world()
    by_agent = world.simulator.marketplace.stats()["most_in_a_window_by_agent"]
    assert len(by_agent) > 50, "load spreads"


@simulated(settings=settings_of(**DEFAULT_LIMITS, TENDING_INTERVAL_SECONDS=60), sellers=1, products=300)
async def test_a_few_agents_take_hours_and_stay_within_their_budget(world: ServiceWorld) -> None:
    await world.leave_agents(3)
    sellers = await world.register_all()
    async with world.serving() as service:
        (run,) = await world.crawl(service, sellers)
        world.check_world()
        await world.check_books()
    assert world.simulator.marketplace.stats()["most_in_a_window"] == 80, "the budget was used up"
    assert run.completed_at is not None
    assert run.completed_at - run.created_at > timedelta(hours=2)
    assert await world.count("SELECT COUNT(*) FROM crawler_tasks WHERE retry_count > 0 OR requests_made > 1") == 0


@pytest.mark.parametrize(
    ("limit", "seconds", "per_second"), [(5, 7, 1), (1000, 60, 100), (30, 3, 400), (10, 2, 2.5), (3, 30, 0.5)]
)
def test_other_limits_are_kept_just_as_well(
    migrated_template: Path, limit: int, seconds: float, per_second: float
) -> None:
    async def story(world: ServiceWorld) -> None:
        await world.leave_agents(4)
        sellers = await world.register_all()
        async with world.serving() as service:
            await world.crawl_all(service, sellers)
            world.check_world()
        await world.check_books()

    limits = {"WINDOW_LIMIT": limit, "WINDOW_SECONDS": seconds, "REQUESTS_PER_SECOND": per_second}
    settings = settings_of(**limits, DEPARTURE_MARGIN_SECONDS=0.001)
    play(migrated_template, story, settings=settings, profile="flaky", sellers=2, products=20)


def test_an_agent_that_may_ask_often_keeps_its_rate_when_it_is_asked_for_more(migrated_template: Path) -> None:
    async def story(world: ServiceWorld) -> None:
        await world.leave_agents(1)
        sellers = await world.register_all()
        async with world.serving() as service:
            await world.crawl_all(service, sellers)
            world.check_world()

    limits = {"WINDOW_LIMIT": 1000, "WINDOW_SECONDS": 60, "REQUESTS_PER_SECOND": 100}
    settings = settings_of(**limits, DEPARTURE_MARGIN_SECONDS=0.001)
    play(migrated_template, story, settings=settings, sellers=1, products=100, latency_ms=4)


@simulated(
    settings=settings_of(WINDOW_LIMIT=10, WINDOW_SECONDS=20, REQUESTS_PER_SECOND=5),
    profile="slow",
    sellers=2,
    products=30,
)
async def test_two_services_on_one_database_share_one_budget(world: ServiceWorld) -> None:
    await world.leave_agents(4)
    first, second = await world.register_all()
    async with world.serving() as one, world.serving() as other:
        await world.start(one, first)
        await world.start(other, second)
        await world.settle(one)
        world.check_world()
        assert one.progress.completed > 0
        assert other.progress.completed > 0
    await world.check_books()


@simulated(
    settings=settings_of(REQUESTS_PER_SECOND=1000, DEPARTURE_MARGIN_SECONDS=0, TENDING_INTERVAL_SECONDS=60),
    profile="slow",
    sellers=1,
    products=40,
)
async def test_where_everything_is_under_way_nobody_asks_for_more_with_every_answer(world: ServiceWorld) -> None:
    commits, requests = await commits_of_a_recrawl(world)
    sessions = world.simulator.marketplace.stats()["tokens_issued"]
    # Answers come one by one: each is absorbed, and most of those that are bring nothing new to claim. A session
    # takes four: its lease, a permit, the token, and the lease's end.
    assert commits < requests + 4 * sessions


def test_what_comes_next_is_claimed_where_what_came_back_is_absorbed(migrated_template: Path) -> None:
    async def story(world: ServiceWorld) -> None:
        commits, requests = await commits_of_a_recrawl(world)
        # Ten groups or so, and what a run begins and ends with; each with a claim of its own would be fifteen more.
        assert requests == 2002
        assert commits < 38

    raised = {"WINDOW_LIMIT": 100_000, "REQUESTS_PER_SECOND": 100_000, "HOST_CONCURRENCY": 1000}
    settings = settings_of(**raised, DEPARTURE_MARGIN_SECONDS=0, TENDING_INTERVAL_SECONDS=60)
    play(migrated_template, story, settings=settings, sellers=1, products=1000, latency_ms=20)


async def commits_of_a_recrawl(world: ServiceWorld) -> tuple[int, int]:
    """Transactions and requests of a crawl that finds nothing new."""
    sellers, commits = await world.register_all(), list[object]()
    async with world.serving() as service:
        await world.crawl_all(service, sellers)
        event.listen(world.store.engine, "commit", commits.append)
        (run,) = await world.crawl(service, sellers)
    return len(commits), run.completed_tasks
