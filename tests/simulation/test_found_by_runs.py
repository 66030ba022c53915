"""What a run is said to have found, and the lists behind each number, are the same products."""

from __future__ import annotations

import pytest
from tests.simulated_service import settings_of
from tests.simulation.service_world import ServiceWorld, simulated

from sellerwatch.catalog.changes import FoundFilter, FoundKind, RunNeeded
from sellerwatch.catalog.queries import ProductFilter, list_products
from sellerwatch.crawling.execution import Execution
from sellerwatch.service.service import Service


async def listed(world: ServiceWorld, service: Service, run: Execution, kind: FoundKind) -> set[int]:
    chosen = ProductFilter(found=FoundFilter(run.execution_id, kind))
    page = await world.session(service).ask(list_products, chosen, None, 100)
    assert page.next is None
    return {product.item_no for product in page.content}


def counted(run: Execution) -> dict[FoundKind, int | None]:
    numbers = (run.new_products, run.changed_products, run.gone_products, run.unchanged_products)
    return dict(zip(FoundKind, numbers, strict=True))


@simulated(settings=settings_of(PAGE_SIZE=10), sellers=2, products=20)
async def test_each_number_of_a_run_lists_exactly_its_products(world: ServiceWorld) -> None:
    sellers = await world.register_all()
    shop = world.simulator.world
    async with world.serving() as service:
        first = await world.crawl(service, sellers)
        assert [counted(run) for run in first] == [dict(zip(FoundKind, (20, 0, 0, 0), strict=True))] * 2
        one, two, three, *_ = shop.listing(sellers[0])
        shop.change(one, world.rng, "reprice")
        shop.change(one, world.rng, "rename")
        shop.change(two, world.rng, "restock")
        shop.vanish(three)
        new = shop.appear(sellers[0]).item_no
        runs = {run.seller_id: run for run in await world.crawl(service, sellers)}
        run = runs[sellers[0]]
        found = {kind: await listed(world, service, run, kind) for kind in FoundKind}
        assert {kind: len(items) for kind, items in found.items()} == counted(run)
        assert found[FoundKind.NEW] == {new}
        assert found[FoundKind.CHANGED] == {one, two}
        assert found[FoundKind.GONE] == {three}
        assert found[FoundKind.UNCHANGED] == set(shop.listing(sellers[0])) - {one, two, new}
        other = {kind: len(await listed(world, service, runs[sellers[1]], kind)) for kind in FoundKind}
        assert other == counted(runs[sellers[1]]) == dict(zip(FoundKind, (0, 0, 0, 20), strict=True))


def test_what_was_found_without_a_run_is_refused() -> None:
    assert FoundFilter.of(None, None) is None
    with pytest.raises(RunNeeded):
        FoundFilter.of(None, FoundKind.NEW)
