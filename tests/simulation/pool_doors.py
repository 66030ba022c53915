"""Doors for stories about the pool: a transport that a test can have its say in, and looks at the pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from urllib.parse import urlsplit

from tests.simulation.service_world import ServiceWorld

from sellerwatch.agents.agent import AgentStatus
from sellerwatch.agents.breaker import Breaker
from sellerwatch.agents.ports import StoredAgent
from sellerwatch.kernel.clock import Clock
from sellerwatch.marketplaces.ports import Reply, Transport

#: Says what to answer instead, or None to let the request through. Gets the path and the user agent.
Meddle = Callable[[str, str], Reply | None]


class Meddling:
    """Stands before the simulator. Notes who asked for what, and when."""

    def __init__(self, transport: Transport, clock: Clock, meddle: Meddle) -> None:
        self._transport = transport
        self._clock = clock
        self.meddle = meddle
        self.asked: list[tuple[datetime, str, str]] = []

    async def get(self, url: str, headers: Mapping[str, str]) -> Reply:
        path, agent = urlsplit(url).path or "/", headers.get("User-Agent", "")
        self.asked.append((self._clock.now(), path, agent))
        said = self.meddle(path, agent)
        if said is None:
            return await self._transport.get(url, headers)
        await self._clock.sleep(0)
        return said

    def sessions(self) -> Counter[str]:
        """How many sessions each agent asked for."""
        return Counter(agent for _, path, agent in self.asked if path == "/")


def meddling(world: ServiceWorld, meddle: Meddle) -> Meddling:
    """Between this world and its simulator from now on."""
    made = Meddling(world.transport, world.clock, meddle)
    world.transport = made
    return made


def is_api(path: str) -> bool:
    return path.startswith("/mustit-api/")


async def everyone(world: ServiceWorld) -> list[StoredAgent]:
    return list(await world.store.read(lambda tx: tx.pool_report.agents()))


async def statuses(world: ServiceWorld) -> Counter[str]:
    return Counter(agent.status.value for agent in await world.agents())


async def breaker(world: ServiceWorld) -> Breaker:
    return await world.store.read(lambda tx: tx.circuits.breaker())


async def block(world: ServiceWorld, *, but: int = 0) -> None:
    now = world.clock.now()
    found = await everyone(world)
    blocked = {one.row: one.agent.block(now, "a test") for one in found[but:]}
    await world.store.transact(lambda tx: tx.agents.save(blocked))


async def unblock(world: ServiceWorld) -> None:
    now = world.clock.now()
    found = [one for one in await everyone(world) if one.agent.status is AgentStatus.BLOCKED]
    freed = {one.row: one.agent.unblock(now) for one in found}
    await world.store.transact(lambda tx: tx.agents.save(freed))


async def all_available(world: ServiceWorld) -> bool:
    return set(await statuses(world)) == {"AVAILABLE"}
