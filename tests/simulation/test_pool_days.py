"""Bad days of the pool, on the whole service: it comes back by itself, and only whose fault it was pays for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest
from tests.simulated_service import settings_of
from tests.simulation.pool_doors import all_available, everyone, is_api, meddling, statuses
from tests.simulation.service_world import ServiceWorld, play, simulated

from sellerwatch.agents.agent import AgentStatus
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.marketplaces.ports import Reply
from sellerwatch.simulator.chaos import PROFILES

REST = 60.0
SETTINGS = {"AGENT_SUSPENSION_SECONDS": REST, "CIRCUIT_OPEN_SECONDS": 60, "BREAKER_OPEN_SECONDS": 60}


@simulated(
    settings=settings_of(**SETTINGS | {"REQUESTS_PER_SECOND": 2}), agents=12, profile="storm", sellers=2, products=60
)
async def test_a_pool_hit_by_a_storm_of_429s_is_whole_again_by_itself(world: ServiceWorld) -> None:
    sellers = await world.register_all()
    async with world.serving() as service:
        worst = 12
        started = [await world.start(service, seller_id) for seller_id in sellers]
        assert started
        for _ in range(60):
            await world.clock.sleep(1)
            worst = min(worst, (await statuses(world))["AVAILABLE"])
        assert worst < 12, "the storm hit nobody"
        world.simulator.marketplace.chaos.become(PROFILES["calm"])
        await world.until(lambda: all_available(world), service)
        await world.settle(service)
        await world.crawl_all(service, sellers)
        world.check_world()
    await world.check_books()
    assert all(agent.health_score >= 70 for agent in await world.agents())
    assert await world.count("SELECT COUNT(*) FROM crawler_tasks WHERE status = 'FAILED'") == 0


@simulated(settings=settings_of(**SETTINGS | {"REQUESTS_PER_SECOND": 2}), sellers=1, products=200)
async def test_a_storm_of_server_errors_ruins_nobody(world: ServiceWorld) -> None:
    door = meddling(world, lambda path, agent: None)
    (seller_id,) = await world.register_all()
    async with world.serving() as service:
        await world.start(service, seller_id)
        await world.clock.sleep(5)
        began = world.clock.now()
        door.meddle = lambda path, agent: Reply(503, (), b"") if is_api(path) else None
        await world.clock.sleep(20)
        door.meddle = lambda path, agent: None
        met = Counter(agent for at, path, agent in door.asked if is_api(path) and at > began)
        assert sum(met.values()) <= 40, "an endpoint that is down is asked by a probe at a time"
        assert await statuses(world) == {"AVAILABLE": 10}
        assert min(agent.health_score for agent in await world.agents()) >= 90
        assert {one.circuit.state for one in await everyone(world)} == {CircuitState.CLOSED}
        await world.settle(service)
    await world.check_books()


@pytest.mark.parametrize("status", [429, 500, 403])
@simulated(settings=settings_of(**SETTINGS), sellers=1, products=80)
async def test_a_single_bad_agent_is_set_aside_while_the_others_go_on(world: ServiceWorld, status: int) -> None:
    await world.leave_agents(8)
    bad = (await world.agents())[0].user_agent
    door = meddling(world, lambda path, agent: Reply(status, (), b"") if agent == bad and is_api(path) else None)
    sellers = await world.register_all()
    async with world.serving() as service:
        (run,) = await world.crawl(service, sellers)
        assert run.failed_tasks == 0
        world.check_world()
    await world.check_books()
    first, *others = await everyone(world)
    assert first.agent.status is AgentStatus.SUSPENDED or first.circuit.state is CircuitState.OPEN
    assert {one.agent.status for one in others} == {AgentStatus.AVAILABLE}
    assert {one.circuit.state for one in others} == {CircuitState.CLOSED}
    assert {one.agent.health_score for one in others} == {100}
    asked = Counter(agent for _, path, agent in door.asked if is_api(path))
    assert asked[bad] <= 8
    assert all(asked[one.agent.user_agent] > 8 for one in others)


@simulated(settings=settings_of(**SETTINGS | {"AGENT_SUSPENSION_SECONDS": 3600}), agents=20, sellers=1, products=200)
async def test_agents_suspended_together_do_not_come_back_together(world: ServiceWorld) -> None:
    door = meddling(world, lambda path, agent: None)
    (seller_id,) = await world.register_all()
    async with world.serving() as service:
        await world.start(service, seller_id)
        door.meddle = lambda path, agent: Reply(429, (), b"") if is_api(path) else None
        await world.clock.sleep(30)
        ends = [agent.suspended_until for agent in await world.agents() if agent.suspended_until is not None]
        assert len(ends) > 10
        assert len({end.replace(microsecond=0) for end in ends}) > len(ends) // 2


DAY = 86_400.0


@pytest.mark.parametrize(
    ("said", "least", "most"),
    [
        (lambda now: "1800", 1800, 1980),
        (lambda now: " 1800 ", 1800, 1980),
        (lambda now: format_datetime(now + timedelta(seconds=1800), usegmt=True), 1799, 1980),
        (lambda now: None, REST, REST * 1.1),
        (lambda now: "5", REST, REST * 1.1),
        (lambda now: "-5", REST, REST * 1.1),
        (lambda now: "soon", REST, REST * 1.1),
        (lambda now: "", REST, REST * 1.1),
        (lambda now: "nan", REST, REST * 1.1),
        (lambda now: format_datetime(now - timedelta(days=1), usegmt=True), REST, REST * 1.1),
        (lambda now: "9" * 400, DAY, DAY * 1.1),
        (lambda now: "inf", DAY, DAY * 1.1),
        (lambda now: format_datetime(now + timedelta(days=4000), usegmt=True), DAY, DAY * 1.1),
    ],
    ids=[
        "seconds",
        "seconds and spaces",
        "a date",
        "absent",
        "shorter than our own rest",
        "negative",
        "rubbish",
        "empty",
        "not a number",
        "a past date",
        "enormous",
        "endless",
        "a far date",
    ],
)
def test_whatever_retry_after_says_is_handled_and_bounded(
    migrated_template: Path, said: Callable[[object], str | None], least: float, most: float
) -> None:
    async def story(world: ServiceWorld) -> None:
        await world.leave_agents(3)
        bad = (await world.agents())[0].user_agent
        asked: list[float] = []

        def meddle(path: str, agent: str) -> Reply | None:
            if agent != bad or not is_api(path):
                return None
            asked.append(world.loop.time())
            text = said(world.clock.now())
            return Reply(429, () if text is None else (("retry-after", text),), b"")

        meddling(world, meddle)
        sellers = await world.register_all()
        async with world.serving() as service:
            (run,) = await world.crawl(service, sellers)
            assert run.failed_tasks == 0, "a 429 costs no task anything"
            agent = (await world.agents())[0]
            assert agent.status is AgentStatus.SUSPENDED
            assert agent.suspended_at is not None
            assert agent.suspended_until is not None
            assert least <= (agent.suspended_until - agent.suspended_at).total_seconds() <= most
            assert len(asked) == 1, "it is left alone"
        await world.check_books()

    play(migrated_template, story, settings=settings_of(**SETTINGS), sellers=1, products=12)
