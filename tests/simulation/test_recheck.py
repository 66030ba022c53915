"""A run that unreadable answers have paused: re-checked, and going on by itself once they can be read again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from tests.builders import a_context
from tests.simulated_service import settings_of
from tests.simulation.altered import Altered, described_by, info_of
from tests.simulation.service_world import ServiceWorld, play, simulated
from tests.simulation.test_losses import vanish

from sellerwatch.catalog.quarantine import Case, CaseKind, CaseStatus
from sellerwatch.crawling.commands import cancel, retry_execution
from sellerwatch.crawling.execution import Execution, ExecutionStatus
from sellerwatch.crawling.ports import NoteKind
from sellerwatch.crawling.recheck import recheck_at
from sellerwatch.kernel.ids import SellerId
from sellerwatch.service.service import Service
from sellerwatch.simulator.chaos import PROFILES

TEN_MINUTES = 600.0
PERIOD = 300.0


async def cases(world: ServiceWorld, kind: CaseKind = CaseKind.UNREADABLE) -> Sequence[Case]:
    found = await world.store.read(lambda tx: tx.quarantine.page(seller_id=None, status=None, cursor=None, limit=100))
    return [case for case in found.content if case.kind is kind]


async def newest(world: ServiceWorld) -> Execution:
    return (await world.executions())[-1]


async def is_paused(world: ServiceWorld) -> bool:
    run = await newest(world)
    notes = await world.store.read(lambda tx: tx.run_notes.of(run.execution_id))
    return run.is_open and bool(notes[NoteKind.PAUSED])


async def planned(world: ServiceWorld) -> datetime | None:
    run = await newest(world)
    return await world.store.read(lambda tx: recheck_at(tx, tx.run_notes.of(run.execution_id)))


async def resolutions(world: ServiceWorld) -> int:
    return await world.count("SELECT COUNT(*) FROM audit WHERE action = 'quarantine.resolve' AND actor = 'scheduler'")


async def pause(world: ServiceWorld, service: Service, seller_id: SellerId) -> None:
    """A run whose details come without their main module, until it is paused and has nothing in flight."""
    world.simulator.marketplace.chaos.become(PROFILES["moduleless"])
    await world.start(service, seller_id)
    service.nudge()
    await world.until(lambda: is_paused(world), service)
    await world.clock.sleep(30)


def asked(world: ServiceWorld) -> int:
    requests = world.simulator.marketplace.stats()["requests"]
    return int(requests["list"] + requests["detail"] + requests["options"])


def be_well(world: ServiceWorld) -> None:
    world.simulator.marketplace.chaos.become(PROFILES["calm"])


@pytest.mark.parametrize("products", [12, 80])
def test_a_run_without_readable_details_for_ten_minutes_heals_and_is_right(
    migrated_template: Path, products: int
) -> None:
    """With few products nothing but the unreadable ones is left to do: the run must not end without them."""

    async def story(world: ServiceWorld) -> None:
        sellers = await world.register_all()
        async with world.serving() as service:
            await world.crawl(service, sellers)
            before = len(world.simulator.product_server.events())
            changed = list(world.simulator.world.listing(sellers[0]))[:3]
            for item in changed:
                world.simulator.world.change(item, world.rng, "redescribe")
            await pause(world, service, sellers[0])
            due = await planned(world)
            assert due is not None
            assert 0 < (due - world.clock.now()).total_seconds() <= PERIOD
            assert (await newest(world)).status is ExecutionStatus.RUNNING
            spent = asked(world)
            await world.clock.sleep(TEN_MINUTES)
            assert await is_paused(world)
            assert asked(world) - spent <= 2 * 3 + 3
            await world.check_books()
            be_well(world)
            await world.settle(service)
            run = await newest(world)
            assert (run.status, run.failed_tasks, run.completed_tasks) == (
                ExecutionStatus.COMPLETED,
                0,
                1 + 2 * products,
            )
            (case,) = await cases(world)
            assert (case.status, case.decided_by) == (CaseStatus.RESOLVED, "scheduler")
            assert await resolutions(world) == 1
            assert await world.count("SELECT COUNT(*) FROM held_parts") == 0
            told = world.simulator.product_server.events(before)
            assert sorted(event.item_no for event in told) == sorted(changed)
            await world.check_books()
            world.check_world()

    play(migrated_template, story, sellers=1, products=products)


@simulated(sellers=1, products=40)
async def test_the_first_run_of_a_seller_heals_too(world: ServiceWorld) -> None:
    sellers = await world.register_all()
    async with world.serving() as service:
        await pause(world, service, sellers[0])
        assert world.simulator.product_server.events() == []
        be_well(world)
        await world.settle(service)
        assert (await newest(world)).all_succeeded
        assert len(world.simulator.product_server.events()) == 40
        world.check_world()


@simulated(sellers=1, products=40)
async def test_a_run_that_stays_unreadable_stays_paused_and_costs_three_requests_a_period(world: ServiceWorld) -> None:
    sellers = await world.register_all()
    async with world.serving() as service:
        await world.crawl(service, sellers)
        before = len(world.simulator.product_server.events())
        await pause(world, service, sellers[0])
        spent, periods = asked(world), 20
        await world.clock.sleep(periods * PERIOD)
        assert await is_paused(world)
        assert 3 * (periods - 1) <= asked(world) - spent <= 3 * (periods + 1)
        (case,) = await cases(world)
        assert case.status is CaseStatus.OPEN
        assert len(world.simulator.product_server.events()) == before
        tried = "SELECT COUNT(*) FROM crawler_tasks WHERE task_type = 'PRODUCT_DETAIL' AND attempt > 1"
        assert await world.count(tried) >= 10, "every unread product has its turn"
        await world.check_books()


def test_a_case_about_changed_values_stays_for_a_person(migrated_template: Path) -> None:
    async def story(world: ServiceWorld) -> None:
        sellers = await world.register_all()
        door = world.transport = Altered(world.transport)
        async with world.serving() as service:
            await world.crawl(service, sellers)
            door.details = described_by("<p>점검 중입니다</p>")
            await world.crawl(service, sellers)
            (share,) = await cases(world, CaseKind.SHARE)
            before = len(world.simulator.product_server.events())

            def moduleless(detail: Any) -> Any:
                return detail | {"moduleList": [m for m in detail["moduleList"] if m["type"] != "ProductInfoModule"]}

            door.details = moduleless
            await world.start(service, sellers[0])
            service.nudge()
            await world.until(lambda: is_paused(world), service)
            door.details = described_by("<p>점검 중입니다</p>")
            await world.settle(service)
            assert (await newest(world)).all_succeeded
            (still,) = await cases(world, CaseKind.SHARE)
            assert (still.case_id, still.status) == (share.case_id, CaseStatus.OPEN)
            assert [case.status for case in await cases(world)] == [CaseStatus.RESOLVED]
            assert len(world.simulator.product_server.events()) == before, "what is held is not told"

    play(migrated_template, story, sellers=1, products=70)


@simulated(settings=settings_of(PAGE_SIZE=2), sellers=1, products=24)
async def test_unreadable_list_pages_heal_and_no_product_is_taken_for_gone(world: ServiceWorld) -> None:
    sellers = await world.register_all()
    door = world.transport = Altered(world.transport)
    async with world.serving() as service:
        await world.crawl(service, sellers)
        before = len(world.simulator.product_server.events())
        door.lists = lambda _, page: {"total": page["count"], "items": page["items"]}
        await world.start(service, sellers[0])
        service.nudge()
        await world.until(lambda: is_paused(world), service)
        await world.clock.sleep(TEN_MINUTES)
        assert await is_paused(world)
        door.stop()
        await world.settle(service)
        run = await newest(world)
        assert (run.all_succeeded, run.list_total) == (True, 24)
        assert len(world.simulator.product_server.events()) == before
        assert await world.count("SELECT COUNT(*) FROM removals") == 0
        world.check_world()


def test_products_that_stay_odd_do_not_keep_the_others_from_healing(migrated_template: Path) -> None:
    async def story(world: ServiceWorld) -> None:
        sellers = await world.register_all()
        door = world.transport = Altered(world.transport)
        shop = world.simulator.world
        async with world.serving() as service:
            await world.crawl(service, sellers)
            odd = set(list(shop.listing(sellers[0]))[:4])

            def partly(detail: Any) -> Any:
                item = info_of(detail)["itemNo"]
                kept = [m for m in detail["moduleList"] if m["type"] != "ProductInfoModule"]
                return detail | {"moduleList": kept} if item in odd or not well else detail

            well = False
            door.details = partly
            await world.start(service, sellers[0])
            service.nudge()
            await world.until(lambda: is_paused(world), service)
            await world.clock.sleep(30)
            well = True
            await world.settle(service)
            run = await newest(world)
            assert (run.status, run.failed_tasks) == (ExecutionStatus.COMPLETED, 4)
            opened = [case for case in await cases(world) if case.status is CaseStatus.OPEN]
            assert len(opened) == 1
            await world.check_books()
            world.check_world()

    play(migrated_template, story, sellers=1, products=30)


def test_two_kinds_of_problem_heal_one_after_the_other(migrated_template: Path) -> None:
    async def story(world: ServiceWorld) -> None:
        sellers = await world.register_all()
        door = world.transport = Altered(world.transport)
        async with world.serving() as service:
            await world.crawl(service, sellers)
            before = len(world.simulator.product_server.events())

            def moduleless(detail: Any) -> Any:
                return detail | {"moduleList": []}

            door.details, door.options = moduleless, lambda options: {"options": options}
            await world.start(service, sellers[0])
            service.nudge()
            await world.until(lambda: is_paused(world), service)
            await world.clock.sleep(30)
            assert len(await cases(world)) == 2
            door.details = lambda detail: detail
            await world.clock.sleep(4 * PERIOD)
            assert await is_paused(world), "the options still cannot be read"
            door.stop()
            await world.settle(service)
            assert (await newest(world)).all_succeeded
            assert {case.status for case in await cases(world)} <= {CaseStatus.RESOLVED, CaseStatus.RELEASED}
            assert len(world.simulator.product_server.events()) == before
            world.check_world()

    play(migrated_template, story, sellers=1, products=30)


@pytest.mark.parametrize("seconds", [60.0, 300.5, 301.0, 305.0])
@simulated(sellers=1, products=30)
async def test_a_killed_process_loses_no_recheck(world: ServiceWorld, seconds: float) -> None:
    """Killed while the run is paused, and while the answers of its first re-check are on their way."""
    sellers = await world.register_all()
    world.simulator.marketplace.chaos.become(PROFILES["moduleless"].with_latency(800))
    async with world.service() as service:
        await world.start(service, sellers[0])
    await vanish(world, seconds)
    assert await is_paused(world)
    be_well(world)
    async with world.serving() as service:
        await world.settle(service)
        assert (await newest(world)).all_succeeded
        world.check_world()
    await world.check_books()


@simulated(settings=settings_of(RUN_DEADLINE_SECONDS=3600), sellers=1, products=30)
async def test_a_run_whose_deadline_passes_while_it_is_paused_fails_as_before(world: ServiceWorld) -> None:
    sellers = await world.register_all()
    async with world.serving() as service:
        await pause(world, service, sellers[0])
        await world.clock.sleep(2 * 3600)
        run = await newest(world)
        assert run.status is ExecutionStatus.FAILED
        spent = asked(world)
        await world.clock.sleep(3600)
        assert asked(world) == spent, "a run that is over is not re-checked"
        await world.check_books()


@simulated(sellers=1, products=30)
async def test_a_cancelled_run_that_is_retried_is_rechecked_again(world: ServiceWorld) -> None:
    sellers = await world.register_all()
    async with world.serving() as service:
        await pause(world, service, sellers[0])
        run, rules, deadline = await newest(world), service.crawl.rules, service.crawl.deadline
        await world.transact_with_ids(
            lambda tx, ids: cancel(tx, run.execution_id, rules, actor="kim", ids=ids, now=world.now)
        )
        be_well(world)
        await world.clock.sleep(60)
        again = world.clock.now()
        await world.store.transact(lambda tx: retry_execution(tx, a_context(again), run.execution_id, deadline))
        await world.settle(service)
        assert (await newest(world)).all_succeeded
        world.check_world()


@simulated(settings=settings_of(QUARANTINE_RECHECK_SECONDS=1), sellers=1, products=30)
async def test_a_period_of_one_second_is_kept(world: ServiceWorld) -> None:
    sellers = await world.register_all()
    async with world.serving() as service:
        await pause(world, service, sellers[0])
        spent = asked(world)
        await world.clock.sleep(20)
        assert 3 * 8 <= asked(world) - spent <= 3 * 21
        be_well(world)
        await world.settle(service)
        assert (await newest(world)).all_succeeded
        world.check_world()
