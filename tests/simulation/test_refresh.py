"""Single products that are read again at once: beside a run that is going, and nothing is mistaken for a run."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.simulated_service import settings_of
from tests.simulation.service_world import ServiceWorld, simulated

from sellerwatch.catalog.product import ProductNotFound, ProductState
from sellerwatch.crawling.execution import Execution
from sellerwatch.kernel.ids import ExecutionId, ItemNo
from sellerwatch.operations.refresh import ProductGone, RefreshView, refresh_products
from sellerwatch.operations.sellers import deactivate_seller
from sellerwatch.sellers.seller import SellerInactive
from sellerwatch.service.service import Service


async def refresh(stage: ServiceWorld, service: Service, items: Sequence[int], *, dry_run: bool = False) -> RefreshView:
    session = stage.session(service)
    wanted = [ItemNo(item) for item in items]
    return await session.run(refresh_products, wanted, session.rules, session.deadline, dry_run=dry_run)


async def run_of(stage: ServiceWorld, found: RefreshView) -> Execution:
    [execution_id] = [ExecutionId(run.execution_id) for run in found.runs if run.execution_id is not None]
    [run] = [each for each in await stage.executions() if each.execution_id == execution_id]
    return run


@simulated(settings=settings_of(PAGE_SIZE=10, WINDOW_LIMIT=20), sellers=1, products=60)
async def test_a_product_is_read_again_beside_a_run_that_is_going(stage: ServiceWorld) -> None:
    world = stage.simulator.world
    async with stage.serving() as service:
        await stage.leave_agents(2)
        [seller_id] = await stage.register_all()
        [first] = await stage.crawl(service, [seller_id])
        item = world.listing(seller_id)[-1]
        started = await stage.start(service, seller_id)
        service.nudge()
        await stage.clock.sleep(2)
        world.change(item, stage.rng, "reprice")
        run = await run_of(stage, await refresh(stage, service, [item]))
        assert (run.refreshed_products, run.total_tasks_created, run.list_total) == (1, 2, None)

        async def is_over() -> bool:
            return not (await run_of_id(stage, run.execution_id)).is_open

        await stage.until(is_over, service)
        assert (await run_of_id(stage, started)).is_open, "the run goes on"
        await stage.settle(service)
        told = stage.simulator.product_server.events()[-1]
        assert (told.item_no, told.event_type) == (item, "PRODUCT_UPDATED")
        whole, refreshed = await run_of_id(stage, started), await run_of_id(stage, run.execution_id)
        assert (whole.total_tasks_created, whole.failed_tasks) == (first.total_tasks_created, 0)
        assert (refreshed.completed_tasks, refreshed.changed_products, refreshed.gone_products) == (2, 1, 0)
        assert await stage.count("SELECT COUNT(*) FROM products WHERE missing_runs > 0 OR deleted_at IS NOT NULL") == 0
    stage.check_world()


async def run_of_id(stage: ServiceWorld, execution_id: ExecutionId) -> Execution:
    [found] = [each for each in await stage.executions() if each.execution_id == execution_id]
    return found


@simulated(settings=settings_of(PAGE_SIZE=10), sellers=2, products=20)
async def test_a_refresh_removes_nothing_and_is_no_run_of_its_seller(stage: ServiceWorld) -> None:
    world = stage.simulator.world
    async with stage.serving() as service:
        one, two = await stage.register_all()
        await stage.crawl(service, [one, two])
        before = await stage.store.read(lambda tx: tx.freshness.timings([one]))
        sold_out, gone = world.listing(one)[:2]
        world.change(sold_out, stage.rng, "restock")
        world.vanish(gone)
        counted = await refresh(stage, service, [sold_out, gone, world.listing(two)[0]], dry_run=True)
        assert (counted.products, counted.tasks, [run.execution_id for run in counted.runs]) == (3, 6, [None, None])
        run = await run_of(stage, await refresh(stage, service, [sold_out, gone]))
        await stage.settle(service)
        ended = await run_of_id(stage, run.execution_id)
        assert (ended.status, ended.completed_tasks, ended.failed_tasks) == ("COMPLETED", 2, 2)
        assert stage.simulator.product_server.product(gone) is not None, "its 404 proves nothing without a list"
        assert await stage.store.read(lambda tx: tx.freshness.timings([one])) == before
        [whole] = await stage.crawl(service, [one])
        assert (whole.gone_products, whole.refreshed_products) == (1, None)
        products = await stage.store.read(lambda tx: tx.products.of_items([ItemNo(gone)]))
        assert products[ItemNo(gone)].state is ProductState.DELETED
        with pytest.raises(ProductGone):
            await refresh(stage, service, [sold_out, gone])
        with pytest.raises(ProductNotFound):
            await refresh(stage, service, [sold_out, 1])
        rows = await stage.all_rows()
        await refresh(stage, service, [sold_out], dry_run=True)
        assert await stage.all_rows() == rows
    stage.check_world()


@simulated(sellers=1, products=5)
async def test_a_refresh_of_a_seller_that_is_stopped_is_ended_and_refused(stage: ServiceWorld) -> None:
    async with stage.serving() as service:
        [seller_id] = await stage.register_all()
        await stage.crawl(service, [seller_id])
    async with stage.service() as service:
        item = stage.simulator.world.listing(seller_id)[0]
        run = await run_of(stage, await refresh(stage, service, [item]))
        session = stage.session(service)
        stopped = await session.run(deactivate_seller, seller_id, session.rules)
        assert stopped.ended_execution is None
        assert (await run_of_id(stage, run.execution_id)).status == "FAILED"
        with pytest.raises(SellerInactive):
            await refresh(stage, service, [item])
