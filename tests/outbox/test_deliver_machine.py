"""A random life of delivery: events, moods of the receiver, kills in mid-send. In the end all is told, in order."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.builders import NOW
from tests.outbox.delivery_world import LAPSE, DeliveryWorld, Running

from sellerwatch.adapters.sql.engine import make_engine
from sellerwatch.adapters.sql.migrate import upgrade
from sellerwatch.adapters.sql.store import InlineRunner, SqlStore
from sellerwatch.kernel.virtual_time import VirtualClock, VirtualLoop
from sellerwatch.outbox.message import MessageStatus
from sellerwatch.outbox.rules import DeliveryRules
from sellerwatch.simulator.product_server import ServerMode

T = TypeVar("T")

RULES = DeliveryRules(concurrency=4, batch=3)


@cache
def template() -> Path:
    path = Path(tempfile.mkdtemp()) / "template.db"
    engine = make_engine(f"sqlite:///{path}")
    upgrade(engine, NOW)
    engine.dispose()
    return path


class Life(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 1000))
    def begin(self, seed: int) -> None:
        self.folder = Path(tempfile.mkdtemp())
        shutil.copyfile(template(), self.folder / "test.db")
        self.loop = VirtualLoop()
        engine = make_engine(f"sqlite:///{self.folder}/test.db", synchronous="OFF")
        self.store = SqlStore(engine, VirtualClock(self.loop), InlineRunner(), InlineRunner(), rehearse=True)
        self.world = DeliveryWorld(self.store, seed, self.loop)
        self.running: Running | None = None

    def do(self, step: Coroutine[Any, Any, T]) -> T:
        asyncio.set_event_loop(self.loop)
        return self.loop.run_until_complete(step)

    @rule(products=st.lists(st.integers(1, 5), min_size=1, max_size=6))
    def tell(self, products: list[int]) -> None:
        self.do(self.world.tell(*products))
        if self.running:
            self.running.delivery.nudge()

    @rule(
        mode=st.sampled_from(list(ServerMode)), probability=st.sampled_from([0.3, 1.0]), wait=st.sampled_from([1, 700])
    )
    def change_the_receivers_mood(self, mode: ServerMode, probability: float, wait: int) -> None:
        self.world.behave(mode, probability=probability, wait=wait)

    @rule(latency=st.sampled_from([0.0, 0.05, 3.0, 40.0]))
    def change_the_way(self, latency: float) -> None:
        self.world.wire.latency = latency

    @rule(seconds=st.sampled_from([0.0, 0.02, 1.0, 20.0, 45.0, 400.0, 3600.0]))
    def let_time_pass(self, seconds: float) -> None:
        self.do(self._live(seconds))

    @precondition(lambda self: self.running is None)
    @rule()
    def start(self) -> None:
        self.do(self._start())

    @precondition(lambda self: self.running is not None)
    @rule()
    def kill(self) -> None:
        assert self.running is not None
        self.do(self.running.crash())
        self.running = None

    @precondition(lambda self: self.running is not None)
    @rule()
    def stop(self) -> None:
        assert self.running is not None
        self.do(self.running.__aexit__())
        self.running = None

    @precondition(lambda self: self.running is not None)
    @rule()
    def fall_silent_and_lose_the_lease(self) -> None:
        assert self.running is not None
        self.do(self.world.clock.sleep(LAPSE.total_seconds() + 1))
        self.do(self.running.delivery.recover(LAPSE))

    @rule()
    def pause_or_resume(self) -> None:
        self.do(self.world.pause(not self.do(self.world.channel()).is_paused))

    @rule()
    def replay(self) -> None:
        self.do(self.world.replay_failed())

    @invariant()
    def no_rule_of_the_wire_is_broken(self) -> None:
        if hasattr(self, "world"):
            assert [v.rule for v in self.world.server.violations] == []

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        try:
            self.world.behave(ServerMode.WELL)
            self.world.wire.latency = 0.05
            self.do(self._finish())
            self.world.check_everything_arrived()
        finally:
            self.loop.close()
            self.store.close()
            shutil.rmtree(self.folder)

    async def _start(self) -> None:
        self.running = Running(await self.world.delivery(RULES))
        await self.running.__aenter__()
        await self.world.clock.sleep(0)

    async def _live(self, seconds: float) -> None:
        """As the service does: a beat and a look for the vanished every ten seconds."""
        end = self.world.clock.monotonic() + seconds
        while (left := end - self.world.clock.monotonic()) > 1e-6:
            if self.running:
                await self.world.beat(self.running.delivery)
                await self.running.delivery.recover(LAPSE)
            await self.world.clock.sleep(min(10.0, left))

    async def _finish(self) -> None:
        if (await self.world.channel()).is_paused:
            await self.world.pause(False)
        if self.running is None:
            await self._start()
        assert self.running is not None
        for _ in range(10_000):
            await self._live(60)
            if not await self.world.replay_failed() and not await self.running.delivery.pending():
                break
            self.running.delivery.nudge()
        await self.running.__aexit__()
        messages = await self.world.messages()
        assert {m.status for m in messages} <= {MessageStatus.COMPLETED}
        verdicts = await self.world.verdicts()
        assert len(verdicts) >= len(self.world.wire.sent), "a try that is no row"
        assert verdicts.count("DELIVERED") == len(messages)


Life.TestCase.settings = settings(
    max_examples=40,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestLife = Life.TestCase
