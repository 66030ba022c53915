"""Totals and page lengths that the marketplace states: bounded before anything is made of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
from tests.simulated_service import settings_of
from tests.simulation.altered import Altered
from tests.simulation.service_world import ServiceWorld, play, simulated

from sellerwatch.crawling.execution import Execution, ExecutionStatus
from sellerwatch.crawling.trigger import trigger
from sellerwatch.kernel.wording import failure_text
from sellerwatch.simulator.chaos import PROFILES


async def _run(world: ServiceWorld) -> Execution:
    return (await world.executions())[-1]


async def _errors(world: ServiceWorld) -> list[str]:
    run = await _run(world)
    failures = await world.store.read(lambda tx: tx.run_tasks.failures(run.execution_id, 10))
    return [failure_text(failure) for failure, _ in failures]


@simulated(settings=settings_of(PAGE_SIZE=10), sellers=1, products=12)
async def test_a_list_page_that_states_a_huge_total_in_mid_run_fails_alone_and_makes_no_task(
    world: ServiceWorld,
) -> None:
    sellers = await world.register_all()
    async with world.serving() as service:
        await world.crawl(service, sellers)
        before = len(world.simulator.product_server.events())
        await world.start(service, sellers[0])
        world.simulator.marketplace.chaos.become(PROFILES["inflated"])
        await world.settle(service)
        run = await _run(world)
        assert (run.status, run.failed_tasks) == (ExecutionStatus.COMPLETED, 2)
        assert run.total_tasks_created == 2, "the two list pages and nothing else"
        assert run.list_total == 12
        (problem,) = await _errors(world)
        assert "count: 4611686018427387904, more than 1000000 (MAX_LIST_TOTAL)" in problem
        assert len(world.simulator.product_server.events()) == before
        await world.check_books()
        # The next run, with lists as they should be, is right again.
        world.simulator.marketplace.chaos.become(PROFILES["calm"])
        await world.crawl(service, sellers)
        assert (await _run(world)).all_succeeded
        world.check_world()


def test_a_page_with_more_entries_than_were_asked_for_is_unreadable(migrated_template: Path) -> None:
    async def story(world: ServiceWorld) -> None:
        sellers = await world.register_all()
        door = world.transport = Altered(world.transport)

        def longer(number: int, page: Any) -> Any:
            page["items"] += page["items"][:1] if number == 0 else []
            return page

        door.lists = longer
        async with world.serving() as service:
            await world.crawl(service, sellers)
            run = await _run(world)
            assert (run.status, run.failed_tasks) == (ExecutionStatus.COMPLETED, 1)
            (problem,) = await _errors(world)
            assert "items: 11 entries, though 10 were asked for" in problem

    play(migrated_template, story, settings=settings_of(PAGE_SIZE=10), sellers=1, products=12)


@simulated(sellers=1, products=3)
async def test_a_start_with_a_huge_total_makes_no_task(world: ServiceWorld) -> None:
    sellers = await world.register_all()
    world.simulator.marketplace.chaos.become(PROFILES["inflated"])
    async with world.serving() as service:
        assert (await trigger(service.crawl, sellers[0], "test")).task_count is None
        waiting = await _run(world)
        assert (waiting.status, waiting.start_tries) == (ExecutionStatus.PENDING, 1)
        assert waiting.failure is not None
        assert "more than 1000000 (MAX_LIST_TOTAL)" in failure_text(waiting.failure)
        assert await world.count("SELECT COUNT(*) FROM crawler_tasks") == 0


def test_a_list_that_never_ends_is_followed_only_as_far_as_a_list_may_be_long(migrated_template: Path) -> None:
    async def story(world: ServiceWorld) -> None:
        sellers = await world.register_all()
        door = world.transport = Altered(world.transport)
        first: list[Any] = []

        def full(_: int, page: Any) -> Any:
            first[:] = first or orjson.loads(orjson.dumps(page["items"]))
            return page | {"items": first}

        door.lists = full
        async with world.serving() as service:
            await world.crawl(service, sellers)
            pages = await world.count("SELECT MAX(page_no) FROM crawler_tasks WHERE task_type = 'MINISHOP'")
            assert pages == 9, "ten pages of 4 are as many as MAX_LIST_TOTAL allows"

    settings = settings_of(PAGE_SIZE=4, MAX_LIST_TOTAL=40)
    play(migrated_template, story, settings=settings, sellers=1, products=5)
