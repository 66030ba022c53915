"""What can be done with a seller, each in one transaction: seller, schedule, what the scheduler is told, the trail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

import orjson
import pytest
from tests.builders import DAY, HOUR, LATER, NOW, SELLER, StoppedClock, seller_id
from tests.conftest import ENGINES
from tests.world import StoreWorld

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.kernel.errors import IllegalMove
from sellerwatch.kernel.ids import SellerId
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.schedules.interval import CrawlingInterval
from sellerwatch.schedules.next_run import starts_at
from sellerwatch.schedules.queries import IntervalView
from sellerwatch.schedules.schedule import ScheduleStatus
from sellerwatch.sellers import commands
from sellerwatch.sellers.queries import SellerView
from sellerwatch.sellers.seller import InvalidSellerName, Seller, SellerExists, SellerNotFound, SellerStatus


@pytest.fixture(params=ENGINES)
def on(request: pytest.FixtureRequest) -> str:
    return str(request.param)


HOURLY = CrawlingInterval.of_hours(1)


def deactivate(tx: Transaction, context: OperationContext, seller_id: SellerId) -> Seller:
    return commands.stop_crawling(tx, seller_id, context)[0]


ACTS: dict[str, Callable[..., Any]] = {
    "update_interval": lambda tx, context, seller: commands.change_interval(tx, context, seller, HOURLY),
    "activate": commands.activate_seller,
    "deactivate": deactivate,
}


class SellerWorld(StoreWorld):
    """One seller and the commands of an operator."""

    async def do(self, act: Callable[..., Any], *args: Any, now: datetime = NOW) -> Any:
        return await self.command(act, *args, actor="kim", now=now)

    async def register_one(self, interval: CrawlingInterval | None = None, number: int = 1) -> SellerView:
        made: SellerView = await self.do(commands.register_seller, seller_id(number), " Shop ", interval)
        return made

    async def seller(self) -> Seller | None:
        return await self.read(lambda tx: tx.sellers.get(SELLER))

    async def trail(self) -> list[tuple[str, str, Any, Any]]:
        return [(e.actor, e.action, e.before, e.after) for e in reversed(await self.audit_trail())]

    async def everything(self) -> tuple[object, ...]:
        return (
            await self.seller(),
            await self.schedule(SELLER),
            await self.schedule_messages(SELLER),
            await self.trail(),
        )


@pytest.fixture
def world(inline_store: SqlStore) -> SellerWorld:
    return SellerWorld(inline_store, StoppedClock())


async def test_a_registered_seller_is_active_and_kept(world: SellerWorld) -> None:
    seller = await world.register_one()
    assert (seller.seller_id, seller.name, seller.status) == (SELLER, "Shop", SellerStatus.ACTIVE)
    assert (seller.total_product_count, seller.created_at) == (0, NOW)
    kept = await world.seller()
    assert kept is not None
    assert (kept.name, kept.status) == ("Shop", SellerStatus.ACTIVE)


async def test_its_schedule_is_active_and_the_first_run_is_due_one_interval_later(world: SellerWorld) -> None:
    await world.register_one()
    schedule = await world.schedule(SELLER)
    assert (schedule.status, schedule.expression, schedule.rule) == (
        ScheduleStatus.ACTIVE,
        "rate(1 day)",
        f"mustit-crawler-{SELLER}",
    )
    assert schedule.next_run_at == NOW + DAY


async def test_the_interval_can_be_given(world: SellerWorld) -> None:
    assert (await world.register_one(HOURLY)).interval == IntervalView.of(HOURLY)
    assert (await world.schedule(SELLER)).next_run_at == NOW + HOUR


async def test_the_scheduler_is_told_and_the_trail_says_who_did_it(world: SellerWorld) -> None:
    await world.register_one()
    [told] = await world.schedule_messages(SELLER)
    assert (told.event_type, told.seller_id) == ("SCHEDULE_REGISTERED", SELLER)
    assert told.is_due(NOW)
    assert orjson.loads(told.payload)["scheduleExpression"] == "rate(1 day)"
    shown = {"name": "Shop", "status": "ACTIVE", "interval": "rate(1 day)"}
    assert await world.trail() == [("kim", "seller.register", None, shown)]


async def test_a_seller_is_registered_once_and_a_second_time_changes_nothing(world: SellerWorld) -> None:
    await world.register_one()
    first = await world.seller()
    with pytest.raises(SellerExists):
        await world.do(commands.register_seller, SELLER, "Other", HOURLY, now=LATER)
    assert await world.seller() == first
    assert len(await world.schedule_messages(SELLER)) == len(await world.trail()) == 1


async def test_a_seller_without_a_name_leaves_nothing_behind(world: SellerWorld) -> None:
    with pytest.raises(InvalidSellerName):
        await world.do(commands.register_seller, SELLER, "  ", None)
    assert await world.seller() is None
    assert await world.trail() == []


async def test_a_new_interval_counts_from_now_for_seller_and_schedule_alike(world: SellerWorld) -> None:
    await world.register_one()
    changed = await world.do(commands.change_interval, SELLER, HOURLY, now=LATER)
    schedule, seller = await world.schedule(SELLER), await world.seller()
    assert seller is not None
    assert seller.interval == schedule.interval == HOURLY
    assert (schedule.next_run_at, schedule.updated_at, seller.updated_at) == (LATER + HOUR, LATER, LATER)
    assert (changed.interval, changed.next_run_at) == (IntervalView.of(HOURLY), starts_at(schedule))
    [_, told] = await world.schedule_messages(SELLER)
    assert told.event_type == "SCHEDULE_UPDATED"
    assert orjson.loads(told.payload)["scheduleExpression"] == "rate(1 hour)"


async def test_a_deactivated_seller_is_not_crawled(world: SellerWorld) -> None:
    await world.register_one()
    seller = await world.do(deactivate, SELLER, now=LATER)
    schedule = await world.schedule(SELLER)
    assert (seller.status, schedule.status, schedule.next_run_at) == (
        SellerStatus.INACTIVE,
        ScheduleStatus.INACTIVE,
        None,
    )
    assert await world.store.read(lambda tx: tx.schedules.due(NOW + 1000 * DAY)) == []


async def test_an_activated_seller_runs_again_one_interval_later(world: SellerWorld) -> None:
    await world.register_one()
    await world.do(deactivate, SELLER, now=NOW + HOUR)
    seller = await world.do(commands.activate_seller, SELLER, now=NOW + 2 * HOUR)
    schedule = await world.schedule(SELLER)
    assert (seller.status, schedule.status) == (SellerStatus.ACTIVE, ScheduleStatus.ACTIVE)
    assert schedule.next_run_at == NOW + 2 * HOUR + DAY


async def test_every_step_is_told_in_order_and_stands_on_the_trail_with_before_and_after(world: SellerWorld) -> None:
    await world.register_one()
    for act in ("update_interval", "deactivate", "activate"):
        await world.do(ACTS[act], SELLER, now=LATER)
    assert [message.event_type for message in await world.schedule_messages(SELLER)] == [
        "SCHEDULE_REGISTERED",
        "SCHEDULE_UPDATED",
        "SCHEDULE_DEACTIVATED",
        "SCHEDULE_ACTIVATED",
    ]
    assert len({message.outbox_id for message in await world.schedule_messages(SELLER)}) == 4
    on, off = [{"name": "Shop", "status": status, "interval": "rate(1 hour)"} for status in ("ACTIVE", "INACTIVE")]
    assert await world.trail() == [
        ("kim", "seller.register", None, on | {"interval": "rate(1 day)"}),
        ("kim", "seller.update_interval", on | {"interval": "rate(1 day)"}, on),
        ("kim", "seller.deactivate", on, off),
        ("kim", "seller.activate", off, on),
    ]


@pytest.mark.parametrize("act", ACTS)
async def test_a_seller_that_is_not_there_is_said_to_be_missing(world: SellerWorld, act: str) -> None:
    with pytest.raises(SellerNotFound) as refusal:
        await world.do(ACTS[act], SELLER)
    assert refusal.value.facts == {"seller_id": SELLER}


@pytest.mark.parametrize(
    ("before", "act"), [("ACTIVE", "activate"), ("INACTIVE", "deactivate"), ("INACTIVE", "update_interval")]
)
async def test_what_the_state_forbids_changes_nothing_and_tells_nobody(
    world: SellerWorld, before: str, act: str
) -> None:
    await world.register_one()
    if before == "INACTIVE":
        await world.do(deactivate, SELLER)
    kept = await world.everything()
    with pytest.raises(IllegalMove) as refusal:
        await world.do(ACTS[act], SELLER, now=LATER)
    assert (refusal.value.noun, refusal.value.verb, refusal.value.state) == ("seller", act, before)
    assert await world.everything() == kept


@pytest.mark.parametrize("act", ["deactivate", "activate"])
async def test_a_schedule_whose_scheduler_could_not_be_told_does_not_lock_its_seller(
    world: SellerWorld, act: str
) -> None:
    await world.register_one()
    if act == "activate":
        await world.do(deactivate, SELLER)
    schedule = await world.schedule(SELLER)
    await world.store.transact(lambda tx: tx.schedules.save(replace(schedule, status=ScheduleStatus.FAILED)))
    await world.do(ACTS[act], SELLER, now=LATER)
    assert (await world.schedule(SELLER)).status is (
        ScheduleStatus.ACTIVE if act == "activate" else ScheduleStatus.INACTIVE
    )


async def test_sellers_do_not_get_into_each_others_way(world: SellerWorld) -> None:
    await world.register_one()
    await world.register_one(number=2)
    await world.do(deactivate, seller_id(2), now=LATER)
    seller = await world.seller()
    assert seller is not None
    assert seller.is_active
