"""How fresh sellers are shown to be while the marketplace or the receiver is away."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from tests.simulation.outages import HOUR, MINUTE, calm_settings, plan
from tests.simulation.service_world import ServiceWorld, play

from sellerwatch.kernel.failure import FailureCode
from sellerwatch.kernel.ids import SellerId
from sellerwatch.operations.marketplace import pause_requests
from sellerwatch.operations.sellers import deactivate_seller
from sellerwatch.reports.freshness import FreshnessState, FreshnessView, freshness_views
from sellerwatch.schedules.interval import CrawlingInterval, IntervalUnit
from sellerwatch.simulator.chaos import FaultKind
from sellerwatch.simulator.product_server import ServerBehaviour, ServerMode

HOURLY = CrawlingInterval(1, IntervalUnit.HOURS)
ALERTS = "SELECT kind, subject_id FROM activity WHERE kind IN ('seller.late', 'seller.fresh') ORDER BY id"


async def fresh(world: ServiceWorld) -> dict[SellerId, FreshnessView]:
    return await world.store.read(lambda tx: freshness_views(tx, world.clock.now(), "en"))


async def states(world: ServiceWorld) -> set[FreshnessState]:
    return {each.state for each in (await fresh(world)).values()}


async def causes(world: ServiceWorld) -> set[FailureCode | None]:
    return {None if each.cause is None else each.cause.code for each in (await fresh(world)).values()}


async def alerts(world: ServiceWorld) -> list[tuple[str, str]]:
    return [tuple(row) for row in await world.store.read(lambda tx: tx.db.rows(ALERTS))]


def test_sellers_are_never_read_then_fresh_then_late_for_as_long_as_the_marketplace_is_away(
    migrated_template: Path,
) -> None:
    async def story(world: ServiceWorld) -> None:
        sellers = await world.register_all(every=HOURLY, due=world.clock.now() + timedelta(minutes=10))
        async with world.serving(schedules=True):
            await world.clock.sleep(MINUTE)
            assert await states(world) == {FreshnessState.NEVER}
            await world.clock.sleep(3 * HOUR)
            assert await states(world) == {FreshnessState.FRESH}
            assert {each.fresh_share for each in (await fresh(world)).values()} == {1.0}
            assert await alerts(world) == []
            plan(world, FaultKind.ERROR, 3 * HOUR)
            await world.clock.sleep(2.5 * HOUR)
            assert await states(world) == {FreshnessState.LATE}
            assert await causes(world) == {FailureCode.CIRCUIT_OPEN}
            assert {each.fresh_share for each in (await fresh(world)).values()} == {0.0}
            assert sorted(await alerts(world)) == [("seller.late", seller) for seller in sorted(sellers)]
            await world.clock.sleep(2 * HOUR)
            assert await states(world) == {FreshnessState.FRESH}
            assert sorted((await alerts(world))[2:]) == [("seller.fresh", seller) for seller in sorted(sellers)]

    play(migrated_template, story, settings=calm_settings(), sellers=2, products=20)


def test_sellers_are_late_while_events_wait_for_more_than_a_minute(migrated_template: Path) -> None:
    async def story(world: ServiceWorld) -> None:
        await world.register_all(every=HOURLY, due=world.clock.now())
        world.simulator.product_server.behave(ServerBehaviour(ServerMode.DOWN))
        async with world.serving(schedules=True):
            await world.clock.sleep(10 * MINUTE)
            found = await fresh(world)
            assert {(each.state, each.fresh_share, each.undelivered) for each in found.values()} == {
                (FreshnessState.LATE, 1.0, 20)
            }
            assert await causes(world) == {FailureCode.RECEIVER_AWAY}
            world.simulator.product_server.behave(ServerBehaviour())
            await world.clock.sleep(10 * MINUTE)
            assert await states(world) == {FreshnessState.FRESH}
            assert [kind for kind, _ in await alerts(world)] == ["seller.late"] * 2 + ["seller.fresh"] * 2

    play(migrated_template, story, settings=calm_settings(), sellers=2, products=20)


def test_a_deactivated_seller_is_off_and_a_paused_one_late_for_that_reason(migrated_template: Path) -> None:
    async def story(world: ServiceWorld) -> None:
        one, other = await world.register_all(every=HOURLY, due=world.clock.now())
        async with world.serving(schedules=True) as service:
            await world.clock.sleep(30 * MINUTE)
            await world.session(service).run(deactivate_seller, one, world.session(service).rules)
            await pause_requests(world.session(service), other)
            await world.clock.sleep(3 * HOUR)
            found = await fresh(world)
            assert (found[one].state, found[one].cause) == (FreshnessState.OFF, None)
            assert (found[other].state, found[other].fresh_share) == (FreshnessState.LATE, 0.0)
            assert (await causes(world)) == {None, FailureCode.MARKETPLACE_PAUSED}
            assert [seller for _, seller in await alerts(world)] == [other]

    play(migrated_template, story, settings=calm_settings(), sellers=2, products=5)


def test_products_whose_parts_could_not_be_read_make_a_seller_incomplete(migrated_template: Path) -> None:
    async def story(world: ServiceWorld) -> None:
        await world.register_all(every=HOURLY, due=world.clock.now())
        product = world.simulator.world.listing(world.sellers[0])[0]
        plan(world, FaultKind.WITHOUT_MODULE, 3 * HOUR, endpoint="detail", item_no=product)
        async with world.serving(schedules=True):
            await world.clock.sleep(30 * MINUTE)
            one, other = (await fresh(world)).values()
            assert (one.state, one.fresh_share) == (FreshnessState.INCOMPLETE, 0.95)
            assert one.cause is not None
            assert one.cause.code is FailureCode.UNREADABLE
            assert other.state is FreshnessState.FRESH
            assert await alerts(world) == []

    play(migrated_template, story, settings=calm_settings(), sellers=2, products=20)
