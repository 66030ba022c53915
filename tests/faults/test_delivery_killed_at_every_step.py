"""kill -9 between any two steps of delivery: the next sender completes it, no event is lost, none takes effect twice.

A step is a passage through a door: a transaction or a delivery, each a place to die before it, and after it while the
sender does not know yet. The walk dies at every one of them in turn, whatever the receiver does meanwhile: sending,
failing, opening the circuit, probing, the ramp.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
from tests.builders import LATER
from tests.outbox.delivery_world import LAPSE, DeliveryWorld, Running
from tests.simulation.doors import Killed, Life, MortalReceiver, MortalStore
from tests.world import store_in_memory

from sellerwatch.kernel.backoff import Backoff
from sellerwatch.kernel.virtual_time import VirtualClock, VirtualLoop
from sellerwatch.outbox.message import MessageStatus
from sellerwatch.outbox.rules import DeliveryRules
from sellerwatch.simulator.product_server import ServerMode
from sellerwatch.simulator.rng import seeded_rng

#: Two failures open the circuit, so that a short story has all of it.
RULES = DeliveryRules(
    concurrency=3,
    max_attempts=50,
    backoff=Backoff(5, 20),
    failures=2,
    opened=Backoff(5, 20),
    patience=timedelta(seconds=25),
)
MOODS = [
    ServerMode.WELL,
    ServerMode.ERROR,
    ServerMode.ERROR_AFTER,
    ServerMode.DROP_AFTER,
    ServerMode.HANG,
    ServerMode.THROTTLE,
]
#: More than any story needs: whoever waits longer waits for ever.
PATIENCE = 24 * 3600.0


async def live(world: DeliveryWorld, life: Life) -> None:
    """A sender: delivers until nothing is left, or until its life is over."""
    bystanders = asyncio.all_tasks()
    store = MortalStore(world.store, world.clock, life)
    receiver = MortalReceiver(world.wire, life)
    delivery = await world.delivery(RULES, store=store, receiver=receiver)

    async def tend() -> None:
        while True:
            await world.beat(delivery)
            await delivery.recover(LAPSE)
            await world.clock.sleep(10)

    async def drained() -> None:
        end = world.clock.monotonic() + PATIENCE
        counting = await world.delivery(RULES)
        while await counting.pending():
            assert world.clock.monotonic() < end, "it waits for ever"
            await world.clock.sleep(1)

    running = Running(delivery)
    await running.__aenter__()
    done, over = asyncio.create_task(drained()), asyncio.create_task(life.over.wait())
    tending = asyncio.create_task(tend())
    await asyncio.wait((done, over), return_when=asyncio.FIRST_COMPLETED)
    if not life.over.is_set():
        await done
        tending.cancel()
        running.stop.set()
        await asyncio.wait([running.task])
    dying = asyncio.all_tasks() - bystanders
    for task in dying:
        task.cancel()
    await asyncio.gather(*dying, return_exceptions=True)
    if running.task.done() and not running.task.cancelled():
        trouble = running.task.exception()
        assert trouble is None or isinstance(trouble, Killed), trouble


def story(template: Path, mood: ServerMode, *ends: int) -> list[str]:
    """Lives that end at these steps, one after the other, and a last one that is let live; returns its steps."""
    loop = VirtualLoop(LATER)
    store = store_in_memory(template, VirtualClock(loop))
    world = DeliveryWorld(store, seed=3, loop=loop)

    async def told() -> list[str]:
        world.wire.latency = 0.3
        for _ in range(2):
            await world.tell(1, 2, 3, 4)
        world.behave(mood, requests=5, wait=7)
        for ends_at in ends:
            await live(world, Life(ends_at))
            await world.clock.sleep(LAPSE.total_seconds() + 1)
        last = Life()
        await live(world, last)
        assert {m.status for m in await world.messages()} == {MessageStatus.COMPLETED}
        assert (await world.verdicts()).count("DELIVERED") == 8
        return last.steps

    try:
        steps = world.play(told())
    finally:
        store.close()
    world.check_everything_arrived()
    return steps


@pytest.mark.parametrize("mood", MOODS)
def test_killed_at_any_step_of_delivery_everything_arrives_once_and_in_order(
    migrated_template: Path, mood: ServerMode
) -> None:
    steps = story(migrated_template, mood)
    assert set(steps) == {f"{when} a {kind}" for when in ("before", "after") for kind in ("transaction", "delivery")}
    harmed = []
    for end in range(1, len(steps) + 1):
        try:
            story(migrated_template, mood, end)
        except AssertionError as harm:
            harmed.append(f"killed at step {end}, {steps[end - 1]}: {harm}")
    assert harmed == []


@pytest.mark.parametrize("mood", [ServerMode.ERROR_AFTER, ServerMode.THROTTLE])
def test_killed_at_any_three_steps_of_delivery_everything_still_arrives(
    migrated_template: Path, mood: ServerMode
) -> None:
    steps = story(migrated_template, mood)
    rng = seeded_rng("three deaths", mood.value)
    for _ in range(25):
        story(migrated_template, mood, *rng.choices(range(1, len(steps) + 1), k=3))
