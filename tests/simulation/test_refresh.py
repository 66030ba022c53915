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


async def refresh(world: ServiceWorld, service: Service, items: Sequence[int], *, dry_run: bool = False) -> RefreshView:
    session = world.session(service)
    wanted = [ItemNo(item) for item in items]
    return await session.run(refresh_products, wanted, session.rules, session.deadline, dry_run=dry_run)


async def run_of(world: ServiceWorld, found: RefreshView) -> Execution:
    [execution_id] = [ExecutionId(run.execution_id) for run in found.runs if run.execution_id is not None]
    [run] = [each for each in await world.executions() if each.execution_id == execution_id]
    return run


@simulated(settings=settings_of(PAGE_SIZE=10, WINDOW_LIMIT=20), sellers=1, products=60)
async def test_a_product_is_read_again_beside_a_run_that_is_going(world: ServiceWorld) -> None:
    shops = world.simulator.world
    async with world.serving() as service:
        await world.leave_agents(2)
        [seller_id] = await world.register_all()
        [first] = await world.crawl(service, [seller_id])
        item = shops.listing(seller_id)[-1]
        started = await world.start(service, seller_id)
        service.nudge()
        await world.clock.sleep(2)
        shops.change(item, world.rng, "reprice")
        run = await run_of(world, await refresh(world, service, [item]))
        assert (run.refreshed_products, run.total_tasks_created, run.list_total) == (1, 2, None)

        async def is_over() -> bool:
            return not (await run_of_id(world, run.execution_id)).is_open

        await world.until(is_over, service)
        assert (await run_of_id(world, started)).is_open, "the run goes on"
        await world.settle(service)
        told = world.simulator.product_server.events()[-1]
        assert (told.item_no, told.event_type) == (item, "PRODUCT_UPDATED")
        whole, refreshed = await run_of_id(world, started), await run_of_id(world, run.execution_id)
        assert (whole.total_tasks_created, whole.failed_tasks) == (first.total_tasks_created, 0)
        assert (refreshed.completed_tasks, refreshed.changed_products, refreshed.gone_products) == (2, 1, 0)
        assert await world.count("SELECT COUNT(*) FROM products WHERE missing_runs > 0 OR deleted_at IS NOT NULL") == 0
    world.check_world()


async def run_of_id(world: ServiceWorld, execution_id: ExecutionId) -> Execution:
    [found] = [each for each in await world.executions() if each.execution_id == execution_id]
    return found


@simulated(settings=settings_of(PAGE_SIZE=10), sellers=2, products=20)
async def test_a_refresh_removes_nothing_and_is_no_run_of_its_seller(world: ServiceWorld) -> None:
    shops = world.simulator.world
    async with world.serving() as service:
        one, two = await world.register_all()
        await world.crawl(service, [one, two])
        before = await world.store.read(lambda tx: tx.freshness.timings([one]))
        sold_out, gone = shops.listing(one)[:2]
        shops.change(sold_out, world.rng, "restock")
        shops.vanish(gone)
        counted = await refresh(world, service, [sold_out, gone, shops.listing(two)[0]], dry_run=True)
        assert (counted.products, counted.tasks, [run.execution_id for run in counted.runs]) == (3, 6, [None, None])
        run = await run_of(world, await refresh(world, service, [sold_out, gone]))
        await world.settle(service)
        ended = await run_of_id(world, run.execution_id)
        assert (ended.status, ended.completed_tasks, ended.failed_tasks) == ("COMPLETED", 2, 2)
        assert world.simulator.product_server.product(gone) is not None, "its 404 proves nothing without a list"
        assert await world.store.read(lambda tx: tx.freshness.timings([one])) == before
        [whole] = await world.crawl(service, [one])
        assert (whole.gone_products, whole.refreshed_products) == (1, None)
        products = await world.store.read(lambda tx: tx.products.of_items([ItemNo(gone)]))
        assert products[ItemNo(gone)].state is ProductState.DELETED
        with pytest.raises(ProductGone):
            await refresh(world, service, [sold_out, gone])
        with pytest.raises(ProductNotFound):
            await refresh(world, service, [sold_out, 1])
        rows = await world.all_rows()
        await refresh(world, service, [sold_out], dry_run=True)
        assert await world.all_rows() == rows
    world.check_world()


@simulated(sellers=1, products=5)
async def test_a_refresh_of_a_seller_that_is_stopped_is_ended_and_refused(world: ServiceWorld) -> None:
    async with world.serving() as service:
        [seller_id] = await world.register_all()
        await world.crawl(service, [seller_id])
    async with world.service() as service:
        item = world.simulator.world.listing(seller_id)[0]
        run = await run_of(world, await refresh(world, service, [item]))
        session = world.session(service)
        stopped = await session.run(deactivate_seller, seller_id, session.rules)
        assert stopped.ended_execution is None
        assert (await run_of_id(world, run.execution_id)).status == "FAILED"
        with pytest.raises(SellerInactive):
            await refresh(world, service, [item])
