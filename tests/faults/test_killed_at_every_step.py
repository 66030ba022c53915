"""kill -9 between any two steps of a crawl, and the next start completes it: nothing lost, nothing doubled.

A step is a passage through a door to the outside: a transaction, a request, a delivery. Each is a place to die twice:
before it, and after it while the program does not know yet. The walk dies at every one of them in turn, on virtual
time, where the same seed takes the same steps.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import pytest
from tests.simulated_service import settings_of
from tests.simulation.doors import Killed, Life, MortalReceiver, MortalStore, MortalTransport
from tests.simulation.service_world import ServiceWorld, play

from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.kernel.ids import SellerId
from sellerwatch.outbox.message import OutboxKind
from sellerwatch.simulator.rng import seeded_rng
from sellerwatch.simulator.world import CHANGES_ONLY

#: A pool so small that a request too many would be one over the budget.
SETTINGS = settings_of(
    WINDOW_LIMIT=4, WINDOW_SECONDS=20, REQUESTS_PER_SECOND=5, VISIBILITY_SECONDS=6, PAGE_SIZE=2, OUTBOX_RETRIES=10
)
AGENTS = 5
PRODUCTS = 4
SHARES = 4


async def live(world: ServiceWorld, life: Life) -> None:
    """A process: starts what is due, crawls and delivers until all is done, or until its life is over."""
    doors = {
        "store": MortalStore(world.store, world.clock, life),
        "transport": MortalTransport(world.transport, life),
        "receiver": MortalReceiver(world.receiver, life),
    }
    bystanders = asyncio.all_tasks()
    async with world.service(schedules=True, **doors) as service:  # type: ignore[arg-type]
        running = asyncio.create_task(service.run())
        done = asyncio.create_task(world.until(lambda: is_done(world)))
        over = asyncio.create_task(life.over.wait())
        await asyncio.wait((done, over), return_when=asyncio.FIRST_COMPLETED)
        if not life.over.is_set():
            await done
            service.stop.set()
            with suppress(Killed):
                await running
        dying = asyncio.all_tasks() - bystanders
        for task in dying:
            task.cancel()
        await asyncio.gather(*dying, return_exceptions=True)


async def is_done(world: ServiceWorld) -> bool:
    now = world.clock.now()

    def look(tx: Transaction) -> bool:
        runs = tx.executions.running() or tx.executions.pending()
        return not (tx.schedules.due(now) or runs or tx.outbox_queries(OutboxKind.PRODUCT).pending())

    return await world.store.read(look)


async def begin(world: ServiceWorld, crawled: bool = False) -> None:
    """A seller whose run is due; with `crawled` one that was crawled before: three of its products changed since, and
    the fourth is gone."""
    await world.leave_agents(AGENTS)
    sellers = await world.register_all(due=None if crawled else world.clock.now())
    if crawled:
        async with world.serving() as service:
            await world.crawl_all(service, sellers)
        shop = world.simulator.world
        changed = {mutation.item_no for mutation in shop.mutate(3, seeded_rng("changes"), CHANGES_ONLY)}
        (gone,) = set(shop.listing(sellers[0])) - changed
        shop.vanish(gone)
        now = world.clock.now()
        await world.store.transact(lambda tx: _make_due(tx, sellers[0], now))
    await world.clock.sleep(400)  # past the seller's own moment


def _make_due(tx: Transaction, seller_id: SellerId, now: datetime) -> None:
    schedule = tx.schedules.of_seller(seller_id)
    assert schedule is not None
    tx.schedules.save(schedule.ran(now, now))


async def check(world: ServiceWorld, crawled: bool = False) -> None:
    """The truth arrived, each event once, and nothing is left lying about."""
    world.check_world()
    await world.check_books()
    types = [event.event_type for event in world.simulator.product_server.events()]
    later = ["PRODUCT_DELETED", *["PRODUCT_UPDATED"] * 3] if crawled else []
    assert types[:PRODUCTS] == ["PRODUCT_CREATED"] * PRODUCTS
    assert sorted(types[PRODUCTS:]) == later
    assert await world.count("SELECT COUNT(*) FROM held_parts") == 0
    assert await world.count("SELECT COUNT(*) FROM product_changes") == len(types)


def steps_of(template: Path | str, crawled: bool) -> list[str]:
    """Every step of a life that nobody ends."""

    async def story(world: ServiceWorld) -> list[str]:
        await begin(world, crawled)
        life = Life()
        await live(world, life)
        await check(world, crawled)
        return life.steps

    return play(template, story, settings=SETTINGS, sellers=1, products=PRODUCTS)


def survive(template: Path | str, crawled: bool, *ends: int) -> None:
    """Lives that end at these steps, one after the other, and a last one that is let live."""

    async def story(world: ServiceWorld) -> None:
        await begin(world, crawled)
        for ends_at in ends:
            await live(world, Life(ends_at))
            await world.clock.sleep(world.settings.visibility_seconds + 1)
        await live(world, Life())
        await check(world, crawled)

    play(template, story, settings=SETTINGS, sellers=1, products=PRODUCTS)


def died_of(template: Path | str, walk: list[tuple[int, ...]], steps: list[str], crawled: bool) -> list[str]:
    """Where a death did harm, and which."""
    found = []
    for ends in walk:
        try:
            survive(template, crawled, *ends)
        except AssertionError as harm:
            found.append(f"killed at {[(end, steps[end - 1]) for end in ends if end <= len(steps)]}: {harm}")
    return found


@pytest.mark.parametrize("crawled", [False, True], ids=["its first", "one that finds changes"])
@pytest.mark.parametrize("share", range(SHARES))
def test_killed_at_any_step_a_crawl_is_completed_by_the_next_start(
    migrated_template: Path, share: int, crawled: bool
) -> None:
    steps = steps_of(migrated_template, crawled)
    kinds = ("transaction", "read", "request", "delivery")
    assert {f"{when} a {kind}" for when in ("before", "after") for kind in kinds} == set(steps)
    walk: list[tuple[int, ...]] = [(end,) for end in range(1 + share, len(steps) + 1, SHARES)]
    assert died_of(migrated_template, walk, steps, crawled) == []


def test_killed_at_any_two_steps_a_crawl_is_still_completed(migrated_template: Path) -> None:
    steps = steps_of(migrated_template, crawled=False)
    rng = seeded_rng("two deaths")
    walk: list[tuple[int, ...]] = [tuple(rng.choices(range(1, len(steps) + 1), k=2)) for _ in range(40)]
    assert died_of(migrated_template, walk, steps, crawled=False) == []
